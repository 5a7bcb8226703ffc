"""The body's loop: going in and out, and what gets out of a drain."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable

import pytest
import uvloop

from outlast.core.loop import BUDGET, BodyLoop, body_loop, running_body_loop
from outlast.errors import BodyBlocked, BodySpins, EffectInBody
from tests.core.loop_bodies import pause, run_body

State = tuple[object, object, object]


def host_state() -> State:
    """What a drain must leave as it was."""
    try:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
    except RuntimeError:
        loop = task = None
    return loop, task, tuple(sys.get_asyncgen_hooks())


def stop(kind: type[BaseException]) -> Callable[[], None]:
    def callback() -> None:
        raise kind if kind is not BodyBlocked else BodyBlocked("run-1", 10)

    return callback


# --- in and out -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("ends", [None, KeyboardInterrupt, MemoryError, BodyBlocked])
def test_a_drain_leaves_the_thread_as_it_found_it(host, debug, ends) -> None:
    """Running loop, current task and generator hooks are the host's again, from a task, a callback or no loop at all,
    whether the body stopped by itself or was stopped."""

    def drain() -> bool:
        loop = BodyLoop(start_us=0)
        loop.spawn_root(pause())
        if ends is not None:
            loop.call_soon(stop(ends))
        before = host_state()
        with contextlib.nullcontext() if ends is None else pytest.raises(ends):
            loop.drain()
        same = host_state() == before
        loop.evict()
        return same and host_state() == before

    async def main() -> list[bool]:
        from_callback = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: from_callback.set_result(drain()))
        return [drain(), await from_callback, drain()]

    assert drain()
    with asyncio.Runner(debug=debug, loop_factory=host) as runner:
        assert runner.run(main()) == [True] * 3


class Interrupts:
    """In the place of the functions that a drain goes in and back by: raises before or after the number-th call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.number = 0
        self.after = False
        names = ("_get_running_loop", "_set_running_loop", "set_running_loop", "_enter_task", "_leave_task")
        for name in (*names, "current_task_of"):
            monkeypatch.setattr(body_loop, name, self.wrap(getattr(body_loop, name)))
        for name in ("get_asyncgen_hooks", "set_asyncgen_hooks"):
            monkeypatch.setattr(sys, name, self.wrap(getattr(sys, name)))

    def wrap(self, function: Callable) -> Callable:
        def wrapped(*args: object) -> object:
            self.calls += 1
            is_it = self.calls == self.number
            if is_it and not self.after:
                raise KeyboardInterrupt
            result = function(*args)
            if is_it:
                raise KeyboardInterrupt
            return result

        return wrapped


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_at_any_call_of_a_drain_still_leaves_the_thread_as_it_was(after, monkeypatch) -> None:
    """A Ctrl-C may come before or after any call on the way in and back: the host's task goes on as if nothing was."""

    def interrupt_at(number: int) -> bool:
        """Whether there was such a call."""
        loop = BodyLoop(start_us=0)
        loop.spawn_root(pause())
        before = host_state()
        with monkeypatch.context() as patch:
            interrupts = Interrupts(patch)
            interrupts.number, interrupts.after = number, after
            with contextlib.suppress(KeyboardInterrupt):
                loop.drain()
        assert host_state() == before
        loop.evict()
        assert host_state() == before
        return interrupts.calls >= number

    async def main() -> int:
        number = 1
        while interrupt_at(number):
            number += 1
            await asyncio.sleep(0)
        return number

    assert asyncio.run(main()) > 9


def test_a_body_may_be_drained_inside_another() -> None:
    """Going in from a body comes back to that body, as from any host."""
    inner = BodyLoop(start_us=0)
    seen = []

    async def inside() -> None:
        seen.append(running_body_loop())

    async def outside() -> None:
        before = host_state()
        inner.spawn_root(inside())
        inner.drain()
        assert host_state() == before
        seen.append(running_body_loop())

    outer = BodyLoop(start_us=0)
    root = outer.spawn_root(outside())
    outer.drain()
    root.result()
    assert seen == [inner, outer]


def test_a_loop_entered_once_can_be_drained_many_times() -> None:
    """A replay enters once for many stimuli; a drain in between neither leaves nor enters."""
    loop = BodyLoop(start_us=0)
    before = host_state()
    with loop.entered():
        for _ in range(3):
            loop.spawn_root(pause())
            loop.drain()
            assert running_body_loop() is loop
        with loop.entered():
            assert running_body_loop() is loop
        assert running_body_loop() is loop
    assert host_state() == before
    assert loop.live_tasks() == []


def test_in_a_run_means_that_the_running_loop_is_a_bodys() -> None:
    """Outside any loop and in the host there is no run; in a body there is one."""

    async def host() -> BodyLoop | None:
        return running_body_loop()

    assert running_body_loop() is None
    assert asyncio.run(host()) is None
    assert isinstance(run_body(host).result(), BodyLoop)


