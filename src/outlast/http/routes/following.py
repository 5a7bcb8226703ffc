"""Routes that stream: the events of a run, and that something changed (SPEC O3). Layer: http."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from outlast.http.feeds import Feeds
from outlast.http.reach import engine_of, find_run
from outlast.http.refusals import InvalidRequest
from outlast.http.route import Call, Nothing
from outlast.http.shapes import Change, End, Follow
from outlast.http.streams import Events, event
from outlast.run.handle import Run
from outlast.run.records import TimelineItem

if TYPE_CHECKING:
    from outlast.engine.engine import Engine

__all__ = ["follow_changes", "follow_run"]

SEEN_END = "end"
"""What the id of a stream's last event ends with: who names it has seen that the run ended."""

_encode = msgspec.json.Encoder().encode


async def follow_run(call: Call[Follow, Nothing]) -> Events[TimelineItem]:
    """Follow a run: its timeline as it grows, as server-sent events.

    Each has its `seq` as id, so that a client that comes back with `Last-Event-ID` (browsers do by themselves) misses
    nothing. When the run has ended there is one more, of type `end`, whose data says the status; who comes back after
    that gets 204, unless the run was reopened. A comment comes every 15 seconds while nothing happens.
    """
    run, row = await find_run(call)
    after, has_seen_end = _read_last(call)
    if has_seen_end and not row.live:
        return Events(None)
    return Events(_tell_run(call.feeds, run, after))


def _read_last(call: Call[Follow, Nothing]) -> tuple[int, bool]:
    last = call.headers.get("last-event-id", "").strip()
    if not last:
        return call.query.after, False
    number, _, end = last.partition(".")
    digits = number.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 16) or end not in {"", SEEN_END}:
        raise InvalidRequest("header Last-Event-ID", "the id of an event of this stream", f"it is {last[:60]!r}")
    return max(-1, int(number)), end == SEEN_END


async def _tell_run(feeds: Feeds, run: Run[None], after: int) -> AsyncGenerator[bytes, None]:
    seq = after
    with feeds.following(run) as feed:
        async with aclosing(feed.frames(after)) as frames:
            async for frame in frames:
                seq = frame.seq
                yield event(frame.data, id=str(seq))
    if feed.end is not None:
        yield event(_encode(End(seq=seq, status=feed.end)), id=f"{seq}.{SEEN_END}", name="end")


async def follow_changes(call: Call[Nothing, Nothing]) -> Events[Change]:
    """Be told when lists may have changed, as server-sent events of type `change`: at most two a second.

    Read what is shown anew then. It is a hint: one may come for nothing.
    """
    return Events(_tell_changes(call.feeds, engine_of(call.app)))


async def _tell_changes(feeds: Feeds, engine: Engine) -> AsyncGenerator[bytes, None]:
    with feeds.watching(engine) as feed:
        async with aclosing(feed.changes()) as changes:
            async for _ in changes:
                yield event(_encode(Change(at=datetime.now(UTC))), name="change")
