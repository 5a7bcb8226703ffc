"""Commands that act on runs: `cancel`, `resume`, `retry`, `fork`, `delete`, `prune`. Layer: cli.

What always holds: when a command says that it is done, what it did is stored, and happens with the next worker that is
up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from outlast.app import Outlast
from outlast.cli import collector
from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.hashseed import fix_hash_seed, reexec_option
from outlast.cli.input import read_input
from outlast.cli.logs import log_level_option, set_up_logging
from outlast.cli.options import Settings, read_duration, shared_options
from outlast.cli.stopping import run_briefly, run_stoppable
from outlast.cli.store_choice import app_on, command_line, existing_store, get_run
from outlast.cli.target import load_app
from outlast.cli.watching import Watch, no_wait_option, work_run
from outlast.core.states import ENDED
from outlast.errors import RunNotFailed
from outlast.run import Run

__all__ = ["cancel", "delete", "fork", "on_run", "prune", "resume", "retry"]

T = TypeVar("T")


def on_run(app: Outlast, run_id: str, act: Callable[[Run[Any]], Awaitable[T]]) -> T:
    """Open the store, find the run, act on it."""

    async def find_and_act() -> T:
        async with app:
            return await act(await get_run(app, run_id))

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


def _working_options(command: Callable[..., ExitCode]) -> Callable[..., ExitCode]:
    """What a command takes that lets a run go on, and may work it here."""
    work = click.option(
        "--work",
        "target",
        metavar="MODULE",
        help="Work it here, with this code, as `outlast run` does; also one that goes on already.",
    )
    timeout = click.option(
        "--timeout", type=read_duration, metavar="DURATION", help="With --work: leave the run after this long (exit 4)."
    )
    return work(timeout(no_wait_option(log_level_option(reexec_option(command)))))


def _work_here(
    settings: Settings, target: str, begin: Callable[[Outlast], Awaitable[Run[Any]]], working: dict[str, Any]
) -> ExitCode:
    """Let a run go on by `begin`, and work it in this process with the code of `target`."""
    fix_hash_seed(settings, no_reexec=working["no_reexec"])
    output = settings.output()
    with output.reserved():
        app = app_on(load_app(target), settings.store)
        existing_store(app.url)
        set_up_logging(working["log_level"], default="warning", is_viewed=not output.as_json)
        collector.settle(settings)
        go_on = command_line("worker", target, url=app.url)
        watch = Watch(
            app=app,
            output=output,
            begin=lambda: begin(app),
            timeout=working["timeout"],
            waits=not working["no_wait"],
            grace="3s",
            go_on=lambda _id: go_on,
        )
        return run_stoppable(lambda stopping: work_run(watch, stopping))


@click.command()
@click.argument("run_id", metavar="RUN")
@_working_options
@shared_options
@click.pass_obj
def retry(settings: Settings, /, run_id: str, *, target: str | None, **working: Any) -> ExitCode:
    """Let a failed RUN go on from what failed, with a fresh budget of attempts. What succeeded stays."""
    if target is None:
        output = settings.output()
        app = existing_store(settings.store)
        on_run(app, run_id, lambda run: run.retry())
        output.emit({"id": run_id, "retried": True})
        output.say(f"Run {run_id} goes on with the next worker that is up.")
        return ExitCode.COMPLETED

    async def begin(app: Outlast) -> Run[Any]:
        run = await get_run(app, run_id)
        try:
            await run.retry()
        except RunNotFailed:
            if (await run.status()).status in ENDED:
                raise
            # retried before, and nobody has worked it: join it
        return run

    return _work_here(settings, target, begin, working)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--at", "step", metavar="STEP", required=True, help="The key of the first step that is to run again.")
@click.option(
    "--result",
    "results",
    metavar="STEP=JSON",
    multiple=True,
    help="What a step before it is to have given instead; as often as wanted. JSON may be @FILE, or - for standard "
    "input.",
)
@click.option("--id", "new_id", help="The new run's name; else one is made.")
@_working_options
@shared_options
@click.pass_obj
def fork(
    settings: Settings,
    /,
    run_id: str,
    *,
    step: str,
    results: tuple[str, ...],
    new_id: str | None,
    target: str | None,
    **working: Any,
) -> ExitCode:
    """Start a new run from a copy of RUN's journal before a step, with the code at hand. RUN goes on as it is."""
    replaced = dict(_read_result(given) for given in results)

    async def begin(app: Outlast) -> Run[Any]:
        return await (await get_run(app, run_id)).fork(at=step, results=replaced, id=new_id)

    if target is not None:
        return _work_here(settings, target, begin, working)
    output = settings.output()
    app = existing_store(settings.store)
    new = on_run(app, run_id, lambda run: run.fork(at=step, results=replaced, id=new_id))
    output.emit({"id": new.id, "uid": new.uid, "forked_from": run_id})
    output.say(f"Run {new.id} is a fork of {run_id}, and goes on with the next worker that is up.")
    return ExitCode.COMPLETED


def _read_result(given: str) -> tuple[str, object]:
    """A step's key and its value, of STEP=JSON."""
    key, equals, value = given.partition("=")
    if not equals or not key:
        raise CommandError("WRONG_RESULT", "A result is STEP=JSON", given, "Say --result charge=30.", ExitCode.USAGE)
    try:
        return key, msgspec.json.decode(read_input(value))
    except msgspec.DecodeError as error:
        todo = "Give JSON itself, @FILE, or - for standard input; text stands in double quotes."
        raise CommandError("WRONG_RESULT", f"The result is no JSON, {error}", given, todo, ExitCode.USAGE) from None


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
