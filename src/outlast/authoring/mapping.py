"""`ctx.map`: many calls of one step, a bounded number of them at a time; and tasks that end together. Layer: authoring.

What always holds: results come in the order of the items, items are taken from their iterable one by one and only when
a call of them can begin, and the cost per item is the same for ten and for a million.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sized
from typing import Any, TypeAlias, TypeVar

from outlast.authoring.exceptions import encode_error, to_step_failed
from outlast.core.calls import STEP_MARK
from outlast.errors import DefinitionError, InvalidDefinition, StepFailed

__all__ = ["Spawn", "collect_failure", "run_map", "run_together"]

T = TypeVar("T")
R = TypeVar("R")


async def run_map(
    step: Callable[[T], Coroutine[Any, Any, R]],
    items: Iterable[T],
    limit: int,
    collect: Callable[[Exception], R] | None,
) -> list[R]:
    """The results of `step` over `items`, at most `limit` calls open at once.

    With `collect`, what it makes of an item's error stands in that item's place. It may raise. Such an error, and any
    where there is no `collect`, cancels the calls still open and, when they have ended, is raised itself, not in a
    group. Of several errors the first counts.
    """
    _check(items, limit)
    waiting = iter(items)
    results: list[R] = []

    async def work() -> None:
        # One of these per call that may be open, not one per item: a task costs more than a step's whole bookkeeping.
        for item in waiting:
            place = len(results)
            results.append(None)  # type: ignore[arg-type]  # taken; this worker fills it
            try:
                results[place] = await step(item)
            except Exception as error:
                if collect is None:
                    raise
                results[place] = collect(error)

    workers = min(limit, len(items)) if isinstance(items, Sized) else limit

    def begin(spawn: Spawn) -> None:
        for _ in range(workers):
            spawn(work)

    await run_together(begin)
    return results


Spawn: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Starts an async function as a task beside the others."""


async def run_together(begin: Callable[[Spawn], None]) -> None:
    """Run what `begin` spawns, and what that spawns, until all has ended.

    The first error cancels the others and, when they have ended, is raised itself, not in a group.
    """
    failures: list[BaseException] = []

    async def watch(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except BaseException as error:
            # Also a cancel: one that comes from a step itself would end this task, and nobody would hear of it.
            failures.append(error)
            raise

    try:
        async with asyncio.TaskGroup() as group:
            try:
                begin(lambda work: group.create_task(watch(work)))
            except Exception as error:
                failures.append(error)
                raise
    except BaseExceptionGroup:
        if not failures:
            raise
    if failures:
        first = failures[0]
        failures.clear()
        try:
            raise first  # here, where no group is being handled that would become its context
        finally:
            del first  # its traceback holds this frame


def collect_failure(error: Exception) -> StepFailed:
    """What stands for a result that failed. Raises `error` itself if it is the body's mistake, not a step's failure."""
    if isinstance(error, StepFailed):
        return error
    step = getattr(error, STEP_MARK, "")
    if isinstance(error, DefinitionError) and not step:
        raise error
    failed = to_step_failed(encode_error(error), step=step)
    failed.__cause__ = error
    return failed


def _check(items: object, limit: object) -> None:
    where = "ctx.map()"
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidDefinition(f"limit={limit!r} is not a whole number from 1", where, "Give one, such as 20.")
    if isinstance(items, set | frozenset):
        problem = "The items are a set, whose order is another one in each process"
        raise InvalidDefinition(problem, where, "Pass sorted(items), or a list.")
