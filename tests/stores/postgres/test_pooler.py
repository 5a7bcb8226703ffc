"""Behind a pooler in transaction mode: nothing that a session was told before is relied on."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator

import pytest

from outlast.errors import InvalidSetting
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.settings import parse_url
from outlast.testing.stores.promises import claims, deletion, ends, entries, listing, mail, parks, starts, workers
from outlast.testing.stores.promises.queued import queues, tasks
from outlast.testing.stores.writing import HOUR, entry, land, own, register
from tests.stores.postgres.pooler import pooler_to

PROMISES = [
    claims.test_order_holds_across_queues,
    claims.test_only_what_is_still_so_is_adopted,
    deletion.test_a_deleted_run_leaves_nothing,
    ends.test_an_end_takes_the_tasks_that_nobody_runs,
    entries.test_outcomes_come_in_the_order_of_the_batch,
    entries.test_effects_of_a_repeated_entry_happen_once,
    entries.test_an_unknown_worker_writes_nothing,
    listing.test_filters_and_pages_go_together,
    mail.test_sends_of_a_batch_to_one_run_all_arrive,
    mail.test_a_repeated_send_counts_once,
    parks.test_two_runs_that_send_to_each_other_and_park_are_both_due,
    queues.test_queues_say_what_waits_and_what_is_held,
    starts.test_an_ended_run_gives_its_id_up,
    starts.test_many_children_start_at_once,
    tasks.test_tasks_are_completed_in_company,
    workers.test_a_retired_worker_hands_its_runs_back,
]
"""Of the contract, those that between them send most of the statements."""


@pytest.fixture
async def pooled_url(url: str) -> AsyncIterator[str]:
    async with pooler_to(url) as through:
        yield through


@pytest.fixture
async def store(pooled_url: str, make_store) -> AsyncIterator[PostgresStore]:
    pooled = await make_store(pooled_url)
    yield pooled
    await pooled.close()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__.removeprefix("test_"))
async def test_the_contract_holds_behind_a_pooler(store: PostgresStore, worker: str, other: str, promise):
    """What the store promises does not depend on whose session a transaction gets."""
    given = {"store": store, "worker": worker, "other": other}
    await promise(**{name: given[name] for name in inspect.signature(promise).parameters})


async def test_every_transaction_sets_what_it_relies_on(store: PostgresStore):
    """Durability, isolation and limits are set for each transaction, and nothing is left in the session."""
    wanted = {"synchronous_commit": "on", "statement_timeout": "3333ms", "enable_seqscan": "off"}
    async with store._writing.link() as link:
        async with link.transaction():
            inside = {name: (await link.fetch_text(f"select current_setting('{name}')"))[0][0] for name in wanted}
        assert inside == wanted
        after = await link._connection.fetch("show enable_seqscan")
        prepared = await link._connection.fetch("select name from pg_prepared_statements where name <> ''")
    assert after[0][0] == "on"
    assert prepared == []


async def test_a_lease_is_renewed_behind_a_pooler(store: PostgresStore):
    """By the thread that does it, whatever the event loop does."""
    await register(store, "w", HOUR)
    assert await asyncio.to_thread(store.renew, "w", HOUR) is not None


async def test_without_the_option_a_pooler_refuses_us(pooled_url: str):
    """Settings at the start of a connection are what tells: better refused than relied on in vain."""
    store = PostgresStore(pooled_url.replace("pooler=transaction", "connections=2"))
    with pytest.raises(InvalidSetting, match="startup parameter"):
        await store.open()
    assert not parse_url(store.url).pooler


async def test_changes_of_this_process_are_hinted_at(store: PostgresStore, worker: str):
    """Others' are not: LISTEN needs a session. The worker looks every second anyway."""
    told = asyncio.Event()
    stop = store.subscribe(told.set)
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, waits_closed=("x",)))
    await asyncio.wait_for(told.wait(), 20)
    stop()
