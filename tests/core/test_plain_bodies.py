"""Plain `def` bodies on the loop: they go the way their async twins go, and leave as little behind."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from outlast.core.events import CancelRequested, ErrorRecord, RunCancelled, RunCompleted, RunFailed
from outlast.core.loop.plain_bodies import run_plainly, wait_here
from outlast.core.machine import Machine
from outlast.errors import BodySpins, EffectInBody, InvalidDefinition
from tests.core.machines import Recorder, failed, make_machine, output_of, replay, step, succeeded

Plain = Callable[[Machine], Any]
SPOT: contextvars.ContextVar[str] = contextvars.ContextVar("SPOT", default="outside")


def as_body(fn: Plain):
    async def body(machine: Machine) -> bytes:
        return f'"{await run_plainly(fn, machine)}"'.encode()

    return body


def trip(machine: Machine) -> str:
    """A step, three at once that wait themselves, a failure, a timer, one more step."""
    SPOT.set("body")
    first = wait_here(step(machine, "charge"))
    packed = wait_here(asyncio.gather(*(run_plainly(pack, machine, number) for number in range(3))))
    try:
        wait_here(step(machine, "ship"))
    except Exception as error:
        first += f" {error}"
    try:
        wait_here(asyncio.wait_for(step(machine, "never"), 5))
    except TimeoutError:
        first += " late"
    return f"{first} {''.join(packed)} {SPOT.get()} {wait_here(step(machine, 'end'))}"


def pack(machine: Machine, number: int) -> str:
    SPOT.set(f"packing {number}")
    return wait_here(step(machine, "pack", number)) + wait_here(step(machine, "seal", number)) + SPOT.get()[-1]


async def trip_twin(machine: Machine) -> bytes:
    SPOT.set("body")
    first = await step(machine, "charge")
    packed = await asyncio.gather(*(pack_twin(machine, number) for number in range(3)))
    try:
        await step(machine, "ship")
    except Exception as error:
        first += f" {error}"
    try:
        await asyncio.wait_for(step(machine, "never"), 5)
    except TimeoutError:
        first += " late"
    return f'"{first} {"".join(packed)} {SPOT.get()} {await step(machine, "end")}"'.encode()


async def pack_twin(machine: Machine, number: int) -> str:
    SPOT.set(f"packing {number}")
    return await step(machine, "pack", number) + await step(machine, "seal", number) + SPOT.get()[-1]


TRIP = [
    succeeded("charge", "paid"),
    *(succeeded(key, "p") for key in ("pack#1", "pack", "pack#2")),
    *(succeeded(key, "s") for key in ("seal#2", "seal", "seal#1")),
    failed("ship", "rain"),
    "timer",
    succeeded("end", "home"),
]


# SPEC R11
def test_a_plain_body_takes_the_path_of_its_async_twin() -> None:
    """Command for command, in the same order, to the same end."""
    plain = Recorder(as_body(trip)).feed(*TRIP)
    twin = Recorder(trip_twin).feed(*TRIP)
    assert output_of(plain.journal[-1]) == b'"paid rain late ps0ps1ps2 body home"'
    assert plain.journal == twin.journal
    assert SPOT.get() == "outside"


def test_a_replay_takes_the_same_path_from_every_cut() -> None:
    """Wherever it is dropped, it comes to the same place again, and goes on."""
    whole = Recorder(as_body(trip)).feed(*TRIP).journal
    for count in range(len(TRIP)):
        player = Recorder(as_body(trip)).feed(*TRIP[:count])
        assert player.machine.evict() == 0
        machine, beyond = replay(as_body(trip), player.journal)
        assert beyond == []
        player.machine = machine
        assert player.feed(*TRIP[count:]).journal == whole


def test_a_cancel_arrives_where_the_body_waits() -> None:
    """As CancelledError; its clean-up may run steps, and the run ends as cancelled."""

    def body(machine: Machine) -> str:
        try:
            return wait_here(step(machine, "a"))
        finally:
            wait_here(step(machine, "tidy"))

    player = Recorder(as_body(body)).feed(CancelRequested(1_000_000_000, "enough"))
    assert player.keys == ["a", "tidy"]
    player.feed(succeeded("tidy"))
    assert isinstance(player.journal[-1], RunCancelled)


def test_what_it_raises_is_what_was_raised() -> None:
    """An error of a call comes as itself, with the body's line in its traceback; so does that of no awaitable."""
    seen: list[BaseException] = []

    def body(machine: Machine) -> str:
        not_awaitable: Any = 3
        for awaitable in (step(machine, "a"), not_awaitable):
            try:
                wait_here(awaitable)
            except Exception as error:
                seen.append(error)
        return "done"

    player = Recorder(as_body(body)).feed(failed("a", "rain"))
    assert isinstance(player.journal[-1], RunCompleted)
    assert [str(error) for error in seen] == ["rain", "object int can't be used in 'await' expression"]
    assert all(error.__traceback__ is not None and error.__context__ is None for error in seen)
    assert seen[0].__traceback__ is not None
    assert seen[0].__traceback__.tb_frame.f_code is body.__code__


# --- dropping one -----------------------------------------------------------------------------------------------------


def plain_finally(machine: Machine, log: list[str]) -> None:
    try:
        wait_here(step(machine, "a"))
    finally:
        log.append("finally")


def step_in_finally(machine: Machine, log: list[str]) -> None:
    try:
        wait_here(step(machine, "a"))
    finally:
        log.append("before")
        wait_here(step(machine, "refund"))
        log.append("after")


def several(machine: Machine, log: list[str]) -> None:
    wait_here(asyncio.gather(*(run_plainly(plain_finally, machine, log) for _ in range(3)), step(machine, "b")))
    log.append("after")


