"""One schedule: workers, clients, faults, and then a calm in which everything must come to its end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from outlast.app import Outlast
from outlast.core.states import RunStatus
from outlast.engine.tasks.queues import QueueSettings
from outlast.engine.worker import Worker, WorkerSettings
from outlast.engine.writer import MOST_ENTRIES
from outlast.errors import StoreError
from outlast.testing.faults import Faults, faulty
from tests.crash import checker
from tests.simulation.engine.bodies import NEW, OLD, QUEUE, play
from tests.simulation.engine.client import Client
from tests.simulation.engine.machinery import simulated
from tests.simulation.engine.programs import list_waits, make_program
from tests.simulation.engine.watch import Watch
from tests.simulation.engine.world import SECOND_US, Host, World

__all__ = ["LIMITED", "ROUNDS", "Simulation"]

PATIENCE_S = 900
"""Of the calm, in the world's time: a run that was taken over again and again is held back for minutes."""
ROUNDS = "r"
"""How the names of schedules end whose runs may go on in rounds. Those that are older stay what they were."""
LIMITED = "l"
"""How the names of schedules end in which, besides, few runs may be in hand at once."""
FINE = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.COMPENSATED})


class WorkerHost:
    """A process that works, until it leaves or dies."""

    def __init__(self, simulation: Simulation, app: Outlast, name: str) -> None:
        world = simulation.world
        rng = world.rng
        self.host = Host(world, name)
        self._simulation = simulation
        self.app = simulation.settle_queues(app.on_store(faulty(simulation.watch.store.again(), simulation.faults)))
        self.is_new = app is NEW
        self.worker: Worker | None = None
        self._settings = WorkerSettings(
            concurrency=rng.choice([1, 2, 5, 50]), queues=("default", QUEUE), max_hot=rng.choice([0, 1, 3, 100, 100]),
            lease_us=round(simulation.lease_s * SECOND_US), grace_us=rng.choice([0, 300_000, 2_000_000]),
        )  # fmt: skip
        self._leaving = asyncio.Event()
        self.task = self.host.spawn(self._live(), "live")

    async def _live(self) -> None:
        """As `async with app.worker()`, but that nothing of it awaits when it is closed."""
        while not self._leaving.is_set():
            try:
                engine = await self.app._open()
                engine.writer.portion = self._simulation.portion
                self.worker = await engine.make_worker(self._settings).__aenter__()
                break
            except StoreError:
                await asyncio.sleep(0.1)
        await self._leaving.wait()
        if self.worker is not None:
            was_calm = self._simulation.faults.is_calm
            await self.worker.__aexit__()
            if was_calm:
                self._simulation.check_handed_back(self.worker.id)

    def leave(self) -> None:
        """Asked to stop: it drains."""
        with self.host.world.entered(self.host):
            self._leaving.set()

    def die(self) -> None:
        """Its bodies are evicted first, as a collector would not."""
        home = None if self.worker is None else self.worker.home
        self.host.is_dead = True
        if home is not None:
            with self.host.world.entered(self.host):
                home.abandon_all()
        self.host.die()

    @property
    def is_there(self) -> bool:
        """It has neither died nor left."""
        return not self.host.is_dead and not self._leaving.is_set()


