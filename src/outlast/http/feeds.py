"""Live events for many clients at the cost of one: a feed for each run that somebody follows. Layer: http.

One task reads the run's journal as it grows and keeps the latest part, encoded. A client is a cursor in that: it has no
buffer of its own, so that a slow one costs no memory and holds nobody up. One that needs what is not kept any more
reads it from the store itself. What always holds: a client gets every event behind its cursor, once and in order, or
its stream breaks off without an end; then it comes back with the last `seq` it saw.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.authoring.hooks import encode_unknown
from outlast.core.states import RunStatus
from outlast.errors import OutlastError, RunNotFound
from outlast.http.reach import iter_items
from outlast.http.refusals import TooManyStreams
from outlast.run.handle import Run
from outlast.telemetry.logs import ENGINE

if TYPE_CHECKING:
    from outlast.engine.engine import Engine

__all__ = ["ChangeFeed", "Feed", "Feeds", "Frame"]

KEPT_BYTES = 2**20
"""Of each run that is followed; at least its latest event is kept."""
MOST_STREAMS = 1000
CHANGE_GAP_S = 0.5
TURN = 500
"""Events that are told in one turn of the event loop: others want to move too."""

_encode = msgspec.json.Encoder(enc_hook=encode_unknown).encode


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event, encoded."""

    seq: int
    data: bytes


class Feed:
    """One run's events, from its first on."""

    def __init__(self, run: Run[Any]) -> None:
        self.run = run
        self.clients = 0
        self.end: RunStatus | None = None
        """How the run has ended, once all of it is told."""
        self.is_broken = False
        """Nothing more comes from here: the store failed, the run was deleted, or the server stops."""
        self._dropped = -1
        """The latest event that is not kept any more."""
        self._kept: deque[Frame] = deque()
        self._bytes = 0
        self._moved = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._read(), name=f"outlast-feed-{run.uid}")

    @property
    def is_over(self) -> bool:
        """Whether it never grows again."""
        return self.end is not None or self.is_broken

    async def _read(self) -> None:
        try:
            async for item in iter_items(self.run, -1):
                self._keep(Frame(item.seq, _encode(item)))
                if item.seq % TURN == TURN - 1:
                    await asyncio.sleep(0)
            self.end = (await self.run.status()).status
        except RunNotFound:
            pass
        except OutlastError as error:
            ENGINE.warning("the events of run %s cannot be read, its clients have to come back: %s", self.run.id, error)
        finally:
            self.is_broken = self.end is None
            self._tell()

    def _keep(self, frame: Frame) -> None:
        self._kept.append(frame)
        self._bytes += len(frame.data)
        while self._bytes > KEPT_BYTES and len(self._kept) > 1:
            gone = self._kept.popleft()
            self._bytes -= len(gone.data)
            self._dropped = gone.seq
        self._tell()

    def _tell(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def close(self) -> None:
        """Break off all streams of it, unless it is told to its end."""
        self._task.cancel()
        self.is_broken = self.end is None
        self._tell()

    async def frames(self, after: int) -> AsyncGenerator[Frame, None]:
        """Every event behind `after`, until the run has ended or the feed breaks."""
        cursor = after
        while True:
            if cursor < self._dropped:
                async with aclosing(self._catch_up(cursor)) as frames:
                    async for frame in frames:
                        cursor = frame.seq
                        yield frame
            moved, found = self._moved, self._next(cursor)
            if found is not None:
                cursor = found.seq
                yield found
            elif self.is_over:
                return
            elif cursor >= self._dropped:
                await moved.wait()

    def _next(self, cursor: int) -> Frame | None:
        """The event behind `cursor`, if it is kept. Their numbers have no gaps: its place is counted."""
        if cursor < self._dropped or not self._kept or self._kept[-1].seq <= cursor:
            return None
        return self._kept[-(self._kept[-1].seq - cursor)]

    async def _catch_up(self, cursor: int) -> AsyncGenerator[Frame, None]:
        """From the store, up to what is kept."""
        async with aclosing(iter_items(self.run, cursor)) as items:
            async for item in items:
                yield Frame(item.seq, _encode(item))
                if item.seq >= self._dropped:
                    return


class ChangeFeed:
    """That something changed in the store, at most once in `CHANGE_GAP_S`: one subscription for all clients.

    Of other processes the store's hints tell, of this one the count of entries it wrote.
    """

    def __init__(self, engine: Engine) -> None:
        self.clients = 0
        self.is_broken = False
        """The server stops."""
        self._engine = engine
        self._hinted = True
        self._count = 0
        self._moved = asyncio.Event()
        self._unsubscribe = engine.store.subscribe(self._hint)
        self._task = asyncio.get_running_loop().create_task(self._look(), name="outlast-changes")

    def _hint(self) -> None:
        self._hinted = True

    async def _look(self) -> None:
        seen = self._engine.writer.entries
        while True:
            await asyncio.sleep(CHANGE_GAP_S)
            if self._hinted or seen != self._engine.writer.entries:
                self._hinted, seen = False, self._engine.writer.entries
                self._count += 1
                self._tell()

    def _tell(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def close(self) -> None:
        """End all streams of it."""
        self._unsubscribe()
        self._task.cancel()
        self.is_broken = True
        self._tell()

    async def changes(self) -> AsyncGenerator[None, None]:
        """Once for all that came since the last one was taken."""
        seen = self._count
        while not self.is_broken:
            moved = self._moved
            if seen != self._count:
                seen = self._count
                yield
            else:
                await moved.wait()


class Feeds:
    """All streams of one API."""

    def __init__(self) -> None:
        self._feeds: dict[str, Feed] = {}
        self._changes: ChangeFeed | None = None
        self._streams = 0

    @contextmanager
    def following(self, run: Run[Any]) -> Generator[Feed, None, None]:
        """The run's feed, made for its first client and closed after its last."""
        feed = self._feeds.get(run.uid)
        if feed is None or feed.is_over:  # one that is over may be from before a retry
            feed = self._feeds[run.uid] = Feed(run)
        feed.clients += 1
        try:
            yield feed
        finally:
            feed.clients -= 1
            if feed.clients == 0:
                feed.close()
                if self._feeds.get(run.uid) is feed:
                    del self._feeds[run.uid]

    @contextmanager
    def watching(self, engine: Engine) -> Generator[ChangeFeed, None, None]:
        """The feed of changes, likewise."""
        feed = self._changes
        if feed is None or feed.is_broken:
            feed = self._changes = ChangeFeed(engine)
        feed.clients += 1
        try:
            yield feed
        finally:
            feed.clients -= 1
            if feed.clients == 0:
                feed.close()

    @contextmanager
    def place(self) -> Generator[None, None, None]:
        """One of the streams that may be open at once. Raises TooManyStreams."""
        if self._streams >= MOST_STREAMS:
            raise TooManyStreams(MOST_STREAMS)
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    def close(self) -> None:
        """Break off all streams: the server stops."""
        for feed in tuple(self._feeds.values()):
            feed.close()
        if self._changes is not None:
            self._changes.close()
