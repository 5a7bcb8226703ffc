"""A body that was dropped from memory and comes back while its steps go on; and runs that are set aside."""

from __future__ import annotations

import asyncio
import uuid

import msgspec
import pytest

from outlast.authoring.context import Context
from outlast.authoring.current import current_step
from outlast.authoring.module import Module
from outlast.core.events import (
    AttemptStarted,
    CancelRequested,
    RunCancelled,
    RunCompleted,
    RunSuspended,
    StepFailed,
    StepLost,
    StepSucceeded,
)
from outlast.core.states import RunStatus
from outlast.engine.mail import CANCEL, take_mail
from outlast.engine.messages.waits import RESUME_MESSAGE
from outlast.errors import StoreUnavailable
from tests.crash.rig import Process, process, until, until_event


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


def made(module: Module, function, **options):
    """A nested function as a step of the module."""
    return module.step(name=function.__name__, **options)(function)


async def cancel(one: Process, uid: str) -> None:
    await one.engine.send(uid, CANCEL, msgspec.json.encode({"reason": "enough"}))


async def test_a_body_that_comes_back_for_an_outcome_does_not_take_it_for_lost(name) -> None:
    """A step that ends while its run's body is out of memory has ended: nothing is lost and nothing is warned of."""
    app = Module("")

    async def work() -> int:
        await asyncio.sleep(0)
        return 1

    step = made(app, work, retries=0)

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> int:
        return await step() + await step()

    async with process(name, app, max_hot=0) as one:
        uid = await one.start(flow)
        await one.end_of(uid)
        kinds = [type(event) for event in await one.journal(uid)]
        assert StepLost not in kinds
        assert kinds.count(StepSucceeded) == 2


async def test_a_failure_that_arrives_for_a_dropped_body_waits_its_backoff(name) -> None:
    """A step that failed while its run's body was out of memory is tried again when it is due, and not before."""
    app = Module("")

    async def flaky() -> None:
        if current_step().attempt == 1:
            raise RuntimeError("once")

    step = made(app, flaky, backoff=0.2)

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> None:
        await step()

    async with process(name, app, max_hot=0) as one:
        uid = await one.start(flow)
        await one.end_of(uid)
        journal = await one.journal(uid)
        failed = next(event for event in journal if isinstance(event, StepFailed))
        begun = [event for event in journal if isinstance(event, AttemptStarted)]
        assert [event.attempt for event in begun] == [2]
        assert failed.retry_at is not None
        assert begun[0].at >= failed.retry_at
        assert not [event for event in journal if isinstance(event, StepLost)]


async def test_a_load_that_fails_beside_a_running_step_keeps_the_run(name) -> None:
    """A run is not given up because its journal could not be read, while a step of it executes here: two would."""
    app = Module("")
    gates = [asyncio.Event(), asyncio.Event()]
    began: list[int] = []

    async def work(number: int) -> int:
        began.append(number)
        await gates[number].wait()
        return number

    step = made(app, work)

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> list[int]:
        return list(await asyncio.gather(step(0), step(1)))

    async with process(name, app, max_hot=0) as one:
        uid = await one.start(flow)
        await until(lambda: len(began) == 2)
        one.store.failures["read_journal"] = [StoreUnavailable(one.store.url, "for a moment")]
        gates[0].set()
        await until(lambda: not one.store.failures["read_journal"])
        gates[1].set()
        assert type(await one.end_of(uid, 15.0)) is RunCompleted
        assert began == [0, 1]
        assert StepLost not in [type(event) for event in await one.journal(uid)]


async def test_what_ended_beside_a_suspension_is_recorded(name) -> None:
    """A step that ends in the breath in which its run is set aside is on record, and is not run again."""
    app = Module("")
    gate = asyncio.Event()
    began: list[str] = []

    async def work(key: str) -> str:
        began.append(key)
        await gate.wait()
        return key

    step = made(app, work)

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> list[str]:
        first = asyncio.create_task(step("a"))
        other = asyncio.create_task(step("b"))
        await first
        while len(began) == 2:
            await asyncio.sleep(0)  # it spins
        return [await other]

    async with process(name, app) as one:
        uid = await one.start(flow)
        await until(lambda: len(began) == 2)
        hot = one.hot(uid)
        assert hot is not None
        hot.is_loading = True  # both outcomes arrive before either is fed
        gate.set()
        await until(lambda: len(hot.queue) == 2)
        hot.is_loading = False
        hot.advance()
        await until_event(one, uid, RunSuspended)
        assert sum(isinstance(event, StepSucceeded) for event in await one.journal(uid)) == 2


