"""The SQL: each statement says what it is for, finds its rows by an index, and costs the same in a large store."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.core.states import RunStatus
from outlast.stores.sqlite import SqliteStore, runs
from outlast.stores.sqlite.listing import write_query, write_waits_query
from outlast.stores.sqlite.migrate import list_migrations, split
from outlast.stores.sqlite.statements import Statement, load_statements
from outlast.stores.store import Effects, NewRun, Progress, RowChange, RunQuery, RunSharing, WaitQuery
from outlast.testing.stores.writing import HOUR, claiming, register
from tests.stores.sqlite_peer import ROOT

PACKAGE = ROOT / "src/outlast/stores/sqlite"
FILES = sorted(path.stem for path in (PACKAGE / "sql").glob("*.sql"))
STATEMENTS = [
    (file, statement)
    for file in FILES
    for statement in load_statements(file).values()
    if not (file == "listing" and "$" in statement.sql)  # put together in Python; see below
]
COUNTS = {"count_open": "runs_open"}  # a walk through the index of what has not ended is what it is for
SMALL = {"workers", "deleted", "versions"}  # a row for each worker, each deletion under way, each version kept


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    """A store's tables, empty."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for migration in list_migrations():
        for statement in split(migration):
            connection.execute(statement)
    yield connection
    connection.close()


def explain(database: sqlite3.Connection, sql: str, values: list | None = None) -> list[str]:
    """The steps of SQLite's plan."""
    names = set(re.findall(r":(\w+)", sql))
    given = values or (dict.fromkeys(names, "1") if names else ["1"] * sql.count("?"))
    return [row[3] for row in database.execute(f"explain query plan {sql}", given)]


def write_out(statement: Statement) -> str:
    if not statement.columns:
        return statement.sql
    [(sql, _)] = statement.fill([("1",) * statement.columns] * 2)
    return sql


@pytest.mark.parametrize(("file", "statement"), STATEMENTS, ids=[f"{file}.{each.name}" for file, each in STATEMENTS])
def test_a_statement_finds_its_rows_by_an_index(database: sqlite3.Connection, file: str, statement: Statement):
    """No statement walks a table that grows with the runs, and each says in a sentence what it is for."""
    assert statement.purpose.rstrip().endswith(".")
    tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")} - SMALL
    aliases = {alias: name for name, alias in re.findall(r"(?:from|join) (\w+) (\w)\b", statement.sql)}
    for step in explain(database, write_out(statement)):
        walked = re.match(r"SCAN (\w+)", step)
        if step.endswith(f"COVERING INDEX {COUNTS.get(statement.name)}"):
            continue
        if walked is not None and not (" USING " in step and "limit" in statement.sql):
            assert aliases.get(walked[1], walked[1]) not in tables, step


@pytest.mark.parametrize(("name", "index"), [("runs.list_due", "runs_due"), ("tasks.list_due", "tasks_due")])
def test_a_claim_walks_the_head_of_its_index(database: sqlite3.Connection, name: str, index: str):
    """Each level of each queue is a range of the index up to now; only what it may claim is sorted (F34)."""
    file, _, statement = name.partition(".")
    steps = explain(database, load_statements(file)[statement].sql)
    assert any(re.search(rf"{index} \(queue=\? AND priority=\? AND \w+<\?\)", step) for step in steps), steps
    assert sum("TEMP B-TREE" in step for step in steps) == 1


QUERIES = {
    "runs_created": RunQuery(),
    "runs_workflow": RunQuery(workflow="w", created_from=1, created_until=2),
    "runs_open": RunQuery(statuses=(RunStatus.RUNNING, RunStatus.SUSPENDED), workflow="w", after=(1, "u")),
    "runs_fell": RunQuery(statuses=(RunStatus.FAILED,)),
    "runs_user": RunQuery(user="ada", attributes=(("region", b'"eu"'), ("n", b"[1]"))),
    "runs_parent": RunQuery(parent="p", waiting_on="si*"),
}


