"""The waits of one body: what is open, what came before anybody waited, which decision opens what. Layer: core.

Part of the machine; authoring opens waits from inside the body, the machine feeds what comes from outside. What always
holds:

- A signal is delivered once, in the order in which it came, to the first wait of its name that is open; one that comes
  before anybody waits is kept. So is a decision; it is judged when its approval opens.
- What becomes of a decision follows from the journal alone: from the recorded policy and deadline, from who started
  the run, and from when the store took the decision.
- A body that gives a wait up has not taken a signal that came in the same breath: the next wait gets it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.core.keys import take_key
from outlast.core.waits.approval import EXPIRED, GIVEN_UP, find_objection, read_policy, settlement
from outlast.core.waits.events import (
    DecisionJudged,
    DecisionMade,
    GateOpened,
    Judgement,
    SignalReceived,
    SignalRefused,
    SignalTaken,
    WaitCancelled,
    WaitKind,
    WaitStarted,
)

if TYPE_CHECKING:
    from outlast.core.events import Command
    from outlast.core.loop import BodyFuture, BodyLoop, BodyTimerHandle

__all__ = ["TIMED_OUT", "Check", "Wait", "WaitCall", "Waits"]

TIMED_OUT = object()
"""What a wait comes to whose deadline has passed."""

Check = Callable[[msgspec.Raw], tuple[Any, str]]
"""Decodes what came: the value and "", or anything and why it does not fit."""

FromOutside = SignalReceived | DecisionMade | GateOpened
"""Stimuli that waits are about."""


class WaitCall(msgspec.Struct, frozen=True):
    """What the body asks for."""

    kind: WaitKind
    name: str
    timeout_us: int | None
    policy: msgspec.Raw
    check: Check
    text: str = ""
    """The question in full, by which an early decision may name it too."""


class Wait:
    """One wait, until the body has gone on from it."""

    __slots__ = ("call", "deadline", "future", "handle", "key", "policy", "signal")

    def __init__(self, key: str, call: WaitCall, future: BodyFuture) -> None:
        self.key = key
        self.call = call
        self.future = future
        """Its result: the value; of an approval, value and `DecisionMade`; or `TIMED_OUT`."""
        self.handle: BodyTimerHandle | None = None
        self.deadline: int | None = None
        self.policy = call.policy
        self.signal: SignalReceived | None = None
        """What it was given, and the body has not seen yet."""


class Waits:
    """Those of one machine."""

    def __init__(self, loop: Callable[[], BodyLoop], emit: Callable[[Command], None], initiator: str | None) -> None:
        """`loop` gives the body's; `emit` takes commands; `initiator` is who started the run."""
        self._loop = loop
        self._emit = emit
        self._initiator = initiator
        self.open: dict[str, Wait] = {}
        """By key, in the order in which the body asked."""
        self.recorded: dict[str, WaitStarted] = {}
        """On a replay: what is on record, by key. Its deadlines and policies hold, whatever the code says by now."""
        self._names: dict[str, int] = {}
        self._taken: set[str] = set()
        """All keys so far."""
        self._listeners: dict[str, dict[str, Wait]] = {}
        """Open waits for signals, by name and key."""
        self._mailbox: dict[str, collections.deque[SignalReceived]] = {}
        """Signals nobody has taken, by name."""
        self._early: list[DecisionMade] = []
        """Decisions about approvals that have never been open."""
        self._kept_gates: set[str] = set()
        """Keys of gates that were opened before a `retry()`: they need not be opened again."""
        self._settled: dict[str, str] = {}
        """Key of each approval that is over, and how it ended."""
        self._asked: set[str] = set()
        """Names of the approvals so far."""

    # --- what a body asks for -----------------------------------------------------------------------------------------

    def start(self, call: WaitCall) -> Wait:
        """Wait. What came before is delivered at once: then the future is done already."""
        loop = self._loop()
        future = loop.create_future()  # first: while the body is evicted this raises GeneratorExit
        wait = Wait(self._take_key(call.name), call, future)
        if wait.key in self._kept_gates:
            future.set_result(None)  # opened before a `retry()`: nobody is asked again, and nothing is on record
            return wait
        recorded = self.recorded.get(wait.key)
        if recorded is not None and recorded.kind == call.kind and recorded.name == call.name:
            wait.deadline, wait.policy = recorded.deadline, recorded.policy
        elif call.timeout_us is not None:
            wait.deadline = loop.now_us + call.timeout_us
        if wait.deadline is not None:
            wait.handle = loop.call_at((wait.deadline - loop.start_us) / 1_000_000, self._expire, wait)
        timer = None if wait.handle is None else wait.handle.ordinal
        self.open[wait.key] = wait
        self._emit(WaitStarted(wait.key, call.kind, call.name, timer, wait.deadline, wait.policy, loop.now_us))
        if call.kind is WaitKind.SIGNAL:
            self._listeners.setdefault(call.name, {})[wait.key] = wait
            self._deliver(call.name)
        elif call.kind is WaitKind.APPROVAL:
            self._judge_early(wait)
        return wait

    def take(self, wait: Wait) -> Any:
        """What the wait came to; the body goes on with it."""
        if wait.signal is not None:
            self._emit(SignalTaken(wait.key, wait.signal.message))
            wait.signal = None
        return wait.future.result()

    def give_up(self, wait: Wait) -> None:
        """The body was cancelled while it waited."""
        if self._loop().closing:
            return
        if wait.signal is not None:
            self._emit(WaitCancelled(wait.key))
            self._mailbox[wait.call.name].appendleft(wait.signal)
            wait.signal = None
            self._deliver(wait.call.name)
        elif self.open.get(wait.key) is wait:
            self._forget(wait)
            self._emit(WaitCancelled(wait.key))
            if wait.call.kind is WaitKind.APPROVAL:
                self._settled[wait.key] = GIVEN_UP

    def give_up_all(self) -> None:
        """The body gets no say any more."""
        for wait in list(self.open.values()):
            self.give_up(wait)

    # --- what comes from outside --------------------------------------------------------------------------------------

    def feed(self, stimulus: FromOutside) -> None:
        """A signal, a decision, a gate to open."""
        if type(stimulus) is SignalReceived:
            self._mailbox.setdefault(stimulus.name, collections.deque()).append(stimulus)
            self._deliver(stimulus.name)
        elif type(stimulus) is DecisionMade:
            self._take_decision(stimulus)
        elif type(stimulus) is GateOpened:
            wait = self.open.get(stimulus.key)
            if wait is not None and wait.call.kind is WaitKind.GATE:
                self._end(wait, None)

    def keep(self, mail: Iterable[FromOutside]) -> None:
        """What came behind the cut of a `retry()`: nobody is asked for it again. A gate that was opened there opens by
        itself when the body comes to it."""
        for stimulus in mail:
            if type(stimulus) is GateOpened:
                self._kept_gates.add(stimulus.key)
            self.feed(stimulus)

    def list_left(self) -> list[SignalReceived | DecisionMade]:
        """What nobody has taken: signals, by name in their order, and decisions."""
        signals = [signal for box in self._mailbox.values() for signal in box]
        return sorted([*signals, *self._early], key=lambda left: left.at)

    def clear(self) -> None:
        """The body is dropped. No cycle is left that leads back to its machine."""
        self._emit, self._loop = _ignore, _no_loop
        self.open.clear()
        self._listeners.clear()
        self._mailbox.clear()
        self._early.clear()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _take_key(self, name: str) -> str:
        """Names may hold `#`, as steps' names may not: people write them. So a key may be taken already."""
        key = take_key(self._names, name)
        while key in self._taken:
            key = take_key(self._names, name)
        self._taken.add(key)
        return key

    def _end(self, wait: Wait, result: object) -> None:
        self._forget(wait)
        if not wait.future.done():
            wait.future.set_result(result)

    def _forget(self, wait: Wait) -> None:
        self.open.pop(wait.key, None)
        if wait.handle is not None:
            wait.handle.cancel()
        listeners = self._listeners.get(wait.call.name) if wait.call.kind is WaitKind.SIGNAL else None
        if listeners is not None:
            listeners.pop(wait.key, None)
            if not listeners:
                del self._listeners[wait.call.name]

    def _expire(self, wait: Wait) -> None:
        if wait.call.kind is WaitKind.APPROVAL:
            self._settled[wait.key] = EXPIRED
        self._end(wait, TIMED_OUT)

    def _deliver(self, name: str) -> None:
        """Signals of this name go to those who wait for them, until one of the two runs out."""
        box = self._mailbox.get(name)
        while box:
            wait = next(iter(self._listeners.get(name, {}).values()), None)
            if wait is None:
                return
            signal = box.popleft()
            value, problem = wait.call.check(signal.payload)
            if problem:
                self._emit(SignalRefused(signal.message, name, problem))
            else:
                wait.signal = signal
                self._end(wait, value)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def _take_decision(self, decision: DecisionMade) -> None:
        wait = self.open.get(decision.name)
        if wait is not None and wait.call.kind is WaitKind.APPROVAL:
            self._judge(wait, decision, is_early=False)
        elif decision.name in self._settled:
            self._reject(decision, decision.name)
        else:
            self._early.append(decision)

    def _judge_early(self, wait: Wait) -> None:
        """Decisions that came before, in their order; by its name they meant the first of that name."""
        name = wait.call.name
        names = {wait.key} if name in self._asked else {wait.key, name, wait.call.text}
        self._asked.add(name)
        meant = [decision for decision in self._early if decision.name in names]
        if meant:
            self._early = [decision for decision in self._early if decision.name not in names]
        for decision in meant:
            if wait.key in self._settled:
                self._reject(decision, wait.key)
            else:
                self._judge(wait, decision, is_early=True)

    def _judge(self, wait: Wait, decision: DecisionMade, *, is_early: bool) -> None:
        """Open the approval by the decision, or say why not."""
        if not is_early and wait.deadline is not None and decision.sent_at >= wait.deadline:
            self._emit(DecisionJudged(decision.message, wait.key, Judgement.EXPIRED, "it expired before"))
            return
        objection = find_objection(read_policy(wait.policy), self._initiator, decision.user, decision.scopes)
        if objection:
            self._emit(DecisionJudged(decision.message, wait.key, Judgement.FORBIDDEN, objection))
            return
        value, problem = wait.call.check(decision.value)
        if problem:
            self._emit(DecisionJudged(decision.message, wait.key, Judgement.INVALID, problem))
            return
        self._emit(DecisionJudged(decision.message, wait.key, Judgement.ACCEPTED))
        self._settled[wait.key] = settlement(decision)
        self._end(wait, (value, decision))

    def _reject(self, decision: DecisionMade, key: str) -> None:
        self._emit(DecisionJudged(decision.message, key, Judgement.RESOLVED, self._settled[key]))


def _ignore(_: Command) -> None:
    """What a dropped body asks for."""


def _no_loop() -> BodyLoop:
    """A dropped body's. It is asked for by nobody but that body."""
    raise GeneratorExit
