"""Errors that nobody foresaw, and ends at the wrong moment: what a worker makes of them."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid

import msgspec
import pytest

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.core.events import RunCompleted, RunSuspended, SleepStarted, StepLost, StepSucceeded
from outlast.core.states import RunStatus
from outlast.engine.worker import WorkerSettings
from outlast.errors import StoreUnavailable
from tests.crash.rig import has_event, process, until, until_event

flows = Module("upheavals")


@flows.step
async def work(number: int) -> int:
    await asyncio.sleep(0)
    return number


@flows.step
async def gated(name: str) -> str:
    await _gates.setdefault(name, asyncio.Event()).wait()
    return name


@flows.workflow
async def chain(ctx: Context, length: int) -> list[int]:
    return [await work(number) for number in range(length)]


@flows.workflow
async def held(ctx: Context, name: str) -> list[str]:
    return [await gated(name), await gated(name)]


@flows.workflow
async def asleep(ctx: Context, seconds: float) -> None:
    await ctx.sleep(seconds)


_gates: dict[str, asyncio.Event] = {}


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


async def test_a_fault_in_the_store_costs_one_run_and_not_the_worker(name) -> None:
    """An exception no store should raise sets aside the run whose entry it came with; the others go on."""
    async with process(name, flows) as one:
        bad = await one.start(held, name)
        await until(lambda: name in _gates)
        one.store.failures["commit"] = [RuntimeError("a bug")]
        _gates[name].set()
        await until_event(one, bad, RunSuspended)
        good = await one.start(chain, 3)
        assert type(await one.end_of(good)) is RunCompleted
        row = await one.row(bad)
        assert (row.status, row.waiting_on) == (RunStatus.SUSPENDED, "STORE_REFUSED")


@pytest.mark.parametrize("method", ["claim", "look", "reap", "list_workers", "list_owned"])
async def test_a_fault_does_not_end_the_claims_and_sweeps(name, method) -> None:
    """An exception no store should raise does not stop a worker from claiming, reaping and reconciling later on."""
    async with process(name, flows, works=False) as client, process(name, flows) as one:
        one.store.failures[method] = [RuntimeError("a bug"), StoreUnavailable(one.store.url, "for a moment")]
        uid = await client.start(chain, 2)
        assert type(await one.end_of(uid)) is RunCompleted
        await until(lambda: all(not task.done() for task in one.worker._tasks))
        assert not any(task.done() for task in one.worker._tasks)


async def test_a_worker_that_cannot_come_back_tries_again(name) -> None:
    """Whatever goes wrong when a worker registers anew, it goes on trying."""
    async with process(name, flows, works=False) as client, process(name, flows) as one:
        old = one.worker.id
        one.store.failures["register"] = [RuntimeError("a bug")]
        await client.store.lapse(old)
        one.worker.on_fenced(old)
        uid = await client.start(chain, 2)
        assert type(await one.end_of(uid)) is RunCompleted
        assert one.worker.id != old


async def test_a_worker_that_cannot_begin_leaves_nothing_behind(name) -> None:
    """A worker whose registration fails raises that, and no thread or task of it stays."""
    before = {task.get_name() for task in asyncio.all_tasks()}
    async with process(name, flows, works=False) as client:
        client.store.failures["register"] = [StoreUnavailable(client.store.url, "for ever")]
        with pytest.raises(StoreUnavailable):
            await client.engine.make_worker(WorkerSettings()).__aenter__()
    assert {task.get_name() for task in asyncio.all_tasks()} == before
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("outlast-")]


async def test_a_step_that_begins_while_the_worker_stops_is_waited_for(name) -> None:
    """A step whose entry lands after the worker was told to stop has its grace as those before it."""
    async with process(name, flows, works=False) as client:
        async with process(name, flows) as one:
            worker = one.worker
            uid = await client.start(held, name)
            await until(lambda: name in _gates)
            commit = one.store.hold("commit", has_event(StepSucceeded))
            _gates.pop(name).set()
            await commit.reached.wait()
            draining = asyncio.create_task(worker.drain())
            await asyncio.sleep(0)
            commit.let_go()
            await until(lambda: name in _gates)
            _gates[name].set()
            await draining
        kinds = [type(event) for event in await client.journal(uid)]
        assert kinds.count(StepSucceeded) == 2
        assert StepLost not in kinds


async def test_a_start_whose_answer_is_lost_is_not_its_own_conflict(name) -> None:
    """A start that landed while the worker lost its lease is answered as started, though the id must be new."""
    async with process(name, flows) as one:
        commit = one.store.hold("commit")
        starting = asyncio.create_task(one.start(chain, 2, id="mine", on_conflict="raise"))
        await commit.reached.wait()
        await one.store.lapse(one.worker.id)
        commit.fail(StoreUnavailable(one.store.url, "the answer is lost"))
        uid = await starting
        assert type(await one.end_of(uid)) is RunCompleted


async def test_a_store_whose_clock_jumps_ahead_takes_its_workers_along(name) -> None:
    """When the store's clock jumps forward, sleeps that are due by it end, though the lease is renewed much later."""
    async with process(name, flows, lease_us=3_600_000_000) as one:
        uid = await one.start(asleep, 600.0)
        await until_event(one, uid, SleepStarted)
        one.store._tables.clock = lambda: time.time_ns() // 1000 + 700_000_000
        assert type(await one.end_of(uid)) is RunCompleted