@pytest.mark.parametrize("index", QUERIES)
def test_a_list_walks_the_index_that_fits_it(database: sqlite3.Connection, index: str):
    """A page comes from an index in the order of the page, and nothing is sorted."""
    statement, values = write_query(QUERIES[index])
    steps = explain(database, statement.sql, values)
    assert any(f" {index}" in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps


WAITS = {
    "waits_opened": WaitQuery(kind="approval", workflow="w", after=(1, "u", "k")),
    "waits_name": WaitQuery(name="paid", after=(1, "u", "k")),
}


@pytest.mark.parametrize("index", WAITS)
def test_a_list_of_waits_walks_the_index_that_fits_it(database: sqlite3.Connection, index: str):
    """A page comes from an index in the order of the page, and nothing is sorted."""
    statement, values = write_waits_query(WAITS[index])
    steps = explain(database, statement.sql, values)
    assert any(f" {index}" in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps


def test_every_statement_is_used():
    """A statement that nothing calls is gone."""
    code = "\n".join(path.read_text() for path in PACKAGE.glob("*.py"))
    unused = [each.name for _, each in STATEMENTS if f'["{each.name}"]' not in code]
    assert unused == []


def test_rows_are_filled_up_to_a_size():
    """A statement for many rows exists in few sizes: all rows are in it, in order, and NULLs behind them."""
    statement = Statement("s", "S.", "with rows (a, b) as (values :rows) select * from rows where a is not null", 2)
    for count in (1, 2, 5, 64, 65, 1000, 1024, 1025, 3000):
        rows = [(f"a{n}", n) for n in range(count)]
        with sqlite3.connect(":memory:") as database:
            found = [row for sql, values in statement.fill(rows) for row in database.execute(sql, values)]
        database.close()
        assert found == rows
    assert len({sql for count in range(1, 1025) for sql, _ in statement.fill([(1, 2)] * count)}) == 20


@pytest.mark.slow
async def test_claims_cost_the_same_in_a_large_store(tmp_path: Path):
    """Sleeping and ended runs cost a claim nothing: SQLite does the same work with thousands of them (W7)."""
    store = SqliteStore(f"sqlite:///{tmp_path}/store.db?synchronous=normal")
    await store.open()
    worker = await register(store, "w", HOUR)
    few = await count_steps(store, worker)
    now = await store.now()
    ended = RowChange(status=RunStatus.COMPLETED, ended=True)
    for _ in range(8):
        sleeping = [start_one(wake_at=now + HOUR) for _ in range(500)]
        await store.commit(worker, sleeping + [start_one(row=ended, claimed=True) for _ in range(500)])
    many = await count_steps(store, worker)
    assert {name: count for name, count in many.items() if count > 1.2 * few[name]} == {}
    await store.close()


@pytest.mark.slow
async def test_what_is_shared_out_costs_others_nothing(tmp_path: Path):
    """A backlog of a pool is not looked at by who claims other runs; and what waits, sleeps or has ended of it costs a
    claim of the pool nothing either."""
    store = SqliteStore(f"sqlite:///{tmp_path}/store.db?synchronous=normal")
    await store.open()
    worker = await register(store, "w", HOUR)
    shop = RunSharing("shop", most=1_000_000)
    few, few_pooled = await count_least(store, worker), await count_least(store, worker, shop)
    now = await store.now()
    ended = RowChange(status=RunStatus.COMPLETED, ended=True)
    for _ in range(4):
        waiting = [start_one(pool="shop", wake_at=now + n % 2 * HOUR) for n in range(500)]
        await store.commit(worker, waiting + [start_one(row=ended, claimed=True, pool="shop") for _ in range(500)])
    many, many_pooled = await count_least(store, worker), await count_least(store, worker, shop)
    assert {name: count for name, count in many.items() if count > 1.2 * few[name]} == {}
    assert {name: count for name, count in many_pooled.items() if count > 1.5 * few_pooled[name]} == {}
    await store.close()


def start_one(row: RowChange | None = None, **new) -> Progress:
    uid = str(uuid.uuid4())
    return Progress(uid, 0, effects=Effects(start=NewRun(uid, "w", "v", **new), row=row))


async def count_least(store: SqliteStore, worker: str, sharing: RunSharing | None = None) -> dict[str, int]:
    """The same without what the writer may have had to do beside."""
    counts = [await count_steps(store, worker, sharing) for _ in range(3)]
    return {name: min(each[name] for each in counts) for name in counts[0]}


async def count_steps(store: SqliteStore, worker: str, sharing: RunSharing | None = None) -> dict[str, int]:
    """How many instructions of SQLite's machine, in tens, a look and a claim of one run take."""
    steps: dict[str, int] = {}

    async def count(name: str) -> None:
        counts = threading.Event()

        def one(connection: sqlite3.Connection) -> None:
            connection.set_progress_handler(lambda: steps.update({name: steps.get(name, 0) + 1}), 10)
            counts.set()

        store._writer.run_aside(one)
        await asyncio.to_thread(counts.wait)

    await store.commit(None, [start_one(pool=sharing and sharing.pool)])
    lanes = () if sharing is None else (("default", sharing.pool),)
    await count("claim")
    assert len(await store.claim(claiming(worker, limit=1), sharing)) == 1
    await count("look")
    await store._writer.submit(lambda tx: runs.look(tx, claiming(worker, lanes=lanes)))
    store._writer.run_aside(lambda connection: connection.set_progress_handler(None, 0))
    return steps
