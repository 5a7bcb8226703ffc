"""The tasks and futures of a body: ordinal hashes, and where a task waits. Layer: core.

What always holds: a set of body tasks or futures iterates alike in every process, for they hash by their ordinal in the
run. asyncio keeps such sets (`TaskGroup`, `wait`, `as_completed`), and by itself hashes by memory address.
"""

from __future__ import annotations

import asyncio
import gc
import traceback
from asyncio.tasks import _unregister_task  # pyright: ignore[reportPrivateUsage]
from collections.abc import Coroutine, Iterable, Iterator
from contextvars import Context
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any, Final

__all__ = ["BodyFuture", "BodyTask", "format_stacks", "iter_awaited"]

_SUSPENDABLE: Final[dict[type[object], tuple[str, str]]] = {
    CoroutineType: ("cr_frame", "cr_await"),
    AsyncGeneratorType: ("ag_frame", "ag_await"),
    GeneratorType: ("gi_frame", "gi_yieldfrom"),
}
"""What has a frame of its own, by the attributes that tell the frame and what it waits for."""
_PLAIN_BODIES: Final = "outlast.core.loop.plain_bodies"
"""Not imported: it needs greenlet."""


class BodyFuture(asyncio.Future[Any]):
    """A future of a body. Made by `BodyLoop.create_future` alone, which numbers it."""

    __slots__ = ("ordinal",)
    ordinal: int

    def __hash__(self) -> int:
        """The ordinal: small, so that sets have the same order on 32 and on 64 bits."""
        return self.ordinal


class BodyTask(asyncio.Task[Any]):
    """A task of a body. Equal to itself alone; a set of them iterates by ordinals."""

    __slots__ = ("context", "ordinal")

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        loop: asyncio.AbstractEventLoop,
        ordinal: int,
        name: str,
        context: Context,
        **options: Any,
    ) -> None:
        """`options` are what a later asyncio passes to tasks, such as `eager_start`."""
        self.ordinal = ordinal  # before super(), which puts the task into a set up to Python 3.13
        self.context = context
        super().__init__(coro, loop=loop, name=name, context=context, **options)
        # asyncio's registry holds the tasks of all loops. Ordinals of many runs would collide in it, and the host's
        # all_tasks() would filter all of them.
        _unregister_task(self)

    def __hash__(self) -> int:
        """The ordinal; also valid before asyncio's own initialisation."""
        return self.ordinal


def format_stacks(tasks: Iterable[BodyTask]) -> str:
    """Where each of these tasks waits, innermost frame last: what a person reads about a body that cannot move."""
    parts: list[str] = []
    for task in tasks:
        frames = ((frame, frame.f_lineno) for frame in _iter_frames(task.get_coro()))
        stack = "".join(traceback.StackSummary.extract(frames).format())
        parts.append(f"{task.get_name()}:\n{stack or '  has not started'}")
    return "\n".join(part.rstrip("\n") for part in parts)


def iter_awaited(awaitable: Any) -> Iterator[Any]:
    """What it awaits, what that awaits, and so on; itself first. `Task.get_stack` sees the first of them only.

    An async generator comes after the `asend()` object that drives it.
    """
    while awaitable is not None:
        yield awaitable
        kind = type(awaitable)
        if kind in _SUSPENDABLE:
            awaitable = getattr(awaitable, _SUSPENDABLE[kind][1])
        else:
            # An asend() or __await__() object does not say what it drives. The collector knows.
            awaitable = next((it for it in gc.get_referents(awaitable) if _is_driven(it)), None)


def _is_driven(it: Any) -> bool:
    return type(it) in _SUSPENDABLE or type(it).__name__ == "async_generator_asend"


def _iter_frames(awaitable: Any) -> Iterator[FrameType]:
    for awaited in iter_awaited(awaitable):
        if type(awaited) in _SUSPENDABLE:
            frame = getattr(awaited, _SUSPENDABLE[type(awaited)][0])
            if frame is not None:
                yield frame
                yield from _iter_plain_frames(frame)


def _iter_plain_frames(frame: FrameType) -> Iterator[FrameType]:
    """Those of the plain `def` body that this coroutine drives, if it drives one (`plain_bodies.run_plainly`)."""
    if "plain_body" in frame.f_code.co_varnames and frame.f_globals.get("__name__") == _PLAIN_BODIES:
        inner, frames = frame.f_locals["plain_body"].gr_frame, []
        while inner is not None:
            frames.append(inner)
            inner = inner.f_back
        yield from reversed(frames)
