"""Dropping a body: no effect in the world, none in another run, nothing left (SPEC P7)."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import sys
import threading
import warnings
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outlast.core.loop import BodyLoop, running_body_loop
from outlast.core.loop.eviction import Muted
from outlast.core.machine import Machine
from tests.core.eviction_bodies import (
    LEAVES_CYCLES,
    TWELVE,
    Body,
    bare_except_for_ever,
    open_generator,
    plain_finally,
    under_a_timeout,
)
from tests.core.machines import make_machine, step, succeeded


async def asend_in_a_loop(numbers: AsyncIterator[int]) -> None:
    async for _ in numbers:
        pass


async def anext_with_a_default(numbers: AsyncIterator[int]) -> None:
    await anext(numbers, None)


async def in_another_generator(numbers: AsyncIterator[int]) -> None:
    async def outer() -> AsyncIterator[int]:
        async for number in numbers:
            yield number

    async for _ in outer():
        pass


def begin(body: Body, log: list[str]) -> Machine:
    async def bound(machine: Machine) -> bytes:
        await body(machine, log)
        return b"null"

    machine = make_machine(bound)
    machine.begin()
    if body is open_generator:
        machine.feed(succeeded("a"))
    return machine


class Unraisable:
    """In the place of `sys.unraisablehook`: what Python could only report."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reports: list[Any] = []
        monkeypatch.setattr(sys, "unraisablehook", self.reports.append)
        self.hook = sys.unraisablehook


# SPEC P7
@pytest.mark.parametrize("body", TWELVE, ids=lambda body: body.__name__)
@pytest.mark.parametrize("in_a_host", [True, False])
def test_an_evicted_body_does_nothing_and_leaves_nothing(body, in_a_host, monkeypatch) -> None:
    """No step is asked for, nothing is reported, no task is left to the host, and no object to the collector."""
    unraisable = Unraisable(monkeypatch)
    log: list[str] = []

    def evict() -> list[weakref.ref[Any]]:
        machine = begin(body, log)
        tasks = machine.loop.live_tasks()
        left = [weakref.ref(it) for it in (machine, machine.loop, *tasks, *(task.get_coro() for task in tasks))]
        asked = machine._commands
        log.clear()
        del tasks
        assert machine.evict() == 0
        assert asked == [] or body is bare_except_for_ever
        return left

    async def host() -> list[weakref.ref[Any]]:
        before = asyncio.all_tasks()
        left = evict()
        assert asyncio.all_tasks() == before
        return left

    gc.collect()
    gc.disable()  # no cycle is left, so nothing is left without it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            left = asyncio.run(host()) if in_a_host else evict()
        if body in LEAVES_CYCLES:
            gc.collect()
        alive = [type(ref()).__name__ for ref in left if ref() is not None]
    finally:
        gc.enable()
    assert alive == []
    assert log == TWELVE[body]
    assert unraisable.reports == []
    assert sys.unraisablehook == unraisable.hook


# SPEC P7
def test_an_evicted_body_arms_nothing_in_the_run_that_moves() -> None:
    """A body evicted while another one drains asks its own loop, which answers nothing."""
    log: list[str] = []
    dropped = begin(under_a_timeout, log)

    async def other(machine: Machine, log: list[str]) -> None:
        dropped.evict()
        assert running_body_loop() is machine.loop
        log.append("goes on")
        await step(machine, "b")

    machine = begin(other, log)
    assert log == ["goes on"]
    assert list(machine.pending) == ["b"]
    assert machine.next_timer() is None
    machine.evict()


def test_what_is_asked_of_an_evicted_loop_comes_to_nothing() -> None:
    """A late outcome, callback or timer is dropped; waiting raises GeneratorExit; evicting again does nothing."""
    loop = BodyLoop(start_us=0)
    ran: list[str] = []
    future = loop.create_future()
    root = loop.spawn_root(asyncio.wait_for(future, 5))
    loop.drain()
    loop.call_soon(ran.append, "was ready")
    assert loop.evict() == 0
    assert loop.evict() == 0
    loop.call_soon(ran.append, "ready")
    assert loop.call_later(1, ran.append, "timer").ordinal == 0
    loop.drain()
    assert (ran, loop.next_timer(), loop.live_tasks(), loop.is_closed()) == ([], None, [], True)
    assert future.cancelled()
    assert not root.done()
    coroutine = asyncio.sleep(0)
    with pytest.raises(GeneratorExit):
        loop.create_task(coroutine)
    with pytest.raises(GeneratorExit):
        loop.create_future()


def test_a_body_that_has_ended_is_evicted_for_nothing() -> None:
    """After its end nothing of it runs, and its loop lets go of the machine."""
    log: list[str] = []
    machine = begin(plain_finally, log)
    machine.feed(succeeded("a"))
    assert machine.outcome is not None
    assert machine.evict() == 0
    assert log == ["finally"]
    assert machine.loop.machine is None


def test_tasks_are_closed_newest_first_each_in_its_own_context() -> None:
    """A `finally` sees the context variables that its task set."""
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    loop = BodyLoop(start_us=0)
    seen: list[int] = []

    async def wait(number: int) -> None:
        variable.set(number)
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(variable.get())

    for number in range(4):
        loop.spawn_root(wait(number))
    loop.drain()
    loop.evict()
    assert seen == [3, 2, 1, 0]


