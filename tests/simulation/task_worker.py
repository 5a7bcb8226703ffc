"""The part of a model worker that runs queued steps: it claims tasks, runs them, and sends their outcomes."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outlast.errors import Fenced
from outlast.stores.store import ClaimedTask, Claiming, TaskOutcome
from tests.simulation.network import Request, immediately

if TYPE_CHECKING:
    from tests.simulation.hot import Option
    from tests.simulation.scene import Scene

__all__ = ["TaskWorker"]


@dataclass(eq=False)
class HeldTask:
    """A task this worker holds, as far as it knows."""

    claimed: ClaimedTask
    lease_until: int
    has_run: bool = False


class TaskWorker:
    """Attempts by their keys; the simulation has one queued step."""

    def __init__(self, scene: Scene, task_lease_us: int) -> None:
        self.scene = scene
        self.task_lease_us = task_lease_us
        self.id = ""
        self.number = 0
        self.lease_until = 0
        self.held: dict[str, HeldTask] = {}
        self.task_claims_in_flight = 0

    def task_options(self) -> Iterator[Option]:
        """What could be done about tasks, also by a worker that has lapsed and did not notice."""
        for key, task in self.held.items():
            yield ("finish_task", key) if task.has_run else ("run_task", key)

    def task_claim_options(self) -> Iterator[Option]:
        """What only a worker that believes in its lease does."""
        if not self.task_claims_in_flight and self.scene.glance.is_any_task_due():
            yield ("claim_task",)
        if self.scene.glance.is_any_task_lapsed():
            yield ("lapse_tasks",)

    def claim_task(self) -> None:
        sender, sent_at = self.id, self.scene.now
        claiming = Claiming(sender, ("default",), "deploy", 1)
        self.task_claims_in_flight += 1

        def on_answer(answer: list[ClaimedTask] | Fenced) -> None:
            if self.id != sender:
                return
            self.task_claims_in_flight -= 1
            if isinstance(answer, Fenced):
                self.learn_fenced()
                return
            for claimed in answer:
                self.held[claimed.key] = HeldTask(claimed, sent_at + self.task_lease_us)

        def on_silence() -> None:
            if self.id == sender:
                self.task_claims_in_flight -= 1

        def call() -> Coroutine[Any, Any, list[ClaimedTask]]:
            return self.scene.store.claim_tasks(claiming, ["f"], self.task_lease_us)

        self.scene.network.send(Request("claim task", self.number, call, on_answer, on_silence))

    def run_task(self, key: str) -> None:
        """Run user code, if the leases of the task and of the worker still hold."""
        task = self.held[key]
        if self.scene.fixes.lease_at_act and self.scene.now >= min(task.lease_until, self.lease_until):
            self.scene.met["a step not begun, the lease being over"] += 1
            del self.held[key]
            return
        self.scene.audit.begin(task.claimed.run, (key, task.claimed.attempt), self.id)
        task.has_run = True

    def finish_task(self, key: str) -> None:
        """Send the outcome, as often as it takes."""
        task = self.held.pop(key).claimed
        outcome = TaskOutcome(task.run, key, task.attempt, b"ok")
        sender = self.id

        def on_answer(counted: list[bool]) -> None:
            self.scene.met["an outcome counted" if counted[0] else "an outcome dropped"] += 1

        request = Request(
            "complete task",
            self.number,
            lambda: self.scene.store.complete_tasks(sender, [outcome]),
            on_answer,
            on_silence=lambda: self.scene.network.send(request),
        )
        self.scene.network.send(request)

    def learn_fenced(self) -> None:
        """The store says that the lease is over."""
        self.scene.met["a worker fenced by the store"] += 1
        self.lease_until = self.scene.now

    def lapse_tasks(self) -> None:
        immediately(self.scene.store.lapse_tasks(limit=1))
