"""Answers on the wire. Layer: http.

What always holds: every answer carries the security headers, and says how long it is; and an error is a problem
document, whatever raised it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from outlast.authoring.hooks import encode_unknown
from outlast.http.problems import MEDIA_TYPE, problem_of
from outlast.http.route import Reply

if TYPE_CHECKING:
    from starlette.types import Send

    from outlast.http.files import File

__all__ = ["Answer", "answer_error", "answer_file", "answer_value", "make_headers", "send_answer"]

SECURITY = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
WITHOUT_BODY = frozenset({204, 304})

_encode = msgspec.json.Encoder(enc_hook=encode_unknown).encode


class Answer(msgspec.Struct, frozen=True):
    """What is sent, but for streams."""

    status: int
    body: bytes = b""
    kind: str = ""
    headers: dict[str, str] = {}


def answer_value(reply: Reply[Any]) -> Answer:
    """A value, as JSON."""
    if reply.status in WITHOUT_BODY:
        return Answer(reply.status, headers=reply.headers)
    return Answer(reply.status, _encode(reply.value), "application/json", reply.headers)


def answer_error(error: Exception) -> Answer:
    """An error, as a problem document."""
    problem = problem_of(error)
    headers = {}
    if problem.status == 401:
        headers = {"www-authenticate": "Bearer"}
    elif problem.status == 405:
        headers = {"allow": str(problem.fields.get("allowed", ""))}
    return Answer(problem.status, msgspec.json.encode(problem), MEDIA_TYPE, headers)


def answer_file(file: File, policy: str, known_tag: str | None) -> Answer:
    """A file; 304 for who has it."""
    headers = {"etag": file.tag, "cache-control": "no-cache", "content-security-policy": policy}
    if known_tag == file.tag:
        return Answer(304, headers=headers)
    return Answer(200, file.data, file.kind, headers)


def make_headers(answer: Answer, *, is_whole: bool = True) -> list[tuple[bytes, bytes]]:
    """The headers of an answer; of a stream, without its length."""
    told = {**SECURITY, **answer.headers}
    if answer.kind:
        told["content-type"] = answer.kind
    if is_whole and answer.status not in WITHOUT_BODY:
        told["content-length"] = str(len(answer.body))
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in told.items()]


async def send_answer(send: Send, answer: Answer, *, is_head: bool) -> None:
    """Send it; for a HEAD without its body."""
    await send({"type": "http.response.start", "status": answer.status, "headers": make_headers(answer)})
    await send({"type": "http.response.body", "body": b"" if is_head else answer.body})
