"""An engine for tests: plays one run in memory, carrying out its calls for real, and can play its journal again.

Steps run one at a time, in the order asked for; `order` may choose another. Timers fire when no step is open, at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from outlast.authoring.call import Call
from outlast.authoring.current import StepInfo, entered_step
from outlast.authoring.exceptions import encode_error
from outlast.authoring.module import Module
from outlast.authoring.workflow import RunFacts, Workflow
from outlast.core.calls import PendingStep
from outlast.core.events import Event, RunCompleted, RunStarted, StepFailed, StepStarted, StepSucceeded, TimerFired
from outlast.core.machine import Machine
from outlast.core.replay import Replay
from outlast.core.retry import is_retryable

START_US = 1_700_000_000_000_000
LOG = logging.getLogger("outlast.test.body")


class Player:
    """One run of `workflow`, from its start."""

    def __init__(
        self, workflow: Workflow[..., Any], *args: Any, registry: Module | None = None, user: str | None = None
    ) -> None:
        raw = workflow.encode_input(args, {})
        attributes = msgspec.Raw(b'{"region":"eu"}')
        self.workflow = workflow
        self.registry = Module("") if registry is None else registry
        self.started = RunStarted(
            START_US, "uid-1", "run-1", workflow.name, workflow.version, msgspec.Raw(raw), 7, "3.11", "00-ab-cd-01"
        )
        self.started = msgspec.structs.replace(self.started, user=user, attributes=attributes)
        self.machine = self.make_machine()
        self.journal: list[Event] = [self.started]
        self.calls: dict[str, PendingStep] = {}
        self.most_open = 0
        """How many steps were open at once."""

    def make_machine(self) -> Machine:
        facts = RunFacts(registry=self.registry, log=LOG)
        return Machine(self.started, lambda machine: self.workflow.run_body(machine, facts), encode_error)

    @property
    def started_steps(self) -> list[StepStarted]:
        return [event for event in self.journal if isinstance(event, StepStarted)]

    @property
    def keys(self) -> list[str]:
        return [event.key for event in self.started_steps]

    def begin(self) -> None:
        self._note(self.machine.begin())

    def feed(self, stimulus: Any) -> None:
        self.journal.append(stimulus)
        self._note(self.machine.feed(stimulus))

    def _note(self, commands: list[Any]) -> None:
        self.journal += commands
        self.calls.update(self.machine.pending)
        self.most_open = max(self.most_open, len(self.machine.pending))

    async def play(self, order: Callable[[list[str]], str] = lambda keys: keys[0]) -> Any:
        """To the end of the run, or to where nothing moves it. Gives the last event; `output` decodes it."""
        self.begin()
        machine = self.machine
        while machine.outcome is None:
            if machine.pending:
                self.feed(await self.attempt(order(list(machine.pending))))
            elif machine.next_timer() is not None:
                self.fire()
            else:
                break
        return self.journal[-1]

    async def output(self) -> Any:
        """Play, and decode what the run gave; raises what it failed with, rebuilt from the record."""
        last = await self.play()
        assert isinstance(last, RunCompleted), last
        return self.workflow.decode_output(last.output)

    def fire(self) -> None:
        """The earliest timer, when it is due."""
        timer = self.machine.next_timer()
        assert timer is not None
        self.feed(TimerFired(timer.due_us, timer.ordinal, timer.due_us))

    def call(self, key: str) -> Call:
        """The call of a step that is open."""
        call = self.machine.pending[key].call
        assert isinstance(call, Call)
        return call

    async def attempt(self, key: str) -> StepSucceeded | StepFailed:
        """Carry the call out, as often as its policy allows."""
        pending = self.machine.pending[key]
        call = self.call(key)
        at = self.machine.loop.now_us + 1000
        for number in range(1, call.retries + 2):
            info = StepInfo(run_id="run-1", uid="uid-1", key=key, attempt=number, max_attempts=call.retries + 1)
            context = pending.context.copy()
            context.run(entered_step, info)
            try:
                value = await asyncio.create_task(_carry_out(call, context), context=context)
                return StepSucceeded(at, key, number, msgspec.Raw(call.encode_result(value)))
            except Exception as error:
                if number > call.retries or not is_retryable(error):
                    return StepFailed(at, key, number, encode_error(error))
        raise AssertionError

    def replay(self, workflow: Workflow[..., Any] | None = None) -> list[Any]:
        """Play the journal to a new body, by `workflow`'s code; gives what it asks for beyond.

        Raises NonDeterminism.
        """
        self.workflow = workflow or self.workflow
        machine = self.machine = self.make_machine()
        replay = Replay(machine, self.journal)
        while replay.advance(1000):
            pass
        return replay.finish()

    def close(self) -> int:
        return self.machine.evict()


async def _carry_out(call: Call, context: contextvars.Context) -> Any:
    if call.is_async:
        return await call.invoke()
    value = await asyncio.to_thread(context.copy().run, call.invoke)
    return await value if asyncio.iscoroutine(value) else value
