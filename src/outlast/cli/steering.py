"""Commands that act on runs: `cancel`, `resume`, `retry`, `delete`, `prune`. Layer: cli.

What always holds: when a command says that it is done, what it did is stored, and happens with the next worker that is
up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from outlast.app import Outlast
from outlast.cli import collector
from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.hashseed import fix_hash_seed, reexec_option
from outlast.cli.logs import log_level_option, set_up_logging
from outlast.cli.options import Settings, read_duration, shared_options
from outlast.cli.stopping import run_briefly, run_stoppable
from outlast.cli.store_choice import app_on, existing_store
from outlast.cli.target import load_app
from outlast.cli.watching import Watch, command_line, work_run
from outlast.core.states import ENDED
from outlast.errors import RunNotFailed
from outlast.run import Run

__all__ = ["cancel", "delete", "on_run", "prune", "resume", "retry"]

T = TypeVar("T")


def on_run(app: Outlast, run_id: str, act: Callable[[Run[Any]], Awaitable[T]]) -> T:
    """Open the store, find the run, act on it."""

    async def find_and_act() -> T:
        async with app:
            return await act(await app.get_run(run_id))

    return run_briefly(find_and_act)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--reason", default="cancelled from the command line", show_default=True, help="Why; it is recorded.")
@click.option("--force", is_flag=True, help="End it without asking its body, which then cannot clean up.")
@shared_options
@click.pass_obj
def cancel(settings: Settings, /, run_id: str, *, reason: str, force: bool) -> ExitCode:
    """Ask RUN to stop. Its body may clean up first, so it ends when its worker has done that."""
    output = settings.output()
    app = existing_store(settings.store)

    async def ask(run: Run[Any]) -> str | None:
        if await run.cancel(reason, force=force):
            return None
        return str((await run.status()).status)

    ended_as = on_run(app, run_id, ask)
    if ended_as is not None:
        raise CommandError("RUN_ENDED", f"The run has ended and is {ended_as}", f"run {run_id!r}", "Nothing was sent.")
    output.emit({"id": run_id, "cancel_requested": True})
    output.say(f"The cancel of run {run_id} is stored. See it take effect: {command_line('show', run_id, url=app.url)}")
    return ExitCode.COMPLETED


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--reason", help="The gate's reason or key, or the code it is suspended on; default: the only one there is."
)
@shared_options
@click.pass_obj
def resume(settings: Settings, /, run_id: str, reason: str | None) -> ExitCode:
    """Open the gate that RUN waits at, or lift its suspension, once what it was suspended for is put right."""
    output = settings.output()
    app = existing_store(settings.store)
    on_run(app, run_id, lambda run: run.resume(reason))
    output.emit({"id": run_id, "resumed": True})
    output.say(f"Run {run_id} goes on with the next worker that is up.")
    return ExitCode.COMPLETED


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--work",
    "target",
    metavar="MODULE",
    help="Work it here, with this code, as `outlast run` does; also one that goes on already.",
)
@click.option(
    "--timeout", type=read_duration, metavar="DURATION", help="With --work: leave the run after this long (exit 4)."
)
@log_level_option
@reexec_option
@shared_options
@click.pass_obj
def retry(
    settings: Settings,
    /,
    run_id: str,
    *,
    target: str | None,
    timeout: str | None,
    log_level: str | None,
    no_reexec: bool,
) -> ExitCode:
    """Let a failed RUN go on from what failed, with a fresh budget of attempts. What succeeded stays."""
    if target is None:
        output = settings.output()
        app = existing_store(settings.store)
        on_run(app, run_id, lambda run: run.retry())
        output.emit({"id": run_id, "retried": True})
        output.say(f"Run {run_id} goes on with the next worker that is up.")
        return ExitCode.COMPLETED
    fix_hash_seed(settings, no_reexec=no_reexec)
    output = settings.output()
    with output.reserved():
        app = app_on(load_app(target), settings.store)
        existing_store(app.url)
        set_up_logging(log_level, default="warning", is_viewed=not output.as_json)
        collector.settle(settings)

        async def begin() -> Run[Any]:
            run = await app.get_run(run_id)
            try:
                await run.retry()
            except RunNotFailed:
                if (await run.status()).status in ENDED:
                    raise
                # retried before, and nobody has worked it: join it
            return run

        go_on = command_line("worker", target, url=app.url)
        watch = Watch(app=app, output=output, begin=begin, timeout=timeout, grace="3s", go_on=lambda _id: go_on)
        return run_stoppable(lambda stopping: work_run(watch, stopping))


@click.command()
@click.argument("run_id", metavar="RUN")
@shared_options
@click.pass_obj
def delete(settings: Settings, /, run_id: str) -> ExitCode:
    """Delete an ended RUN, with its journal and all else that is its own."""
    output = settings.output()
    app = existing_store(settings.store)
    on_run(app, run_id, lambda run: run.delete())
    output.emit({"id": run_id, "deleted": True})
    output.say(f"Run {run_id} is deleted.")
    return ExitCode.COMPLETED


@click.command()
@click.option(
    "--older-than", type=read_duration, metavar="DURATION", required=True, help="Ended longer ago than this: 30d, 12h."
)
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(sorted(map(str, ENDED))),
    help="Only runs that ended so; as often as wanted.",
)
@shared_options
@click.pass_obj
def prune(settings: Settings, /, older_than: str, statuses: tuple[str, ...]) -> ExitCode:
    """Delete runs that ended long ago, with all that is their own."""
    output = settings.output()
    app = existing_store(settings.store)

    async def run() -> int:
        async with app:
            return await app.prune(older_than, statuses or None)

    count = run_briefly(run)
    output.emit({"deleted": count})
    output.say(f"{count} run{'' if count == 1 else 's'} deleted.")
    return ExitCode.COMPLETED
