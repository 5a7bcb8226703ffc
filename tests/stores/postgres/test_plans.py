"""How PostgreSQL finds rows: by an index that leads to them, whether tables are small or large.

Plans are kept, so one that is good for an empty store must be good for a full one: both are looked at."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from outlast.core.states import RunStatus
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.listing import write_query
from outlast.stores.postgres.settings import Role, Settings, parse_url
from outlast.stores.postgres.statements import Statement, in_schema, load_statements
from outlast.stores.store import RunQuery
from tests.postgres_schemas import new_url, run_apart
from tests.stores.postgres.sessions import Session

FILES = ("claims", "deletion", "journal", "mail", "pools", "runs", "starts", "tasks", "waits", "workers")
STATEMENTS = [(file, statement) for file in FILES for statement in load_statements(file).values()]
SMALL = {"workers", "deleted", "shares"}  # a row for each worker, each deletion under way, each group served lately
FILL = """
insert into outlast.runs (uid, id, holds, workflow, version, status, live, owner, epoch, wake_at, priority, queue,
  user_id, parent, created_at, updated_at, finished_at, waiting_on, pool, share)
select 'r' || n, 'id ' || n, true, 'w' || n % 5, 'v', case n % 20 when 0 then 'queued' when 1 then 'running'
    when 2 then 'suspended' when 3 then 'failed' else 'completed' end,
  n % 20 < 3, case n % 20 when 1 then 'worker' || n % 3 end, 1, case n % 20 when 0 then n end,
  n % 10 + case when n % 7 = 0 then 10 else 0 end, 'q' || n % 3,
  'user' || n % 100, case when n % 50 = 7 then 'r1' end, n, n, case when n % 20 >= 3 then n end,
  case when n % 20 = 2 then 'code' else '' end, case when n % 7 = 0 then 'w' || n % 5 end, 'g' || n % 9
from generate_series(1, {runs}) n;
insert into outlast.run_values (uid, attributes, trace)
select uid, '{{}}', '' from outlast.runs;
insert into outlast.journal (run_uid, seq, at, writer, mark, events)
select uid, seq, 1, 'w', seq, '[]' from outlast.runs, generate_series(0, 2) seq;
insert into outlast.inbox (run_uid, no, id, kind, payload, sent_at)
select uid, 1, 'm', 'signal', '1', 1 from outlast.runs where live;
insert into outlast.tasks (run_uid, key, attempt, queue, function, arguments, details, due_at, priority, share, owner)
select
  uid, 'k', 1, queue, 'f', '', '', 1, priority, 'share' || wake_at % 7,
  case when wake_at % 40 = 0 then 'worker1' end
from outlast.runs where live and wake_at is not null;
insert into outlast.waits (run_uid, key, kind, name, opened_at, deadline, policy)
select uid, 'k', 'approval', 'n', created_at, null, '' from outlast.runs where live;
analyze outlast.runs, outlast.run_values, outlast.journal, outlast.inbox, outlast.tasks, outlast.waits;
"""


@pytest.fixture(scope="module", params=["empty", "full"])
def settings(request: pytest.FixtureRequest) -> Settings:
    """Of a store with nothing in it, and of one with all there can be."""
    url = new_url()
    settings = parse_url(url)

    async def fill() -> None:
        store = PostgresStore(url)
        await store.open()
        await store.close()
        connection = await asyncpg.connect(settings.dsn)
        if request.param == "full":
            await connection.execute(in_schema(FILL.format(runs=8000), settings.schema))
        await connection.close()

    run_apart(fill())
    return settings


@pytest.fixture
async def session(settings: Settings) -> AsyncIterator[Session]:
    """As the store's own are set."""
    connection = await asyncpg.connect(settings.dsn, server_settings=settings.session(Role.WORK))
    yield connection
    await connection.close()


async def explain(session: Session, settings: Settings, statement: Statement) -> dict[str, Any]:
    """The plan that is kept for the statement, whatever its values."""
    await session.execute(f"prepare asked as {in_schema(statement.text, settings.schema)}")
    values = ", ".join(["null"] * len(statement.parameters))
    call = f"asked({values})" if values else "asked"
    plan = json.loads(await session.fetchval(f"explain (format json) execute {call}"))
    await session.execute("deallocate asked")
    return plan[0]["Plan"]


