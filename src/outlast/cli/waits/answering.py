"""`outlast waits`, `signal` and `approve`: what runs wait for, and how it is answered. Layer: cli.

What always holds: `signal` says that it is done once that is stored; `approve` once the run has judged the decision,
or, with exit code 4, that it is recorded and not judged yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.input import read_input
from outlast.cli.options import Settings, read_duration, shared_options
from outlast.cli.output import ago, show_instant, table
from outlast.cli.steering import on_run
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import existing_store
from outlast.core.durations import parse_duration
from outlast.core.waits.approval import User
from outlast.core.waits.events import WaitKind
from outlast.run import Run, WaitInfo, WaitPage

__all__ = ["approve", "signal", "waits"]

VALUE_HELP = "JSON, or @FILE, or - for standard input."


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("name", metavar="NAME")
@click.option("--value", default="null", show_default=True, metavar="JSON", help=VALUE_HELP)
@click.option("--key", help="It counts once for this key, however often it is sent.")
@shared_options
@click.pass_obj
def signal(settings: Settings, /, run_id: str, name: str, *, value: str, key: str | None) -> ExitCode:
    """Send RUN the signal NAME. It is kept until its body waits for that name."""
    output = settings.output()
    given = _read_value(value)
    on_run(existing_store(settings.store), run_id, lambda run: run.signal(name, given, key=key))
    output.emit({"id": run_id, "signalled": name})
    output.say(f"The signal {name!r} is stored for run {run_id}.")
    return ExitCode.COMPLETED


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("reason", metavar="REASON")
@click.option("--value", required=True, metavar="JSON", help=f"The decision. {VALUE_HELP}")
@click.option("--by", "user", required=True, metavar="USER", help="Who decides.")
@click.option("--scope", "scopes", multiple=True, help="What they are allowed; as often as wanted.")
@click.option(
    "--timeout",
    type=read_duration,
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="How long to wait until the run has judged it (exit 4).",
)
@click.option("--key", help="With the same key the same attempt is asked about again.")
@shared_options
@click.pass_obj
def approve(
    settings: Settings,
    /,
    run_id: str,
    reason: str,
    *,
    value: str,
    user: str,
    scopes: Sequence[str],
    timeout: str,
    key: str | None,
) -> ExitCode:
    """Decide the approval of RUN with this REASON, or key. Exit code 1: the decision does not count, and why."""
    output = settings.output()
    given, by = _read_value(value), User(user, scopes)
    parse_duration(timeout)  # before anything is asked of the store

    async def decide(run: Run[Any]) -> datetime:
        try:
            return (await run.approve(reason, given, by=by, timeout=timeout, key=key)).at
        except TimeoutError as error:
            what, where = str(error).partition(":")[0], f"approval {reason!r} of run {run_id!r}"
            todo = (
                "It will be, when a worker comes to it and the body asks so: outlast waits shows what is asked. A run "
                "that has failed is to be retried first: outlast retry. "
                "With --key the same command asks about the same attempt."
            )
            raise CommandError("NOT_JUDGED", what, where, todo, ExitCode.WAITING) from None

    at = on_run(existing_store(settings.store), run_id, decide)
    output.emit({"id": run_id, "reason": reason, "by": user, "at": at})
    output.say(f"Run {run_id} has taken the decision of {user} on {reason!r}.")
    return ExitCode.COMPLETED


def _read_value(given: str) -> Any:
    try:
        return msgspec.json.decode(read_input(given))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        todo = 'Give JSON: a text as "text", in its quotes.'
        raise CommandError("VALUE_NOT_READ", f"The value is not JSON, {error}", given, todo, ExitCode.USAGE) from None


@click.command()
@click.option("--kind", type=click.Choice([str(kind) for kind in WaitKind]), help="Of this kind.")
@click.option("--name", help="Of this name: a signal's, a gate's reason, an approval's reason or key.")
@click.option("--workflow", help="Of runs of this workflow.")
@click.option("--limit", type=int, default=50, show_default=True, help="At most so many.")
@click.option("--after", help="The next page: what the page before ended with.")
@shared_options
@click.pass_obj
def waits(settings: Settings, /, **filters: Any) -> ExitCode:
    """List what runs wait for that somebody can answer, the longest first."""
    output = settings.output()
    app = existing_store(settings.store)

    async def read() -> WaitPage:
        async with app:
            return await app.waits(**filters)

    page = run_briefly(read)
    output.emit(page)
    if not page.waits:
        output.say("Nobody is waited for.")
        return ExitCode.COMPLETED
    now = datetime.now(UTC)
    columns = ("run", "workflow", "kind", "key", "since", "until", "who may")
    output.draw(table(columns, (_row(wait, now) for wait in page.waits)))
    if page.next is not None:
        output.say(f"There are more: --after {page.next}")
    return ExitCode.COMPLETED


def _row(wait: WaitInfo, now: datetime) -> tuple[str, ...]:
    who = wait.approvers or ""
    if wait.scope is not None:
        who = f"{who}, with scope {wait.scope}"
    until = show_instant(wait.until) if wait.until is not None else ""
    return wait.run_id, wait.workflow, wait.kind, wait.key, ago(wait.since, now), until, who