# --- what gets out ----------------------------------------------------------------------------------------------------


def test_what_a_body_raises_stays_in_its_task() -> None:
    """An error, a cancel or a SystemExit is its task's; the drain goes on with the others."""
    loop = BodyLoop(start_us=0)

    async def fail(error: type[BaseException]) -> None:
        raise error("x")

    tasks = [loop.spawn_root(fail(kind)) for kind in (ValueError, asyncio.CancelledError, SystemExit, GeneratorExit)]
    last = loop.spawn_root(pause())
    loop.drain()
    assert [task.done() for task in (*tasks, last)] == [True] * 5
    assert isinstance(tasks[0].exception(), ValueError)
    assert tasks[1].cancelled()
    assert tasks[2].exception() is loop.system_exit is not None
    assert isinstance(tasks[3].exception(), GeneratorExit)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError, BodyBlocked])
def test_what_concerns_the_process_gets_out(kind) -> None:
    """A Ctrl-C, a lack of memory and a watchdog's exception are the engine's to handle, once the host is back."""
    loop = BodyLoop(start_us=0)
    loop.call_soon(stop(kind))
    with pytest.raises(kind):
        loop.drain()
    assert loop.unhandled == []


def test_a_ctrl_c_in_a_task_gets_out() -> None:
    """KeyboardInterrupt raised inside the body's own code leaves the drain."""
    loop = BodyLoop(start_us=0)

    async def body() -> None:
        raise KeyboardInterrupt

    root = loop.spawn_root(body())
    with pytest.raises(KeyboardInterrupt):
        loop.drain()
    assert isinstance(root.exception(), KeyboardInterrupt)


def test_errors_nobody_took_are_kept_up_to_a_number() -> None:
    """A failing callback and a task whose error nobody looked at are noted, the first twenty of them."""
    loop = BodyLoop(start_us=0)
    loop.call_soon(stop(ZeroDivisionError))
    loop.call_soon(stop(SystemExit))
    loop.drain()
    assert [type(unhandled.error) for unhandled in loop.unhandled] == [ZeroDivisionError]
    assert isinstance(loop.system_exit, SystemExit)
    loop.call_exception_handler({"message": "from asyncio"})
    loop.default_exception_handler({"message": "from asyncio"})
    assert [unhandled.message for unhandled in loop.unhandled[1:]] == ["from asyncio"] * 2
    for _ in range(100):
        loop.call_soon(stop(ZeroDivisionError))
    loop.drain()
    assert len(loop.unhandled) == 20


# SPEC P6
def test_a_body_that_spins_is_stopped_with_its_stack() -> None:
    """After 100,000 callbacks without a command a drain raises BodySpins, which says where the body is."""
    loop = BodyLoop(start_us=0)
    loop.run_id = "A-17"
    turns = 0

    async def spin() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    loop.spawn_root(spin())
    with pytest.raises(BodySpins, match=r"100000 callbacks.*A-17") as caught:
        loop.drain()
    assert turns == BUDGET
    assert "in spin" in caught.value.stack
    loop.evict()


def test_a_command_renews_the_budget() -> None:
    """A long body that asks for something now and then does not spin."""
    loop = BodyLoop(start_us=0)

    async def long() -> None:
        for turn in range(BUDGET + 10):
            await asyncio.sleep(0)
            if turn == BUDGET // 2:
                loop.budget = BUDGET

    root = loop.spawn_root(long())
    loop.drain()
    assert root.done()


def test_an_interrupt_from_another_thread_is_raised_before_the_next_callback() -> None:
    """However a body treats exceptions, its loop raises at once what another thread put in; taken back, it does not."""
    loop = BodyLoop(start_us=0)
    error = BodyBlocked("run-1", 10)
    ran = []

    def put_in() -> None:
        thread = threading.Thread(target=loop.interrupt, args=(error,))
        thread.start()
        thread.join()

    loop.call_soon(put_in)
    loop.call_soon(ran.append, "later")
    with pytest.raises(BodyBlocked) as caught:
        loop.drain()
    assert caught.value is error
    assert ran == []
    loop.interrupt(error).cancel()
    loop.drain()
    assert ran == ["later"]


# SPEC P4
def test_a_call_from_a_foreign_thread_is_refused_there_and_known_here() -> None:
    """The thread gets an error that says what to do, and the machine learns of it: the body would wait for ever."""
    loop = BodyLoop(start_us=0)
    refused = []

    def call() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except EffectInBody as error:
            refused.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert [str(error) for error in refused] == [str(loop.foreign_call)]
    assert "Do this in a step" in str(loop.foreign_call)
