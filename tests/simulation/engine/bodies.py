"""The workflows of the simulation: one that carries out a program, which its input says, and the steps it calls.

A program is a list of operations, each a list that begins with its name. So what a run does is in its journal, and a
replay needs nothing else. Each step writes itself into the world's ledger, before and after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from outlast.app import Outlast
from outlast.authoring.context import Context
from outlast.authoring.current import current_step
from outlast.authoring.module import Module
from tests.crash.ledger import Mark
from tests.simulation.engine.machinery import host_here
from tests.simulation.engine.world import Host

__all__ = ["NEW", "OLD", "QUEUE", "Op", "Program"]

Op = list[Any]
Program = list[Op]

QUEUE = "gpu"
RETRIES = 40
FAST = {"retries": RETRIES, "backoff": 0.05}

flows = Module("sim")
later = Module("later")


@contextmanager
def _effect() -> Iterator[Host]:
    """Around a step's effect."""
    host = host_here()
    _note(host, "before")
    try:
        yield host
    except BaseException:
        _note(host, "failed")
        raise
    _note(host, "after")


def _note(host: Host, what: str) -> None:
    info = current_step()
    uid = str(info.uid)
    if not host.is_dead:
        host.world.note(Mark(what, uid, info.key, info.invocation_id, info.attempt, host.number, 0))


async def _work(host: Host, most: float) -> None:
    if host.world.rng.random() < 0.6:
        await asyncio.sleep(host.world.rng.uniform(0, most))


@flows.step(**FAST)
async def act(tag: str) -> str:
    with _effect() as host:
        await _work(host, 0.05)
    return f"{tag}!"


@flows.step(**FAST)
def act_in_thread(tag: str) -> str:
    with _effect():
        return f"{tag}!"


@flows.step(**FAST)
async def act_and_tell(tag: str) -> str:
    with _effect() as host:
        current_step().heartbeat(tag)
        await _work(host, 0.3)
    return f"{tag}!"


@flows.step(retries=RETRIES, backoff=0.3)
async def flaky(tag: str, failures: int) -> str:
    with _effect() as host:
        await _work(host, 0.02)
        if current_step().attempt <= failures:
            raise RuntimeError(f"{tag} fails {failures} times")
    return f"{tag}!"


@flows.step(**FAST)
async def slow(tag: str, seconds: float) -> str:
    with _effect():
        await asyncio.sleep(seconds)
    return f"{tag}!"


@flows.step(retries=1, backoff=0.1, timeout=0.5)
async def limited(tag: str, seconds: float) -> str:
    """Two executions, and each may take half a second."""
    with _effect():
        await asyncio.sleep(seconds)
    return f"{tag}!"


@flows.step(retries=RETRIES, at_most_once=True)
async def once(tag: str) -> str:
    with _effect() as host:
        await _work(host, 0.5)
    return f"{tag}!"


@flows.step(retries=0)
async def fragile(tag: str) -> str:
    """Fails the first time that it is carried out in the world."""
    with _effect() as host:
        await _work(host, 0.05)
        if current_step().attempt == 1:
            raise RuntimeError(f"{tag} is not mended")
    return f"{tag}!"


@flows.step(**FAST)
async def book(tag: str) -> str:
    with _effect() as host:
        await _work(host, 0.1)
    return f"{tag}!"


@book.compensation(**FAST)
async def unbook(tag: str, result: str) -> None:
    with _effect() as host:
        await _work(host, 0.1)


@later.step(**FAST)
async def newer(tag: str) -> str:
    """Only newer deploys know it."""
    with _effect() as host:
        await _work(host, 0.1)
    return f"{tag}!"


STEPS = {
    step.name.rpartition(":")[2]: step
    for step in (act, act_in_thread, act_and_tell, flaky, slow, limited, once, fragile, book)
}


@flows.workflow
async def play(ctx: Context, program: list[Any]) -> list[Any]:
    """Carries out a program."""
    return [await _play(ctx, op) for op in program]


async def _play(ctx: Context, op: Op) -> Any:
    """One operation; gives what it came to."""
    name, *rest = op
    return await OPERATIONS[name](ctx, *rest)


