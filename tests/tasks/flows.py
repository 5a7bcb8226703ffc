"""Workflows whose steps are queued, and the gates and counts that tests steer and read them by."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

from outlast.authoring.context import Context
from outlast.authoring.current import StepInfo, current_step
from outlast.authoring.module import Module
from outlast.errors import NonRetryable

__all__ = ["Gates", "flows", "gates"]


class Gates:
    """What steps wait for, and what they did."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As for each test."""
        self.open = asyncio.Event()
        self.thread_open = threading.Event()
        self.began: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()
        self.most = 0
        """That were held at once."""
        self.infos: list[StepInfo] = []


gates = Gates()
flows = Module("t")


class Plain(Exception):
    """Can be made again."""


class Sealed(Exception):
    """Cannot be made again from its record: what it was raised with is no JSON."""

    def __init__(self, text: str) -> None:
        super().__init__(text, object())

    def __str__(self) -> str:
        return "sealed"


class Hinting(Exception):
    """Says when to try again."""

    retry_after = 0.002


ERRORS: dict[str, Any] = {
    "plain": lambda: Plain("no"),
    "sealed": lambda: Sealed("no"),
    "hinting": lambda: Hinting("no"),
    "final": lambda: NonRetryable("never"),
    "cancel": lambda: asyncio.CancelledError("itself"),
}


@flows.step(queue="gpu")
async def double(x: int) -> int:
    gates.infos.append(current_step())
    return 2 * x


@flows.step(queue="gpu")
def halve(x: int) -> int:
    gates.infos.append(current_step())
    return x // 2


@flows.step
async def local(x: int) -> int:
    return x + 1


@flows.step
async def see_begun(count: int) -> None:
    while gates.began.total() < count:
        await asyncio.sleep(0.002)


@flows.step(queue="gpu", retries=0)
async def held(name: str) -> str:
    """Waits for the gate."""
    gates.began[name] += 1
    gates.most = max(gates.most, gates.began.total() - gates.ended.total() - gates.cancelled.total())
    try:
        await gates.open.wait()
        await asyncio.sleep(0.002)
    except asyncio.CancelledError:
        gates.cancelled[name] += 1
        raise
    gates.ended[name] += 1
    return f"{name}!"


@flows.step(queue="gpu")
async def telling() -> str:
    """Says how far it is, and waits for the gate."""
    current_step().heartbeat({"at": 1})
    await gates.open.wait()
    return "told"


@flows.step(queue="gpu", timeout=0.05, retries=1, backoff=0.001)
async def slow() -> None:
    await asyncio.sleep(30)


@flows.step(queue="gpu", timeout=0.05, retries=1, backoff=0.001)
def stuck() -> None:
    gates.thread_open.wait(30)


@flows.step(queue="gpu", heartbeat_timeout=0.05, retries=1, backoff=0.001)
async def silent() -> None:
    await asyncio.sleep(30)


@flows.step(queue="gpu", retries=1, backoff=0.001)
async def mendable() -> str:
    gates.began["mendable"] += 1
    if not gates.open.is_set():
        raise Plain("not yet")
    return "mended"


@flows.step(queue="gpu")
async def book(room: str) -> str:
    gates.began[room] += 1
    return f"{room} is booked"


@book.compensation(queue="gpu")
async def unbook(room: str, receipt: str) -> None:
    gates.infos.append(current_step())
    gates.ended[room] += 1


def _fail(error: str) -> None:
    gates.began[error] += 1
    make = ERRORS[error]
    raise make()


@flows.step(backoff=0.001)
async def failing(error: str) -> None:
    _fail(error)


@flows.step(backoff=0.001, retries=3, retry_on=Sealed)
async def failing_but_sealed(error: str) -> None:
    _fail(error)


@flows.step(backoff=0.001, retries=3, give_up_on=lambda error: isinstance(error, Sealed))
async def failing_but_open(error: str) -> None:
    _fail(error)


STEPS: dict[str, Any] = {
    step.function.fn.__name__: step for step in (failing, failing_but_sealed, failing_but_open, slow, stuck, silent)
}


@flows.workflow
async def two(ctx: Context, x: int) -> list[int]:
    return [await double(x), await halve(x), await local(x)]


@flows.workflow
async def half(ctx: Context, x: int) -> int:
    return await halve(x)


@flows.workflow
async def fan(ctx: Context, width: int) -> list[int]:
    return await ctx.map(double, range(width), limit=width)


@flows.workflow
async def hold(ctx: Context, names: list[str]) -> list[str]:
    return list(await asyncio.gather(*(held.options(name=name)(name) for name in names)))


@flows.step(queue="mail")
async def send() -> str:
    return "posted"


@flows.workflow
async def post(ctx: Context) -> str:
    return await send()


@flows.workflow
async def tell(ctx: Context) -> str:
    return await telling()


@flows.workflow
async def try_one(ctx: Context, step: str, arguments: list[str], options: dict[str, Any]) -> str:
    """What the step failed with."""
    try:
        await STEPS[step].options(**options)(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "it did not fail"


@flows.workflow
async def fail_one(ctx: Context) -> str:
    """Its step fails until somebody opens the gate."""
    return await mendable()


@flows.workflow
async def tidy(ctx: Context) -> str:
    """Cleans up when it is cancelled, by a step of the same queue."""
    try:
        return await held("body")
    except asyncio.CancelledError:
        await double(1)
        raise


@flows.workflow
async def undone(ctx: Context, names: list[str], begun: int) -> None:
    """Has something to undo, and steps under way when it fails."""
    await book("a")
    tasks = [asyncio.create_task(held.options(name=name)(name)) for name in names]
    await see_begun(1 + begun)
    del tasks
    raise Plain("so much for that")


@flows.workflow
async def drop_one(ctx: Context, begun: int) -> list[str]:
    """Gives one of two steps up, when so many have begun."""
    keeping = asyncio.create_task(held.options(name="kept")("kept"))
    dropping = asyncio.create_task(held.options(name="dropped")("dropped"))
    await see_begun(begun)
    dropping.cancel()
    return [await keeping]
