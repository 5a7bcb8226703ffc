"""The thread pool of plain functions: bounded, in order, and free of threads nobody can stop (SPEC S6)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from outlast.engine.attempts import threads as threads_module
from outlast.engine.attempts.threads import ThreadPool

WAIT_S = 20.0
"""What a broken pool makes a test wait."""


class Job:
    """A function that says when it began, and ends when it is let go."""

    def __init__(self, value: object = None) -> None:
        self.value = value
        self.began = threading.Event()
        self.go_on = threading.Event()
        self.thread = ""

    def __call__(self) -> object:
        self.thread = threading.current_thread().name
        self.began.set()
        assert self.go_on.wait(WAIT_S)
        return self.value


async def until(holds: Callable[[], bool]) -> None:
    """Let threads and the loop move until it holds."""
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.001)


@pytest.fixture
async def make_pool() -> AsyncIterator[Callable[[int], ThreadPool]]:
    made: list[ThreadPool] = []

    def make(most: int) -> ThreadPool:
        made.append(ThreadPool(most, name=f"pool-{len(made)}"))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def run(pool: ThreadPool, function: Callable[[], Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(pool.run(contextvars.copy_context(), function))


async def test_no_more_functions_run_at_once_than_the_pool_may_have_threads(make_pool) -> None:
    """What comes beyond waits for a thread, and gets one that another function left."""
    pool, jobs = make_pool(2), [Job(number) for number in range(5)]
    tasks = [run(pool, job) for job in jobs]
    await until(lambda: jobs[0].began.is_set() and jobs[1].began.is_set())
    assert [job.began.is_set() for job in jobs[2:]] == [False] * 3
    for job in jobs:
        job.go_on.set()
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
    assert len({job.thread for job in jobs}) == 2


async def test_functions_begin_in_the_order_given(make_pool) -> None:
    """With one thread, first come is first served."""
    pool, order = make_pool(1), []
    first = Job()
    tasks = [run(pool, first), *(run(pool, lambda number=number: order.append(number)) for number in range(50))]
    await until(first.began.is_set)
    first.go_on.set()
    await asyncio.gather(*tasks)
    assert order == list(range(50))


async def test_a_thread_that_is_free_is_used_before_another_is_made(make_pool) -> None:
    """One function after the other needs one thread, whatever the pool might have."""
    pool, names = make_pool(8), set()
    for _ in range(20):
        names.add(await run(pool, lambda: threading.current_thread().name))
        await until(lambda: pool._idle == 1)  # a moment after the function's end
    assert len(names) == 1


# SPEC S6
async def test_a_function_sees_the_context_it_was_given(make_pool) -> None:
    """The caller's context variables are there; what it sets stays in that context."""
    pool, user = make_pool(1), contextvars.ContextVar("user", default="nobody")
    user.set("ada")
    context = contextvars.copy_context()

    def work() -> str:
        seen = user.get()
        user.set("bob")
        return seen

    assert await pool.run(context, work) == "ada"
    assert (context[user], user.get()) == ("bob", "ada")
    assert await pool.run(contextvars.Context(), user.get) == "nobody"


async def test_what_a_function_raises_is_raised_to_who_waits(make_pool) -> None:
    """Also what is no Exception: it is the step's outcome, not the thread's end."""
    pool = make_pool(1)

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(ZeroDivisionError):
        await run(pool, lambda: 1 / 0)
    with pytest.raises(SystemExit):
        await pool.run(contextvars.copy_context(), leave)
    assert await run(pool, lambda: "still here") == "still here"


async def test_a_stop_iteration_is_an_error_like_any_other(make_pool) -> None:
    """No future can carry one: it would end the task that awaits it as if that had returned."""
    with pytest.raises(RuntimeError, match=r"StopIteration\('end'\)"):
        await run(make_pool(1), lambda: next(_stopping()))


def _stopping() -> Any:
    class Stopping:
        def __next__(self) -> None:
            raise StopIteration("end")

    return Stopping()


# SPEC S6
async def test_a_thread_that_was_given_up_keeps_no_place(make_pool) -> None:
    """A step that timed out goes on where nobody can stop it; the next one gets a thread of its own at once."""
    pool, stuck = make_pool(1), Job()
    waiting = run(pool, stuck)
    await until(stuck.began.is_set)
    behind = run(pool, lambda: threading.current_thread().name)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await behind != stuck.thread
    stuck.go_on.set()
    await until(lambda: stuck.thread not in {thread.name for thread in threading.enumerate()})
    assert await run(pool, lambda: 7) == 7


