"""Deliberate faults, one at a time: each takes something away that the engine or a store rests on.

Each is a piece of source and what stands in its place. A piece must stand in its file exactly once: when the code has
moved on, the fault has to move with it (`test_mutants.py` says so at once).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MUTANTS", "Mutant"]

CONTRACT = "tests/stores/test_contract.py"
ON_SQLITE = (CONTRACT, "-k", "sqlite")
SUBMITTED = "        self.home.submit(progress, self, draft)\n"
HAS_LANDED = "        self.home.landed(self, draft)\n"
TELLS = "            self._tell(children.tell_parent(run, self.end, undoable=self.is_undoable))\n"
TELLS_AGAIN = """\
            told = self.sends[-1]
            again = msgspec.structs.replace(told.message, id=told.message.id + "+")
            self._tell(msgspec.structs.replace(told, message=again))
"""


@dataclass(frozen=True)
class Mutant:
    """One fault."""

    name: str
    path: str
    """Below src/outlast."""
    changes: tuple[tuple[str, str], ...]
    """What is there, and what is put in its place."""
    tests: tuple[str, ...] = ()
    """What looks for it when the simulation has not found it; pytest's arguments."""

    @property
    def is_simulated(self) -> bool:
        """The simulation comes to that code: it has its runs in memory."""
        return not self.path.startswith(("stores/sqlite", "stores/judging"))


def _of(name: str, path: str, before: str, after: str, *tests: str) -> Mutant:
    return Mutant(name, path, ((before, after),), tests)