async def test_reconcile_does_not_load_what_is_being_started(name) -> None:
    """A run whose start has landed, and whose starter has not heard of it, is not taken up a second time."""
    async with process(name, flows) as one:
        commit = one.store.hold("commit")
        starting = asyncio.create_task(one.start(held, name))
        await commit.reached.wait()
        home, me = one.worker.home, one.worker.id
        assert home is not None
        await home.reconcile(await one.store.list_owned(me), me)
        commit.let_go()
        uid = await starting
        await until(lambda: name in _gates)
        _gates[name].set()
        assert type(await one.end_of(uid)) is RunCompleted
        kinds = [type(event) for event in await one.journal(uid)]
        assert StepLost not in kinds


async def test_reconcile_goes_on_while_others_park(name) -> None:
    """A run that the worker owns and does not know is adopted, however many of its other runs are being parked."""
    async with process(name, flows, works=False) as client, process(name, flows) as one:
        home, me = one.worker.home, one.worker.id
        assert home is not None
        claim = one.store.hold("claim")
        uid = await client.start(chain, 2)
        await claim.reached.wait()
        home._parking = 1
        await home.reconcile(await one.store.list_owned(me), me)
        assert type(await one.end_of(uid)) is RunCompleted
        home._parking = 0
        claim.let_go()


async def test_a_run_that_cannot_be_loaded_is_tried_ever_less_often(name) -> None:
    """A run whose journal cannot be read is left alone for longer each time, from 30 s on, and hurts no other."""
    async with process(name, flows, works=False) as client:  # SPEC L9
        uid = await client.start(chain, 2)
        run = client.store._tables.runs[uid]
        entry = run.journal[0]
        run.journal[0] = msgspec.structs.replace(entry, events=b'[{"event":"Nonsense"}]')
        waits = []
        async with process(name, flows) as one:
            for _ in range(4):
                await until(lambda: run.owner is None and (run.wake_at or 0) > now_us() + 1_000_000)
                assert run.wake_at is not None
                waits.append(round((run.wake_at - now_us()) / 1e6, -1))
                client.store._tables.wake(run, 0)
                client.store._tables.hints.tell()
            assert type(await one.end_of(await one.start(chain, 2))) is RunCompleted
            run.journal[0] = entry
            client.store._tables.wake(run, 0)
            assert type(await one.end_of(uid)) is RunCompleted
        assert waits == [30.0, 60.0, 120.0, 240.0]


def now_us() -> int:
    return time.time_ns() // 1000
