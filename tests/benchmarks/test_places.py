"""Stores that are measured on: new, of the kind that was asked for, and gone afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.children import Plan
from benchmarks.filling import fill
from benchmarks.finished import list_queries
from benchmarks.places import describe_store, drop_stores, fetch_row, new_store, run_apart
from benchmarks.plans import read_plans
from outlast.core.states import RunStatus
from outlast.stores.open import open_store
from outlast.stores.store import RunQuery
from tests.postgres_schemas import server_url

RUNS = 200


@pytest.fixture(params=["sqlite", "postgres"])
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> Plan:
    return Plan(str(tmp_path), quick=True, postgres=server_url() if request.param == "postgres" else "")


def count_schemas(plan: Plan, url: str) -> int:
    schema = url.rpartition("schema=")[2]
    count, *_ = run_apart(fetch_row(plan.postgres, f"select count(*) from pg_namespace where nspname = '{schema}'"))
    return count


def test_a_store_is_new_and_gone_afterwards(plan: Plan, tmp_path: Path) -> None:
    """What is measured meets nothing of what was measured before, and leaves nothing."""
    with new_store(plan) as url, new_store(plan) as other:
        assert url != other
        run_apart(fill(url, 3, print))
        assert (count_schemas(plan, url) if plan.postgres else len(list(tmp_path.glob("*/bench.db")))) == 1
    assert (count_schemas(plan, url) if plan.postgres else len(list(tmp_path.iterdir()))) == 0
    assert "on" in describe_store(plan) if plan.postgres else "full" in describe_store(plan)


def test_a_store_of_who_was_killed_is_dropped(tmp_path: Path) -> None:
    """Whoever started the measurement drops all schemas of its plan, whatever became of the one that made them."""
    plan = Plan(str(tmp_path), postgres=server_url())
    store = new_store(plan)
    url = store.__enter__()
    run_apart(fill(url, 3, print))
    assert count_schemas(plan, url) == 1
    drop_stores(plan)
    assert count_schemas(plan, url) == 0
    store.__exit__(None, None, None)


async def test_runs_that_are_filled_in_are_as_any_others(plan: Plan) -> None:
    """The store lists and finds them, and its statements find their rows among them by indexes."""
    with new_store(plan) as url:
        await fill(url, RUNS, print)
        store = open_store(url)
        await store.open()
        page = await store.list_runs(RunQuery(limit=1000))
        assert len(page) == RUNS
        assert sum(row.status is RunStatus.FAILED for row in page) == RUNS // 50
        found = await store.find_run("id 7")
        assert found is not None
        assert (found.uid, found.live, found.user) == ("uid 7", False, "user 0")
        assert [entry.seq for entry in await store.read_journal("uid 7")] == [0, 1]
        assert await store.count_runs() == {}
        await store.close()
        reads = await read_plans(url, list_queries(RUNS))
    assert "runs_due" in reads["claim_runs" if plan.postgres else "list_due"]
    assert any("journal" in way for way in reads["insert_entry"])
