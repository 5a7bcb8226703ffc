"""`SqlMirror`: runs, steps and events in another database, for reports (SPEC O4)."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from outlast import Context, Outlast, RunFailed, SqlMirror
from outlast.core.events import ErrorRecord, RunReopened, StepFailed, StepStarted, encode_events
from outlast.core.events import RunFailed as Failed
from outlast.mirrors.sql import mirror as mirror_module
from outlast.telemetry.observer import Landed
from tests.mirrors.conftest import journal
from tests.postgres_schemas import server_url


def rows(path: Path, text: str) -> list[Any]:
    with sqlite3.connect(path) as file:
        return file.execute(text).fetchall()


def everything(path: Path) -> list[list[Any]]:
    """All rows of all tables, in order."""
    keys = {"outlast_runs": "uid", "outlast_steps": "uid, step_key", "outlast_events": "uid, seq, position"}
    return [rows(path, f"select * from {table} order by {key}") for table, key in keys.items()]


async def opened(path: Path) -> SqlMirror:
    mirror = SqlMirror(f"sqlite:///{path}")
    await mirror.open()
    return mirror


# SPEC O4
async def test_runs_steps_and_events_become_rows(tmp_path) -> None:
    """What a report asks: who, what, when, how long, how it ended, with what."""
    path = tmp_path / "m.db"
    mirror = await opened(path)
    await mirror.write(journal("u1"))
    await mirror.close()
    (run,) = rows(path, "select id, workflow, status, user_id, seconds, input, output, entries from outlast_runs")
    assert run == ("id of u1", "fulfil", "completed", "ada", pytest.approx(11e-6), "[1]", '"done"', 3)
    assert rows(path, "select step_key, function, status, attempts, arguments, result from outlast_steps") == [
        ("s#0", "step", "succeeded", 1, '{"n":0}', '"r0"'),
        ("s#1", "step", "succeeded", 1, '{"n":1}', '"r1"'),
    ]
    assert rows(path, "select seq, position, event, step_key from outlast_events order by seq, position") == [
        (0, 0, "RunStarted", None), (0, 1, "StepStarted", "s#0"), (1, 0, "StepSucceeded", "s#0"),
        (1, 1, "StepStarted", "s#1"), (2, 0, "StepSucceeded", "s#1"), (2, 1, "RunCompleted", None),
    ]  # fmt: skip


# SPEC O4
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_whatever_order_entries_come_in_the_copy_is_the_same(tmp_path_factory, data) -> None:
    """Late, twice, in any company, from two processes: once all are there, each table is as if they came in order."""
    folder = tmp_path_factory.mktemp("any")
    entries = journal("u1", 4) + journal("u2", 2)
    order = data.draw(st.permutations(entries)) + data.draw(st.lists(st.sampled_from(entries), max_size=4))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(order) - 1), max_size=4)))

    async def copy() -> None:
        plain, mixed = await opened(folder / "plain.db"), [await opened(folder / "mixed.db") for _ in range(2)]
        await plain.write(entries)
        for begin, end in zip([0, *cuts], [*cuts, len(order)], strict=True):
            await data.draw(st.sampled_from(mixed)).write(order[begin:end])
        for mirror in (plain, *mixed):
            await mirror.close()

    asyncio.run(copy())
    assert everything(folder / "plain.db") == everything(folder / "mixed.db")


# SPEC O4
async def test_a_gap_is_seen_and_healed(tmp_path) -> None:
    """The run's row tells how far it goes without one; what came behind it counts as soon as the gap is filled."""
    path, entries = tmp_path / "m.db", journal("u1")
    mirror = await opened(path)
    await mirror.write([entries[0], entries[2]])
    assert await mirror.positions(["u1", "u2"]) == {"u1": 1}
    assert rows(path, "select status, entries from outlast_runs") == [("running", 1)]
    await mirror.write([entries[1]])
    assert await mirror.positions(["u1"]) == {"u1": 3}
    assert rows(path, "select status, entries from outlast_runs") == [("completed", 3)]
    await mirror.close()


async def test_a_run_that_goes_on_changes_its_rows(tmp_path) -> None:
    """Failed, then reopened by a retry: the rows are those of the run as it is, the events those of all it was."""
    path = tmp_path / "m.db"
    mirror = await opened(path)
    first = journal("u1", 0)[0]
    started = encode_events([*_events(first)[:1], StepStarted("s", "f", Raw(b"{}"))])
    bad = ErrorRecord("Bad", "no")
    batch = [
        Landed("u1", 0, 10, "w", started),
        Landed("u1", 1, 20, "w", encode_events([StepFailed(20, "s", 1, bad), Failed(bad, ("s",))])),
    ]
    await mirror.write(batch)
    assert rows(path, "select status, error_type from outlast_runs") == [("failed", "Bad")]
    assert rows(path, "select status, error_message from outlast_steps") == [("failed", "no")]
    await mirror.write([Landed("u1", 2, 30, "client", encode_events([RunReopened(30, "retry", 2)]))])
    assert rows(path, "select status, error_type, finished_at from outlast_runs") == [("queued", None, None)]
    assert rows(path, "select count(*) from outlast_events") == [(5,)]
    await mirror.close()


