"""What asyncio does otherwise in a body: and nowhere else."""

from __future__ import annotations

import asyncio
import inspect
import math
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.core.loop import patches, running_body_loop
from tests.core.loop_bodies import run_body

SRC = Path(__file__).resolve().parents[2] / "src"


async def value_after(seconds: float, value: object) -> object:
    await asyncio.sleep(seconds)
    return value


async def collect(*delays: float) -> list[object]:
    return [await task for task in asyncio.as_completed([value_after(delay, delay) for delay in delays])]


async def never() -> None:
    await asyncio.Event().wait()


def test_as_completed_starts_coroutines_in_the_order_given() -> None:
    """In a body they become tasks in order, twenty of them as well as two; the results come as they end."""

    async def body() -> list[int]:
        started: list[int] = []

        async def start(number: int) -> None:
            started.append(number)

        for task in asyncio.as_completed([start(number) for number in range(20)]):
            await task
        return started

    assert run_body(body).result() == list(range(20))
    assert run_body(lambda: collect(3, 1, 2)).result() == [1, 2, 3]


def test_as_completed_takes_what_it_took_before() -> None:
    """Futures, tasks, the same one twice, and any iterable of them; a single future is the mistake it was."""

    async def body() -> list[object]:
        task = asyncio.create_task(value_after(1, "task"))
        future = asyncio.get_running_loop().create_future()
        future.set_result("future")
        results = [await done for done in asyncio.as_completed(iter((task, task, future)))]
        with pytest.raises(TypeError, match="expect"):
            list(asyncio.as_completed(future))
        return results

    assert run_body(body).result() == ["future", "task"]
    assert asyncio.run(body()) == ["future", "task"]


def test_the_host_has_the_asyncio_it_had() -> None:
    """Outside a body the originals run: same results, same signatures, same errors."""

    async def host() -> None:
        assert await collect(0.02, 0, 0.01) == [0, 0.01, 0.02]
        assert await asyncio.wait_for(value_after(0, "x"), 5) == "x"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(never(), 0.001)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        pair = asyncio.gather(value_after(0, 1), value_after(0, 2))
        assert hash(pair) == object.__hash__(pair)
        assert await pair == [1, 2]

    asyncio.run(host())
    assert str(inspect.signature(asyncio.as_completed)) == "(fs, *, timeout=None)"
    assert str(inspect.signature(asyncio.wait_for)) == "(fut, timeout)"
    assert inspect.iscoroutinefunction(asyncio.wait_for)
    assert "awaitables" in (asyncio.as_completed.__doc__ or "") or "futures" in (asyncio.as_completed.__doc__ or "")


def test_installing_again_changes_nothing() -> None:
    """The patches are in place once, however often the module is imported anew."""
    codes = [getattr(asyncio, name).__code__ for name in ("as_completed", "all_tasks", "wait_for")]
    patches.install(running_body_loop)
    assert [getattr(asyncio, name).__code__ for name in ("as_completed", "all_tasks", "wait_for")] == codes
    assert asyncio.run(collect(0)) == [0]


def test_a_function_that_a_later_python_writes_in_c_is_replaced(monkeypatch) -> None:
    """What has no code to exchange is wrapped under its name, and reached through the wrapper."""
    for module in (asyncio, asyncio.tasks):
        monkeypatch.setattr(module, "floor", math.floor, raising=False)
    namespace = {"offset": 10}

    def template(x=0):
        return offset + _outlast_former_floor(x)  # type: ignore[name-defined]  # noqa: F821

    patches._give_code(math.floor, template, namespace)
    assert asyncio.floor(1.5) == asyncio.tasks.floor(1.5) == 11  # type: ignore[attr-defined]
    assert asyncio.floor() == 10  # type: ignore[attr-defined]


@pytest.mark.process
def test_what_was_imported_from_asyncio_before_outlast_is_patched_too() -> None:
    """`from asyncio import as_completed` sorts before `import outlast` in every file; it must not matter."""
    code = """
from asyncio import all_tasks, as_completed, create_task, current_task
from outlast.core.loop import BodyLoop
started = []
async def start(number): started.append(number)
async def body():
    for task in as_completed([start(number) for number in range(50)]): await task
    return all_tasks() == {current_task()}
loop = BodyLoop(start_us=0)
root = loop.spawn_root(body())
loop.drain()
assert root.result()
print(started == list(range(50)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


# --- wait_for: on every Python as 3.12 has it -------------------------------------------------------------------------


def test_wait_for_gives_the_result_or_a_timeout() -> None:
    """Within its time the value, after it TimeoutError, and the awaited is cancelled."""

    async def body() -> list[object]:
        seen: list[object] = [await asyncio.wait_for(value_after(1, "in time"), 2)]
        seen.append(await asyncio.wait_for(value_after(9, "no limit"), None))

        async def slow() -> None:
            try:
                await never()
            finally:
                seen.append("cancelled")

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slow(), 2)
        return seen

    assert run_body(body).result() == ["in time", "no limit", "cancelled"]


@pytest.mark.parametrize("timeout", [0, -1])
def test_wait_for_without_time_takes_what_is_done(timeout) -> None:
    """A future that is done gives its result, or raises; what is not done is cancelled, and waited for."""

    async def body() -> list[object]:
        loop = asyncio.get_running_loop()
        done, cancelled, open_ = (loop.create_future() for _ in range(3))
        done.set_result("done")
        cancelled.cancel()
        seen: list[object] = [await asyncio.wait_for(done, timeout)]
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(cancelled, timeout)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(open_, timeout)

        async def slow() -> str:
            try:
                await never()
            except asyncio.CancelledError:
                return "ended anyway"
            return "never"

        task = asyncio.create_task(slow())
        await asyncio.sleep(0)
        seen.append(await asyncio.wait_for(task, timeout))
        return [*seen, open_.cancelled()]

    assert run_body(body).result() == ["done", "ended anyway", True]


def test_a_cancel_during_wait_for_is_not_lost() -> None:
    """The waiting task ends as cancelled, and what it waited for with it."""

    async def body() -> list[bool]:
        inner = asyncio.create_task(never())
        waiting = asyncio.create_task(asyncio.wait_for(inner, 9))
        hurried = asyncio.create_task(asyncio.wait_for(never(), 0))
        await asyncio.sleep(0)
        waiting.cancel()
        hurried.cancel()
        await asyncio.wait([waiting, hurried])
        return [waiting.cancelled(), inner.cancelled(), hurried.cancelled()]

    assert run_body(body).result() == [True, True, True]
