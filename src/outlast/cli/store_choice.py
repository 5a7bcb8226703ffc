"""Which store a command works on. Layer: cli.

What always holds: a command that only looks or steers never makes a store: a wrong `--store` is told, not obeyed.
"""

# ruff: noqa: SLF001 - `app_on` makes the same app, but for its store

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from outlast.app import DEFAULT_URL, Outlast
from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.stopping import run_briefly
from outlast.cli.target import Target
from outlast.errors import RunNotFound
from outlast.payloads import Compress, Encrypt
from outlast.payloads.encryption import KEYS_VARIABLE
from outlast.run import Run
from outlast.stores.open import open_store, without_password
from outlast.stores.sqlite.connection import Settings, parse_url

if TYPE_CHECKING:
    from outlast.stores.postgres.settings import Settings as PostgresSettings

__all__ = [
    "app_on",
    "choose_shared_url",
    "choose_url",
    "command_line",
    "existing_store",
    "get_run",
    "on_store",
    "postgres_settings",
    "run_not_found",
    "sqlite_settings",
    "without_password",
]


def choose_url(given: str | None) -> str:
    """Of a command without a module: what `--store` says, else `$OUTLAST_URL`, else the default."""
    return given or os.environ.get("OUTLAST_URL") or DEFAULT_URL


def choose_shared_url(given: str | None) -> str:
    """The same, and CommandError for a store that lives in one process's memory: this one's would be another."""
    url = choose_url(given)
    if url.partition("://")[0].lower() == "memory":
        problem = "A store in memory is seen by its own process alone"
        raise CommandError(
            "STORE_NOT_FOUND",
            problem,
            url,
            "Name a file, --store sqlite:///FILE, or a database: --store postgresql://HOST/DATABASE.",
            ExitCode.USAGE,
        )
    return url


def app_on(app: Outlast, given: str | None) -> Outlast:
    """The app, on the store that `--store` says; else on its own."""
    if given is None or given == app.url:
        return app
    telemetry = app._telemetry
    moved = Outlast(
        given,
        dev=app.dev,
        codecs=app.codecs,
        tracer_provider=telemetry.tracer_provider,
        meter_provider=telemetry.meter_provider,
        mirrors=app._mirroring.mirrors,
        extensions=app.extensions,
        on_version_conflict="fail" if app._fails_on_conflict else "suspend",
    )
    moved.include(app)
    moved._audit = app._audit
    moved._queues.update(app._queues)
    moved._executors.update(app._executors)
    return moved


def on_store(target: Target, given: str | None) -> Target:
    """The same for a workflow and its app."""
    return Target(app_on(target.app, given), target.workflow)


def existing_store(given: str | None) -> Outlast:
    """An app without any code, to look at runs and to steer them; it reads values with the keys in `$OUTLAST_KEYS`.

    Raises CommandError where there is no store."""
    url = choose_shared_url(given)
    missing = _find_missing(url)
    if missing is not None:
        todo = "Name the right one with --store or $OUTLAST_URL; `outlast run`, `worker` or `migrate` makes one."
        raise CommandError("STORE_NOT_FOUND", "There is no store yet", f"{without_password(url)}, {missing}", todo)
    return Outlast(url, codecs=(Compress(), Encrypt.from_env()) if os.environ.get(KEYS_VARIABLE) else ())


def _find_missing(url: str) -> str | None:
    """What would have to be there for a store to be; None: it is."""
    file, server = sqlite_settings(url), postgres_settings(url)
    if file is not None and not file.path.exists():
        return f"the file {file.path}"
    if server is not None:
        from outlast.stores.postgres.inspection import has_schema

        if not run_briefly(lambda: has_schema(server)):
            return f"the schema {server.schema}"
    return None


async def get_run(app: Outlast, run_id: str) -> Run[Any]:
    """The run of this id in the app's store, which is open. Raises CommandError: it may be the wrong store."""
    try:
        return await app.get_run(run_id)
    except RunNotFound as error:
        raise run_not_found(app.url, run_id) from error


def run_not_found(url: str, run_id: str) -> CommandError:
    """Says in which store was looked."""
    what, where, _ = RunNotFound(run_id).parts()
    todo = f"Check the id and --store, or list what there is: {command_line('runs', url=url)}"
    return CommandError(RunNotFound.code, what, f"{where} in {without_password(url)}", todo)


def command_line(*words: str, url: str) -> str:
    """A command for people to copy; with `--store` where the default would be another one."""
    is_told = url == DEFAULT_URL or url != without_password(url)  # one with a password is not repeated
    more = () if is_told else ("--store", url)
    return shlex.join(("outlast", *words, *more))


def sqlite_settings(url: str) -> Settings | None:
    """Where an SQLite store's file is, and how it is set; None for others. Raises InvalidSetting for a wrong URL."""
    scheme, _, rest = url.partition("://")
    return parse_url(f"sqlite://{rest}") if scheme.lower() == "sqlite" else None


def postgres_settings(url: str) -> PostgresSettings | None:
    """Where a PostgreSQL store is, and how it is set; None for others. Raises InvalidSetting for a wrong URL, and
    ExtraMissing when its driver is not installed."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in {"postgresql", "postgres"}:
        return None
    open_store(url)  # says what is missing
    from outlast.stores.postgres.settings import parse_url as parse

    return parse(f"postgresql://{rest}")
