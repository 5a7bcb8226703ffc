"""What a request is refused for before it reaches a run: errors of HTTP's own. Layer: http.

They are made as all errors of outlast are: a stable code, and a message of three parts. What always holds: a class
knows its status, and none of them says more than who asks may know.
"""

from __future__ import annotations

from typing import ClassVar

from outlast.errors import OutlastError

__all__ = [
    "BodyTooLarge",
    "CrossSite",
    "HeadersTooLarge",
    "HostRefused",
    "Internal",
    "InvalidRequest",
    "MalformedRequest",
    "MethodNotAllowed",
    "NotAllowed",
    "NotSignedIn",
    "Refusal",
    "RouteNotFound",
    "TooManyStreams",
    "WrongMediaType",
]


class Refusal(OutlastError):
    """The request, not what it asks for."""

    status: ClassVar[int]


class MalformedRequest(Refusal):
    """Bytes that are not what they should be: no JSON, no UTF-8, nested too deep."""

    status = 400
    code = "MALFORMED_REQUEST"
    template = "The request cannot be read, {problem}", "{part}", "Send well-formed UTF-8, and JSON in the body."
    part: str
    problem: str


class NotSignedIn(Refusal):
    """Nobody, or nobody known."""

    status = 401
    code = "NOT_SIGNED_IN"
    template = "Nobody is signed in", "{path}", "Send the header Authorization: Bearer TOKEN, or sign in."
    path: str


class NotAllowed(Refusal):
    """Somebody known, who may not."""

    status = 403
    code = "NOT_ALLOWED"
    template = "{user!r} may not do this", "{what}", "It takes {needed}."
    user: str
    what: str
    needed: str


class CrossSite(Refusal):
    """A page of another site made a browser send this."""

    status = 403
    code = "CROSS_SITE"
    template = (
        "A page of another site sent this",
        "origin {origin!r}",
        "Send it from this site, or name it in origins=.",
    )
    origin: str


class RouteNotFound(Refusal):
    """Nothing is at this path."""

    status = 404
    code = "ROUTE_NOT_FOUND"
    template = "There is nothing at this path", "{path!r}", "See /openapi.json; a '/' within an id is written %2F."
    path: str


class MethodNotAllowed(Refusal):
    """Something is at this path, but not for this method."""

    status = 405
    code = "METHOD_NOT_ALLOWED"
    template = "This path does not take {method}", "{path!r}", "Use {allowed}."
    method: str
    path: str
    allowed: str


class BodyTooLarge(Refusal):
    """More than is read. Sizes are bytes."""

    status = 413
    code = "BODY_TOO_LARGE"
    template = "The body is over {limit} bytes", "{path!r}", "Store what is large elsewhere and send a reference."
    path: str
    limit: int


class WrongMediaType(Refusal):
    """A body that does not say it is JSON: a form of another site could have sent it."""

    status = 415
    code = "WRONG_MEDIA_TYPE"
    template = "The body is {found!r}", "{path!r}", "Send JSON, with Content-Type: application/json."
    path: str
    found: str


class HostRefused(Refusal):
    """A name for this server that it does not answer to: a page may have pointed its own name here."""

    status = 421
    code = "HOST_REFUSED"
    template = "This server does not answer to that name", "host {host!r}", "Use another, or name it in hosts=."
    host: str


class InvalidRequest(Refusal):
    """A parameter or a field of the body that is not what it should be."""

    status = 422
    code = "INVALID_REQUEST"
    template = "Invalid request, {problem}", "{field}", "Expected {expected}."
    field: str
    expected: str
    problem: str


class HeadersTooLarge(Refusal):
    """Sizes are bytes."""

    status = 431
    code = "HEADERS_TOO_LARGE"
    template = "The headers or the path are over {limit} bytes", "this request", "Send less."
    limit: int


class Internal(Refusal):
    """A bug, or a broken store. The log has it, with this number."""

    status = 500
    code = "INTERNAL"
    template = "Something went wrong here", "incident {incident}", "See the server's log."
    incident: str


class TooManyStreams(Refusal):
    """Each stream keeps a connection."""

    status = 503
    code = "TOO_MANY_STREAMS"
    template = "Too many event streams are open", "the limit is {limit}", "Close some, or come back later."
    limit: int