MUTANTS: tuple[Mutant, ...] = (
    _of(
        "the fence: a worker that was marked dead may write (memory)",
        "stores/memory/fences.py",
        "        return worker is None or worker.dead_at is not None\n",
        "        return False\n",
        CONTRACT,
    ),
    _of(
        "the fence: a worker that was marked dead may write (SQLite)",
        "stores/sqlite/sql/workers.sql",
        "select 1 from workers where id = ? and dead_at is null;",
        "select 1 from workers where id = ?;",
        *ON_SQLITE,
    ),
    Mutant(
        "a step begins before the entry that records it has landed",
        "engine/hot.py",
        (
            (SUBMITTED, f"{SUBMITTED}        draft.act(self)\n"),
            (f"{HAS_LANDED}        draft.act(self)\n", HAS_LANDED),
        ),
    ),
    _of(
        "a park forgets the mail that came since the inbox was read (memory)",
        "stores/memory/commits.py",
        "release.wake_at if run.mail == release.seen else now",
        "release.wake_at",
        CONTRACT,
    ),
    _of(
        "a lost attempt may be repeated once more than its step has retries",
        "engine/books.py",
        "    if step.used > call.retries:\n",
        "    if step.used > call.retries + 1:\n",
        "tests/engine/test_lost_attempts.py",
    ),
    _of(
        "a failed attempt may be repeated once more than its step has retries",
        "core/retry.py",
        "    if attempt_in_budget > policy.retries:\n",
        "    if attempt_in_budget > policy.retries + 1:\n",
        "tests/core/test_retry.py",
    ),
    _of(
        "a run that is parked loses its timer",
        "engine/sweeper.py",
        "            park(run, due)\n",
        "            park(run, None)\n",
        "tests/engine/test_parking.py",
    ),
    _of(
        "a worker that leaves does not hand back what it holds",
        "engine/worker.py",
        "            await engine.store.retire(self.id)\n            while",
        "            while",
        "tests/engine/test_stopping.py",
    ),
    _of(
        "an outcome is recorded twice",
        "engine/attempts/stepper.py",
        "        self._done(attempt)\n        run.take(event)\n",
        "        self._done(attempt)\n        run.take(event)\n        run.take(event)\n",
    ),
    _of(
        "whatever stands at an entry's place is taken for that entry (memory)",
        "stores/memory/commits.py",
        "            if run.journal[seq].mark == progress.mark:\n",
        "            if run.journal[seq].mark:\n",
        CONTRACT,
    ),
    _of(
        "an entry that landed and was reported as failed is not recognised (SQLite, PostgreSQL)",
        "stores/judging.py",
        "            if mark == progress.mark and uid in self._runs:\n",
        "            if False:\n",
        *ON_SQLITE,
    ),
    _of(
        "a message that is on record already counts again",
        "engine/mail.py",
        "    if message.id not in run.known:\n        run.known[message.id] = None\n",
        "    if True:\n        run.known[message.id] = None\n",
    ),
    _of("a child tells its parent twice how it ended", "engine/draft.py", TELLS, f"{TELLS}{TELLS_AGAIN}"),
    _of(
        "a run is given up by whoever owned it once (memory)",
        "stores/memory/fences.py",
        "        return run.owner == worker_id and run.epoch == release.epoch and worker_id is not None\n",
        "        return run.owner == worker_id and worker_id is not None\n",
        CONTRACT,
    ),
    _of(
        "a step begins although the lease is over",
        "engine/attempts/stepper.py",
        "        if not home.holds_lease():\n",
        "        if False:\n",
        "tests/engine/test_stepper.py",
    ),
    _of(
        "a worker never asks what it owns",
        "engine/sweeper.py",
        "            await home.reconcile(owned, worker.id)\n",
        "            pass\n",
    ),
    _of(
        "what was done first is undone first",
        "core/unwinding.py",
        "        return [*reversed(self._done.values()), *left]\n",
        "        return [*self._done.values(), *left]\n",
        "tests/children/test_unwinding.py",
    ),
    _of(
        "entries need not follow what their writer knew (SQLite)",
        "stores/sqlite/sql/journal.sql",
        "where exists (select 1 from journal where run_uid = ? and seq = ? and mark = ?)",
        "where exists (select 1 from journal where run_uid = ? and seq = ? and ? is not null)",
        *ON_SQLITE,
    ),
    # Faults that were there once, and that the simulation found.
    _of(
        "once: a body that fails at once is not told that nothing is left to wait for",
        "engine/thinking.py",
        "    if machine.is_settling:  # it failed at once,",
        "    if False:  # it failed at once,",
        "tests/children/test_settling.py",
    ),
    _of(
        "once: what is looked for keeps no run in memory",
        "engine/hot.py",
        "            and not self.looks\n",
        "",
        "tests/children/test_settling.py",
    ),
    _of(
        "once: the late answer to a claim makes a run its worker's again",
        "engine/hotruns.py",
        "            if self._asking:\n",
        "            if False:\n",
        "tests/engine/test_reconcile.py",
    ),
    _of(
        "once: a place that is given back moves a run inside of its own move",
        "engine/hot.py",
        "        self._in_flight = draft\n        if self.machine is not None:\n",
        "        if self.machine is not None:\n",
        "tests/engine/test_places.py",
    ),
    _of(
        "once: the end of a body that called what is not known here is forgotten",
        "engine/thinking.py",
        "        if machine.missing is not None or (machine.outcome is None and not run.steps):\n",
        "        if machine.outcome is None and (machine.missing is not None or not run.steps):\n",
        "tests/engine/test_older_deploy.py",
    ),
    _of(
        "once: a journal with a call of what is not known here is taken for changed code",
        "engine/versions/serving.py",
        "            if machine.missing is None or not isinstance(body, Workflow):\n",
        "            if True:\n",
        "tests/engine/test_older_deploy.py",
    ),
    _of(
        "once: a load that failed is repeated with the books that it had begun",
        "engine/loading.py",
        "        if is_reload and (run.running or run.queue):\n",
        "        if run.running or run.queue:\n",
        "tests/engine/test_older_deploy.py",
    ),
    _of(
        "once: what was heard while a run was set aside is answered behind its end",
        "core/replay.py",
        "                commands = [*commands, end]\n        asked.extend(commands)\n",
        "                commands = [end, *commands]\n        asked.extend(commands)\n",
        "tests/core/test_approvals.py",
    ),
    _of(
        "once: what people sent goes with a failure that a retry takes back (memory)",
        "stores/memory/fences.py",
        "        return is_kept_at(run.status, is_child=run.new.parent is not None)\n",
        "        return False\n",
        CONTRACT,
        "-k",
        "memory",
    ),
    _of(
        "once: what people sent goes with a failure that a retry takes back (SQLite)",
        "stores/sqlite/migrations/0006_kept.sql",
        "    and (new.status = 'failed' or (new.status = 'cancelled' and new.parent is not null));\n",
        "    and (new.status = 'cancelled' and new.parent is not null);\n",
        *ON_SQLITE,
    ),
    _of(
        "once: what was read with the message that a body failed at is taken from the inbox",
        "engine/draft.py",
        "                give_back(run)\n",
        "                pass\n",
        "tests/waits/test_kept.py",
        "-k",
        "memory",
    ),
    _of(
        "once: an end that a forced cancel changed stands all the same",
        "core/replay.py",
        "        if asked and type(asked[-1]) in OUTCOMES:\n",
        "        if commands and asked and type(asked[-1]) in OUTCOMES:\n",
        "tests/core/test_approvals.py",
    ),
    _of(
        "once: a cancel waits for a child that its body has given up",
        "core/machine.py",
        "        if self._unwinding is None and event.key in self._closing:  # given up while",
        "        if False:  # given up while",
        "tests/core/test_machine.py",
    ),
    _of(
        "once: a run that is adopted while its claim is heard of is loaded beside itself",
        "engine/hotruns.py",
        "            if known.epoch == adopted:",
        "            if False:",
        "tests/engine/test_reconcile.py",
    ),
    _of(
        "once: what succeeded while a run was set aside is not undone, since its body gave it up",
        "core/machine.py",
        "            self._take_settled(event)  # recorded",
        "            pass  # recorded",
        "tests/engine/test_older_deploy.py",
    ),
    _of(
        "a worker that registers again was not asked to drain any more (memory)",
        "stores/memory/workers.py",
        "            asked_at = None if known is None else known.drain_asked_at\n",
        "            asked_at = None\n",
        CONTRACT,
        "-k",
        "memory and asked",
    ),
    _of(
        "a worker without a lease can be asked to drain (SQLite)",
        "stores/sqlite/sql/workers.sql",
        "update workers set drain_asked_at = coalesce(drain_asked_at, :now)\n"
        "where id = :id and dead_at is null and expires_at > :now\n",
        "update workers set drain_asked_at = coalesce(drain_asked_at, :now)\nwhere id = :id and :now > 0\n",
        CONTRACT,
        "-k",
        "sqlite and asked",
    ),
    _of(
        "a worker that is asked to drain does not hear of it",
        "engine/heartbeat.py",
        "            self._on_drain_asked(self._worker_id)\n",
        "            pass\n",
        "tests/app/test_draining.py",
    ),
    _of(
        "whoever leaves does not wait for a drain under way",
        "engine/worker.py",
        "        if self._leaving is None:\n",
        "        if self._leaving is not None and grace_s is None:\n            return\n"
        "        if self._leaving is None:\n",
        "tests/app/test_draining.py",
    ),
    _of(
        "once: a step that the body gives up in what comes next is waited for, though its worker is dead",
        "engine/books.py",
        "            if is_lost:\n                _settle_as_failed",
        "            if False:\n                _settle_as_failed",
        "tests/engine/test_older_deploy.py",
    ),
    _of(
        "once: an unwind waits for a child that a retry asked for and gave up, and that tells nothing any more",
        "engine/messages/ended.py",
        "    for key in asked + given_up:",
        "    for key in asked:",
        "tests/children/test_settling.py",
    ),
    _of(
        "once: a run that is looked at on its way into its pool is taken in though it was given up since",
        "engine/claims/pools.py",
        "                asked.enter_context(self._home.asking())",
        "                pass",
        "tests/engine/test_reconcile.py",
    ),
    _of(
        "once: a success goes by the place of its call, which another call may have after a retry",
        "core/requests.py",
        "        known = self._find_success(call)\n        if known is not None:",
        "        known = None\n        if known is not None:",
        "tests/run/test_retry_keys.py",
    ),
    _of(
        "once: another call goes by the key of a success",
        "core/requests.py",
        "        while key in facts:\n",
        "        while False:\n",
        "tests/run/test_retry_keys.py",
    ),
    _of(
        "once: a round that was cancelled before it started begins when its first load failed",
        "engine/books.py",
        "    is_new = len(raw) == 1\n",
        "    is_new = False\n",
        "tests/rounds/test_mail.py",
    ),
    _of(
        "once: how a child ended is heard again, from its message, when a retry had asked for it",
        "engine/books.py",
        "            if type(event) in OUTCOMES_OF_STEPS:",
        "            if False:",
        "tests/children/test_settling.py",
    ),
)
