"""What asyncio does by memory address, done by order inside bodies. Installed once per process. Layer: core.

What always holds: outside a body each of these does what it did before. Plain functions are given new code in place:
`from asyncio import as_completed` may have run before outlast was imported, and must not matter.
"""

# The templates below use names of the module that their code is put into.
# ruff: noqa: F821

from __future__ import annotations

import asyncio
import sys
from asyncio import tasks
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

__all__ = ["install"]


class OrdinalLoop(Protocol):
    """What a body's loop gives the patches."""

    def next_ordinal(self) -> int:
        """A number nothing else in this run has."""
        ...

    def live_tasks(self) -> list[Any]:
        """The tasks of this body that are not done."""
        ...


def install(running_body_loop: Callable[[], OrdinalLoop | None]) -> None:
    """Patch asyncio; a second call does nothing. `running_body_loop` says whether a body runs, and on which loop."""
    module = tasks.__dict__
    if "_outlast_running_body_loop" in module:
        return
    module["_outlast_running_body_loop"] = running_body_loop
    _give_code(tasks.as_completed, _as_completed, module)
    _give_code(tasks.all_tasks, _all_tasks, module)
    if sys.version_info < (3, 12):
        module["_outlast_wait_for_3_12"] = _wait_for_3_12
        _give_code(tasks.wait_for, _wait_for, module)
    module["_outlast_in_order"] = _in_order
    _number_gatherings(running_body_loop)


def _give_code(function: Any, template: Any, module: dict[str, Any]) -> None:
    """Let `function` run `template`'s code, in its own module, where its former self is `_outlast_former_<name>`."""
    name = function.__name__
    if not isinstance(function, FunctionType) or function.__closure__ is not None:
        # Moved to C: only those who look it up from now on get the patch.
        module[f"_outlast_former_{name}"] = function
        patched = FunctionType(template.__code__, module, name, template.__defaults__)
        patched.__kwdefaults__ = template.__kwdefaults__
        setattr(asyncio, name, patched)
        setattr(tasks, name, patched)
        return
    former = FunctionType(function.__code__, function.__globals__, name, function.__defaults__)
    former.__kwdefaults__ = function.__kwdefaults__
    module[f"_outlast_former_{name}"] = former
    function.__code__ = template.__code__


# Templates: these run in the namespace of asyncio.tasks, and see only what is put there.

if TYPE_CHECKING:
    _outlast_running_body_loop: Callable[[], OrdinalLoop | None]
    _outlast_in_order: Callable[[Iterable[Any]], Iterable[Any]]
    _outlast_former_as_completed: Any
    _outlast_former_all_tasks: Any
    _outlast_former_wait_for: Any
    _outlast_wait_for_3_12: Any


def _as_completed(fs: Any, *, timeout: float | None = None) -> Any:
    if _outlast_running_body_loop() is not None:
        fs = _outlast_in_order(fs)
    return _outlast_former_as_completed(fs, timeout=timeout)


def _all_tasks(loop: Any = None) -> Any:
    body_loop = _outlast_running_body_loop()
    if body_loop is None or (loop is not None and loop is not body_loop):
        return _outlast_former_all_tasks(loop)
    return set(body_loop.live_tasks())


async def _wait_for(fut: Any, timeout: float | None) -> Any:
    if _outlast_running_body_loop() is None:
        return await _outlast_former_wait_for(fut, timeout)
    return await _outlast_wait_for_3_12(fut, timeout)


# What the templates call.


def _in_order(awaitables: Iterable[Any]) -> Iterable[Any]:
    """As tasks, started in the order given: `as_completed` itself starts what is in `set(awaitables)`."""
    if asyncio.isfuture(awaitables) or asyncio.iscoroutine(awaitables):
        return awaitables  # a mistake, which the original explains
    once = {id(awaitable): awaitable for awaitable in awaitables}
    return [asyncio.ensure_future(awaitable) for awaitable in once.values()]


async def _wait_for_3_12(awaitable: Any, timeout: float | None) -> Any:
    """`wait_for` as Python 3.12 has it. That of 3.11 runs the awaitable in a task of its own, and so in other turns."""
    if timeout is not None and timeout <= 0:
        future = asyncio.ensure_future(awaitable)
        if future.done():
            return future.result()
        await _cancel_and_wait(future)
        try:
            return future.result()
        except asyncio.CancelledError as error:
            raise TimeoutError from error
    async with asyncio.timeout(timeout):
        return await awaitable


async def _cancel_and_wait(future: asyncio.Future[Any]) -> None:
    """Returns when the future has taken the cancel; a cancel of the waiting task does not hurry it."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def release(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    future.add_done_callback(release)
    try:
        future.cancel()
        await waiter
    finally:
        future.remove_done_callback(release)


def _number_gatherings(running_body_loop: Callable[[], OrdinalLoop | None]) -> None:
    """What `gather` returns in a body hashes by ordinal, as the body's other futures do."""
    gathering: Any = tasks._GatheringFuture  # type: ignore[attr-defined]  # noqa: SLF001 - nobody else makes one
    former_init: Any = gathering.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        loop = running_body_loop()
        if loop is not None:
            self._outlast_ordinal = loop.next_ordinal()
        former_init(self, *args, **kwargs)

    def __hash__(self: Any) -> int:  # noqa: N807
        ordinal: int | None = getattr(self, "_outlast_ordinal", None)
        return object.__hash__(self) if ordinal is None else ordinal

    gathering.__init__ = __init__
    gathering.__hash__ = __hash__
