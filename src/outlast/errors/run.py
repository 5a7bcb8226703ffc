"""Something about one run. Layer: errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors.described import OutlastError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "GraphFailed",
    "KeyNotFound",
    "NonDeterminism",
    "PayloadDamaged",
    "PayloadUnreadable",
    "Poisoned",
    "RunCancelled",
    "RunConflict",
    "RunEnded",
    "RunError",
    "RunExists",
    "RunFailed",
    "RunNotEnded",
    "RunNotFailed",
    "RunNotFound",
    "RunSuspended",
    "VersionConflict",
    "VersionNotFound",
    "WaitNotFound",
]


class RunError(OutlastError):
    """Something about one run. `id` is the user's name for it."""


class RunNotFound(RunError, LookupError):
    """No run has this id."""

    code = "RUN_NOT_FOUND"
    template = "There is no such run", "run {id!r}", "Check the id, or list what there is with app.runs()."
    id: str


class RunExists(RunError):
    """`start(on_conflict="raise")` met an earlier run."""

    code = "RUN_EXISTS"
    template = (
        "A run of this id exists and is {status}",
        "run {id!r}",
        "Choose another id, or start with on_conflict='return'.",
    )
    id: str
    status: str


class RunConflict(RunError):
    """The id belongs to a run of another workflow, or with other input."""

    code = "RUN_CONFLICT"
    template = "A run of this id exists with another {difference}", "run {id!r}", "Choose another id."
    id: str
    difference: str  # workflow, input


class RunEnded(RunError):
    """Too late: the run has ended, and takes no more messages."""

    code = "RUN_ENDED"
    template = (
        "The run has ended and is {status}",
        "run {id!r}",
        "Nothing was sent. Start a new run, or retry() a failed one.",
    )
    id: str
    status: str


class RunNotEnded(RunError):
    """Too early: only a run that has ended can be deleted."""

    code = "RUN_NOT_ENDED"
    template = "The run has not ended and is {status}", "run {id!r}", "Cancel it, or wait for its end, first."
    id: str
    status: str


class RunNotFailed(RunError):
    """`retry()` of a run that has not failed."""

    code = "RUN_NOT_FAILED"
    template = (
        "Only a failed run can be retried, this one is {status}",
        "run {id!r}",
        "See run.status(); to run it once more, start it under another id.",
    )
    id: str
    status: str


class WaitNotFound(RunError):
    """No gate of this reason is open; or none is named, and not exactly one is open."""

    code = "WAIT_NOT_FOUND"
    template = "No such wait is open", "run {id!r}, {reason!r}", "Open are: {open}."
    id: str
    reason: str
    open: Sequence[str] = ()

    def parts(self) -> tuple[str, str, str]:
        """What happened, to what, and what to do: without blanks where nothing was named, or nothing is open."""
        where = f"run {self.id!r}, {self.reason!r}" if self.reason else f"run {self.id!r}"
        todo = (
            f"Open are: {', '.join(self.open)}."
            if self.open
            else "None of its gates is open. Signals and approvals are answered by signal and approve."
        )
        return "No such wait is open", where, todo


class RunFailed(RunError):
    """The run ended in failure. `error` is what its body raised, and this error's `__cause__`."""

    code = "RUN_FAILED"
    id: str
    status: str
    error: BaseException
    step: str | None = None  # the step that failed it, where one did

    def parts(self) -> tuple[str, str, str]:
        """What happened, to what, and what to do."""
        at = f", step {self.step!r}" if self.step else ""
        what = f"The run is {self.status}, {type(self.error).__name__}: {self.error}"
        return what, f"run {self.id!r}{at}", "See run.history(); run.retry() goes on from the failure."


class RunCancelled(RunError):
    """The run was cancelled."""

    code = "RUN_CANCELLED"
    template = "The run is {status}, cancelled because: {reason}", "run {id!r}", "Start it anew if it is wanted."
    id: str
    reason: str = ""
    status: str = "cancelled"


class RunSuspended(RunError):
    """The run waits for a person or a deploy, where the caller would not."""

    code = "RUN_SUSPENDED"
    template = "The run is suspended, {reason}: {detail}", "run {id!r}", "Put it right, then run.resume({reason!r})."
    id: str
    reason: str  # a code (BODY_SPINS, VERSION_CONFLICT) or a gate's reason
    detail: str = ""


class GraphFailed(RunError):
    """A graph met a value it can do nothing with: a list that is none, a key without a case, a node once too often."""

    code = "GRAPH_FAILED"
    template = "{problem}", "graph {graph!r}, node {node!r}, {field}", "{fix}"
    problem: str
    graph: str
    node: str  # empty for the graph's output
    field: str
    fix: str

    def parts(self) -> tuple[str, str, str]:
        """What happened, to what, and what to do: the output is no node's."""
        what, where, todo = super().parts()
        return what, where if self.node else f"graph {self.graph!r}, {self.field}", todo


class NonDeterminism(RunError):
    """On replay the body asked for something else than its journal says it did."""

    code = "NON_DETERMINISM"
    template = (
        "The body left its journal: recorded was {recorded}, now it asks for {asked}",
        "run {id!r}, {at}",
        "Undo the change, or guard it with ctx.patched(); then resume the run.",
    )
    id: str
    at: str
    recorded: str
    asked: str


class VersionConflict(RunError):
    """The code at hand does not fit a run of an older version."""

    code = "VERSION_CONFLICT"
    template = (
        "{detail}: the run is of version {recorded}, the code {found}",
        "run {id!r}",
        "Deploy a version that fits, then resume.",
    )
    id: str
    recorded: str
    found: str
    detail: str = "The code does not fit the journal"


class VersionNotFound(RunError, LookupError):
    """No worker has the version that this run needs."""

    code = "VERSION_NOT_FOUND"
    template = (
        "No worker has version {version} of {workflow!r}",
        "run {id!r}",
        "Start a worker of that version, then resume.",
    )
    id: str
    workflow: str
    version: str


class Poisoned(RunError):
    """The run took down one worker after another, and was set aside."""

    code = "POISONED"
    template = (
        "{recoveries} workers died holding the run, without progress",
        "run {id!r}",
        "Read its history, mend it, then resume.",
    )
    id: str
    recoveries: int


class PayloadUnreadable(RunError):
    """A value of the run lies in the store in a form that cannot be read here."""

    code = "PAYLOAD_UNREADABLE"
    template = "A value cannot be read, {problem}", "run {id!r}, {place}", "See the errors derived from this one."
    id: str
    place: str
    problem: str


class KeyNotFound(PayloadUnreadable):
    """Whoever has the key reads it: nothing is lost."""

    code = "KEY_NOT_FOUND"
    template = (
        "A value cannot be read, {problem}",
        "run {id!r}, {place}",
        "Give this process what it lacks, with Outlast(codecs=…); then resume the run, if it is suspended.",
    )
    needs: str  # codec, or codec:key


class PayloadDamaged(PayloadUnreadable):
    """It is not what was written, or was written under another key of the same id."""

    code = "PAYLOAD_DAMAGED"
    template = (
        "A value cannot be read, {problem}",
        "run {id!r}, {place}",
        "Compare the keys of all processes; if they agree, restore the store from a backup.",
    )