async def test_the_late_outcome_of_a_given_up_thread_is_dropped(make_pool) -> None:
    """It neither comes to who cancelled, nor to the function that the next thread runs."""
    pool, stuck, next_one = make_pool(1), Job("late"), Job("mine")
    waiting = run(pool, stuck)
    await until(stuck.began.is_set)
    waiting.cancel()
    await asyncio.wait([waiting])
    behind = run(pool, next_one)
    await until(next_one.began.is_set)
    stuck.go_on.set()
    await until(lambda: stuck.thread not in {thread.name for thread in threading.enumerate()})
    assert not behind.done()
    next_one.go_on.set()
    assert await behind == "mine"


async def test_giving_up_again_and_again_never_exceeds_the_bound(make_pool) -> None:
    """Of the threads that were not given up there are never more than the pool may have."""
    pool, stuck = make_pool(2), [Job() for _ in range(5)]
    for job in stuck:
        waiting = run(pool, job)
        await until(job.began.is_set)
        waiting.cancel()
        await asyncio.wait([waiting])
    jobs = [Job(number) for number in range(4)]
    tasks = [run(pool, job) for job in jobs]
    await until(lambda: sum(job.began.is_set() for job in jobs) == 2)
    await asyncio.sleep(0.005)
    assert sum(job.began.is_set() for job in jobs) == 2
    for job in (*stuck, *jobs):
        job.go_on.set()
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3]


async def test_a_function_cancelled_before_it_began_never_runs(make_pool) -> None:
    """Its place in line comes to nothing, and the functions behind it lose none."""
    pool, first, ran = make_pool(1), Job(), []
    tasks = [run(pool, first)]
    await until(first.began.is_set)
    cancelled = run(pool, lambda: ran.append("cancelled"))
    tasks.append(run(pool, lambda: ran.append("kept")))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    first.go_on.set()
    await asyncio.gather(*tasks)
    assert ran == ["kept"]


async def test_idle_threads_end_and_come_back_when_they_are_needed(make_pool, monkeypatch) -> None:
    """A worker that once ran many plain steps at once does not keep their threads for ever."""
    monkeypatch.setattr(threads_module, "IDLE_S", 0.002)
    pool = make_pool(4)
    names = await asyncio.gather(*(run(pool, lambda: threading.current_thread().name) for _ in range(4)))
    await until(lambda: not set(names) & {thread.name for thread in threading.enumerate()})
    assert await run(pool, lambda: 1) == 1


async def test_a_closed_pool_lets_its_threads_end(make_pool) -> None:
    """Idle ones at once, the others when their function has ended."""
    pool, job = make_pool(2), Job("done")
    waiting = run(pool, job)
    idle = await run(pool, lambda: threading.current_thread().name)
    await until(job.began.is_set)
    pool.close()
    job.go_on.set()
    assert await waiting == "done"
    await until(lambda: not {idle, job.thread} & {thread.name for thread in threading.enumerate()})


def test_a_loop_that_is_gone_hurts_no_thread() -> None:
    """The outcome of a function whose event loop was closed meanwhile is nobody's, and its thread goes on."""
    pool, job, loop = ThreadPool(1), Job(), asyncio.new_event_loop()

    async def begin() -> asyncio.Task[Any]:
        waiting = run(pool, job)
        await until(job.began.is_set)
        return waiting

    waiting = loop.run_until_complete(begin())
    setattr(waiting, "_log_destroy_pending", False)  # noqa: B010 - as wanted here; its stubs do not name it
    loop.close()
    job.go_on.set()
    behind = pool.run(contextvars.copy_context(), lambda: threading.current_thread().name)
    assert asyncio.run(behind) == job.thread
    pool.close()


def test_stuck_threads_cannot_keep_a_process_from_ending() -> None:
    """All threads of a pool are daemons."""
    pool = ThreadPool(1)
    is_daemon = pool.run(contextvars.copy_context(), lambda: threading.current_thread().daemon)
    assert asyncio.run(is_daemon)
    pool.close()
