"""Server-sent events on the wire. Layer: http.

What always holds: a stream that is quiet shows that it lives, at least every heartbeat; and it is let go as soon as its
client is gone, also while there is nothing to send.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from outlast.telemetry.logs import ENGINE

if TYPE_CHECKING:
    from starlette.types import Receive, Send

__all__ = ["Events", "event", "send_stream", "wait_gone"]

T = TypeVar("T")

HEARTBEAT = b": still here\n\n"
RETRY_MS = 1000


@dataclass(frozen=True, slots=True)
class Events(Generic[T]):
    """An answer that goes on: events whose data is a `T`. `None`: there is nothing more, do not come back (204)."""

    parts: AsyncGenerator[bytes, None] | None


def event(data: bytes, *, id: str = "", name: str = "") -> bytes:
    """One event. JSON has no line breaks, so that its data is one line."""
    head = (f"id: {id}\n" if id else "") + (f"event: {name}\n" if name else "")
    return b"%sdata: %s\n\n" % (head.encode(), data)


async def wait_gone(receive: Receive) -> None:
    """Returns once the client is gone; only after the body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_stream(
    parts: AsyncGenerator[bytes, None],
    is_gone: Callable[[], Awaitable[None]],
    send: Send,
    headers: list[tuple[bytes, bytes]],
    heartbeat_s: float,
) -> None:
    """Send until there are no more parts, or the client is gone."""
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _send_part(send, f"retry: {RETRY_MS}\n\n".encode())
    gone = asyncio.ensure_future(is_gone())
    following: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            following = following or asyncio.create_task(_next(parts))
            await asyncio.wait({gone, following}, timeout=heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return
            if not following.done():
                await _send_part(send, HEARTBEAT)
                continue
            part, following = following.result(), None
            if part is None:
                break
            await _send_part(send, part)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except OSError:  # how a server may say that the client is gone
        return
    except Exception:  # noqa: BLE001 - the client comes back, and is told then
        ENGINE.exception("an event stream breaks off")
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await _let_go(gone, following)
        await parts.aclose()


async def _next(parts: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(parts, None)


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


async def _let_go(*tasks: asyncio.Future[Any] | None) -> None:
    pending = [task for task in tasks if task is not None and not task.done()]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
