"""A program whose types are all right: mypy and pyright, both strict, agree with every `assert_type`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypedDict, assert_type
from uuid import UUID

from outlast import (
    AuditRecord,
    Context,
    Decided,
    Expired,
    FailedStep,
    Module,
    NonRetryable,
    Outlast,
    Run,
    RunIdentity,
    RunInfo,
    RunNotFound,
    Step,
    StepFailed,
    StepInfo,
    SyncRun,
    User,
    WaitPage,
    Workflow,
    current_step,
    exponential,
    fixed,
)


async def keep(record: AuditRecord) -> None:
    print(record.verdict, record.by.id)


app = Outlast("memory://", audit=keep)
billing = Module("billing")
app.include(billing)


@dataclass
class Order:
    id: str
    items: list[str]
    amount: int


class Point(TypedDict):
    x: int


def tell(failed: FailedStep) -> None:
    print(failed.name, failed.error.message, failed.invocation_id)


@app.step(retries=3, timeout="30s", backoff=exponential("1s"), retry_on=[ValueError], on_error=tell)
async def charge(order: Order) -> str:
    step = current_step()
    assert_type(step, StepInfo)
    assert_type(step.deadline, datetime | None)
    step.heartbeat({"done": 1})
    if order.amount < 0:
        raise NonRetryable("no debt")
    return step.invocation_id


@app.step
def pack(item: str) -> str:
    return item


@app.step
async def note(text: str, *, loud: bool = False) -> int:
    return len(text) + loud


@billing.step(name="x", timeout=timedelta(minutes=1), heartbeat_timeout=None, backoff=fixed(2), queue="gpu")
def three(a: int, b: str, c: float = 1.0) -> bytes:
    return f"{a}{b}{c}".encode()


@app.step
def no_arguments() -> None: ...


@app.workflow
async def child(ctx: Context, n: int, tag: str = "x") -> int:
    return n + len(tag)


@app.workflow(name="fulfil", version="1")
async def fulfil(ctx: Context, order: Order) -> list[str]:
    receipt = await charge(order)
    assert_type(receipt, str)
    assert_type(await pack("x"), str)
    assert_type(await note("x", loud=True), int)
    assert_type(await three(1, "b"), bytes)
    await no_arguments()
    tuned = charge.options(retries=1, timeout=3, name="again")
    assert_type(await tuned(order), str)
    async with asyncio.TaskGroup() as group:
        parcels = [group.create_task(pack(item)) for item in order.items]
    a, b = await asyncio.gather(charge(order), note("x"))
    assert_type(a, str)
    assert_type(b, int)
    task = asyncio.create_task(charge(order))
    assert_type(await task, str)
    assert_type(await asyncio.wait_for(pack("x"), 3), str)

    async def answer() -> str:
        return ""

    assert_type(await ctx.do("lambda", lambda: 3), int)
    assert_type(await ctx.do("async", answer, retries=0), str)
    assert_type(await ctx.do("typed", lambda: {"x": 1}, returns=Point), Point)
    assert_type(await ctx.map(pack, order.items, limit=20), list[str])
    assert_type(await ctx.map(pack, order.items, on_error="collect"), list[str | StepFailed])
    assert_type(await ctx.map(note, {"a": 1}), list[int])
    assert_type(await ctx.map(lambda text: note(text, loud=True), ["a"]), list[int])
    assert_type(await ctx.call("billing:x", {"a": 1, "b": "b"}, returns=bytes, retries=1), bytes)
    assert_type(await ctx.call("billing:x", {"a": 1}, returns=int | None), int | None)
    assert_type(await ctx.wait_for("paid", Point, timeout="3d"), Point)
    assert_type(await ctx.wait_for("paid", int | None), int | None)
    assert_type(await ctx.wait_for("paid"), Any)
    await ctx.suspend("stock is low")
    assert_type(await ctx.approval("ship it?", Point), Decided[Point])
    decision = await ctx.approval("ship it?", Order, expires="3d", approvers="not-initiator", scope="ship", key="ship")
    assert_type(decision, Decided[Order] | Expired)
    if isinstance(decision, Decided):
        assert_type(decision.value, Order)
        assert_type(decision.by, User)
        assert_type(decision.at, datetime)
    assert_type(await ctx.approval("ship it?", expires=60), Decided[Any] | Expired)
    await ctx.sleep("1h")
    await ctx.sleep(timedelta(days=1))
    await ctx.sleep_until(ctx.now() + timedelta(days=1))
    await ctx.milestone("shipped")
    await ctx.set_state("k", {"any": [1]})
    assert_type(ctx.state, Mapping[str, Any])
    assert_type(ctx.now(), datetime)
    assert_type(ctx.uuid(), UUID)
    assert_type(ctx.random, Random)
    assert_type(ctx.user, str | None)
    assert_type(await ctx.get_run(), RunIdentity)
    if ctx.patched("new path"):
        ctx.log.info("on %s", ctx.run_id)
    return [parcel.result() for parcel in parcels]


@app.workflow
def plain(ctx: Context, order: Order, tag: str = "x") -> list[str]:
    assert_type(ctx.wait(charge(order)), str)
    assert_type(ctx.wait(child(3, tag="y")), int)
    a, b = ctx.gather(charge(order), note("x"))
    assert_type(a, str)
    assert_type(b, int)
    c, d, e = ctx.gather(lambda: ctx.wait(note("x")), child(3), pack("a"))
    assert_type(c, int)
    assert_type(d, int)
    assert_type(e, str)
    assert_type(ctx.gather(*(pack(item) for item in order.items)), list[str])
    assert_type(ctx.wait(asyncio.wait_for(pack("x"), 3)), str)
    assert_type(ctx.wait(ctx.map(pack, order.items)), list[str])
    assert_type(ctx.wait(ctx.wait_for("paid", Point)), Point)
    assert_type(ctx.wait(ctx.approval("ship it?", Order, expires=3)), Decided[Order] | Expired)
    handle = ctx.wait(ctx.start(child, 3))
    assert_type(ctx.wait(handle.result()), int)
    ctx.wait(ctx.sleep("1h"))
    return [tag]


@app.workflow(name="named", version="1")
def named(ctx: Context) -> int:
    return 1


async def main() -> None:
    async with app, app.worker(concurrency=10):
        run = await app.start(fulfil, Order("1", [], 2), id="A-17", user="ada", attributes={"region": "eu"})
        await app.start(child, 3, timeout="3d")
        assert_type(run, Run[list[str]])
        assert_type(await run.result(60), list[str])
        assert_type(await run.status(), RunInfo)
        await run.signal("paid", {"x": 1}, key="evt_9")
        await run.resume("stock is low")
        assert_type(await run.approve("ship it?", {"x": 1}, by=User("bob", ["ship"])), Decided[Any])
        assert_type([wait.run_id for wait in await app.waits(kind="approval")], list[str])
        assert_type(await (await app.start(child, 3, "tag")).result(), int)
        try:
            assert_type(await app.get_run("A-18"), Run[Any])
        except RunNotFound as error:
            print(error.id)
        assert_type(await (await app.start(plain, Order("1", [], 2), "tag")).result(), list[str])
        assert_type(await (await app.start(named)).result(), int)
    assert_type(app.run_sync(fulfil, Order("1", [], 2)), list[str])
    assert_type(app.run_sync(plain, Order("1", [], 2)), list[str])
    with app.sync() as client:
        assert_type(client.start(child, 3, "tag", timeout="1h"), SyncRun[int])
        assert_type(client.start(child, 3, "tag").result(), int)
        assert_type(client.call(app.waits()), WaitPage)


def generic(step: Step[[str], str], workflow: Workflow[[Order], list[str]]) -> None:
    print(step.name, workflow.version)


generic(pack, fulfil)