def under_a_timeout(machine: Machine, log: list[str]) -> None:
    wait_here(asyncio.wait_for(step(machine, "a"), 10))
    log.append("after")


def in_another_context(machine: Machine, log: list[str]) -> None:
    contextvars.copy_context().run(plain_finally, machine, log)
    log.append("after")


def within_a_helper(machine: Machine, log: list[str]) -> None:
    async def helper() -> None:
        await run_plainly(plain_finally, machine, log)

    wait_here(helper())
    log.append("after")


def swallows_once(machine: Machine, log: list[str]) -> None:
    try:
        wait_here(step(machine, "a"))
    except BaseException:
        log.append("swallowed")


DROPPED = {
    plain_finally: ["finally"],
    step_in_finally: ["before"],
    several: ["finally"] * 3,
    under_a_timeout: [],
    in_another_context: ["finally"],
    within_a_helper: ["finally"],
    swallows_once: ["swallowed"],
}


# SPEC P7
@pytest.mark.parametrize("body", DROPPED, ids=lambda body: body.__name__)
@pytest.mark.parametrize("in_a_host", [True, False])
def test_an_evicted_body_does_nothing_and_leaves_nothing(body, in_a_host, monkeypatch) -> None:
    """No step is asked for, nothing is reported, and no object is left to the collector."""
    reports: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reports.append)
    log: list[str] = []

    def evict() -> list[weakref.ref[Any]]:
        async def bound(machine: Machine) -> bytes:
            await run_plainly(body, machine, log)
            return b"null"

        machine = make_machine(bound)
        machine.begin()
        tasks = machine.loop.live_tasks()
        left = [weakref.ref(it) for it in (machine, machine.loop, *tasks, *(task.get_coro() for task in tasks))]
        assert tasks
        del tasks
        assert machine.evict() == 0
        assert machine._commands == []
        return left

    async def host() -> list[weakref.ref[Any]]:
        return evict()

    gc.collect()
    gc.disable()  # no cycle is left, so nothing is left without it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            left = asyncio.run(host()) if in_a_host else evict()
        alive = [type(ref()).__name__ for ref in left if ref() is not None]
    finally:
        gc.enable()
    assert alive == []
    assert log == DROPPED[body]
    assert reports == []


def test_one_that_swallows_its_end_for_ever_is_counted_and_kept() -> None:
    """Its loop would never return; freed, it would run on. So it is left where it waits."""
    turns: list[int] = []

    def stubborn(machine: Machine) -> str:
        while True:
            try:
                wait_here(step(machine, "a"))
            except BaseException:
                turns.append(1)

    machine = make_machine(as_body(stubborn))
    machine.begin()
    assert machine.evict() == 1
    count = len(turns)
    assert count == 8
    del machine
    gc.collect()
    assert len(turns) == count


def test_one_that_spins_is_stopped_with_its_stack() -> None:
    """A body that waits for what is always there, and asks for nothing, does not hold its worker."""

    def spins(machine: Machine) -> str:
        while True:
            wait_here(asyncio.sleep(0))

    machine = make_machine(as_body(spins))
    with pytest.raises(BodySpins, match=r"in spins\n    wait_here\(asyncio\.sleep\(0\)\)"):
        machine.begin()
    assert machine.evict() == 0


def test_its_stack_shows_where_it_waits() -> None:
    """The frames of the body stand between those of its coroutine and of what it waits for."""

    def outer(machine: Machine) -> str:
        return inner(machine)

    def inner(machine: Machine) -> str:
        return wait_here(step(machine, "a"))

    machine = make_machine(as_body(outer))
    machine.begin()
    lines = [line.rpartition(" in ")[2] for line in machine.loop.task_stacks().splitlines() if " in " in line]
    assert lines == ["body", "run_plainly", "_begin", "outer", "inner", "wait_here", "step"]
    machine.evict()


# --- what it is refused -----------------------------------------------------------------------------------------------


def test_an_async_def_cannot_wait_like_this() -> None:
    """Not even one that a plain body waits for: it has `await`."""
    seen: list[str] = []

    async def helper() -> None:
        wait_here(asyncio.get_running_loop().create_future())

    def body(machine: Machine) -> str:
        try:
            wait_here(helper())
        except InvalidDefinition as error:
            seen.append(str(error))
        return "done"

    Recorder(as_body(body))
    assert seen == ["Only a plain def body can wait like this: ctx.wait() in an async def. Write await."]


def test_a_loop_of_its_own_is_refused_and_told_what_to_do() -> None:
    """asyncio.run, and a loop that is driven by hand."""
    seen: list[BaseException] = []

    def runs(machine: Machine) -> str:
        call = asyncio.sleep(0)
        try:
            asyncio.run(call)
        finally:
            call.close()
        return ""

    def drives(machine: Machine) -> str:
        asyncio.get_event_loop().run_until_complete(None)  # type: ignore[arg-type]
        return ""

    def note(error: BaseException) -> ErrorRecord:
        seen.append(error)
        return ErrorRecord(type(error).__name__, str(error))

    for body in (runs, drives):
        machine = make_machine(as_body(body))
        machine._describe_error = note
        machine.begin()
    assert [type(error) for error in seen] == [EffectInBody, EffectInBody]
    assert all("in a plain def body give it to ctx.wait()" in str(error) for error in seen)


def test_a_runtime_error_of_its_own_is_what_it_fails_with() -> None:
    """Only what asyncio says of a loop within a loop is put in other words."""

    def body(_: Machine) -> None:
        raise RuntimeError("mine")

    (failure,) = make_machine(as_body(body)).begin()
    assert isinstance(failure, RunFailed)
    assert (failure.error.type, failure.error.message) == ("RuntimeError", "mine")