async def test_a_cancel_beside_a_suspension_is_not_lost(name) -> None:
    """A cancel that is read in the breath in which its run is set aside still cancels it."""
    app = Module("")
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    step = made(app, work)

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> None:
        await step()
        while True:
            await asyncio.sleep(0)  # it spins, until it is cancelled

    async with process(name, app) as one:
        uid = await one.start(flow)
        await until(lambda: (hot := one.hot(uid)) is not None and hot.running)
        hot = one.hot(uid)
        assert hot is not None
        hot.is_loading = True
        gate.set()
        await until(lambda: len(hot.queue) == 1)
        await cancel(one, uid)
        take_mail(hot, await one.store.read_inbox(uid))
        assert [type(event) for event in hot.queue] == [StepSucceeded, CancelRequested]
        hot.is_loading = False
        hot.advance()
        assert type(await one.end_of(uid)) is RunCancelled


async def test_a_run_set_aside_as_poison_goes_on_when_a_person_says_so(name) -> None:
    """What workers died of may be mended: a resumed run starts counting anew."""
    app = Module("")

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> int:
        return 7

    async with process(name, app, works=False) as client:
        uid = await client.start(flow)
        client.store._tables.runs[uid].recoveries = 11
        async with process(name, app) as one:
            await until_event(client, uid, RunSuspended)
            await until(lambda: one.hot(uid) is None)
            await one.engine.send(uid, RESUME_MESSAGE, b"{}")
            assert type(await one.end_of(uid)) is RunCompleted


async def test_a_suspended_run_that_is_looked_at_stays_as_it_is(name) -> None:
    """A suspended run that a worker picks up without a reason to go on is put back as it was, reason and all."""
    app, lesser = Module(""), Module("")

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> int:
        return 7

    async with process(name, app, works=False) as client, process(name, lesser) as worker:
        uid = await client.start(flow)
        await until_event(client, uid, RunSuspended)
        await until(lambda: worker.hot(uid) is None)
        before = await client.row(uid)
        assert before.waiting_on == "FUNCTION_NOT_FOUND flow"
        await client.engine.send(uid, RESUME_MESSAGE, b"{}")
        await until_event(client, uid, RunSuspended, 2)
        await until(lambda: worker.hot(uid) is None)
        run = client.store._tables.runs[uid]
        client.store._tables.wake(run, 0)  # as a reap does
        client.store._tables.hints.tell()
        await until(lambda: run.epoch >= 3 and run.owner is None)
        row = await client.row(uid)
        assert (row.status, row.waiting_on) == (RunStatus.SUSPENDED, before.waiting_on)


async def test_a_run_is_not_handed_over_with_a_step_in_flight(name) -> None:
    """A run that needs a function only others know is left to them when its steps here have ended, and not before."""
    app, lesser = Module(""), Module("")
    gate, began = asyncio.Event(), []

    async def work() -> str:
        began.append(current_step().attempt)
        await gate.wait()
        return "done"

    async def rare() -> str:
        return "rare"

    async def body(ctx: Context) -> list[str]:
        slow = asyncio.create_task(ctx.call("work"))
        await asyncio.sleep(0.05)
        return [await ctx.call("rare"), await slow]

    for module in (app, lesser):
        made(module, work)
    made(app, rare)
    app.workflow(name="flow", version="1")(body)
    flow = lesser.workflow(name="flow", version="1")(body)

    async with process(name, lesser) as here:
        uid = await here.start(flow)
        await until(lambda: began)
        async with process(name, app) as there:
            here.home.peers = [row for row in await here.store.list_workers() if row.id == there.worker.id]
            await until(lambda: (hot := here.hot(uid)) is None or hot.machine is None)
            await asyncio.sleep(0.1)
            gate.set()
            await there.end_of(uid)
            assert began == [1]
            assert StepLost not in [type(event) for event in await there.journal(uid)]