async def _step(ctx: Context, name: str, *args: Any) -> Any:
    return await STEPS[name](*args)


async def _queued(ctx: Context, name: str, *args: Any) -> Any:
    return await STEPS[name].options(queue=QUEUE)(*args)


async def _newer(ctx: Context, tag: str) -> Any:
    return await ctx.call("later:newer", {"tag": tag})


async def _sleep(ctx: Context, seconds: float) -> None:
    await ctx.sleep(seconds)


async def _plain_sleep(ctx: Context, seconds: float) -> None:
    await asyncio.sleep(seconds)


async def _all(ctx: Context, *ops: Op) -> Any:
    return await asyncio.gather(*(_play(ctx, op) for op in ops))


async def _group(ctx: Context, *ops: Op) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_play(ctx, op)) for op in ops]
    return [task.result() for task in tasks]


async def _race(ctx: Context, *ops: Op) -> Any:
    """The first counts, the others are given up."""
    tasks = [asyncio.create_task(_play(ctx, op)) for op in ops]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return sorted(str(task.exception() or task.result()) for task in done)


async def _map(ctx: Context, tag: str, count: int) -> Any:
    return await ctx.map(act, [f"{tag}{number}" for number in range(count)], limit=2)


async def _within(ctx: Context, seconds: float, op: Op) -> Any:
    try:
        async with asyncio.timeout(seconds):
            return await _play(ctx, op)
    except TimeoutError:
        return "timed out"


async def _try(ctx: Context, op: Op) -> Any:
    try:
        return await _play(ctx, op)
    except Exception as error:
        return type(error).__name__


async def _finally(ctx: Context, op: Op, tidy: Op) -> Any:
    try:
        return await _play(ctx, op)
    finally:
        if not ctx.evicting:
            await _play(ctx, tidy)


async def _signal(ctx: Context, name: str, timeout: float | None) -> Any:
    try:
        return await ctx.wait_for(name, int, timeout=timeout)
    except TimeoutError:
        return "no signal"


async def _approval(ctx: Context, name: str, expires: float | None) -> Any:
    if expires is None:
        return (await ctx.approval(name, bool)).value
    answer = await ctx.approval(name, bool, expires=expires)
    return getattr(answer, "value", "expired")


async def _gate(ctx: Context, name: str) -> None:
    await ctx.suspend(name)


async def _child(ctx: Context, program: Program) -> Any:
    return await play(program)


async def _left(ctx: Context, program: Program, seconds: float) -> Any:
    """A child that is told to stop after a while."""
    child = await ctx.start(play, program)
    await ctx.sleep(seconds)
    told = await child.cancel("long enough")
    try:
        return [told, await child.result()]
    except Exception as error:
        return [told, type(error).__name__]


async def _note_down(ctx: Context, key: str, value: int) -> Any:
    await ctx.set_state(key, value)
    await ctx.milestone(key)
    return [str(ctx.uuid()), ctx.now().isoformat(), ctx.random.random()]


async def _undo(ctx: Context, tag: str) -> None:
    ctx.compensate(unbook, tag, "by hand")


async def _next(ctx: Context, program: Program) -> None:
    """What is behind it is the next round's."""
    await ctx.continue_as_new(program)


async def _fail(ctx: Context, text: str) -> None:
    raise RuntimeError(text)


OPERATIONS: dict[str, Any] = {
    "step": _step, "queued": _queued, "newer": _newer, "sleep": _sleep, "plain sleep": _plain_sleep, "all": _all,
    "group": _group, "race": _race, "map": _map, "within": _within, "try": _try, "finally": _finally,
    "signal": _signal, "approval": _approval, "gate": _gate, "child": _child, "left": _left, "note": _note_down,
    "undo": _undo, "fail": _fail, "next": _next,
}  # fmt: skip


def _make(*modules: Module) -> Outlast:
    app = Outlast("memory://", dev=False)
    for module in modules:
        app.include(module)
    app.queue(QUEUE, lease="2s")
    return app


OLD = _make(flows)
NEW = _make(flows, later)
"""What a deploy brings."""
