"""`outlast events` and `outlast timeline`: what happened to a run, and what happens. Layer: cli."""

from __future__ import annotations

from datetime import datetime

import click

from outlast.cli.exits import ExitCode, exit_code_of_run
from outlast.cli.options import Settings, read_moment, shared_options
from outlast.cli.output import show_instant
from outlast.cli.progress import tell_item
from outlast.cli.show import show_moment, show_timeline
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import existing_store, get_run

__all__ = ["events", "timeline"]


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--at", "moment", type=read_moment, metavar="SEQ|TIME", help="The run as it knew itself then.")
@shared_options
@click.pass_obj
def timeline(settings: Settings, /, run_id: str, *, moment: int | datetime | None) -> ExitCode:
    """Show everything that happened to RUN, in order and numbered; or, with --at, how it stood at one moment."""
    output = settings.output()
    app = existing_store(settings.store)

    async def read() -> None:
        async with app:
            run = await get_run(app, run_id)
            if moment is None:
                show_timeline(output, await run.timeline())
            else:
                show_moment(output, await run.state_at(moment))

    run_briefly(read)
    return ExitCode.COMPLETED


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--follow", is_flag=True, help="Go on until the run has ended; its status is the exit code.")
@click.option("--after", type=int, default=-1, metavar="SEQ", help="Only events behind this one.")
@shared_options
@click.pass_obj
def events(settings: Settings, /, run_id: str, *, follow: bool, after: int) -> ExitCode:
    """Print what happened to RUN, an event a line; with --follow also what happens, as it happens."""
    output = settings.output()
    app = existing_store(settings.store)

    async def read() -> ExitCode:
        async with app:
            run = await get_run(app, run_id)
            if not follow:
                show_timeline(output, [item for item in await run.timeline() if item.seq > after])
                return ExitCode.COMPLETED
            async for item in run.events(after):
                output.emit(item)
                output.say(f"{item.seq:>4}  {show_instant(item.at)}  {tell_item(item)}")
            return exit_code_of_run(await run.status())

    return run_briefly(read)
