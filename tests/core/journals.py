"""Journals for tests: written by hand with few words, or drawn at random, such as an engine could write them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from msgspec import Raw

from outlast.core.events import (
    AttemptStarted,
    CancelRequested,
    DecisionJudged,
    DecisionMade,
    ErrorRecord,
    Event,
    GateOpened,
    MilestoneReached,
    PatchApplied,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunReopened,
    RunResumed,
    RunStarted,
    RunSuspended,
    RunTakenOver,
    SignalReceived,
    SignalRefused,
    SignalTaken,
    SleepStarted,
    StateSet,
    StepCancelled,
    StepFailed,
    StepLost,
    StepProgressed,
    StepReused,
    StepSettled,
    StepStarted,
    StepSucceeded,
    TimerFired,
    WaitCancelled,
    WaitStarted,
)
from outlast.core.fold import fold
from outlast.core.reopening import find_cut
from outlast.core.waits.events import Judgement, WaitKind

NO = ErrorRecord("ValueError", "no")
STARTED = RunStarted(100, "u-1", "A-17", "fulfil", "v1", Raw(b'{"n":1}'), 7, "3.11", trace="00-aa-bb-01", user="ada")


@dataclass(frozen=True)
class Page:
    """What a test knows of an entry."""

    at: int = 0
    writer: str = "w1"


def journal(*entries):
    """A journal of one entry for each argument: an event, or a list of them, at 100, 200, 300 …, written by w1."""
    return [
        (Page(100 * number), [entry] if not isinstance(entry, list) else entry)
        for number, entry in enumerate(entries, start=1)
    ]


def view_of(*entries):
    """The picture of such a journal."""
    return fold(journal(*entries))


def call(key, attempt=1, after=None):
    return StepStarted(key, f"shop.{key}", Raw(b"[1]"), after=after, attempt=attempt)


@dataclass
class Author:
    """Writes a plausible journal, one random entry after the other."""

    draw: random.Random
    now: int = 100
    worker: int = 1
    pages: list[tuple[Page, list[Event]]] = field(default_factory=list)
    patches: int = 0
    timers: int = 0
    given_up: dict[str, int] = field(default_factory=dict)

    def write(self, entries: int) -> list[tuple[Page, list[Event]]]:
        self.put(STARTED, writer="client")
        for _ in range(entries):
            self.now += self.draw.choice([0, 1, 50])
            self.move()
        return self.pages

    def put(self, *events: Event, writer: str = "") -> None:
        self.pages.append((Page(self.now, writer or f"w{self.worker}"), list(events)))

    @property
    def events(self) -> list[Event]:
        return [event for _, events in self.pages for event in events]

    def move(self) -> None:
        """One entry, of those that are possible now."""
        view = fold(self.pages)
        if view.status == "failed" and self.draw.random() < 0.7:
            self.put(RunReopened(self.now, "retry", find_cut(self.events)), writer="client")
        elif view.is_ended:
            if self.given_up:
                key, attempt = self.given_up.popitem()
                self.put(StepSettled(self.now, key, attempt, value=Raw(b"9")))
        elif view.suspension is not None:
            self.put(RunResumed(self.now, "m", "BODY_SPINS"))
        else:
            self.put(*self.work(view))

    def work(self, view) -> list[Event]:
        begun = [step for step in view.steps.values() if step.status == "started"]
        idle = [step for step in view.steps.values() if step.status in {"pending", "retrying"}]
        choice = self.draw.randrange(14)
        if choice > 11:
            return self.wait(view)
        if choice < 3 and begun:
            return self.end(self.draw.choice(begun))
        if choice < 5 and idle:
            step = self.draw.choice(idle)
            return [AttemptStarted(self.now, step.key, step.attempts + 1)]
        if choice == 5 and begun:
            self.worker += 1
            lost = [StepLost(self.now, step.key, step.attempts) for step in begun]
            return [RunTakenOver(self.now, f"w{self.worker}", self.worker), *lost]
        if choice == 6 and view.sleeps:
            timer, until = self.draw.choice(list(view.sleeps.items()))
            return [TimerFired(self.now, timer, until)]
        if choice == 7 and self.draw.random() < 0.3:
            return [RunSuspended(self.now, "BODY_SPINS", "it spins")]
        if choice == 8 and begun:
            step = self.draw.choice(begun)
            self.given_up[step.key] = step.attempts
            return [CancelRequested(self.now, "m1", "enough"), StepCancelled(step.key)]
        if choice == 9 and self.draw.random() < 0.5:
            failed = tuple(step.key for step in view.steps.values() if step.status == "failed")
            cancelled = [StepCancelled(step.key) for step in (*begun, *idle)]
            end = self.draw.choice([RunCompleted(Raw(b"0")), RunFailed(NO, failed[:1]), RunCancelled("enough")])
            return [*cancelled, end]
        return self.ask(view)

    def wait(self, view) -> list[Event]:
        """A wait begins, something comes for one, or it ends."""
        if not view.waits or self.draw.random() < 0.3:
            self.timers += 1
            kind = self.draw.choice(list(WaitKind))
            return [WaitStarted(f"w{self.timers}", kind, f"w{self.timers}", self.timers, self.now + 500)]
        wait, message = self.draw.choice(list(view.waits.values())), f"m{self.now}"
        if self.draw.random() < 0.3:
            return [self.draw.choice([WaitCancelled(wait.key), TimerFired(self.now, wait.timer, wait.deadline)])]
        if wait.kind is WaitKind.GATE:
            return [GateOpened(self.now, message, wait.key)]
        if wait.kind is WaitKind.SIGNAL:
            came = SignalReceived(self.now, message, wait.name, Raw(b"1"), self.now)
            return [came, self.draw.choice([SignalTaken(wait.key, message), SignalRefused(message, wait.name, "no")])]
        made = DecisionMade(self.now, message, wait.key, Raw(b"1"), "bob", sent_at=self.now)
        return [made, DecisionJudged(message, wait.key, self.draw.choice(list(Judgement)))]

    def end(self, step) -> list[Event]:
        began = self.now - 1
        if self.draw.random() < 0.5:
            return [StepSucceeded(self.now, step.key, step.attempts, Raw(b"1"), began)]
        retry_at = self.draw.choice([None, self.now + 10])
        return [StepFailed(self.now, step.key, step.attempts, NO, began, retry_at)]

    def ask(self, view) -> list[Event]:
        """What a body asks for, and what a step says of itself."""
        key = next(name for name in (f"s{n}" for n in range(1000)) if name not in view.steps)
        kinds = ["call", "sleep", "state", "milestone", "patch", "progress"]
        kind = self.draw.choices(kinds, [6, 2, 1, 1, 1, 1])[0]
        if kind == "call":
            facts = {event.key for event in self.events if isinstance(event, StepSucceeded)}
            if key in facts:
                return [StepReused(key, f"shop.{key}", Raw(b"[1]"))]
            used = max(
                (e.attempt for e in self.events if isinstance(e, StepStarted | AttemptStarted) and e.key == key),
                default=0,
            )
            return [call(key, self.draw.choice([used, used + 1]))]
        if kind == "sleep":
            self.timers += 1
            return [SleepStarted(self.timers, self.now + 1000)]
        if kind == "progress":
            return [StepProgressed(self.now, step.key, step.attempts, Raw(b"50")) for step in view.steps.values()]
        if kind == "state":
            return [StateSet("phase", Raw(b"%d" % self.now))]
        self.patches += 1
        return [MilestoneReached(f"m{self.now}") if kind == "milestone" else PatchApplied(f"p{self.patches}")]


def random_journal(seed: int, entries: int = 25):
    """A journal that an engine could have written."""
    return Author(random.Random(seed)).write(entries)
