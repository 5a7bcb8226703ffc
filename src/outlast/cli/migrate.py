"""`outlast migrate`: make a store, or bring its schema up to date. Layer: cli."""

from __future__ import annotations

import click

from outlast.cli.exits import ExitCode
from outlast.cli.options import Settings, shared_options
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import choose_shared_url, postgres_settings, sqlite_settings, without_password
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
    url = choose_shared_url(settings.store)
    file, server = sqlite_settings(url), postgres_settings(url)
    is_new = file is not None and not file.path.exists()
    if server is not None:
        from outlast.stores.postgres.inspection import has_schema

        is_new = not run_briefly(lambda: has_schema(server))

    async def open_and_close() -> None:
        store = open_store(url)
        await store.open()
        await store.close()

    run_briefly(open_and_close)
    shown = without_password(url)
    output.emit({"store": shown, "created": is_new})
    output.say(f"{shown} is {'made' if is_new else 'up to date'}.")
    return ExitCode.COMPLETED
