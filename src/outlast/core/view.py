"""What people see of a run: the picture that `core.fold` paints from its journal. Layer: core.

What always holds: what a view says of a parked, suspended or ended run equals its row (invariant 2). Instants are µs.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from outlast.core.events import ELSEWHERE, ErrorRecord, RunStarted, RunSuspended, UnwindStarted
from outlast.core.instants import format_instant
from outlast.core.states import RunStatus, StepStatus, is_ended
from outlast.core.waits.book import OpenWait, OpenWaits, wait_text

__all__ = ["IMPORTED", "RunView", "StepView", "suspension_text", "waiting_text"]

IMPORTED = "IMPORTED"
"""Why a run is suspended that came from a file, and had not ended where it came from."""
OPEN = frozenset({StepStatus.PENDING, StepStatus.STARTED, StepStatus.RETRYING})


class StepView(msgspec.Struct):
    """One step, by its latest attempt."""

    key: str
    function: str
    kind: str
    arguments: msgspec.Raw
    after: str | None
    """Key of the step the body called before this one."""
    compensates: str = ""
    """Key of the step whose effect this one undoes."""
    status: StepStatus = StepStatus.PENDING
    attempts: int = 0
    """Number of the latest attempt, counted over the run's life: a `retry()` goes on counting."""
    began_at: int | None = None
    """When the latest attempt began."""
    ended_at: int | None = None
    value: msgspec.Raw | None = None
    error: ErrorRecord | None = None
    """Why the latest attempt to end failed; None when it succeeded."""
    retry_at: int | None = None
    progress: msgspec.Raw | None = None
    """What the latest attempt last said of itself."""
    is_undone: bool = False
    """What it did was undone since."""
    queue: str = ""
    """Its attempts are sent to the workers of this queue. The journal hears of one only when it has ended: until then
    it is pending."""

    @property
    def duration_us(self) -> int | None:
        """How long the latest attempt took; None until it has ended."""
        if self.began_at is None or self.ended_at is None:
            return None
        return max(0, self.ended_at - self.began_at)

    @property
    def is_open(self) -> bool:
        """Whether it has no outcome."""
        return self.status in OPEN

    def succeed_as(self, fact: StepView) -> None:
        """It has succeeded before: before a `retry()`, which kept that."""
        self.status, self.value, self.attempts = StepStatus.SUCCEEDED, fact.value, fact.attempts
        self.began_at, self.ended_at, self.error, self.retry_at = fact.began_at, fact.ended_at, None, None

    def begin_anew(self, attempts: int) -> None:
        """It waits for a place, as if never tried, but that numbers of attempts go on."""
        self.status, self.attempts = StepStatus.PENDING, attempts
        self.began_at = self.ended_at = self.retry_at = self.error = self.progress = None


class RunView(msgspec.Struct):
    """A run as its journal tells it. Empty, with `seq` -1, before the first event."""

    seq: int = -1
    """Number of the latest event."""
    at: int = 0
    """Time of the latest event. It never goes back, though the clocks of two workers may differ a little."""
    started: RunStarted | None = None
    status: RunStatus | None = None
    """`queued` until the journal shows that a worker has it: a claim alone writes no entry."""
    steps: dict[str, StepView] = {}
    """By key, in the order in which the body called them: the path it walked."""
    state: dict[str, msgspec.Raw] = {}
    milestones: list[tuple[str, int]] = []
    """Name, and when it was reached."""
    sleeps: dict[int, int] = {}
    """Sleeps under way: ordinal of the timer, and until when."""
    waits: OpenWaits = msgspec.field(default_factory=OpenWaits)
    """Signals, gates and approvals it waits for."""
    suspension: RunSuspended | None = None
    """The engine set it aside. A gate alone suspends a run too, and does not show here."""
    cancel_reason: str | None = None
    """As soon as a cancel has reached the run."""
    output: msgspec.Raw | None = None
    next: str = ""
    """uid of the round as which it goes on."""
    error: ErrorRecord | None = None
    failed_steps: tuple[str, ...] = ()
    """Keys of the steps that the run's failure came from."""
    unwinding: UnwindStarted | None = None
    """What is undone, or was, and why."""
    not_undone: tuple[str, ...] = ()
    """Keys of steps whose effect is still there, though it was to be undone."""
    recoveries: int = 0
    """Takeovers since the run last made progress."""
    began_at: int | None = None
    """When the journal first shows it at work. The row knows of the claim before that."""
    finished_at: int | None = None

    @property
    def is_ended(self) -> bool:
        """Whether nothing moves it any more, unless it is reopened."""
        return self.status is not None and is_ended(self.status)

    @property
    def waiting_on(self) -> str:
        """What it waits for, as its row says it once it is parked; "" when it has ended or has not begun."""
        if self.suspension is not None:
            return suspension_text(self.suspension.code, self.suspension.detail)
        if self.status not in {RunStatus.RUNNING, RunStatus.SUSPENDED, RunStatus.COMPENSATING}:
            return ""
        steps = ((step.kind, step.key, step.queue) for step in self.steps.values() if step.is_open)
        return waiting_text(steps, self.waits.values(), self.sleeps.values())

    def settle_status(self) -> None:
        """A gate that nothing else of the run goes on beside suspends it (SPEC R1)."""
        if self.suspension is None and self.status in {RunStatus.RUNNING, RunStatus.SUSPENDED}:
            is_gated = self.waits.gates > 0 and not any(step.is_open for step in self.steps.values())
            self.status = RunStatus.SUSPENDED if is_gated else RunStatus.RUNNING


def suspension_text(code: str, detail: str) -> str:
    """What a suspended run waits for, in the words of its row: the code, and with it the function or the key that is
    missing, so that a worker that has it finds the run.
    """
    return f"{code} {detail}" if code in {"FUNCTION_NOT_FOUND", "KEY_NOT_FOUND"} and detail else code


def waiting_text(steps: Iterable[tuple[str, str, str]], waits: Iterable[OpenWait], sleeps: Iterable[int]) -> str:
    """What a run waits for, in the words of its row.

    The first of its open steps, by kind, key and queue in the order of their calls (`step charge`, `step charge on
    queue gpu`, `child refund#1`), else its first gate or approval (`approval ship it?`), else its first signal (`signal
    paid`), else its earliest sleep (`sleep until 2026-07-01T12:00:00Z`), else `timer`: plain asyncio, of which the
    journal does not say how long. So a filter finds runs by prefix, `sleep *`.
    """
    step = next(iter(steps), None)
    if step is not None:
        kind, key, queue = step
        where = f" on queue {queue}" if queue else ""
        return f"{'child' if kind in ELSEWHERE else 'step'} {key}{where}"
    wait = wait_text(waits)
    if wait:
        return wait
    until = min(sleeps, default=None)
    return "timer" if until is None else f"sleep until {format_instant(until)}"
