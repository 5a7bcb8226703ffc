"""`outlast show`: one run, now or at an earlier moment. Layer: cli."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from outlast.cli.exits import ExitCode
from outlast.cli.options import Settings, read_moment, shared_options
from outlast.cli.output import STYLES, Output, ago, show_duration, show_error, show_instant, show_value, table
from outlast.cli.progress import tell_item
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import existing_store, get_run
from outlast.core.events import ErrorRecord
from outlast.core.states import RunStatus
from outlast.core.timeline import Kind
from outlast.core.waits.events import WaitKind
from outlast.run import AttemptInfo, Run, RunInfo, RunSnapshot, StepSummary, TimelineItem, WaitInfo

__all__ = ["show", "show_moment", "show_timeline"]


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--timeline", is_flag=True, help="Everything that happened, in order, numbered from 0.")
@click.option("--at", "moment", type=read_moment, metavar="SEQ|TIME", help="The run as it knew itself then.")
@shared_options
@click.pass_obj
def show(settings: Settings, /, run_id: str, *, timeline: bool, moment: int | datetime | None) -> ExitCode:
    """Show how RUN stands: its steps, every attempt, and errors with their tracebacks."""
    if timeline and moment is not None:
        raise click.UsageError("--timeline shows all of it, --at one moment: give one of them.")
    output = settings.output()
    app = existing_store(settings.store)

    async def read() -> None:
        async with app:
            run = await get_run(app, run_id)
            if timeline:
                show_timeline(output, await run.timeline())
            elif moment is not None:
                show_moment(output, await run.state_at(moment))
            else:
                await _show_run(output, run)

    run_briefly(read)
    return ExitCode.COMPLETED


async def _show_run(output: Output, run: Run[Any]) -> None:
    info, attempts = await run.status(), await run.history()
    output.emit({**msgspec.structs.asdict(info), "attempts": attempts})
    if output.as_json:
        return
    now = datetime.now(UTC)
    took = (info.finished_at or now) - info.started_at if info.started_at is not None else None
    output.say(f"Run {info.id}  {info.status}", style=STYLES.get(info.status))
    _show_facts(
        output,
        [
            ("workflow", f"{info.workflow}, version {info.version}"),
            ("uid", info.uid),
            ("continues", info.continued_from or ""),
            ("goes on as", info.continued_as or ""),
            ("waiting on", info.waiting_on),
            ("started", f"{show_instant(info.started_at)} ({ago(info.started_at, now)})" if info.started_at else ""),
            ("ended", f"{show_instant(info.finished_at)} ({ago(info.finished_at, now)})" if info.finished_at else ""),
            ("took" if info.finished_at else "for", show_duration(took)),
        ],
    )
    _show_waits(output, info, now)
    _show_attempts(output, info, attempts)
    _show_state(output, info.state)
    if info.status is RunStatus.COMPLETED and info.continued_as is None:
        output.say(f"\nOutput\n{show_value(info.output)}")
    elif info.status is RunStatus.SUSPENDED:
        _show_suspension(output, info, await run.timeline())
    _show_errors(output, info)


def _show_facts(output: Output, facts: Iterable[tuple[str, str]]) -> None:
    for name, value in facts:
        if value:
            output.say(f"  {name:<10}  {value}")


def _show_waits(output: Output, info: RunInfo, now: datetime) -> None:
    """What of it somebody can answer, and with which command."""
    if not info.waits:
        return
    output.say("\nWaits")
    for wait in info.waits:
        until = f", until {show_instant(wait.until)}" if wait.until is not None else ""
        output.say(f"  {wait.kind} {wait.key}, since {ago(wait.since, now)}{until}")
        if wait.question:
            output.say(f"    {wait.question}")
        output.say(f"    {_answer_of(info.id, wait)}", style="dim")


def _answer_of(run_id: str, wait: WaitInfo) -> str:
    if wait.kind is WaitKind.GATE:
        return shlex.join(("outlast", "resume", run_id, "--reason", wait.key))
    if wait.kind is WaitKind.SIGNAL:
        return f"{shlex.join(('outlast', 'signal', run_id, wait.name))} --value JSON"
    return f"{shlex.join(('outlast', 'approve', run_id, wait.key))} --value JSON --by USER"


def _show_attempts(output: Output, info: RunInfo, attempts: list[AttemptInfo]) -> None:
    """All attempts, and the steps that have none yet, in the order of their calls."""
    rows: list[tuple[object, ...]] = []
    for step in info.steps:
        mine = [attempt for attempt in attempts if attempt.key == step.key]
        if not mine or str(step.status) not in {str(one.status) for one in mine}:
            note = f"again {show_instant(step.retry_at)}" if step.retry_at is not None else ""
            waiting = (step.key, step.status, "", "", "", "", note)
            rows += [*(_attempt_row(attempt) for attempt in mine), waiting]
        else:
            rows += [_attempt_row(attempt) for attempt in mine]
    shown = {step.key for step in info.steps}
    rows += [_attempt_row(attempt) for attempt in attempts if attempt.key not in shown]
    if rows:
        output.say("\nSteps")
        output.draw(table(("step", "status", "attempt", "began", "took", "worker", "error"), rows))


def _attempt_row(attempt: AttemptInfo) -> tuple[object, ...]:
    dropped = "" if attempt.is_current else "dropped by a retry; "
    return (
        attempt.key,
        attempt.status,
        attempt.attempt,
        show_instant(attempt.began_at),
        show_duration(attempt.duration),
        attempt.worker[-12:],
        dropped + (show_error(attempt.error) if attempt.error is not None else ""),
    )


def _show_state(output: Output, state: dict[str, Any]) -> None:
    if state:
        output.say("\nState")
        _show_facts(output, ((name, show_value(value)) for name, value in state.items()))


def _show_suspension(output: Output, info: RunInfo, timeline: list[TimelineItem]) -> None:
    """Why it was set aside: the code alone says too little to mend it."""
    reasons = [item.detail for item in timeline if item.step is None and item.kind is Kind.SUSPENDED]
    output.say(f"\nSuspended: {info.waiting_on}", style=STYLES.get(info.status))
    is_gate = info.waiting_on in {f"{wait.kind} {wait.name}" for wait in info.waits}
    if reasons and not is_gate:
        output.say(reasons[-1])


def _show_errors(output: Output, info: RunInfo) -> None:
    """The run's own; of one that goes on, those of the steps that have not recovered."""
    if info.error is not None:
        _show_error(output, "Error", info.error)
        return
    for step in info.steps:
        if step.error is not None:
            _show_error(output, f"Error of {step.key}", step.error)


