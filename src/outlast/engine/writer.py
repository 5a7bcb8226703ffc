"""Group commit: all runs of a process share one writer. Layer: engine.

Flush at once when idle, collect while a flush is in flight; no timer. Answers are told in portions where a server does
the store's work: the runs that were told go on, and fill the next commit, while the others have yet to hear.

What always holds: a batch that was sent is sent again, unchanged, until the store says what became of it (PROTOCOL F7);
one run's bad entry never hurts another's (F8); what one incarnation of the worker submitted is never written under
another's id; callbacks run in the order in which the store answered, those of a batch in the order of submission.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterable, Sequence

from outlast.engine.clock import boottime_us
from outlast.errors import Fenced, StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreRefused
from outlast.payloads import Payloads, seal_progress
from outlast.stores.store import CLIENT, LANDED, Outcome, Progress, Store, Verdict
from outlast.telemetry.logs import unfailing
from outlast.telemetry.observer import Commit, Landed, Observers

__all__ = ["Answer", "Writer"]

MOST_ENTRIES = 1000
MOST_BYTES = 4 * 1024 * 1024
PORTION = 64
"""Answers told at once by the writer of a remote store. 256 runs on PostgreSQL did 1.15 times the steps so: with every
run in one commit, worker and server wait for each other."""
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 2.0

Answer = Outcome | StoreError | None
"""What became of a part: the store's outcome; that the store will never take it (StoreRefused), or, of a start, that
nothing was stored since it cannot take it now; or None, fenced: nothing is known, and the run is not ours any more."""

PERSISTENT = (StoreFull, StoreReadOnly, StoreCorrupt)
"""Errors that say nothing landed, and that waiting a moment does not mend. Who starts a run is told at once; what runs
have done is kept, and written when there is room."""

CLOSE_S = 10.0
"""How long closing waits for a store that does not answer."""

Part = tuple[Progress, Callable[[Answer], None], str | None]
"""What to write, whom to tell, and for which incarnation of the worker; None: for whoever writes, as a client may."""

_log = unfailing("outlast.writer")


class Writer:
    """One for each open app. `worker_id` is None while the process works no runs."""

    def __init__(
        self,
        store: Store,
        on_fenced: Callable[[str], None],
        on_trouble: Callable[[], None],
        observers: Observers | None = None,
        payloads: Payloads | None = None,
    ) -> None:
        """`on_fenced` is told the worker id that the store refused; `on_trouble`, that the store had an error
        (reconcile: an answer may have been lost)."""
        self._store = store
        self._observers = Observers() if observers is None else observers
        self._payloads = Payloads() if payloads is None else payloads
        self._on_fenced = on_fenced
        self._on_trouble = on_trouble
        self._waiting: collections.deque[Part] = collections.deque()
        self._bytes = 0
        """Of the entries that wait."""
        self._writing: list[Part] = []
        self._untold: collections.deque[tuple[Callable[[Answer], None], Answer]] = collections.deque()
        self._is_telling = False
        self.portion = PORTION if store.is_remote else MOST_ENTRIES
        """How many are told before the event loop has a turn."""
        self.on_told: Callable[[], None] = lambda: None
        """Called when a portion was told: what began with it goes on at once."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self.worker_id: str | None = None
        self.commits = 0
        self.entries = 0
        """How many commits the store took since, and how many entries of journals landed with them."""

    def open(self) -> None:
        """Begin to write, in the event loop at hand."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="outlast-writer")

    async def close(self) -> None:
        """Write what was submitted, then stop; a store that does not answer is waited for a while, not for ever."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._idle.wait()
        except TimeoutError:
            _log.error(
                "the store does not answer: what %d runs did last is not written, and done again", self.unwritten
            )
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def submit(self, progress: Progress, done: Callable[[Answer], None], *, by: str | None = None) -> None:
        """Write this part with the next batch, then call back. One part of a run at a time.

        `by` is the id of the worker that owns the run. Once this process has another, the part is not written.
        Its payloads go through the codecs now, once: what is sent again must be the same."""
        if self._payloads.changes(progress.events) or progress.effects is not None:
            try:
                progress = seal_progress(progress, self._payloads)
            except Exception as error:  # noqa: BLE001 - a codec of the user's: it costs this run, and no other
                refused = StoreRefused(self._store.url, progress.uid, f"a codec failed: {error!r}")
                asyncio.get_running_loop().call_soon(self._tell, [(done, refused)])
                return
        if not self._waiting:  # else it has been woken already
            self._idle.clear()
            self._wake.set()
        self._waiting.append((progress, done, by))
        self._bytes += len(progress.events)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                self._writing = self._take()
                await self._flush(self._writing)
                self._writing = []
                if not self._waiting:  # those who were told run first: what they do is written in the same turn
                    await asyncio.sleep(0)
            self._note_if_idle()

    def _note_if_idle(self) -> None:
        if not (self._waiting or self._writing or self._untold):
            self._idle.set()

    @property
    def unwritten(self) -> int:
        """How many parts the store has not answered yet."""
        return len(self._waiting) + len(self._writing)

    def _take(self) -> list[Part]:
        waiting = self._waiting
        if len(waiting) <= MOST_ENTRIES and self._bytes <= MOST_BYTES:
            self._waiting, self._bytes = collections.deque(), 0
            return list(waiting)
        taken: list[Part] = []
        size = 0
        while waiting and len(taken) < MOST_ENTRIES and (size < MOST_BYTES or not taken):
            size += len(waiting[0][0].events)
            taken.append(waiting.popleft())
        self._bytes -= size
        return taken

    async def _flush(self, batch: Sequence[Part]) -> None:
        """Write the batch and tell each part. Halved when the store refuses it as a whole."""
        worker_id = self.worker_id
        mine = [part for part in batch if part[2] is None or part[2] == worker_id]
        if len(mine) < len(batch):  # fenced meanwhile: a late writer changes nothing, also under a fresh id
            self._tell([(done, None) for _, done, by in batch if by is not None and by != worker_id])
        if mine:
            await self._write(worker_id, mine)

    async def _write(self, worker_id: str | None, batch: Sequence[Part]) -> None:
        parts = [part[0] for part in batch]
        began_us = boottime_us() if self._observers else 0
        # CRASH: the batch lands wholly or not at all, and nobody was told. Peers take the runs over.
        # [test_killed_at[before-commit]] [test_killed_at[committed-and-not-told]]
        answers = await self._commit(worker_id, parts)
        if isinstance(answers, PERSISTENT):
            self._tell([(part[1], answers) for part in batch if _is_start(part)])
            await self._flush([part for part in batch if not _is_start(part)])
            return
        if isinstance(answers, StoreError):
            if len(batch) == 1:
                self._tell([(batch[0][1], answers)])
            else:
                middle = len(batch) // 2
                await self._flush(batch[:middle])
                await self._flush(batch[middle:])
            return
        if answers is None:
            self._tell([(done, None) for _, done, _ in batch])
            return
        self.commits += 1
        for progress, answer in zip(parts, answers, strict=True):
            if progress.seq >= 0 and (answer is LANDED or answer.verdict is Verdict.LANDED):
                self.entries += 1
        self._tell([(part[1], answer) for part, answer in zip(batch, answers, strict=True)])
        # CRASH: what observers were not told is in the journal: mirrors catch up on it. [test_killed_beside_a_mirror]
        if self._observers:
            self.report(parts, answers, worker_id, boottime_us() - began_us)

    def _tell(self, answers: Iterable[tuple[Callable[[Answer], None], Answer]]) -> None:
        """Behind what was not told yet."""
        self._untold.extend(answers)
        if not self._is_telling:
            self._tell_portion()

    def _tell_portion(self) -> None:
        untold = self._untold
        self._is_telling = True
        try:
            for _ in range(min(len(untold), self.portion)):
                done, answer = untold.popleft()
                try:
                    done(answer)
                except Exception:  # noqa: BLE001 - our bug, which must not cost the other runs their answers
                    _log.exception("outlast failed to carry on a run after its commit")
            try:
                self.on_told()
            except Exception:  # noqa: BLE001 - as above
                _log.exception("outlast failed to begin what a commit had started")
        finally:
            self._is_telling = bool(untold)
            if untold:
                asyncio.get_running_loop().call_soon(self._tell_portion)
            else:
                self._note_if_idle()

    def report(
        self, parts: Sequence[Progress], answers: Sequence[Outcome], worker_id: str | None = None, took_us: int = 0
    ) -> None:
        """Tell the observers which of these entries landed. Who commits beside the writer reports so, too."""
        if self._observers:
            entries: list[Landed] = []
            for progress, answer in zip(parts, answers, strict=True):
                if answer.verdict is Verdict.LANDED:
                    _gather(progress, worker_id or CLIENT, entries)
            if entries:
                self._observers.landed(Commit(tuple(entries), took_us))

    async def _commit(self, worker_id: str | None, parts: list[Progress]) -> list[Outcome] | StoreError | None:
        """The same bytes until the store has answered; an error where that must be told. None: fenced."""
        delay = FIRST_RETRY_S
        may_have_landed = False
        while True:
            try:
                return await self._store.commit(worker_id, parts)
            except Fenced as error:
                self._on_fenced(error.worker)
                return None
            except StoreRefused as error:
                return error
            except PERSISTENT as error:
                if not may_have_landed and any(part.effects and part.effects.start for part in parts):
                    return error
                _log.error("the store takes nothing, trying again in %.2f s: %s", delay, error)
            except Exception as error:  # noqa: BLE001 - a store's bug must not end the writer of all runs
                if not isinstance(error, StoreError):
                    _log.exception("outlast failed to write %d entries", len(parts))
                    return StoreRefused("", parts[0].uid, f"and nobody foresaw it: {error!r}")
                _log.warning("the store did not take %d entries, trying again in %.2f s: %s", len(parts), delay, error)
                may_have_landed = True
                self._on_trouble()
            if worker_id is not None and worker_id != self.worker_id:
                return None
            await asyncio.sleep(delay)
            delay = min(delay * 2, LAST_RETRY_S)


def _is_start(part: Part) -> bool:
    effects = part[0].effects
    return effects is not None and effects.start is not None


def _gather(progress: Progress, writer: str, entries: list[Landed]) -> None:
    if progress.seq >= 0:
        entries.append(Landed(progress.uid, progress.seq, progress.at, writer, progress.events))
    if progress.effects is not None:
        for child in progress.effects.children:
            _gather(child, writer, entries)
