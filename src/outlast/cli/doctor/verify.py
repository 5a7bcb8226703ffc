"""`outlast doctor --verify`: the journals, and what is left of runs that are not there. Layer: cli.

The second no store can tell by its protocol, which asks by run: the tables are asked, of either database in the same
words.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from urllib.parse import quote

import msgspec

from outlast.cli.doctor.findings import Finding, note, ok, wrong
from outlast.cli.exits import problem_of
from outlast.cli.store_choice import postgres_settings, run_not_found, sqlite_settings
from outlast.core.keys import check_name
from outlast.engine.verifying import Problem, Verified, verify_store
from outlast.errors import OutlastError
from outlast.stores.open import open_store
from outlast.stores.store import RunRow, Store

__all__ = ["Report", "verify"]

MOST = 1000
"""Broken things that are told one by one: a store with more has one cause that shows in the first."""
TODO = (
    "Nothing outlast does may lead to this. Keep a copy of the store as it is, and report it with the run's journal:"
    " outlast export {run}. See docs/operations.md."
)
_PARTS = ("run_values", "journal", "inbox", "kept", "tasks", "waits")
_ORPHANS = "\nunion all\n".join(
    f"select '{table}', {uid}, count(*) from outlast.{table} p"  # noqa: S608 - names of ours
    f" where not exists (select 1 from outlast.runs r where r.uid = p.{uid})"
    f" and not exists (select 1 from outlast.deleted d where d.uid = p.{uid}) group by {uid}"
    for table, uid in ((table, "uid" if table == "run_values" else "run_uid") for table in _PARTS)
)


class Report(msgspec.Struct):
    """What `--verify` says under `verified`."""

    runs: int
    entries: int
    moving: int
    """Runs that moved whenever they were looked at: judged by their journals alone."""
    problems: list[Problem]
    """The first thousand."""
    broken: int
    """How many there are."""


async def verify(url: str, run_id: str | None) -> tuple[list[Finding], Report]:
    """Read all journals, or one. Raises CommandError when it is not there."""
    verified, problems, broken = Verified(), [], 0
    store = open_store(url)
    try:
        await store.open()
        row = None if run_id is None else await _find(store, run_id)
        async for problem in verify_store(store, verified, run=row):
            broken += 1
            if broken <= MOST:
                problems.append(problem)
        if row is None:
            orphans = await _find_orphans(url)
            broken += len(orphans)
            problems += orphans[: MOST - len(problems)]
    except OutlastError as error:
        told = problem_of(error)
        report = Report(verified.runs, verified.entries, verified.moving, problems, broken)
        return [wrong("journals", f"{told.what}: {told.where}", told.todo)], report
    finally:
        await store.close()
    report = Report(verified.runs, verified.entries, verified.moving, problems, broken)
    return _tell(report), report


async def _find(store: Store, run_id: str) -> RunRow:
    """By its id, or by its uid: the id may be another's by now."""
    name = check_name("run id", run_id)
    row = await store.find_run(name) or await store.find_uid(name)
    if row is None:
        raise run_not_found(store.url, run_id)
    return row


async def _find_orphans(url: str) -> list[Problem]:
    rows: list[tuple[str, str, int]] = []
    if (file := sqlite_settings(url)) is not None:
        target = f"file:{quote(str(file.path))}?mode=ro"
        with closing(sqlite3.connect(target, uri=True, timeout=file.busy_us / 1_000_000)) as connection:
            rows = connection.execute(_ORPHANS.replace("outlast.", "")).fetchall()
    elif (server := postgres_settings(url)) is not None:
        from outlast.stores.postgres.inspection import ask

        rows = await ask(server, _ORPHANS)
    return [
        Problem(uid, f"it has {count} row{'s' if count > 1 else ''} of {table}, and is not there itself", "orphan")
        for table, uid, count in sorted(rows)
    ]


def _tell(report: Report) -> list[Finding]:
    looked = f"{report.runs:,} run{'' if report.runs == 1 else 's'} with {report.entries:,} entries"
    found = [
        wrong("journals", f"run {each.id or each.uid}: {each.text} ({each.rule})", TODO.format(run=each.id or each.uid))
        for each in report.problems
    ]
    if report.broken > len(found):
        found.append(note("journals", f"and {report.broken - len(found):,} more"))
    if not found:
        found.append(ok("journals", f"{looked}: sound"))
    else:
        found.append(note("journals", f"looked at {looked}"))
    if report.moving:
        text = f"{report.moving:,} runs moved all the while: judged by their journals alone"
        found.append(note("journals", text, "Look again when they rest, or with the workers stopped."))
    return found
