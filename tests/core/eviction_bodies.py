"""Twelve bodies to evict: what each does when it is closed, and what it says meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from outlast.core.loop import running_body_loop
from outlast.core.machine import Machine
from tests.core.machines import step

Body = Callable[[Machine, list[str]], Coroutine[Any, Any, None]]


async def plain_finally(machine: Machine, log: list[str]) -> None:
    try:
        await step(machine, "a")
    finally:
        log.append("finally")


async def step_in_finally(machine: Machine, log: list[str]) -> None:
    try:
        await step(machine, "a")
    finally:
        log.append("before")
        await step(machine, "refund")
        log.append("after")


async def task_group(machine: Machine, log: list[str]) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(step(machine, "a"))
    log.append("after")


async def under_a_timeout(machine: Machine, log: list[str]) -> None:
    async with asyncio.timeout(10):
        await step(machine, "a")
    log.append("after")


async def gathered(machine: Machine, log: list[str]) -> None:
    pair = asyncio.gather(step(machine, "a"), step(machine, "b"))
    await asyncio.gather(pair, asyncio.shield(machine.loop.create_future()))
    log.append("after")


async def bare_except_for_ever(machine: Machine, log: list[str]) -> None:
    while True:
        try:
            await step(machine, "a")
        except:  # noqa: E722 - that is the point
            log.append("swallowed")


async def marks_its_failure(machine: Machine, log: list[str]) -> None:
    try:
        await step(machine, "a")
    except BaseException as error:
        log.append(f"saw {type(error).__name__}")
        await step(machine, "mark failed", repr(error))
        raise


async def open_generator(machine: Machine, log: list[str]) -> None:
    async def numbers() -> AsyncIterator[Any]:
        try:
            yield await step(machine, "a")
        finally:
            log.append("generator finally")
            await step(machine, "refund")

    async for _ in numbers():
        await step(machine, "b")


async def context_manager(machine: Machine, log: list[str]) -> None:
    @contextlib.asynccontextmanager
    async def resource() -> AsyncIterator[None]:
        try:
            yield
        finally:
            log.append("exit")
            await step(machine, "release")

    async with resource():
        await step(machine, "a")


async def pauses_in_finally(machine: Machine, log: list[str]) -> None:
    try:
        await step(machine, "a")
    finally:
        await asyncio.sleep(0)
        log.append("after the pause")


async def task_in_finally(machine: Machine, log: list[str]) -> None:
    try:
        await step(machine, "a")
    finally:
        asyncio.create_task(step(machine, "refund"))  # noqa: RUF006 - as users do
        log.append("made")


async def looks_at_its_loop(machine: Machine, log: list[str]) -> None:
    try:
        await step(machine, "a")
    finally:
        loop = running_body_loop()
        log.append("in its own loop" if loop is machine.loop and machine.loop.closing else "elsewhere")


TWELVE: dict[Body, list[str]] = {
    plain_finally: ["finally"],
    step_in_finally: ["before"],
    task_group: [],
    under_a_timeout: [],
    gathered: [],
    bare_except_for_ever: ["swallowed"] * 102,
    marks_its_failure: ["saw GeneratorExit"],
    open_generator: ["generator finally"],
    context_manager: ["exit"],
    pauses_in_finally: [],
    task_in_finally: [],
    looks_at_its_loop: ["in its own loop"],
}
"""What each says while it is evicted: plain code runs, and nothing that would wait. One goes on through a
hundred refusals, until it is left to wait."""

LEAVES_CYCLES = {
    bare_except_for_ever,  # it has the machine wait for a step that it asked for when it was closed
    context_manager,  # contextlib keeps the GeneratorExit in a frame that is in its traceback, from 3.12 on
}
