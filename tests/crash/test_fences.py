"""A worker that lost its lease, or its picture of a run, between two of its own steps."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid

import pytest

from outlast.authoring.context import Context
from outlast.authoring.current import current_step
from outlast.authoring.module import Module
from outlast.core.events import RunCompleted, RunStarted, StepFailed, StepSucceeded
from outlast.engine.hot import HotRun
from outlast.engine.sweeper import park_rested
from outlast.errors import StepInterrupted
from tests.crash.rig import has_event, process, until, until_event


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


async def test_what_waits_for_the_writer_dies_with_the_lease(name) -> None:
    """What a worker had ready to write when it lost its lease is not written under its next id."""
    app = Module("")
    gates = {key: asyncio.Event() for key in ("first", "second")}

    @app.step(name="work")
    async def work(key: str) -> str:
        await gates[key].wait()
        return key

    @app.workflow(name="flow")
    async def flow(ctx: Context, key: str) -> str:
        return await work(key)

    async with process(name, app) as zombie:
        first, second = await zombie.start(flow, "first"), await zombie.start(flow, "second")
        old = zombie.worker.id
        hold = zombie.store.hold("commit", has_event(StepSucceeded), before=True)
        gates["first"].set()
        await hold.reached.wait()
        gates["second"].set()  # its outcome waits behind the first's
        await until(lambda: len(zombie.engine.writer._waiting) == 1)
        await zombie.store.lapse(old)
        zombie.worker.on_fenced(old)
        await until(lambda: zombie.worker.is_working)
        hold.let_go()
        ends = [await zombie.end_of(first), await zombie.end_of(second)]
        assert [type(end) for end in ends] == [RunCompleted, RunCompleted]
        journal = await zombie.journal(second)
        assert [event.attempt for event in journal if isinstance(event, StepSucceeded)] == [2]


def made(module: Module, function, **options):
    """A nested function as a step of the module."""
    return module.step(name=function.__name__, **options)(function)


async def test_a_claim_heard_of_too_late_is_not_worked(name) -> None:
    """A worker that lost its lease while its claim was answered leaves the run to the next claim."""
    app = Module("")
    began: list[int] = []

    async def work() -> None:
        began.append(current_step().attempt)

    step = made(app, work, at_most_once=True)

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> None:
        await step()

    async with process(name, app, works=False) as client, process(name, app) as zombie:
        claim = zombie.store.hold("claim")
        uid = await client.start(flow)
        await claim.reached.wait()
        await client.store.lapse(zombie.worker.id)
        async with process(name, app) as heir:
            await heir.end_of(uid)
        claim.let_go()
        assert type(await zombie.end_of(uid)) is RunCompleted
        writers = {entry.writer for entry, _ in (await client.engine.read_events(uid))[1:]}
        assert len(writers) == 1
        assert began == [1]


async def test_a_fence_that_is_heard_of_late_spares_the_next_incarnation(name) -> None:
    """A worker that has come back does not lose its new lease to a refusal that was meant for its old one."""
    app = Module("")

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> int:
        return 7

    async with process(name, app, works=False) as client, process(name, app) as one:
        claim, old = one.store.hold("claim", before=True), one.worker.id
        uid = await client.start(flow)
        await claim.reached.wait()
        await client.store.lapse(old)
        one.worker.on_fenced(old)
        await until(lambda: one.worker.is_working)
        new = one.worker.id
        claim.let_go()
        await one.end_of(uid)
        assert one.worker.id == new


async def test_what_the_next_incarnation_claims_is_worked_at_once(name) -> None:
    """A worker that lost its lease between a look and the claim it led to works what it then gets under its new id."""
    app = Module("")

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> int:
        return 7

    async with process(name, app, works=False) as client, process(name, app) as one:
        uid = await client.start(flow, delay_us=50_000)
        run, old = client.store._tables.runs[uid], one.worker.id
        look = one.store.hold("look", lambda _: run.wake_at is not None and run.wake_at <= time.time_ns() // 1000)
        await look.reached.wait()
        await client.store.lapse(old)
        one.worker.on_fenced(old)
        await until(lambda: one.worker.is_working)
        look.let_go()
        await one.end_of(uid, 3.0)


async def test_a_load_that_outlives_the_lease_writes_nothing(name) -> None:
    """A worker that lost its lease while it read a journal leaves no trace in it."""
    app = Module("")

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> int:
        return 7

    async with process(name, app, works=False) as client:
        uid = await client.start(flow)
        for _ in range(2):  # the second finds the run taken over, and would say so first of all
            async with process(name, app) as zombie:
                load = zombie.store.hold("read_journal")
                await load.reached.wait()
                await client.store.lapse(zombie.worker.id)
                zombie.worker.on_fenced(zombie.worker.id)
                await until(lambda: zombie.worker.is_working)
                load.let_go()
                await zombie.end_of(await zombie.start(flow))
        assert [type(event) for event in await client.journal(uid)] == [RunStarted]


async def test_a_run_adopted_too_late_is_not_worked(name) -> None:
    """A worker that lost its lease while it reconciled does not go on with what it found."""
    app = Module("")

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> int:
        return 7

    async with process(name, app, works=False) as client, process(name, app) as zombie:
        home, old = zombie.worker.home, zombie.worker.id
        assert home is not None
        claim = zombie.store.hold("claim")
        uid = await client.start(flow)
        await claim.reached.wait()  # the store says it is the worker's, and the worker does not know
        adopt = zombie.store.hold("adopt")
        reconciling = asyncio.create_task(home.reconcile(await zombie.store.list_owned(old), old))
        await adopt.reached.wait()
        await client.store.lapse(old)
        zombie.worker.on_fenced(old)
        await until(lambda: zombie.worker.is_working)
        adopt.let_go()
        await reconciling
        assert zombie.hot(uid) is None
        claim.let_go()
        await zombie.end_of(uid)


async def test_a_lease_that_ran_out_just_before_a_step_is_given_up(name) -> None:
    """A worker whose lease ran out by its own clock, while the store would still renew it, drops its runs all the same:
    a step it did not begin for that reason begins elsewhere, and is not forgotten."""
    app = Module("")
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    step = made(app, work)

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> None:
        await step()
        await step()

    async with process(name, app) as one:
        uid = await one.start(flow)
        old, heartbeat = one.worker.id, one.worker._heartbeat
        assert heartbeat is not None
        heartbeat._until_us = 0
        gate.set()
        assert type(await one.end_of(uid)) is RunCompleted
        assert one.worker.id != old


async def test_an_attempt_stopped_before_it_began_gives_its_place_back(name) -> None:
    """A lease that is lost between the landing of an entry and the first breath of its step costs no place."""
    app = Module("")

    async def work() -> None:
        pass

    step = made(app, work)

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> None:
        await step()

    async with process(name, app, concurrency=1) as one:
        run = HotRun.answered

        def fenced_at_once(self, draft, answer) -> None:
            run(self, draft, answer)
            HotRun.answered = run
            one.worker.on_fenced(one.worker.id)

        HotRun.answered = fenced_at_once
        uid = await one.start(flow)
        assert type(await one.end_of(uid)) is RunCompleted
        assert one.worker.home is not None
        assert one.worker.home.stepper.executing == 0


async def test_a_step_in_line_for_its_next_attempt_keeps_its_run(name) -> None:
    """A run whose step waits for a place to be tried again is not parked: nothing would wake it."""
    app = Module("")
    gate = asyncio.Event()

    async def blocker() -> None:
        await gate.wait()

    async def flaky() -> None:
        if current_step().attempt == 1:
            raise RuntimeError("once")

    block, flake = made(app, blocker), made(app, flaky, backoff=0.05)

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> None:
        await flake()

    @app.workflow(name="blocking")
    async def blocking(ctx: Context) -> None:
        await block()

    async with process(name, app, concurrency=1) as one:
        uid = await one.start(flow)
        await until_event(one, uid, StepFailed)
        other = await one.start(blocking)
        home = one.worker.home
        assert home is not None
        await until(lambda: one.hot(uid) is None or home.stepper._line)
        home.clock.set(home.clock.now_us() + 3_000_000)  # it has rested for long enough
        park_rested(home)
        gate.set()
        await one.end_of(other)
        assert type(await one.end_of(uid, 5.0)) is RunCompleted


@pytest.mark.parametrize("why", ["lease", "cancel"])
async def test_a_plain_step_that_waited_for_a_thread_looks_again(name, why) -> None:
    """A plain function that got a thread only when its lease was over, or its body had given it up, does not run."""
    app = Module("")
    gate, busy, began = threading.Event(), threading.Event(), []

    def first() -> None:
        busy.set()
        gate.wait(20)

    def second() -> None:
        began.append(current_step().attempt)

    block, guarded = made(app, first), made(app, second, at_most_once=True)

    @app.workflow(name="blocking")
    async def blocking(ctx: Context) -> None:
        await block()

    @app.workflow(name="flow")
    async def flow(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.2 if why == "cancel" else None):
                await guarded()
        except (StepInterrupted, TimeoutError) as error:
            return type(error).__name__
        return "done"

    async with process(name, app, threads=1) as one:
        await one.start(blocking)
        uid = await one.start(flow)
        home, heartbeat = one.worker.home, one.worker._heartbeat
        assert home is not None
        assert heartbeat is not None
        await until(lambda: busy.is_set() and home.stepper._threads._waiting == 1)
        if why == "lease":
            heartbeat._until_us = 0
        else:
            await one.end_of(uid)
        gate.set()
        end = await one.end_of(uid)
        assert isinstance(end, RunCompleted)
        assert bytes(end.output) == (b'"StepInterrupted"' if why == "lease" else b'"TimeoutError"')
        await until(lambda: home.stepper.executing == 0)
        assert began == []
