"""`outlast migrate`: make a store, or bring its schema up to date. Layer: cli."""

from __future__ import annotations

import asyncio

import click

from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.options import Settings, shared_options
from outlast.cli.store_choice import choose_url, sqlite_file
from outlast.stores.open import open_store

__all__ = ["migrate"]


@click.command()
@shared_options
@click.pass_obj
def migrate(settings: Settings) -> ExitCode:
    """Make the store if there is none, and bring its schema up to date.

    Every process does so when it opens a store; this is for deploys that want it done, or to fail, beforehand.
    """
    output = settings.output()
    url = choose_url(settings.store)
    if url.startswith("memory:"):
        problem, todo = "A store in memory has nothing to migrate", "Name another with --store."
        raise CommandError("STORE_NOT_FOUND", problem, url, todo, ExitCode.USAGE)
    path = sqlite_file(url)
    is_new = path is not None and not path.exists()

    async def open_and_close() -> None:
        store = open_store(url)
        await store.open()
        await store.close()

    asyncio.run(open_and_close())
    output.emit({"store": url, "created": is_new})
    output.say(f"{url} is {'made' if is_new else 'up to date'}.")
    return ExitCode.COMPLETED
