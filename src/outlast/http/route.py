"""A route: where it is, what it takes and gives, and how it can fail; and one call of it. Layer: http.

What a route takes and gives are the types in its handler's signature, `Call[Query, Body]` and the return type: requests
are read as these, and the OpenAPI document is made from them. What always holds: what a handler may raise stands in its
route, and so in the document.
"""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_args, get_origin

import msgspec

from outlast.errors import OutlastError
from outlast.http.streams import Events

if TYPE_CHECKING:
    from outlast.app import Outlast
    from outlast.http.access import Access, Caller
    from outlast.http.feeds import Feeds

__all__ = ["Call", "ClientGone", "Errors", "Nothing", "Reply", "Route", "Text"]

Q = TypeVar("Q")
B = TypeVar("B")
T = TypeVar("T")


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters; no body."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, B]):
    """One request, read and checked."""

    app: Outlast
    feeds: Feeds
    identified: Caller | None
    """Who sent it; None: nobody known, which only open routes see."""
    path: Mapping[str, str]
    """The parameters in the path, decoded."""
    query: Q
    body: B
    headers: Mapping[str, str]
    """By name, in lower case."""
    root: str
    """Where the API is mounted: '' or '/prefix'."""
    access: Access
    is_gone: Callable[[], Awaitable[None]]
    """Returns once nobody waits for the answer any more."""
    is_secure: bool = False
    """It came by TLS, as far as this server knows."""

    @property
    def caller(self) -> Caller:
        """Who sent it; not for open routes."""
        assert self.identified is not None
        return self.identified

    def idempotency_key(self, said: str | None) -> str | None:
        """What tells this request from another when it is sent again: what its body says, else its header."""
        return said if said is not None else self.headers.get("idempotency-key") or None

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of it. Raises ClientGone, and gives it up, as soon as nobody waits for it any more."""
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(self.is_gone())
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGone
            return task.result()
        finally:
            task.cancel()
            gone.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """An answer with another status than the route's first, or with headers."""

    value: T
    status: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Text:
    """An answer that is text, not JSON."""

    text: str
    kind: str = "text/plain; charset=utf-8"
    """Its media type: plain text, of whatever version."""


Handler = Callable[[Call[Any, Any]], Awaitable[Any]]
Errors = tuple[type[OutlastError], ...]


@dataclass(frozen=True)
class Route:
    """One method at one path."""

    method: str
    path: str
    handler: Handler
    errors: Errors = ()
    """What it may raise, beside what any route may."""
    statuses: tuple[int, ...] = (200,)
    """Of answers that are no errors."""
    is_open: bool = False
    """Needs nobody signed in."""
    asks_who: bool = True
    """Has it found out who asks."""
    scopes: tuple[str, ...] = ()
    """Who asks needs one of these; none: whoever is signed in may ask."""
    tag: str = "runs"

    @property
    def name(self) -> str:
        """Unique among the routes."""
        return self.handler.__name__

    @property
    def text(self) -> tuple[str, str]:
        """First line, and the rest, of the handler's docstring: what the document says."""
        first, _, rest = inspect.cleandoc(self.handler.__doc__ or "").partition("\n")
        return first, rest.strip()

    @cached_property
    def types(self) -> tuple[type[msgspec.Struct], Any, Any]:
        """What the query, the body and the answer are."""
        hints = typing.get_type_hints(self.handler, include_extras=True)
        answer = hints.pop("return")
        query, body = get_args(next(iter(hints.values())))
        if get_origin(answer) in {Reply, Events}:
            (answer,) = get_args(answer)
        elif answer is Text:
            answer = str
        return cast("type[msgspec.Struct]", query), body, answer

    @cached_property
    def is_stream(self) -> bool:
        """Answers with server-sent events."""
        return self.media_type == "text/event-stream"

    @cached_property
    def media_type(self) -> str:
        """Of its answers that are no errors."""
        answer = typing.get_type_hints(self.handler)["return"]
        if get_origin(answer) is Events:
            return "text/event-stream"
        return "text/plain" if answer is Text else "application/json"
