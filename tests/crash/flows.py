"""The workflows that are run while their workers die. Each step writes itself into the ledger, before and after.

Steps have many retries: each kill may cost an attempt, and the tests are about what survives, not about how often.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

from outlast.app import Outlast
from outlast.authoring.context import Context
from outlast.authoring.current import current_step
from outlast.authoring.graph.builder import Graph
from outlast.authoring.graph.refs import ref
from outlast.authoring.module import Module
from outlast.errors import StepInterrupted
from outlast.payloads import Encrypt
from tests.crash.homes import home_of
from tests.crash.ledger import Ledger

__all__ = ["LIMIT", "MIX", "QUEUE", "Start", "flows", "make_app"]

Start = tuple[str, list[Any]]
"""A workflow's name and its input."""

flows = Module("crash")
RETRIES = 500
QUEUE = "gpu"
LIMIT = 2
"""Runs of `limited` that may be in hand."""
_ledger: Ledger
_folder: Path


def make_app(folder: Path, through: str = "", *, key: bool = False) -> Outlast:
    """The app on the store in this folder, on the clock and with the ledger that lie beside it; by another way to the
    store, if one is named; with the key of a world whose values are sealed."""
    global _ledger, _folder
    home = home_of(folder)
    _folder, _ledger = folder, Ledger(folder / "ledger", home.read_journal)
    app = Outlast(through or home.url, codecs=(Encrypt({"k1": bytes(range(32))}),) if key else ())
    app._store = home.make_store(through)
    app.include(flows)
    return app


def _pace() -> float:
    return random.choice((0.0, 0.0, 0.002, 0.01))


@flows.step(retries=RETRIES, backoff=0.01)
async def act(tag: str) -> str:
    with _ledger.effect():
        await asyncio.sleep(_pace())
    return f"{tag}!"


@flows.step(retries=RETRIES, backoff=0.01)
async def act_and_tell(tag: str) -> str:
    """Says how far it is."""
    with _ledger.effect():
        current_step().heartbeat(tag)
        await asyncio.sleep(0.05)
    return f"{tag}!"


@flows.step(retries=RETRIES, backoff=0.01)
def act_in_thread(tag: str) -> str:
    with _ledger.effect():
        time.sleep(_pace())
    return f"{tag}!"


@flows.step(retries=RETRIES, backoff=0.02)
async def flaky(tag: str, failures: int) -> str:
    with _ledger.effect():
        if current_step().attempt <= failures:
            raise RuntimeError(f"{tag} fails {failures} times")
    return f"{tag}!"


@flows.step(retries=0)
async def fragile(tag: str) -> str:
    """Fails until somebody has made the file of that name."""
    with _ledger.effect():
        if not (_folder / f"mended-{tag}").exists():
            raise RuntimeError(f"{tag} is not mended")
    return f"{tag}!"


@flows.step(retries=RETRIES, backoff=0.01)
async def slow(tag: str, seconds: float) -> str:
    with _ledger.effect():
        await asyncio.sleep(seconds if seconds <= 3600 or current_step().attempt == 1 else 0.01)  # more: to be lost
    return f"{tag}!"


@flows.step(retries=RETRIES, at_most_once=True)
async def once(tag: str, seconds: float) -> str:
    with _ledger.effect():
        await asyncio.sleep(seconds)
    return f"{tag}!"


@flows.step(retries=1)
async def twice(tag: str) -> str:
    """Two executions, and no more."""
    with _ledger.effect():
        return f"{tag}!"


@flows.step(retries=RETRIES)
async def poison(tag: str) -> str:
    """Takes its worker down, as a segmentation fault in a library would."""
    with _ledger.effect():
        os.kill(os.getpid(), signal.SIGKILL)
    return tag


@flows.step(retries=RETRIES, backoff=0.01)
async def book(tag: str) -> str:
    """Can be undone."""
    with _ledger.effect():
        await asyncio.sleep(_pace())
    return f"{tag}!"


@book.compensation(retries=RETRIES, backoff=0.01)
async def unbook(tag: str, result: str) -> None:
    with _ledger.effect():
        await asyncio.sleep(_pace())


@flows.workflow
async def chain(ctx: Context, length: int) -> list[str]:
    """One after the other."""
    return [await act(f"c{number}") for number in range(length)]


