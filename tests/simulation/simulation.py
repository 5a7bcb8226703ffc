"""A simulated world that moves one atomic action at a time: workers, a client, a network, and misfortunes.

A *schedule* is a random walk over what could be done next; the same seed gives the same walk. After each action the
invariants are looked at; then comes a calm phase, without misfortunes, in which every run must end.
"""

from __future__ import annotations

import random

from outlast.stores.store import NewMessage
from tests.simulation.audit import Violation
from tests.simulation.fixes import Fixes
from tests.simulation.hot import LEASE_US, TICK_US, Option
from tests.simulation.network import CLIENT, Request
from tests.simulation.program import CHILD, PARENT
from tests.simulation.scene import Scene
from tests.simulation.worker import ModelWorker

__all__ = ["Simulation"]

FAULTS = 5  # misfortunes in one schedule: more of them hide each other
BAD_LUCK = (0.02, 0.06, 0.2)  # how likely the next action is one: strewn over the schedule, or all at once
SIGNALS = 2  # times the client sends its one signal: it does not always believe the answer
CALM_ROUNDS = 120  # ticks of the calm phase: longer than the longest back-off
CALM_ORDER = ["fence", "beat", "reap", "reconcile", "claim", "load", "poll", "see_mail", "submit", "act", "finish"]
CALM_ORDER += ["claim_task", "run_task", "finish_task", "lapse_tasks", "park"]


class Simulation:
    """Two or more workers and a client around a parent and its child."""

    def __init__(
        self, fixes: Fixes, rng: random.Random, workers: int = 2, overlook: frozenset[str] = frozenset()
    ) -> None:
        self.scene = Scene(fixes, overlook)
        self.workers = [ModelWorker(number, self.scene) for number in range(workers)]
        self.trace: list[Option] = []
        self._rng = rng
        self._faults = 0
        self._signals = 0
        self._cancels = 0
        self._bad_luck = rng.choice(BAD_LUCK)
        self._cancel_limit = int(rng.random() < 0.25)
        self._signals_early = rng.random() < 0.4
        """Whether the signal may come before anybody waits for it."""

    # --- what could be done next ---

    def options(self) -> list[Option]:
        """An option is its name, the number of the worker or of the copy under way, and what it is about."""
        found: list[Option] = [("tick",)]
        for worker in self.workers:
            found += [(name, worker.number, *about) for name, *about in worker.options()]
        for number in range(len(self.scene.network.copies)):
            found += [("deliver", number)] * 3
        if self._signals < SIGNALS and (self._signals_early or self.scene.glance.has_ended(CHILD)):
            found.append(("signal",))
        if self._cancels < self._cancel_limit:
            found.append(("cancel",))
        return found

    def misfortunes(self) -> list[Option]:
        """One of each kind, to whom it may happen."""
        worker = self._rng.randrange(len(self.workers))
        found: list[Option] = [("freeze",), ("crash", worker), ("stall", worker), ("drain", worker)]
        copies = self.scene.network.copies
        heard = [number for number, copy in enumerate(copies) if copy.heard]
        if copies:
            found += [(name, self._rng.randrange(len(copies))) for name in ("lose_answer", "lose")]
        if heard:
            found += [("give_up", self._rng.choice(heard))] * 2
        return found

    def choose(self) -> Option:
        if self._faults < FAULTS and self._rng.random() < self._bad_luck:
            return self._rng.choice(self.misfortunes())
        return self._rng.choice(self.options())

    # --- doing it ---

    def perform(self, option: Option) -> None:
        """Do it, and see that all is well."""
        self.trace.append(option)
        name, *about = option
        match name:
            case "tick":
                self.scene.now += TICK_US
            case "freeze":
                self._faults += 1
                self.scene.now += LEASE_US + TICK_US
            case "signal":
                self._signals += 1
                self._send("signal 1", "signal")
            case "cancel":
                self._cancels += 1
                self._send("cancel 1", "cancel")
            case "deliver":
                self.scene.network.deliver(*about)
            case "lose_answer" | "lose" | "give_up":
                self._faults += 1
                getattr(self.scene.network, name)(*about)
            case "crash" | "stall" | "drain":
                self._faults += 1
                worker = self.workers[about[0]]
                {"crash": worker.boot, "stall": worker.stall, "drain": worker.drain}[name]()
            case _:
                number, *rest = about
                getattr(self.workers[number], name)(*rest)
        self.scene.audit.check()

    def _send(self, id: str, kind: str) -> None:
        """The client sends, and again when no answer comes; the id was chosen before the first try."""
        message = NewMessage(id, kind)
        request = Request(
            kind,
            CLIENT,
            lambda: self.scene.store.send(PARENT, message),
            on_silence=lambda: self.scene.network.send(request),
        )
        self.scene.network.send(request)

    # --- a schedule ---

    def run(self, actions: int) -> None:
        """A walk of so many actions, and then the calm. Raises `Violation`."""
        for _ in range(actions):
            self.perform(self.choose())
        self.calm_down()

    def calm_down(self) -> None:
        """No more misfortunes: all that is under way arrives, the signal comes, and every run ends."""
        self._faults = FAULTS
        self.perform(("signal",))
        self._deliver_all()
        for _ in range(CALM_ROUNDS):
            for worker in self.workers:
                self._let_work(worker)
            if all(self.scene.glance.has_ended(uid) for uid in self.scene.glance.uids()):
                self.scene.audit.check_end()
                return
            self.perform(("tick",))
        raise Violation("3 a run is stuck", self.scene.glance.describe())

    def _deliver_all(self) -> None:
        while self.scene.network.copies:
            self.perform(("deliver", 0))

    def _let_work(self, worker: ModelWorker) -> None:
        """All it can do, in a sensible order, but nothing twice."""
        done: set[Option] = set()
        while options := [option for option in worker.options() if option not in done]:
            option = min(options, key=lambda option: CALM_ORDER.index(option[0]))
            done.add(option)
            self.perform((option[0], worker.number, *option[1:]))
            self._deliver_all()
