"""`outlast export` and `outlast import`: a run's journal as a file. Layer: cli."""

# ruff: noqa: SLF001 - files are written from what lies in the store, which is no business of programs

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from outlast.app import Outlast
from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.options import Settings, shared_options
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import choose_shared_url, existing_store, run_not_found
from outlast.core.keys import check_name
from outlast.run.transfer import IMPORTED, Imported, export_run, import_run

__all__ = ["export", "import_"]


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--output", "-o", "file", type=click.Path(dir_okay=False, path_type=Path), help="Default: standard output."
)
@shared_options
@click.pass_obj
def export(settings: Settings, /, run_id: str, *, file: Path | None) -> ExitCode:
    """Write RUN's journal as JSON lines, exactly as it lies in the store: encrypted values stay encrypted."""
    app = existing_store(settings.store)

    async def read() -> list[bytes]:
        async with app:
            engine = app._here("outlast export")
            row = await engine.store.find_run(check_name("run id", run_id))
            if row is None:
                raise run_not_found(app.url, run_id)
            return list(await export_run(engine, row))

    lines = run_briefly(read)
    try:
        if file is None:
            sys.stdout.buffer.writelines(lines)
            sys.stdout.buffer.flush()
        else:
            file.write_bytes(b"".join(lines))
    except OSError as error:
        todo = "Choose another --output."
        raise CommandError(
            "FILE_NOT_WRITTEN", f"The file cannot be written, {error.strerror}", str(file), todo
        ) from None
    return ExitCode.COMPLETED


@click.command("import")
@click.argument("file", type=click.File("rb"), metavar="FILE|-")
@shared_options
@click.pass_obj
def import_(settings: Settings, /, file: Iterable[bytes]) -> ExitCode:
    """Write the run of a file that `outlast export` made into a store.

    It keeps its id and uid. One that had not ended is suspended as IMPORTED: resume it when the original is gone, or
    both would go on. A file that broke off while it was imported can be imported again.
    """
    output = settings.output()
    app = Outlast(choose_shared_url(settings.store))

    async def write() -> Imported:
        async with app:
            return await import_run(app._here("outlast import"), file)

    done = run_briefly(write)
    output.emit(done)
    output.say(f"Run {done.id} is imported: {done.entries} entries, {done.status}")
    if done.status == "suspended":
        output.say(f"It is suspended. If it was set aside as {IMPORTED}, resume it when its original is gone.")
    return ExitCode.COMPLETED
