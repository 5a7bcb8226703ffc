"""`outlast runs` and `outlast queues`: what there is. Layer: cli."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from outlast.cli.exits import ExitCode
from outlast.cli.options import Settings, attributes_option, shared_options
from outlast.cli.output import ago, show_duration, table
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import existing_store
from outlast.core.states import RunStatus
from outlast.run import RunSummary
from outlast.run.options import Attributes
from outlast.run.records import QueueInfo, RunPage

__all__ = ["queues", "runs"]


@click.command()
@click.option("--workflow", help="Of this workflow, by its registered name.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([str(status) for status in RunStatus]),
    metavar="STATUS",
    help=f"One of {', '.join(RunStatus)}; as often as wanted.",
)
@click.option("--user", help="Started by this user.")
@attributes_option("With this attribute; of several, all must be equal.")
@click.option("--waiting-on", help="What it waits for; may end with *, as in 'sleep *'.")
@click.option("--parent", help="Children of the run with this uid.")
@click.option("--worker", help="Held by the worker with this id now.")
@click.option("--limit", type=int, default=50, show_default=True, help="At most so many.")
@click.option("--after", help="The next page: what the page before ended with.")
@shared_options
@click.pass_obj
def runs(settings: Settings, /, **filters: Any) -> ExitCode:
    """List runs, newest first.

    It shows rows, which change when a run starts, parks, is suspended or ends: what a run is doing right now, `outlast
    show RUN` says.
    """
    output = settings.output()
    app = existing_store(settings.store)
    attributes: Attributes = dict(filters.pop("attributes"))
    filters["status"] = filters.pop("statuses") or None

    async def read() -> RunPage:
        async with app:
            return await app.runs(attributes=attributes, **filters)

    page = run_briefly(read)
    output.emit(page)
    if not page.runs:
        is_filtered = attributes or any(value for name, value in filters.items() if name != "limit")
        output.say("There are no such runs." if is_filtered else "There are no runs yet.")
        return ExitCode.COMPLETED
    now = datetime.now(UTC)
    output.draw(
        table(("id", "workflow", "status", "waiting on", "created", "updated"), (_row(run, now) for run in page.runs))
    )
    if page.next is not None:
        output.say(f"There are more: --after {page.next}")
    return ExitCode.COMPLETED


def _row(run: RunSummary, now: datetime) -> tuple[str, ...]:
    waits = run.waiting_on
    if run.status is RunStatus.FAILED and run.error:
        waits = " ".join(run.error.split())
    return run.id, run.workflow, run.status, waits, ago(run.created_at, now), ago(run.updated_at, now)


@click.command()
@shared_options
@click.pass_obj
def queues(settings: Settings) -> ExitCode:
    """List queues: what waits in them, since when, what is held, and who serves them."""
    output = settings.output()
    app = existing_store(settings.store)

    async def read() -> list[QueueInfo]:
        async with app:
            return await app.queues()

    found = run_briefly(read)
    output.emit(found)
    if not found:
        output.say("Nothing waits, and no worker serves any queue.")
        return ExitCode.COMPLETED
    columns = ("queue", "runs waiting", "held", "steps waiting", "held", "lag", "workers", "nobody knows")
    rows = (
        (
            queue.name,
            queue.waiting_runs,
            queue.held_runs,
            queue.waiting_steps,
            queue.held_steps,
            show_duration(queue.lag) if queue.lag else "",
            queue.workers,
            ", ".join(queue.unknown),
        )
        for queue in found
    )
    output.draw(table(columns, rows))
    return ExitCode.COMPLETED
