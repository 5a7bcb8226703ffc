"""One request of an actor and what came back, as a step sends it: over HTTP, with any client. Layer: testing.

What always holds: every attempt of a step sends the same request under the same Idempotency-Key; and nothing that a
client adds by itself, such as who is signed in, is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload

import msgspec

from outlast.authoring.codec import encode
from outlast.authoring.current import current_step
from outlast.authoring.schema import decoder
from outlast.errors import ExpectedError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = ["HttpAnswer", "HttpClient", "Refused", "Reply", "Unreachable", "exchange"]

T = TypeVar("T")

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing, however often they are sent."""
PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may yet succeed."""
KEPT_HEADERS: Final = ("content-type", "etag", "last-modified", "link", "location", "retry-after")
SHOWN: Final = 500
"""Characters of an answer that stand in an error's text."""


class HttpAnswer(Protocol):
    """What a client gives: an `httpx.Response`, or what has the same."""

    @property
    def status_code(self) -> int:
        """As 200."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By name, however it is spelt."""
        ...

    @property
    def content(self) -> bytes:
        """The whole body."""
        ...


class HttpClient(Protocol):
    """What an actor's requests go through: an `httpx.AsyncClient`, or what is called alike."""

    async def request(
        self, method: str, url: str, /, *, headers: Mapping[str, str], content: bytes | None
    ) -> HttpAnswer:
        """Send it, and read the whole answer."""
        ...


@dataclass(frozen=True)
class Reply:
    """What an actor was answered, as it is on record."""

    status: int
    headers: dict[str, str]
    """Of the answer's, those that say what it is: content-type, etag, last-modified, link, location, retry-after."""
    body: Any
    """Plain JSON, or text; None if there was nothing."""

    @overload
    def read(self, type: TypeForm[T], /) -> T: ...
    @overload
    def read(self, type: Any, /) -> Any: ...
    def read(self, type: Any, /) -> Any:
        """The body as this type: `reply.read(Order)`. Raises msgspec.ValidationError where it does not fit."""
        return decoder(type)(msgspec.Raw(encode(self.body)))


class Refused(ExpectedError):
    """An actor was answered with an error: by 4xx, or by 5xx for as long as it was tried."""

    def __init__(self, told: str, reply: Reply) -> None:
        """`told` says who asked for what."""
        self.status = reply.status
        self.problem: dict[str, Any] = reply.body if isinstance(reply.body, dict) else {}
        """The problem document (RFC 9457), or whatever JSON object came; empty for anything else."""
        self.code = str(self.problem.get("code", ""))
        """Its `code`, where it has one."""
        self.retryable = reply.status in PASSING
        self.retry_after = reply.headers.get("retry-after")
        said = self.problem.get("detail") or self.problem.get("title") or reply.body or ""
        code = f" {self.code}" if self.code else ""
        super().__init__(f"{told} was answered {self.status}{code}: {str(said)[:SHOWN]}".rstrip(": "))


class Unreachable(Exception):
    """A request that got no answer. What it did, nobody knows; so it is sent again under the same key."""


async def exchange(
    client: HttpClient, actor: str, method: str, path: str, body: object, headers: Mapping[str, str]
) -> Reply:
    """Send one request in a step. Raises Refused or Unreachable."""
    told, step = f"{actor}: {method} {path}", current_step()
    sent = {"accept": "application/json", "traceparent": step.traceparent}
    if method not in SAFE:
        sent["idempotency-key"] = step.invocation_id
    if body is not None:
        sent["content-type"] = "application/json"
    sent |= {name.lower(): value for name, value in headers.items()}
    content = None if body is None else msgspec.json.encode(body)
    try:
        answer = await client.request(
            method, path, headers={name: value for name, value in sent.items() if value}, content=content
        )
    except Exception as error:
        raise Unreachable(f"{told} got no answer: {type(error).__name__}: {error}") from error
    reply = _read(answer)
    if reply.status >= 400:
        raise Refused(told, reply)
    return reply


def _read(answer: HttpAnswer) -> Reply:
    kept = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
    return Reply(answer.status_code, kept, _read_body(answer.content, kept.get("content-type", "")))


def _read_body(content: bytes, media_type: str) -> Any:
    if not content:
        return None
    if media_type.partition(";")[0].strip().lower().endswith(("/json", "+json")):
        try:
            return msgspec.json.decode(content)
        except msgspec.DecodeError:
            pass  # shown as what it is
    return content.decode(errors="backslashreplace")