def iter_nodes(node: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Each node of a plan, and the kinds of those above it."""
    yield node, above
    for below in node.get("Plans", ()):
        yield from iter_nodes(below, (*above, node["Node Type"]))


HEADS = {"look", "find_orphan_owner", "list_lapsed", "list_pools"}
"""Statements that hop through an index from its head, a row at a time."""


def find_walks(plan: dict[str, Any], name: str) -> list[str]:
    """Where a table that grows with the runs is read from its beginning."""
    return [
        f"{node['Node Type']} on {node['Relation Name']}"
        for node, above in iter_nodes(plan)
        if node.get("Relation Name", "workers") not in SMALL
        and node["Node Type"] != "ModifyTable"
        and "Index Cond" not in node
        and not (name in HEADS and above[-1] == "Limit" and node["Node Type"].startswith("Index"))
    ]


@pytest.mark.parametrize(("file", "statement"), STATEMENTS, ids=[f"{file}.{each.name}" for file, each in STATEMENTS])
async def test_a_statement_finds_its_rows_by_an_index(session, settings, file: str, statement: Statement):
    """No statement walks a table that grows with the runs, and each says in a sentence what it is for."""
    assert statement.purpose.rstrip().endswith((".", ")"))
    plan = await explain(session, settings, statement)
    assert find_walks(plan, statement.name) == [], json.dumps(plan, indent=1)


# PROTOCOL F34
@pytest.mark.parametrize(("name", "index"), [("claim_runs", "runs_due"), ("claim_tasks", "tasks_due")])
async def test_a_claim_walks_the_head_of_its_index(session, settings, name: str, index: str):
    """Each level of each queue is a range of the index up to now; only what it may claim is sorted."""
    plan = await explain(session, settings, load_statements("claims")[name])
    scans = [node for node, _ in iter_nodes(plan) if node.get("Index Name") == index]
    assert len(scans) == 1
    for column in ("queue", "priority", "due_at" if "tasks" in name else "wake_at"):
        assert column in scans[0]["Index Cond"]
    below_limits = [node["Node Type"] for node, above in iter_nodes(plan) if above[-1:] == ("Limit",)]
    assert "Index Scan" in below_limits, "the range is not cut before it is sorted"


# SPEC Q2
async def test_a_claim_of_a_pool_walks_the_head_of_its_index(session, settings):
    """Each group gives a range of its index up to now, and places are counted in an index of those that are taken."""
    plan = await explain(session, settings, load_statements("pools")["claim_pooled"])
    scans = [node for node, _ in iter_nodes(plan) if node.get("Relation Name") == "runs" and "Index Name" in node]
    assert {node["Index Name"] for node in scans} >= {"runs_pooled", "runs_placed", "runs_placed_queue"}
    assert {node["Index Name"] for node in scans} <= {"runs_pooled", "runs_placed", "runs_placed_queue", "runs_pkey"}
    heads = [node for node in scans if "wake_at" in node["Index Cond"]]
    assert {node["Index Name"] for node in heads} == {"runs_pooled"}
    assert len(heads) == 2, "of the first of each group, and of those that are taken"
    for column in ("queue", "pool", "priority", "share"):
        assert all(f"{column} = " in head["Index Cond"] for head in heads)


QUERIES = {
    "all": RunQuery(),
    "page": RunQuery(after=(4000, "r4000")),
    "workflow": RunQuery(workflow="w1"),
    "open": RunQuery(statuses=(RunStatus.QUEUED, RunStatus.RUNNING)),
    "failed": RunQuery(statuses=(RunStatus.FAILED,)),
    "user": RunQuery(user="user7"),
    "parent": RunQuery(parent="r1"),
    "created": RunQuery(created_from=100, created_until=200),
    "attributes": RunQuery(attributes=(("region", b'"eu"'),)),
}


@pytest.mark.parametrize("settings", ["full"], indirect=True)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
async def test_a_page_of_a_list_is_read_in_its_order(settings: Settings, query: RunQuery):
    """A list costs what is in the page: nothing is sorted but what a filter left few of."""
    connection = await asyncpg.connect(settings.dsn, server_settings=settings.session(Role.LISTS))
    sql, values = write_query(query)
    text = in_schema(f"explain (format json) {sql}", settings.schema)
    for number, value in reversed([*enumerate(values, 1)]):
        text = text.replace(f"${number}", await connection.fetchval("select quote_literal($1::text)", as_text(value)))
    plan = json.loads(await connection.fetchval(text))[0]["Plan"]
    await connection.close()
    for node, _ in iter_nodes(plan):
        assert node["Node Type"] != "Seq Scan" or node["Relation Name"] != "runs", plan
        if node["Node Type"] == "Sort":
            assert node["Plan Rows"] <= 500, plan


def as_text(value: object) -> str:
    return "{" + ",".join(map(str, value)) + "}" if isinstance(value, list) else str(value)