def test_what_was_not_awaited_yet_is_not_complained_of(recwarn) -> None:
    """A call that the body holds and has not awaited, and a task that has not begun, go without a warning; outside an
    eviction Python warns as ever."""

    async def body(machine: Machine, log: list[str]) -> None:
        call = step(machine, "later")
        await step(machine, "a")
        await call

    machine = begin(body, [])
    with machine.loop.entered():
        machine.loop.create_task(step(machine, "never begun"))
    machine.evict()
    del machine
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []
    step(make_machine(lambda _: asyncio.sleep(0)), "dropped")  # type: ignore[arg-type]
    gc.collect()
    assert ["never awaited" in str(warning.message) for warning in recwarn] == [True]


def test_a_finally_that_fails_is_not_heard(monkeypatch) -> None:
    """Errors of a body that is dropped are nobody's; the other tasks are closed all the same."""
    unraisable = Unraisable(monkeypatch)
    loop = BodyLoop(start_us=0)
    ended: list[str] = []

    async def wait(name: str, error: BaseException) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
            raise error

    for error in (ValueError("x"), SystemExit(3), asyncio.CancelledError()):
        loop.spawn_root(wait(type(error).__name__, error))
    loop.drain()
    assert loop.evict() == 0
    assert ended == ["CancelledError", "SystemExit", "ValueError"]
    assert unraisable.reports == []


def test_a_ctrl_c_during_an_eviction_is_raised_when_all_is_closed() -> None:
    """The eviction is finished first: half a body would be left to the collector."""
    loop = BodyLoop(start_us=0)
    ended: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)
            if number == 2:
                raise KeyboardInterrupt

    for number in range(4):
        loop.spawn_root(wait(number))
    loop.drain()
    with pytest.raises(KeyboardInterrupt):
        loop.evict()
    assert ended == [3, 2, 1, 0]
    assert running_body_loop() is None
    assert loop.evict() == 0


def test_a_coroutine_that_will_not_end_is_counted_and_kept() -> None:
    """It answers each close with one more await. Freed, it would run on; so it is held for ever, and told of."""
    loop = BodyLoop(start_us=0)
    turns = 0

    async def stubborn() -> None:
        nonlocal turns
        while True:
            try:
                await asyncio.sleep(0)
            except GeneratorExit:
                turns += 1

    async def stubborn_numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            while True:
                with contextlib.suppress(GeneratorExit):
                    await asyncio.sleep(0)

    async def leave_early() -> None:
        async for _ in stubborn_numbers():
            break
        await asyncio.Event().wait()

    loop.spawn_root(leave_early())
    loop.drain()
    loop.create_task(stubborn(), context=contextvars.copy_context())
    for handle in list(loop._ready):  # two turns are enough: it never stops by itself
        handle._run()
    root = loop.live_tasks()[1]
    coroutine = weakref.ref(root.get_coro())
    del root
    assert loop.evict() == 2
    told = turns
    gc.collect()
    assert coroutine() is not None
    assert turns == told == 8


@pytest.mark.parametrize("how", [asend_in_a_loop, anext_with_a_default, in_another_generator])
@pytest.mark.parametrize("error", [None, ValueError("no")])
def test_a_generator_that_waits_is_closed_where_it_waits(how, error) -> None:
    """The body iterates it, and it waits inside: its `finally` runs once, in the closing, and with its body's."""
    loop = BodyLoop(start_us=0)
    log: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            await asyncio.sleep(5)
            yield 1
        finally:
            log.append(f"closed in {type(running_body_loop()).__name__}")
            if error is not None:
                raise error

    async def body() -> None:
        try:
            await how(numbers())
        finally:
            log.append("body")

    loop.spawn_root(body())
    loop.drain()
    assert "in numbers" in loop.task_stacks()
    assert loop.evict() == 0
    gc.collect()
    assert log == ["closed in BodyLoop", "body"]


def test_a_generator_that_pauses_in_its_end_is_closed() -> None:
    """An await in its `finally` is cut off, as in a coroutine."""
    loop = BodyLoop(start_us=0)
    log: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            log.append("before the pause")
            await asyncio.sleep(0)
            log.append("after the pause")

    async def leave_early() -> None:
        async for _ in numbers():
            break
        await asyncio.Event().wait()

    loop.spawn_root(leave_early())
    loop.drain()
    assert loop.evict() == 0
    assert log == ["before the pause"]


def test_two_threads_may_mute_a_hook_at_once_and_end_in_any_order() -> None:
    """Each silences its own reports only, and the last to end puts back what was there."""
    import types

    module = types.ModuleType("module")
    heard: list[str] = []
    module.hook = heard.append  # type: ignore[attr-defined]
    original = module.hook
    me = threading.get_ident()
    first = Muted(module, "hook", lambda: threading.get_ident() == me)
    second = Muted(module, "hook", lambda: False)
    with contextlib.ExitStack() as stack:
        first.__enter__()
        stack.enter_context(second)
        module.hook("mine")
        thread = threading.Thread(target=module.hook, args=("another thread's",))
        thread.start()
        thread.join()
        first.__exit__(None, None, None)
        module.hook("after the first")
        assert module.hook is not original
    assert module.hook is original
    assert heard == ["another thread's", "after the first"]
