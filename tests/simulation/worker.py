"""A worker that follows the engine's rules, and does nothing else.

It keeps runs hot; thinks before it commits and acts after; has one entry of a run in flight; rereads what was refused;
reconciles; looks at its lease before it acts; drops messages its fold knows; and parks a run only when nothing of it is
in flight here. Each of these can be taken away (`Fixes`).

Every method that `options` names is one atomic action. What the worker sends to the store goes through the network.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from outlast.errors import Fenced
from outlast.stores.store import (
    ClaimedRun,
    Claiming,
    Effects,
    Outcome,
    Progress,
    Release,
    RowChange,
    Verdict,
    WorkerRow,
)
from tests.simulation.hot import LEASE_US, TICK_US, Hot, Option, effects_of
from tests.simulation.network import Request, immediately
from tests.simulation.program import Attempt, Event, Picture, decode, encode, think
from tests.simulation.task_worker import TaskWorker

if TYPE_CHECKING:
    from tests.simulation.scene import Scene

__all__ = ["ModelWorker"]


class ModelWorker(TaskWorker):
    """One process that works runs and tasks, in all its incarnations."""

    def __init__(self, number: int, scene: Scene) -> None:
        super().__init__(scene, LEASE_US)
        self.number = number
        self.fixes = scene.fixes
        self.store = scene.store
        self.generation = 0
        self.boot()

    # --- the lease ---

    def boot(self) -> None:
        """A process starts, with nothing in its memory and an id nobody had."""
        self.generation += 1
        self.id = f"w{self.number}.{self.generation}" if self.fixes.fresh_id else f"w{self.number}"
        self.hot: dict[str, Hot] = {}
        self.held = {}
        self.claims_in_flight = self.task_claims_in_flight = 0
        self._register()

    def _register(self) -> None:
        self.lease_until = self.scene.now + LEASE_US
        immediately(self.store.register(WorkerRow(self.id, "host", 1), LEASE_US))

    def has_lapsed(self) -> bool:
        """By its own clock."""
        return self.scene.now >= self.lease_until

    def fence(self) -> None:
        """It noticed that it lost its lease: it drops everything and comes back as another."""
        self.boot()

    def beat(self) -> None:
        if not self.fixes.fresh_id:
            self._register()
        elif self.store.renew(self.id, LEASE_US) is None:
            self.learn_fenced()
        else:
            self.lease_until = self.scene.now + LEASE_US

    def stall(self) -> None:
        """Its lease lapses, and it has not noticed yet."""
        self.store.renew(self.id, 0)
        self.lease_until = self.scene.now

    def drain(self) -> None:
        """It is told to stop, hands its runs back at once, and is started again."""
        immediately(self.store.retire(self.id))
        self.boot()

    def reap(self) -> None:
        immediately(self.store.reap(limit=1))

    # --- what it could do ---

    def options(self) -> Iterator[Option]:
        if self.has_lapsed():
            yield ("fence",)
        else:
            yield from self._options_of_worker()
            yield from self.task_claim_options()
            for hot in self.hot.values():
                yield from self._options_of_run(hot)
        for hot in self.hot.values():
            yield from (("act", hot.uid, attempt) for attempt in hot.to_do)
        yield from self.task_options()

    def _options_of_worker(self) -> Iterator[Option]:
        glance = self.scene.glance
        if self.lease_until - self.scene.now < LEASE_US - TICK_US:
            yield ("beat",)
        if glance.is_anybody_dead():
            yield ("reap",)
        if not self.claims_in_flight and glance.is_any_run_due():
            yield ("claim",)
        if self.fixes.reconcile and any(uid not in self.hot for uid in glance.owned_by(self.id)):
            yield ("reconcile",)

    def _options_of_run(self, hot: Hot) -> Iterator[Option]:
        uid = hot.uid
        if hot.head < 0:
            yield ("load", uid)
            return
        mail = self.scene.glance.mail_of(uid)
        if hot.polled_at != mail:
            yield ("poll", uid)
        if not self.fixes.seen_first and hot.seen != mail:
            yield ("see_mail", uid)
        if len(hot.in_flight) < (1 if self.fixes.one_flight else 2) and (hot.buffer or think(hot.picture.copy())):
            yield ("submit", uid)
        yield from (("finish", uid, attempt) for attempt in hot.running)
        if hot.is_idle() and not (hot.running and self.fixes.park_idle) and not think(hot.picture.copy()):
            yield ("park", uid)

    # --- ownership ---

    def claim(self) -> None:
        claiming = Claiming(self.id, ("default",), "deploy", 1)
        sender = self.id
        self.claims_in_flight += 1

        def on_answer(answer: list[ClaimedRun] | Fenced) -> None:
            if self.id != sender:
                return
            self.claims_in_flight -= 1
            if isinstance(answer, Fenced):
                self.learn_fenced()
                return
            for claimed in answer:
                self.hot.setdefault(claimed.uid, self._take(claimed))

        def on_silence() -> None:
            if self.id == sender:
                self.claims_in_flight -= 1

        self.scene.network.send(
            Request("claim", self.number, lambda: self.store.claim(claiming), on_answer, on_silence)
        )

    def reconcile(self) -> None:
        """Ask what is mine, and adopt what I did not know of."""
        for owned in immediately(self.store.list_owned(self.id)):
            if owned.uid not in self.hot:
                self._adopt(owned.uid, owned.epoch)

    def _adopt(self, uid: str, epoch: int) -> None:
        try:
            claimed = immediately(self.store.adopt(self.id, uid, epoch))
        except Fenced:
            self.learn_fenced()
            return
        if claimed is not None:
            self.scene.met["a run adopted"] += 1
            self.hot[uid] = self._take(claimed)

    def _take(self, claimed: ClaimedRun) -> Hot:
        return Hot(claimed.uid, claimed.epoch, claimed.recoveries, Picture(claimed.uid))

    def load(self, uid: str) -> None:
        """Read the journal, and take for lost what it says is running and what runs nowhere."""
        hot = self.hot[uid]
        entries = immediately(self.store.read_journal(uid))
        for entry in entries:
            for event in decode(entry.events):
                hot.picture.apply(event)
        if hot.picture.has_ended():
            del self.hot[uid]
            return
        hot.head = len(entries)
        hot.mark = entries[-1].mark
        queued = hot.picture.open_attempts("queued")
        lost = [attempt for attempt in hot.picture.open_attempts("local") if attempt not in hot.running]
        for key, number in [*lost, *immediately(self.store.lost_attempts(uid, queued))]:
            self.scene.met["an attempt found lost"] += 1
            hot.buffer.append(Event("lost", key, number))

    # --- mail ---

    def poll(self, uid: str) -> None:
        """Read the inbox; what the fold knows is dropped without an event."""
        hot = self.hot[uid]
        inbox = immediately(self.store.read_inbox(uid))
        hot.polled_at = inbox.mail
        if self.fixes.seen_first:
            hot.seen = inbox.mail
        for message in inbox.messages:
            if message.no in hot.taken:
                continue
            hot.taken.add(message.no)
            hot.consumed.append(message.no)
            if self.fixes.dedup_fold and message.id in hot.picture.read:
                self.scene.met["a message known to the fold"] += 1
                continue
            attempt = int(message.id.rpartition("#")[2]) if message.kind in {"task", "lost"} else 0
            hot.buffer.append(Event("message", message.id, attempt, message.kind))

    def see_mail(self, uid: str) -> None:
        """Read `mail` by itself: the two reads are no snapshot then."""
        self.hot[uid].seen = self.scene.glance.mail_of(uid)

    # --- progress ---

    def submit(self, uid: str) -> None:
        """Feed what happened to the body, and send it together with what the body asks for next."""
        hot = self.hot[uid]
        events = hot.buffer
        for event in events:
            hot.picture.apply(event)
        events = events + think(hot.picture)
        mark = self.scene.next_mark()
        progress = Progress(
            uid,
            hot.head,
            at=self.scene.now,
            mark=mark,
            prev=hot.mark,
            events=encode(events),
            effects=effects_of(hot, events, self.scene),
        )
        hot.buffer, hot.consumed = [], []
        hot.head += 1
        hot.mark = mark
        hot.in_flight.append(mark)
        self.scene.audit.expect(progress)
        self._send(hot, progress, events)

    def _send(self, hot: Hot, progress: Progress, events: list[Event]) -> None:
        """The bytes and the mark never change: what is sent again is the same."""
        sender = self.id

        def is_mine() -> bool:
            return self.id == sender and self.hot.get(hot.uid) is hot

        def on_answer(answer: list[Outcome] | Fenced) -> None:
            if not is_mine() or progress.mark not in hot.in_flight:
                return
            if isinstance(answer, Fenced):
                self.learn_fenced()
            elif answer[0].verdict is Verdict.LANDED:
                self._on_landed(hot, progress.mark, events)
            else:
                self._on_stale(hot)

        def call() -> Coroutine[Any, Any, list[Outcome]]:
            return self.store.commit(sender, [progress])

        def on_silence() -> None:
            if not is_mine():
                return
            if not self.has_lapsed():
                self.scene.met["an entry sent again"] += 1
                self.scene.network.send(request)

        request = Request("commit", self.number, call, on_answer, on_silence)
        self.scene.network.send(request)

    def _on_landed(self, hot: Hot, mark: int, events: list[Event]) -> None:
        hot.in_flight.remove(mark)
        for event in events:
            if event.what == "start" and event.kind == "local":
                hot.to_do.append((event.id, event.attempt))
            elif event.what == "end":
                self.hot.pop(hot.uid, None)

    def _on_stale(self, hot: Hot) -> None:
        """My picture of the run is stale."""
        self.scene.met["an entry refused"] += 1
        row = immediately(self.store.find_uid(hot.uid))
        del self.hot[hot.uid]
        if self.fixes.reread and row is not None and row.owner == self.id:
            self._adopt(hot.uid, row.epoch)

    # --- attempts ---

    def act(self, uid: str, attempt: Attempt) -> None:
        """Run user code, whose entry has landed. A worker that was frozen meanwhile looks at its lease first."""
        hot = self.hot[uid]
        hot.to_do.remove(attempt)
        if self.fixes.lease_at_act and self.has_lapsed():
            self.scene.met["a step not begun, the lease being over"] += 1
            self.fence()
            return
        self.scene.audit.begin(uid, attempt, self.id)
        hot.running.append(attempt)

    def finish(self, uid: str, attempt: Attempt) -> None:
        hot = self.hot[uid]
        hot.running.remove(attempt)
        hot.buffer.append(Event("ok", *attempt))

    # --- the park ---

    def park(self, uid: str) -> None:
        """Release the run. Whatever the answer, or none: it counts as parked."""
        hot = self.hot.pop(uid)
        row = RowChange(release=Release(hot.epoch, hot.seen), waiting_on="message")
        progress = Progress(uid, -1, effects=Effects(consumed=tuple(hot.consumed), row=row))
        sender = self.id

        async def call() -> None:
            [outcome] = await self.store.commit(sender, [progress])
            assert outcome.verdict is Verdict.LANDED, "a park is never refused, only without effect"

        self.scene.network.send(Request("park", self.number, call))
