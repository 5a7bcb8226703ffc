"""`outlast mirror`: copy to a mirror what it misses of a store. Layer: cli."""

from __future__ import annotations

import click

from outlast.cli.exits import ExitCode
from outlast.cli.options import Settings, shared_options
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import existing_store
from outlast.mirrors import JsonLinesMirror, SqlMirror
from outlast.mirrors.catching_up import CaughtUp, catch_up
from outlast.mirrors.mirror import close_mirror, open_mirror

__all__ = ["mirror"]

FILE = "file://"


@click.command()
@click.option("--from", "source", metavar="URL", help="The store; the same as --store.")
@click.option("--to", "target", metavar="URL", required=True, help="file:///PATH for lines of JSON, else a database.")
@click.option("--check", is_flag=True, help="Copy nothing, only say what is missing; exits 1 if anything is.")
@shared_options
@click.pass_obj
def mirror(settings: Settings, /, source: str | None, target: str, *, check: bool) -> ExitCode:
    """Copy to a mirror the entries of journals it misses. It may be run again, and beside workers.

    Databases are named as SQLAlchemy names them: sqlite:///FILE, postgresql://HOST/NAME.
    """
    output = settings.output()
    app = existing_store(source or settings.store)
    kept = JsonLinesMirror(target.removeprefix(FILE)) if target.startswith(FILE) else SqlMirror(target)

    async def copy() -> CaughtUp:
        async with app:
            await open_mirror(kept)
            try:
                return await catch_up(app._here().store, kept, only_look=check)  # noqa: SLF001 - as run.events() does
            finally:
                await close_mirror(kept)

    done = run_briefly(copy)
    output.emit({"runs": done.runs, "incomplete": done.incomplete, "entries": done.entries, "copied": not check})
    verb = "are missing" if check else "were missing, and are copied"
    output.say(f"{done.runs} runs: {done.entries} entries of {done.incomplete} of them {verb}.")
    return ExitCode.FAILED if check and done.entries else ExitCode.COMPLETED