def _show_error(output: Output, title: str, error: ErrorRecord) -> None:
    output.say(f"\n{title}", style="red")
    output.say(error.traceback.rstrip() or show_error(error))
    if error.code:
        output.say(f"code {error.code}")


# --- the past ---------------------------------------------------------------------------------------------------------


def show_timeline(output: Output, items: list[TimelineItem]) -> None:
    """All items, one a line."""
    for item in items:
        output.emit(item)
        output.say(f"{item.seq:>4}  {show_instant(item.at)}  {tell_item(item)}")


def show_moment(output: Output, then: RunSnapshot) -> None:
    """The run as it was."""
    output.emit(then)
    if then.seq < 0:
        output.say("Before the run's first event there is nothing to show.")
        return
    waits = f", waiting on {then.waiting_on}" if then.waiting_on else ""
    output.say(f"After event {then.seq}, {show_instant(then.at)}: {then.status}{waits}")
    if then.steps:
        output.say("\nSteps")
        rows = (_step_row(step, then.results) for step in then.steps)
        output.draw(table(("step", "status", "attempts", "took", "result"), rows))
    _show_state(output, then.state)
    if then.milestones:
        output.say("\nMilestones")
        _show_facts(output, ((mark.name, show_instant(mark.at)) for mark in then.milestones))
    if then.status is RunStatus.COMPLETED:
        output.say(f"\nOutput\n{show_value(then.output)}")
    if then.error is not None:
        _show_error(output, "Error", then.error)


def _step_row(step: StepSummary, results: dict[str, Any]) -> tuple[object, ...]:
    if step.key in results:
        last = show_value(results[step.key], 60)
    else:
        last = show_error(step.error) if step.error is not None else ""
    return step.key, step.status, step.attempts, show_duration(step.duration), last