class Simulation:
    """The same for the same seed."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self._more = random.Random(f"{seed}/more")
        """For what was thought of later: the seeds of before stay what they were, where it does not strike."""
        self.has_rounds = seed.endswith((ROUNDS, LIMITED))
        self._limits = random.Random(f"{seed}/limits")
        self.limit = self._limits.choice([1, 1, 2, 3]) if seed.endswith(LIMITED) else None
        self._rounds = random.Random(f"{seed}/rounds")
        self.portion = random.Random(f"{seed}/portion").choice([1, MOST_ENTRIES]) if self.has_rounds else MOST_ENTRIES
        """How many runs hear at once what became of their entries: one, as if there were hundreds on a remote store."""
        self.world = World(self.rng)
        self.watch = Watch(self.world, self.limit)
        rng = self.rng
        self.lease_s = rng.choice([1.0, 1.5, 3.0])
        rate = rng.choice([0.0, 0.02, 0.05, 0.15])
        self.faults = Faults(
            f"{seed}/faults", lost=rate, untold=rate, full=rng.choice([0.0, 0.05]), slow=rng.choice([0.1, 0.5]),
            slow_s=rng.choice([0.005, 0.05, 0.5]), hints_lost=rng.choice([0.1, 1.0]), hints_late=0.3, hints_doubled=0.2,
        )  # fmt: skip
        self.workers: list[WorkerHost] = []
        self.met: Counter[str] = Counter()
        self._made = 0
        self._roots: list[str] = []

    def settle_queues(self, app: Outlast, *, is_known: bool = True) -> Outlast:
        """The limit is of the queue that all runs are in. Who does not know of it starts them as if there were none."""
        if self.limit is not None:
            fair_by = self._limits.choice(["", "workflow", "attributes.tenant"])
            app._queues = {"default": QueueSettings(limit=self.limit, fair_by=fair_by)} if is_known else {}
        return app

    def run(self) -> list[str]:
        """Walk it; gives what went wrong."""
        with simulated(self.world, self.seed):
            try:
                self._run()
                return self.world.problems
            finally:
                for each in self.workers:
                    if not each.host.is_dead:
                        each.die()
                self._outside.die()

    def _run(self) -> None:
        world, rng = self.world, self.rng
        self._open_client()
        for _ in range(rng.choice([1, 2, 2, 3])):
            self._add_worker(OLD)
        for number in range(rng.choice([1, 2, 3])):
            self._start_run(f"r{number}")
        trouble_s = rng.choice([4.0, 8.0, 15.0])
        for _ in range(rng.choice([0, 2, 4, 7])):
            world.after(rng.uniform(0.1, trouble_s), rng.choice(self._upheavals()))
        if self._more.random() < 0.3:
            world.after(self._more.uniform(0.1, trouble_s), self._freeze_at_commit)
        world.run(world.now_us + round(trouble_s * SECOND_US))
        self._calm_down()
        until_us = world.now_us + PATIENCE_S * SECOND_US
        while not world.problems and not self._is_over() and world.now_us < until_us:
            world.run(world.now_us + SECOND_US)
        if not world.problems:
            self._check_end()

    # --- who is there -------------------------------------------------------------------------------------------------

    def _open_client(self) -> None:
        self._outside = Host(self.world, "client")
        app = self.settle_queues(
            NEW.on_store(faulty(self.watch.store.again(), self.faults)), is_known=self._limits.random() < 0.7
        )
        self.client = Client(self._outside, app)

        async def live() -> None:
            while True:
                try:
                    await app.__aenter__()
                    break
                except StoreError:
                    await asyncio.sleep(0.1)
            self._opened.set()
            await self.client.look_after()

        self._opened = asyncio.Event()
        self._outside.spawn(live(), "live")

    def _ask(self, coroutine: Any) -> None:
        """Have the client do this, once it is there."""

        async def ask() -> None:
            await self._opened.wait()
            await coroutine

        self._outside.spawn(ask(), "ask")

    def _add_worker(self, app: Outlast) -> None:
        self._made += 1
        self.workers.append(WorkerHost(self, app, f"w{self._made}"))

    def _start_run(self, id: str) -> None:
        rng = self.rng
        program, delay_s = make_program(rng, has_rounds=self.has_rounds), rng.uniform(0, 3)
        self._roots.append(id)
        options: dict[str, Any] = {"user": "ann"}
        if rng.random() < 0.1:
            options["delay"] = rng.choice([0.5, 3.0])
        if rng.random() < 0.1:
            options["timeout"] = rng.choice([2.0, 6.0])
        if rng.random() < 0.5:
            self.world.after(rng.uniform(0, delay_s), lambda: self._start_at_worker(id, program, options))
        self._ask(self.client.start(id, program, delay_s, **options))
        if rng.random() < 0.2:
            cancel_s, is_forced = rng.uniform(0.1, 9), rng.random() < 0.3
            since_s = cancel_s * self._rounds.random() if self.has_rounds else 0.0
            self._ask(self.client.cancel(id, cancel_s, force=is_forced, since_s=since_s))
        for kind, name in list_waits(program) if self.has_rounds else ():
            if self._rounds.random() < 0.4:
                self._ask(self.client.send_ahead(id, kind, name, self._rounds.uniform(0, 4)))

    def _start_at_worker(self, id: str, program: Any, options: dict[str, Any]) -> None:
        """In a process that works: it thinks ahead, and claims the run with its start."""
        here = [each for each in self.workers if each.is_there and each.worker is not None]
        if not here:
            return
        chosen = self.rng.choice(here)

        async def start() -> None:
            try:
                await chosen.app.start(play, program, id=id, **options)
            except StoreError:
                return
            self.client.acknowledged.add(id)

        chosen.host.spawn(start(), "start")

    # --- what befalls them --------------------------------------------------------------------------------------------

    def _upheavals(self) -> list[Callable[[], None]]:
        return [
            self._kill, self._kill, self._kill_in_commit, self._freeze, self._freeze, self._block, self._deploy,
            self._set_clock, self._cut_off,
        ]  # fmt: skip

    def _choose(self, what: str) -> WorkerHost | None:
        here = [each for each in self.workers if each.is_there]
        if not here:
            return None
        self.met[what] += 1
        return self.rng.choice(here)

    def _kill(self) -> None:
        if (chosen := self._choose("killed")) is not None:
            self._die(chosen)

    def _die(self, worker: WorkerHost) -> None:
        worker.die()
        self.world.after(self.rng.uniform(0, 3), lambda: self._add_worker(NEW if worker.is_new else OLD))

    def _kill_in_commit(self) -> None:
        """Some worker, at its next commit: before it lands, or behind it."""
        self.watch.strike = (self.rng.random() < 0.5, self._struck)

    def _struck(self) -> None:
        host = self.world.running
        struck = next((each for each in self.workers if each.host is host and each.is_there), None)
        if struck is not None:
            self.met["killed in a commit"] += 1
            struck.host.is_dead = True  # from now on nothing of it moves; its remains are cleared away in a moment
            self.world.after(0, lambda: self._die(struck))

    def _freeze(self) -> None:
        if (chosen := self._choose("frozen")) is not None:
            chosen.host.freeze(self.rng.choice([0.3, 1.0, 2.5]) * self.lease_s)

    def _freeze_at_commit(self) -> None:
        """Some worker, when its next commit has landed, and for longer than its lease: what it then begins is late."""
        self.watch.on_landed = self._freeze_committer

    def _freeze_committer(self) -> None:
        host = self.world.running
        if host is not None and any(each.host is host for each in self.workers):
            self.met["frozen at a commit"] += 1
            host.freeze(self._more.choice([2.5, 6.0]) * self.lease_s)

    def _block(self) -> None:
        if (chosen := self._choose("blocked")) is not None:
            chosen.host.block(self.rng.choice([0.3, 1.0, 2.5]) * self.lease_s)

    def _deploy(self) -> None:
        """One worker leaves, and another comes, of the newer deploy."""
        if (chosen := self._choose("deployed")) is not None:
            chosen.leave()
            self.world.after(self.rng.uniform(0, 1), lambda: self._add_worker(NEW))

    def _set_clock(self) -> None:
        """The machine of the store has its clock set."""
        self.met["clock set"] += 1
        self.watch.is_clock_set = True
        self.world.set_forward_us += round(self.rng.uniform(-3, 3) * SECOND_US)

    def _cut_off(self) -> None:
        """Nobody reaches the store for a while."""
        self.met["cut off"] += 1
        before = self.faults.lost
        self.faults.lost = 1.0
        self.world.after(self.rng.uniform(0.2, 2 * self.lease_s), lambda: setattr(self.faults, "lost", before))

    # --- the end ------------------------------------------------------------------------------------------------------

    def _calm_down(self) -> None:
        """Nothing goes wrong any more. One that is new has come; the others stay, or all leave it what there is."""
        self.faults.is_calm, self.watch.strike, self.watch.on_landed = True, None, None
        for each in self.workers:
            each.host.thaw()
        self._add_worker(NEW)
        if self.rng.random() < 0.5:
            for each in self.workers[:-1]:
                if each.is_there:
                    each.leave()

    def check_handed_back(self, worker_id: str) -> None:
        """A worker has left in good order, and nothing went wrong with that."""
        if self.watch.store.holds_anything(worker_id):
            self.world.problems.append(f"worker {worker_id} has left, and what it held waits for its lease to lapse")

    def _is_over(self) -> bool:
        runs = self.watch.store.runs.values()
        begun = {run.new.id for run in runs}
        return all(id in begun for id in self._roots) and not any(run.live for run in runs)

    def _check_end(self) -> None:
        problems, store = self.world.problems, self.watch.store
        for uid, run in store.runs.items():
            if run.live:
                told = f"{run.status} at {run.owner}, waits on {run.waiting_on!r}, due {run.wake_at}, mail {run.mail}"
                problems.append(f"run {uid}: 3: it has not ended long after all is calm: {told}")
            elif run.inbox:
                problems.append(f"run {uid}: 3: it has ended, and has messages that nobody will answer")
            elif run.status is RunStatus.COMPENSATION_FAILED:
                problems.append(f"run {uid}: its compensation failed")
        for id in self.client.acknowledged:
            if not any(run.new.id == id for run in store.runs.values()):
                problems.append(f"run {id}: 10: its start was acknowledged, and it is not there")
        self._check_cancels()
        if not problems:
            check = checker.check_store(store.reopened(), registry=NEW, marks=self.watch.marks)
            problems += [str(problem) for problem in _immediately(check)]

    def _check_cancels(self) -> None:
        """A cancel that was acknowledged ends the run: it reaches the round that there is, or the one it goes on as."""
        runs = self.watch.store.runs
        for uid, told_us in self.client.cancelled.items():
            origin = runs[uid].new.origin or uid
            rounds = [each for each in runs if each == origin or runs[each].new.origin == origin]
            later = [each for each in rounds if self.watch.find_birth(each) > told_us]
            if len(later) > 1 and not self.client.is_any_retried(rounds):
                self.world.problems.append(f"run {uid}: its cancel was acknowledged, and {later} began behind it")


def _immediately(coroutine: Any) -> Any:
    """What a coroutine gives that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")
