"""A run's row, tasks and rows of waits against its journal (invariants 2, 3 and 7). Layer: engine.

All of it for steady pictures alone. An import that nobody has resumed has neither tasks nor times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from outlast.core.events import CancelRequested, RunReopened
from outlast.core.instants import format_instant
from outlast.core.states import RunStatus, StepStatus, is_ended
from outlast.core.verifying import Broken, Rule
from outlast.core.view import RunView
from outlast.engine.books import DEADLINE
from outlast.engine.verifying.picture import Picture
from outlast.stores.store import recovery_delay_us

__all__ = ["check_is_kept", "check_leftovers", "check_row", "check_tasks", "check_timers_are_kept", "check_waits"]

LATEST_US = recovery_delay_us(100)
"""How long a run that its owner left may stay put, whatever it is due for."""


def check_row(picture: Picture, *, are_parked: bool = False) -> Iterator[Broken]:
    """The row of a run that nobody moves says what its journal says. `are_parked`: none was taken from the dead, so
    each says what it waits for."""
    row, started = picture.row, picture.started
    told = (started.uid, started.id, started.workflow, started.version, started.parent or None)
    shown = (row.uid, row.id, row.workflow, row.version, row.parent)
    if told != shown:
        yield Broken(Rule.ROW, f"its row is of {shown}, its journal of {told}")
    is_reopened = row.live and (picture.has_mail or row.owner is not None)  # asked to go on; it says so with an entry
    if is_ended(row.status) != (row.finished_at is not None) or (row.live == is_ended(row.status) and not is_reopened):
        yield Broken(Rule.ROW, f"its row is {row.status}, and has {row.live=} {row.finished_at=}")
    if row.owner is not None and row.live:
        return
    view = _view_as_claimed(picture)
    if view.status is not row.status and not (view.status is RunStatus.QUEUED and row.status is RunStatus.RUNNING):
        yield Broken(Rule.ROW, f"its row is {row.status}, its journal says {view.status}")
    elif view.status is RunStatus.QUEUED:
        pass  # that journal does not show yet that anybody had it: its body may have asked for a plain timer
    elif (are_parked or _is_parked(picture)) and row.waiting_on != view.waiting_on:
        yield Broken(Rule.ROW, f"its row waits on {row.waiting_on!r}, its journal says {view.waiting_on!r}")
    if not row.live and (row.waiting_on or row.wake_at is not None or row.owner is not None):
        yield Broken(Rule.ROW, f"it has ended, and its row has {row.waiting_on=} {row.wake_at=} {row.owner=}")


def _view_as_claimed(picture: Picture) -> RunView:
    """What the journal says, which a claim alone writes nothing into: of a run that is suspended though its journal
    says queued, a retry has come back to a gate, and nothing goes on beside that (SPEC R1)."""
    view = picture.view
    if view.status is RunStatus.QUEUED and picture.row.status is RunStatus.SUSPENDED:
        view = msgspec.structs.replace(view, status=RunStatus.RUNNING)
        view.settle_status()
    return view


def _is_parked(picture: Picture) -> bool:
    """Its owner gave it up, and nobody died: one that is taken from the dead says what it last waited for."""
    row = picture.row
    is_later = row.wake_at is None or row.wake_at > picture.now
    return not row.live or row.status is RunStatus.SUSPENDED or (is_later and row.recoveries == 0)


def check_waits(picture: Picture) -> Iterator[Broken]:
    """The rows of waits are those that the journal has open, whoever owns the run."""
    shown = {each.wait.key: (each.wait.kind, each.wait.opened_at, each.wait.deadline) for each in picture.waits}
    told = {key: (wait.kind, wait.opened_at, wait.deadline) for key, wait in picture.view.waits.items()}
    for key in sorted(shown.keys() | told.keys()):
        if shown.get(key) != told.get(key):
            yield Broken(Rule.ROW, f"its row of wait {key!r} is {shown.get(key)}, its journal says {told.get(key)}")


def check_tasks(picture: Picture) -> Iterator[Broken]:
    """Each task is the latest attempt of a step that the journal has; each queued attempt that is open has its task, or
    a message says what became of it."""
    latest = {key: step.attempts for key, step in picture.view.steps.items()}
    highest = {**picture.steps.highest, **latest}
    for task in picture.tasks:
        what = f"its task {task.key}, attempt {task.attempt},"
        if task.attempt > highest.get(task.key, 0):
            yield Broken(Rule.ATTEMPT, f"{what} is not on record")
        elif task.owner is None and not task.stop and picture.row.live and not _is_awaited(picture, task.key):
            yield Broken(Rule.KEPT, f"{what} waits in queue {task.queue}, and nobody waits for it")
    for key, attempt in () if picture.is_import or picture.view.is_ended else picture.lost:  # who ends asks no more
        yield Broken(Rule.KEPT, f"attempt {attempt} of queued step {key} is open, without a task or a message")


def _is_awaited(picture: Picture, key: str) -> bool:
    return key in picture.steps or key in picture.steps.unsettled


def check_is_kept(picture: Picture, workers: Collection[str]) -> Iterator[Broken]:
    """A run that has not ended is owned by somebody, or due, or has a queued step, a child or an open wait, or is
    suspended with its reason."""
    row, view = picture.row, picture.view
    if not row.live:
        return
    if row.owner is not None:
        if row.owner not in workers:
            yield Broken(Rule.KEPT, f"its owner {row.owner} is not there")
        if row.wake_at is not None:
            yield Broken(Rule.KEPT, "it is owned, and due as well")
        return
    if row.status is RunStatus.SUSPENDED and not row.waiting_on:
        yield Broken(Rule.KEPT, "it is suspended, and does not say why")
    if row.wake_at is not None or view.suspension is not None:
        return
    if picture.has_mail:
        yield Broken(Rule.KEPT, "it has unread messages, and is not due")
    here = [key for key, step in picture.steps.items() if not (step.is_elsewhere and step.is_begun)]
    if here:
        yield Broken(Rule.KEPT, f"nobody owns it, it is not due, and its step {here[0]} is still to be done")
    elif not (view.waits or picture.steps or picture.steps.unsettled):
        yield Broken(Rule.KEPT, "nobody owns it and nothing will wake it")


def check_timers_are_kept(picture: Picture) -> Iterator[Broken]:
    """Of a run that nobody owns: what is due for it wakes it, and no later than a takeover may be put off."""
    row = picture.row
    if not row.live or row.owner is not None or picture.is_import:
        return
    due = min(_list_dues(picture), default=None)
    if due is None:
        return
    at, what = due
    if row.wake_at is None or row.wake_at > max(at, picture.now + LATEST_US):
        wakes = "never" if row.wake_at is None else format_instant(row.wake_at)
        yield Broken(Rule.KEPT, f"its {what} is due at {format_instant(at)}, and its row wakes it {wakes}")


def _list_dues(picture: Picture) -> Iterator[tuple[int, str]]:
    deadline = _find_deadline(picture)
    if deadline is not None:
        yield deadline, "deadline"
    if picture.view.suspension is not None:
        return
    for ordinal, until in picture.view.sleeps.items():
        yield until, f"sleep {ordinal}"
    for key, wait in picture.view.waits.items():
        if wait.deadline is not None:
            yield wait.deadline, f"wait {key}"
    for key, step in picture.view.steps.items():
        if step.status is StepStatus.RETRYING and step.retry_at is not None:
            yield step.retry_at, f"retry of step {key}"


def _find_deadline(picture: Picture) -> int | None:
    """When the run is to be cancelled, if it has not been told so. A retry behind its deadline has none."""
    deadline = picture.started.deadline
    told = any(isinstance(event, CancelRequested) and event.message == DEADLINE for event in picture.events)
    reopened_at = max((event.at for event in picture.events if isinstance(event, RunReopened)), default=0)
    return None if deadline is None or told or reopened_at >= deadline else deadline


def check_leftovers(picture: Picture) -> Iterator[Broken]:
    """Of an ended run nothing is left that anybody would wait for: no message, no wait, no task that may be taken."""
    if picture.row.live:
        return
    if picture.has_mail:
        yield Broken(Rule.END, "it has ended, and has unread messages")
    for task in picture.tasks:
        if task.owner is None or not task.stop:
            yield Broken(Rule.END, f"it has ended, and its task {task.key} is not told to stop")