def _events(entry: Landed) -> list[Any]:
    from outlast.core.events import decode_events

    return decode_events(entry.events)


async def test_a_batch_that_fails_leaves_nothing(tmp_path, monkeypatch) -> None:
    """One transaction; and what this process thought to have written is forgotten with it."""
    path, entries = tmp_path / "m.db", journal("u1", 3)
    mirror = await opened(path)
    await mirror.write(entries[:1])
    rewrite = mirror_module._rewrite

    def fail(*args: Any) -> None:
        rewrite(*args)
        raise OSError("the line is cut")

    monkeypatch.setattr(mirror_module, "_rewrite", fail)
    with pytest.raises(OSError, match="line"):
        await mirror.write(entries[1:3])
    monkeypatch.undo()
    assert rows(path, "select count(distinct seq) from outlast_events") == [(1,)]
    await mirror.write(entries[1:])
    assert await mirror.positions(["u1"]) == {"u1": 4}
    assert rows(path, "select count(*) from outlast_steps") == [(3,)]
    await mirror.close()


# SPEC O4
async def test_what_a_mirror_says_of_a_run_is_what_its_status_says(tmp_path) -> None:
    """With an app: completed and failed runs, with their steps."""
    path = tmp_path / "m.db"
    app = Outlast(f"sqlite:///{tmp_path}/x.db", mirrors=[SqlMirror(f"sqlite:///{path}")])

    @app.step(name="charge", retries=0)
    async def charge(amount: int) -> str:
        if amount < 0:
            raise ValueError("no such amount")
        return f"receipt for {amount}"

    @app.workflow(name="pay")
    async def pay(ctx: Context, amount: int) -> str:
        return await charge(amount)

    async with app.worker():
        good, bad = await app.start("pay", 3, user="ada"), await app.start("pay", -3)
        await good.result(timeout=20)
        with pytest.raises(RunFailed):
            await bad.result(timeout=20)
    found = {
        uid: rest for uid, *rest in rows(path, "select uid, status, output, error_type, user_id from outlast_runs")
    }
    assert found == {
        good.uid: ["completed", '"receipt for 3"', None, "ada"],
        bad.uid: ["failed", None, "ValueError", None],
    }
    assert sorted(rows(path, "select function, status from outlast_steps")) == [
        ("charge", "failed"), ("charge", "succeeded"),
    ]  # fmt: skip


def test_another_database_is_named_as_sqlalchemy_names_it() -> None:
    """`postgresql://` alone is asyncpg's; what has a driver keeps it; no password is in its name."""
    assert SqlMirror("postgresql://me:secret@db/reports").name == "sql:reports"
    assert SqlMirror("postgresql://me:secret@db/reports")._url.drivername == "postgresql+asyncpg"
    assert SqlMirror("sqlite:///x.db")._url.drivername == "sqlite"


# SPEC O4
async def test_processes_share_a_postgresql_database() -> None:
    """Two of them write the same runs at the same time, each other entries: no row is missing, and none is stale."""
    url, schema = server_url(), f"test_{secrets.token_hex(4)}"
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'create schema "{schema}"')
        mirrors = [SqlMirror(url, schema=schema) for _ in range(2)]
        await mirrors[0].open()
        await mirrors[1].open()
        journals = [journal(f"u{number}", 6) for number in range(8)]

        async def copy(mirror: SqlMirror, start: int) -> None:
            for seq in range(start, 7, 2):
                await mirror.write([entries[seq] for entries in journals])

        async with asyncio.TaskGroup() as group:
            for start, mirror in enumerate(mirrors):
                group.create_task(copy(mirror, start))
        assert set((await mirrors[0].positions([f"u{number}" for number in range(8)])).values()) == {7}
        runs = await connection.fetch(f'select status, entries, created_at from "{schema}".outlast_runs')
        assert {tuple(row)[:2] for row in runs} == {("completed", 7)}
        assert runs[0]["created_at"].tzinfo is not None
        steps = await connection.fetch(f'select status, count(*) from "{schema}".outlast_steps group by status')
        assert [tuple(row) for row in steps] == [("succeeded", 48)]
        for mirror in mirrors:
            await mirror.close()
    finally:
        await connection.execute(f'drop schema if exists "{schema}" cascade')
        await connection.close()
