"""What may be asked of a store, in any order, by workers that die, thaw and are replaced: a state machine.

A worker remembers what it was told of a run (position, mark, epoch), and goes by that, however old it is. So writers
come late, twice, and when somebody else has the run; what the model says to that, the other store has to say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast.core.states import RunStatus
from outlast.errors import Fenced
from outlast.stores.store import (
    Effects,
    Outcome,
    Progress,
    Release,
    RowChange,
    RunQuery,
    RunSharing,
    TaskOutcome,
    Verdict,
    WorkerRow,
)
from outlast.testing.stores.writing import claiming, message, send_to, start, task, wait
from tests.stores.machine.pair import Pair

__all__ = ["StoreMachine"]

SECOND = 1_000_000
LEASE = 30 * SECOND
COMPARE_EVERY = 12
WORKERS = st.integers(0, 2)
DEPLOYS = st.sampled_from(["d0", "d1"])
QUEUES = ("default", "gpu")
MAIL = st.lists(st.sampled_from(["signal", "decision", "resume", "child", "cancel", "new"]), max_size=4)
ENDS = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


@dataclass
class Known:
    """What one incarnation of a worker knows of a run it was given."""

    uid: str
    worker: str
    epoch: int
    seq: int
    mark: int
    mail: list[int] = field(default_factory=list)
    seen: int = 0


class StoreMachine(RuleBasedStateMachine):
    """`make_pair` is set by the test."""

    make_pair: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.pair: Pair = type(self).make_pair()
        self.marks = 0
        self.steps = 0
        self.uids: list[str] = []
        self.ended: list[str] = []
        """Those that somebody meant to end, maybe too late."""
        self.workers: list[str] = []
        self.incarnations = 0
        self.deploys = ["d0"] * 3
        self.known: list[Known] = []
        self.tasks: list[tuple[str, Any]] = []
        """Tasks with the worker that was given them."""

    @initialize()
    def open(self) -> None:
        self.pair.open()
        for _ in range(3):
            self.workers.append(self._register("d0"))
        for worker in (0, 1):
            self._start(self.workers[worker], worker, claimed=True, delay=None)
        self._start(None, 0, claimed=False, delay=None)

    def teardown(self) -> None:
        try:
            if self.workers:
                self.pair.compare(self.uids)
        finally:
            self.pair.close()

    def _register(self, deploy: str) -> str:
        self.incarnations += 1
        id = f"w{self.incarnations}"
        self.pair.ask("register", WorkerRow(id, "host", 1, QUEUES, ("charge",), deploy), LEASE)
        return id

    def _mark(self) -> int:
        self.marks += 1
        return self.marks

    # --- runs begin and are given out ---------------------------------------------------------------------------------

    @rule(worker=WORKERS, claimed=st.booleans(), delay=st.sampled_from([None, 0, 5, 60]), priority=st.integers(3, 6),
          queue=st.sampled_from(QUEUES), takes=st.booleans(), pool=st.sampled_from([None, None, "p"]))  # fmt: skip
    def start_run(
        self, worker: int, claimed: bool, delay: int | None, priority: int, queue: str, takes: bool, pool: str | None
    ) -> None:
        """Its id may be another's; it may be the worker's own from the first moment."""
        if len(self.uids) < 8:
            by = self.workers[worker] if claimed else None
            self._start(
                by, worker, claimed=claimed, delay=delay, takes=takes, priority=priority, queue=queue, pool=pool
            )

    def _start(
        self, by: str | None, worker: int, *, claimed: bool, delay: int | None, takes: bool = False, **new: Any
    ) -> None:
        uid = f"r{len(self.uids)}"
        wake_at = None if delay is None else self.pair.now + delay * SECOND
        effects = start(uid, id="taken" if takes else None, claimed=claimed, wake_at=wake_at, **new).effects
        progress = Progress(uid, 0, self.pair.now, self._mark(), 0, b"[0]", effects)
        if self._landed(by, progress):
            self.uids.append(uid)
            if claimed:
                self.known.append(Known(uid, self.workers[worker], 1, 1, progress.mark))

    @rule(worker=WORKERS, queue=st.sampled_from(QUEUES), most=st.sampled_from([1, 2, 100]), lost=st.booleans())
    def claim_pooled(self, worker: int, queue: str, most: int, lost: bool) -> None:
        """What is due of a pool, as far as there are places."""
        id = self.workers[worker]
        asking = claiming(id, queues=(queue,), deploy=self.deploys[worker], limit=100, lanes=((queue, "p"),))
        self.pair.ask("look", asking)
        self.pair.ask("list_pools")
        found = self.pair.ask("claim", asking, RunSharing("p", most, 2))
        if lost:
            self._reconcile(id)
        elif not isinstance(found, Exception):
            for claimed in found:
                self._load(claimed.uid, id, claimed.epoch)

    @rule(worker=WORKERS, oldest_first=st.booleans(), lost=st.booleans())
    def claim(self, worker: int, oldest_first: bool, lost: bool) -> None:
        """All that is due, and what is on record of it. Where the answer is lost, it asks what is its own."""
        id = self.workers[worker]
        found = self.pair.ask(
            "claim", claiming(id, queues=QUEUES, deploy=self.deploys[worker], limit=100, oldest_first=oldest_first)
        )
        if lost:
            self._reconcile(id)
        elif not isinstance(found, Exception):
            for claimed in found:
                self._load(claimed.uid, id, claimed.epoch)

    def _reconcile(self, id: str) -> None:
        for owned in self.pair.ask("list_owned", id):
            adopted = self.pair.ask("adopt", id, owned.uid, owned.epoch)
            if adopted is not None and not isinstance(adopted, Fenced):
                self._load(owned.uid, id, adopted.epoch)

    def _load(self, uid: str, worker: str, epoch: int) -> None:
        entries = self.pair.ask("read_journal", uid)
        inbox = self.pair.ask("read_inbox", uid, limit=100)
        numbers = [each.no for each in inbox.messages]
        self.known = [each for each in self.known if (each.uid, each.worker) != (uid, worker)]
        self.known.append(Known(uid, worker, epoch, len(entries), entries[-1].mark, numbers, inbox.mail))

    # --- runs move ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def more_progress(self, data: st.DataObject) -> None:
        """Most of what happens is that."""
        self._progress(data)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def progress(self, data: st.DataObject) -> None:
        """An entry with whatever effects, by somebody who may not have the run any more."""
        self._progress(data)

    def _progress(self, data: st.DataObject) -> None:
        known = data.draw(st.sampled_from(self.known), "who")
        effects: dict[str, Any] = {}
        if known.mail and data.draw(st.booleans(), "reads"):
            effects["consumed"] = tuple(known.mail)
        if data.draw(st.booleans(), "sends"):
            to = data.draw(st.sampled_from([*self.uids, "nobody"]), "to")
            kind = data.draw(st.sampled_from(["child", "cancel", "signal", "revive"]))
            effects["sends"] = (send_to(to, f"m{self.marks}", kind),)
        match data.draw(st.sampled_from(["", "task", "task", "stop", "wait", "answered", "child"]), "asks"):
            case "task":
                key = data.draw(st.sampled_from(["a", "b"]))
                attempt, queue = data.draw(st.integers(1, 3)), data.draw(st.sampled_from(QUEUES))
                effects["tasks"] = (task(key, attempt, queue=queue, due_at=self.pair.now),)
            case "stop":
                effects["stopped"] = ("a",)
            case "wait":
                effects["waits_opened"] = (wait("ok?", opened_at=self.pair.now),)
            case "answered":
                effects["waits_closed"] = ("ok?",)
            case "child" if len(self.uids) < 9:
                uid = f"c{len(self.uids)}"
                new = start(uid, parent=known.uid, root=known.uid).effects
                effects["children"] = (Progress(uid, 0, self.pair.now, self._mark(), 0, b"[0]", new),)
            case _:
                pass
        effects["row"] = data.draw(st.sampled_from([
            None, None, RowChange(recovered=True), RowChange(status=RunStatus.SUSPENDED, waiting_on="X"),
            self._release(known, None), self._release(known, 5),
        ]), "row")  # fmt: skip
        self._write(known, Effects(**effects), data.draw(st.booleans(), "knows"))

    def _release(self, known: Known, delay: int | None, **row: Any) -> RowChange:
        wake_at = None if delay is None else self.pair.now + delay * SECOND
        return RowChange(release=Release(known.epoch, known.seen, wake_at), **row)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), delay=st.sampled_from([None, 0, 20]), unfit=st.booleans())
    def park(self, data: st.DataObject, delay: int | None, unfit: bool) -> None:
        """A run is released; it may be left to workers of other deploys."""
        known = data.draw(st.sampled_from(self.known), "who")
        row = self._release(known, delay, waiting_on="signal", unfit="d0" if unfit else None)
        effects = Effects(consumed=tuple(known.mail), row=row)
        self._landed(known.worker, Progress(known.uid, -1, effects=effects))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), status=st.sampled_from([*ENDS, RunStatus.FAILED]), mail=MAIL, reads=st.booleans())
    def finish_or_fail(self, data: st.DataObject, status: RunStatus, mail: list[str], reads: bool) -> None:
        """A run ends, with mail that it has not read; whoever ended it writes no more of it."""
        known = data.draw(st.sampled_from(self.known), "who")
        self.known.remove(known)
        for number, kind in enumerate(mail):
            self.pair.ask("send", known.uid, message(f"unread-{self.marks}-{number}", kind))
        row = RowChange(status=status, ended=True, error=b'"E"')
        self._write(known, Effects(row=row, consumed=tuple(known.mail) if reads else ()), knows=True)
        self.ended.append(known.uid)

    def _write(self, known: Known, effects: Effects, knows: bool) -> None:
        """`knows`: the answer reached the writer; else it goes on as if nothing had been sent."""
        progress = Progress(known.uid, known.seq, self.pair.now, self._mark(), known.mark, b"[1]", effects)
        if self._landed(known.worker, progress):
            self.uids += [child.uid for child in effects.children if child.uid not in self.uids]
            if knows:
                known.seq, known.mark = known.seq + 1, progress.mark
                if effects.consumed:
                    known.mail = []

    def _landed(self, by: str | None, progress: Progress) -> bool:
        answer = self.pair.ask("commit", by, [progress])
        return not isinstance(answer, Exception) and answer == [Outcome(Verdict.LANDED)]

    @precondition(lambda self: self.uids)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """Somebody from outside lets a failed run go on."""
        uid = data.draw(st.sampled_from(self.ended or self.uids), "run")
        entries = self.pair.ask("read_journal", uid)
        if entries:
            effects = Effects(unowned=RunStatus.FAILED, row=RowChange(status=RunStatus.QUEUED, reopened=True))
            last = entries[-1]
            self._landed(None, Progress(uid, last.seq + 1, self.pair.now, self._mark(), last.mark, b"[2]", effects))
            self.pair.ask("read_inbox", uid, limit=100)

    # --- from outside -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.uids)
    @rule(data=st.data(), kind=st.sampled_from(["signal", "decision", "cancel", "resume", "retry", "revive", "unwind"]),
          again=st.booleans())  # fmt: skip
    def send(self, data: st.DataObject, kind: str, again: bool) -> None:
        """A signal, an approval, a cancel; under an id that may have been used."""
        uid = data.draw(st.sampled_from([*self.uids, "nobody"]), "to")
        self.pair.ask("send", uid, message("again" if again else f"s{self.marks}-{self.pair.now}", kind))

    # --- queued steps -------------------------------------------------------------------------------------------------

    @rule(worker=WORKERS)
    def claim_tasks(self, worker: int) -> None:
        """All that are due."""
        id = self.workers[worker]
        found = self.pair.ask("claim_tasks", claiming(id, queues=QUEUES), ["charge"], LEASE)
        if not isinstance(found, Exception):
            self.tasks += [(id, claimed) for claimed in found]

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), does=st.sampled_from(["renews", "gives back", "completes", "completes"]))
    def renew_or_complete_task(self, data: st.DataObject, does: str) -> None:
        """By whoever was given it, once."""
        worker, claimed = data.draw(st.sampled_from(self.tasks), "task")
        if does == "gives back":
            self.pair.ask(
                "release_tasks", worker, [(claimed.run, claimed.key, claimed.attempt), ("gone", "a", 1)], SECOND
            )
        elif does == "renews":
            self.pair.ask("renew_tasks", worker, [(claimed.run, claimed.key, claimed.attempt, b"1")], LEASE)
        else:
            outcome = TaskOutcome(claimed.run, claimed.key, claimed.attempt, b"{}")
            self.pair.ask("complete_tasks", worker, [outcome])
            self.pair.ask("lost_attempts", claimed.run, [(claimed.key, claimed.attempt), ("b", 9)])

    # --- time, death, sweeps ------------------------------------------------------------------------------------------

    @rule(us=st.sampled_from([SECOND, 7 * SECOND, LEASE + 1, 700 * SECOND]))
    def time_passes(self, us: int) -> None:
        """Seconds, a lease, or more than any run is put off."""
        self.pair.now += us

    @rule(
        worker=WORKERS,
        what=st.sampled_from(["beats", "dies", "is replaced", "is asked to drain", "drains"]),
        deploy=DEPLOYS,
    )
    def worker_changes(self, worker: int, what: str, deploy: str) -> None:
        """It renews its lease; somebody asks it to drain; its lease is over, and what it does from now on is a thawed
        worker's; or another takes its place, of the same deploy or another."""
        id = self.workers[worker]
        if what in {"beats", "dies"}:
            self.pair.ask("renew", id, LEASE if what == "beats" else 0)
            return
        if what == "is asked to drain":
            self.pair.ask("ask_drain", id)
            return
        if what == "drains":
            self.pair.ask("retire", id)
        self.workers[worker], self.deploys[worker] = self._register(deploy), deploy

    @rule(what=st.sampled_from(["sweep", "sweep", "deploy", "look", "holds", "delete"]), worker=WORKERS, deploy=DEPLOYS,
          number=st.integers(0, 9))  # fmt: skip
    def care(self, what: str, worker: int, deploy: str, number: int) -> None:
        """The dead are reaped, leases of tasks lapse; a deploy asks for what was set aside; an idle worker looks;
        people ask what it holds; what has ended is deleted."""
        match what:
            case "sweep":
                self.pair.ask_until_none("reap", limit=500)
                self.pair.ask("reap", orphans=True)
                self.pair.ask("lapse_tasks", limit=100)
            case "deploy":
                self.pair.ask("redue", ["X"], deploy)
                self.pair.ask("refit", deploy)
            case "look":
                self.pair.ask("look", claiming(self.workers[worker], queues=QUEUES, deploy=self.deploys[worker]))
            case "holds":
                self.pair.ask("count_held", list(self.workers), most=3)
                self.pair.ask("list_held_tasks", self.workers[worker], limit=2)
                self.pair.ask("list_runs", RunQuery(owner=self.workers[worker], limit=5))
            case _:
                self.pair.ask("delete_run", self.uids[number % len(self.uids)])

    @rule()
    def repeat_the_last_call(self) -> None:
        """Its answer was lost."""
        self.pair.repeat()

    @invariant()
    def they_say_the_same(self) -> None:
        """Now and then all of it is compared, and at the end."""
        self.steps += 1
        if self.workers and self.steps % COMPARE_EVERY == 0:
            self.pair.compare(self.uids)