@flows.workflow(limit=LIMIT)
async def limited(ctx: Context, length: int) -> list[str]:
    """One after the other, and a moment between; of these runs so many at once."""
    done = []
    for number in range(length):
        done.append(await act(f"l{number}"))
        if number % 5 == 4:
            await asyncio.sleep(0.02)
    return done


@flows.workflow
async def fan(ctx: Context, width: int) -> list[str]:
    """Side by side, in each of the ways there are."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(act(f"t{number}")) for number in range(width)]
    threads = await asyncio.gather(*(act_in_thread(f"g{number}") for number in range(width)))
    mapped = await ctx.map(act, [f"m{number}" for number in range(width)], limit=2)
    return [task.result() for task in tasks] + threads + mapped


@flows.workflow
def plainly(ctx: Context, width: int) -> list[str]:
    """A plain `def`: steps one after the other and side by side, a timer, and clean-up that is a step."""
    parts: list[str] = []
    try:
        parts += ctx.gather(*(act(f"p{number}") for number in range(width)), lambda: ctx.wait(act_in_thread("pt")))
        ctx.wait(ctx.sleep(0.05))
        parts += [ctx.wait(flaky("pf", 1)) for _ in range(width)]
    finally:
        parts += [ctx.wait(act("tidy"))]
    return parts


@flows.workflow
async def retrying(ctx: Context, failures: int) -> list[str]:
    """Attempts that fail, beside others that do not."""
    return list(await asyncio.gather(flaky("a", failures), act("b"), flaky("c", 1)))


@flows.workflow
async def sleepy(ctx: Context, seconds: float) -> list[str]:
    """Timers of each kind, between steps and against one."""
    first = await act("before")
    await ctx.sleep(seconds)
    await asyncio.sleep(seconds / 2)
    try:
        async with asyncio.timeout(seconds):
            await slow("slow", seconds * 20)
        timed_out = "in time"
    except TimeoutError:
        timed_out = "timed out"
    return [first, timed_out, await act("after")]


@flows.workflow
async def guarded(ctx: Context, seconds: float) -> list[str]:
    """A step that must not happen twice."""
    try:
        got = await once("o", seconds)
    except StepInterrupted:
        got = "interrupted"
    return [got, await act("after")]


@flows.workflow
async def queued(ctx: Context, width: int) -> list[str]:
    """Steps that go by way of a queue: side by side, failing, and one that must not happen twice."""
    acts = [act.options(queue=QUEUE)(f"q{number}") for number in range(width)]
    others = [step.options(queue=QUEUE)(tag) for step, tag in ((act_in_thread, "qt"), (act_and_tell, "qh"))]
    done = await asyncio.gather(*acts, *others, flaky.options(queue=QUEUE)("qf", 1))
    try:
        got = await once.options(queue=QUEUE)("o", 0.01)
    except StepInterrupted:
        got = "interrupted"
    return [*done, got]


@flows.workflow
async def by_queue(ctx: Context, seconds: float) -> str:
    """One step on a queue."""
    return await slow.options(queue=QUEUE)("s", seconds)


@flows.workflow
async def guarded_by_queue(ctx: Context, seconds: float) -> list[str]:
    """A step on a queue that must not happen twice."""
    try:
        got = await once.options(queue=QUEUE)("o", seconds)
    except StepInterrupted:
        got = "interrupted"
    return [got, await act("after")]


@flows.workflow
async def mended(ctx: Context, tag: str) -> list[str]:
    """Fails, and goes on by `retry()` once the world was mended."""
    return [await act("before"), await fragile(tag), await act("after")]


@flows.workflow
async def brittle(ctx: Context, tag: str) -> str:
    """One step with few attempts."""
    return await twice(tag)


@flows.workflow
async def waiting(ctx: Context, seconds: float) -> str:
    """One long step."""
    return await slow("w", seconds)


@flows.workflow
async def parked(ctx: Context, seconds: float) -> str:
    """A sleep that is long enough to be parked, and a step."""
    await ctx.sleep(seconds)
    return await act("woken")


@flows.workflow
async def cleaning(ctx: Context, seconds: float) -> None:
    """Sleeps until it is cancelled, and then tidies up, in two steps."""
    try:
        await ctx.sleep(seconds)
    finally:
        if not ctx.evicting:
            await act("tidy")
            await act_in_thread("up")


flows.graph(
    Graph("graph", max_visits=5)
    .node("begin", act, input="b", next=["fan", "round", "ill"])
    .node("fan", act_in_thread, for_each=ref.input, limit=4, input=ref.item, next="join")
    .node("round", act, input=f"{ref.nodes.round | None}{ref.nodes.begin}", next={"b!!": "round", "*": "join"})
    .node("ill", flaky, input={"tag": "f", "failures": RETRIES}, retries=1, on_error="told", after_error="continue")
    .node("told", act, input=ref.error.key)
    .node("join", act, input=f"{ref.nodes.fan} {ref.nodes.round}")
    .output([ref.nodes.join, ref.nodes.told])
)
"""A fan-out, a cycle, a failure and a join."""


@flows.workflow
async def family(ctx: Context, depth: int) -> list[str]:
    """A tree of children, one after the other and side by side."""
    if depth == 0:
        return [await act("leaf")]
    first = await family(depth - 1)
    others = await asyncio.gather(family(depth - 1), family(depth - 1))
    return first + [leaf for other in others for leaf in other]


@flows.workflow
async def rounds(ctx: Context, most: int, n: int = 0) -> list[str]:
    """Goes on as a next round, with a child in each, which has rounds too."""
    done = await asyncio.gather(act(f"r{n}"), counted(n))
    if n < most:
        await ctx.continue_as_new(most, n + 1)
    return list(done)


@flows.workflow
async def counted(ctx: Context, most: int, n: int = 0) -> str:
    """As many rounds."""
    if n < most:
        await ctx.continue_as_new(most, n + 1)
    return await act(f"n{n}")


@flows.workflow
async def hearing(ctx: Context, most: int) -> list[int]:
    """Sends a child, which takes one in each of its rounds, all that it is to hear at once."""
    child = await ctx.start(heard, most)
    for number in range(most):
        await child.signal("number", number)
    await act("sent")
    return await child.result()


@flows.workflow
async def heard(ctx: Context, most: int, numbers: list[int] | None = None) -> list[int]:
    """One signal in each round."""
    numbers = [*(numbers or []), await ctx.wait_for("number", int)]
    await act(f"h{len(numbers)}")
    if len(numbers) < most:
        await ctx.continue_as_new(most, numbers)
    return numbers


@flows.workflow
async def trip(ctx: Context, tag: str) -> str:
    """Completes, and can be undone."""
    return await book(tag) + await act(tag)


@flows.workflow
async def saga(ctx: Context) -> None:
    """Does a good deal, children included, and fails."""
    await book("a")
    await trip("b")
    await asyncio.gather(trip("c"), book("d"))
    ctx.compensate(unbook, "e", "e!")
    raise RuntimeError("all of it was for nothing")


@flows.workflow
async def errand(ctx: Context) -> None:
    """Does what can be undone, by a child too, and waits until it is cancelled."""
    await book("a")
    await trip("b")
    await ctx.sleep(1e6)


@flows.workflow
async def asking(ctx: Context) -> list[object]:
    """Waits for each kind of answer, between steps."""
    first = await act("before")
    paid = await ctx.wait_for("paid", int)
    await ctx.suspend("look")
    answer = await ctx.approval("ship it?", bool)
    return [first, paid, answer.value, answer.by.id, await act("after")]


@flows.workflow
async def stumbling(ctx: Context, times: int) -> list[int]:
    """Fails behind its first signal, until its leg is mended; then it takes the others."""
    found = [await ctx.wait_for("paid", int)]
    await fragile("leg")
    while len(found) < times:
        found.append(await ctx.wait_for("paid", int))
    return found


@flows.workflow
async def poisoned(ctx: Context) -> str:
    """Kills whoever works it, by a step."""
    return await poison("p")


@flows.workflow
async def poisonous(ctx: Context) -> str:
    """Kills whoever works it, by its body alone."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


MIX: list[Start] = [
    ("chain", [4]),
    ("fan", [3]),
    ("retrying", [2]),
    ("sleepy", [0.05]),
    ("guarded", [0.01]),
    ("queued", [3]),
]
