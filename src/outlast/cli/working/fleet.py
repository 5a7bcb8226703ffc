"""`outlast workers` and `outlast drain`: who works, what they hold, and how they are asked to leave. Layer: cli."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from outlast.cli.exits import ExitCode
from outlast.cli.options import Settings, shared_options
from outlast.cli.output import Output, ago, show_instant, table
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import command_line, existing_store
from outlast.run.workers import MOST_COUNTED, HeldStep, WorkerInfo, WorkerState

__all__ = ["drain", "workers"]


@click.command()
@click.option("--steps", "worker", metavar="WORKER", help="List the queued steps that this worker carries out instead.")
@shared_options
@click.pass_obj
def workers(settings: Settings, /, worker: str | None) -> ExitCode:
    """List workers: how each stands, what it holds, its last sign of life.

    A worker is serving; draining, since it was asked to or told to stop; stopped, while the last of what it held is
    handed back; or lost, until others have taken over from it. The runs that one holds: outlast runs --worker WORKER.
    """
    output = settings.output()
    app = existing_store(settings.store)

    async def read() -> tuple[list[WorkerInfo], list[HeldStep]]:
        async with app:
            return ([], await app.held_steps(worker)) if worker is not None else (await app.workers(), [])

    found, steps = run_briefly(read)
    if worker is not None:
        return _tell_steps(output, worker, steps)
    output.emit(found)
    if not found:
        output.say("There are no workers. Start one: outlast worker MODULE.")
        return ExitCode.COMPLETED
    now = datetime.now(UTC)
    columns = ("worker", "status", "host", "pid", "queues", "runs", "steps", "outlast", "python", "deploy", "heard of")
    output.draw(table(columns, (_row(one, now) for one in found)))
    return ExitCode.COMPLETED


def _row(worker: WorkerInfo, now: datetime) -> tuple[str | int, ...]:
    return (
        worker.id,
        _state(worker, now),
        worker.host,
        worker.pid,
        ", ".join(worker.queues),
        _count(worker.held_runs),
        _count(worker.held_steps),
        worker.release,
        worker.python,
        worker.deploy,
        ago(worker.renewed_at or worker.started_at, now),
    )


def _state(worker: WorkerInfo, now: datetime) -> str:
    if worker.state is WorkerState.DRAINING and worker.drain_asked_at is not None:
        return f"draining, asked {ago(worker.drain_asked_at, now)}"
    return worker.state


def _count(number: int) -> str:
    return f"{number}+" if number >= MOST_COUNTED else str(number)


def _tell_steps(output: Output, worker: str, steps: list[HeldStep]) -> ExitCode:
    output.emit(steps)
    if not steps:
        output.say(f"Worker {worker} carries out no queued steps.")
        return ExitCode.COMPLETED
    now = datetime.now(UTC)
    rows = (
        (step.run_id, step.workflow, step.key, step.attempt, step.queue, step.function, ago(step.taken_at, now))
        for step in steps
    )
    output.draw(table(("run", "workflow", "step", "attempt", "queue", "function", "taken"), rows))
    return ExitCode.COMPLETED


@click.command()
@click.argument("worker", metavar="WORKER")
@shared_options
@click.pass_obj
def drain(settings: Settings, /, worker: str) -> ExitCode:
    """Ask WORKER to drain: it claims no more, gives its steps their grace, hands the rest back, and ends.

    As a SIGTERM to its process would, from anywhere: it hears of it with its next heartbeat, and exits with 0. Asked
    twice is asked once.
    """
    output = settings.output()
    app = existing_store(settings.store)

    async def ask() -> datetime:
        async with app:
            return await app.drain(worker)

    asked_at = run_briefly(ask)
    output.emit({"worker": worker, "drain_asked_at": asked_at})
    watch = command_line("workers", url=app.url)
    output.say(f"Worker {worker} was asked to drain, {show_instant(asked_at)}. See it leave: {watch}")
    return ExitCode.COMPLETED
