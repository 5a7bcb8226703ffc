"""`outlast versions`, `draft`, `activate` and `decline`: the versions of workflows that a store keeps. Layer: cli.

What always holds: none of them needs the code; who decided, and when, is in the store once a command says that it is
done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from outlast.app import Outlast
from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.options import Settings, shared_options
from outlast.cli.output import ago, table
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import existing_store
from outlast.run.records import VersionInfo
from outlast.stores.store import VersionStatus

__all__ = ["activate", "decline", "draft", "versions"]

T = TypeVar("T")

_by = click.option("--by", metavar="USER", required=True, help="Who does it; it is recorded.")


def _in_store(settings: Settings, act: Callable[[Outlast], Awaitable[T]]) -> T:
    app = existing_store(settings.store)

    async def open_and_act() -> T:
        async with app:
            return await act(app)

    return run_briefly(open_and_act)


@click.command()
@click.argument("workflow", required=False)
@click.option("--status", type=click.Choice([status.value for status in VersionStatus]), help="Only these.")
@click.option("--limit", type=int, default=50, show_default=True, help="At most so many.")
@shared_options
@click.pass_obj
def versions(settings: Settings, /, workflow: str | None, **filters: Any) -> ExitCode:
    """List the versions that the store keeps, of WORKFLOW or of all; those stored or decided last first."""
    output = settings.output()
    found = _in_store(settings, lambda app: app.versions(workflow, **filters))
    output.emit(found)
    if not found:
        output.say("There are no such versions.")
        return ExitCode.COMPLETED
    now = datetime.now(UTC)
    columns = ("workflow", "version", "kind", "status", "stored", "by", "decided", "by")
    output.draw(table(columns, (_row(info, now) for info in found)))
    return ExitCode.COMPLETED


def _row(info: VersionInfo, now: datetime) -> tuple[str, ...]:
    decided = "" if info.decided_at is None else ago(info.decided_at, now)
    stored = ago(info.created_at, now)
    return info.workflow, info.version, info.kind, info.status, stored, info.created_by, decided, info.decided_by


@click.command()
@click.argument("path", metavar="GRAPH")
@_by
@shared_options
@click.pass_obj
def draft(settings: Settings, /, path: str, *, by: str) -> ExitCode:
    """Store the graph in a file as a draft: to be looked at, then activated or declined by somebody.

    The same graph again is the same version, and stays what it is.
    """
    output = settings.output()
    try:
        info = _in_store(settings, lambda app: app.draft(Path(path), by=by))
    except OSError as error:
        problem = f"The graph cannot be read, {error.strerror}"
        raise CommandError("TARGET_NOT_FOUND", problem, path, "Correct the path.", ExitCode.USAGE) from None
    output.emit(info)
    output.say(f"{info.workflow}, version {info.version}, is {info.status}.")
    return ExitCode.COMPLETED


@click.command()
@click.argument("workflow")
@click.argument("version")
@_by
@shared_options
@click.pass_obj
def activate(settings: Settings, /, workflow: str, version: str, *, by: str) -> ExitCode:
    """Let runs of this VERSION of WORKFLOW be started; by name, of a graph that no code declares, the one activated
    last."""
    return _decide(settings, lambda app: app.activate(workflow, version, by=by))


@click.command()
@click.argument("workflow")
@click.argument("version")
@_by
@shared_options
@click.pass_obj
def decline(settings: Settings, /, workflow: str, version: str, *, by: str) -> ExitCode:
    """Start no run of this VERSION of WORKFLOW any more. Those in flight go on."""
    return _decide(settings, lambda app: app.decline(workflow, version, by=by))


def _decide(settings: Settings, act: Callable[[Outlast], Awaitable[VersionInfo]]) -> ExitCode:
    output = settings.output()
    info = _in_store(settings, act)
    output.emit(info)
    output.say(f"{info.workflow}, version {info.version}, is {info.status}.")
    return ExitCode.COMPLETED
