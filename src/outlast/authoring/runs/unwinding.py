"""Undoing what a run did: the body of an unwind. Layer: authoring.

A compensation is declared on a step (`@charge.compensation`), given for a call (`compensate=`), or registered by the
body (`ctx.compensate`); a completed child undoes itself. What always holds: each runs as a durable step of its own, one
after the other, and one that fails for good does not keep the others from running.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.authoring.call import Call
from outlast.authoring.function import Closure
from outlast.authoring.runs.child import CHILD_DEFAULTS, ChildCall, wait_for_child
from outlast.authoring.step import DEFAULTS, Step, call_durably
from outlast.core.unwinding import Undoable, compensation_key
from outlast.errors import InvalidDefinition

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.authoring.module import Module
    from outlast.core.machine import Machine

__all__ = ["Registered", "unwind"]


class Registered(NamedTuple):
    """An undo of the body's own: `ctx.compensate(fn, *args)`."""

    fn: Callable[..., object]
    args: tuple[Any, ...]


async def unwind(registry: Module, machine: Machine, undoables: list[Undoable]) -> tuple[str, ...]:
    """Undo them in this order; gives the keys of those that could not be undone."""
    failed = []
    for undoable in undoables:
        try:
            await _undo(registry, machine, undoable)
        except Exception:  # noqa: BLE001 - the step's failure is on record and in the log; the others are undone still
            failed.append(undoable.key)
    return tuple(failed)


async def _undo(registry: Module, machine: Machine, undoable: Undoable) -> None:
    if undoable.undo is not None:
        registered: Registered = undoable.undo
        await _run(registered.fn, compensation_key(undoable.key), undoable.key, registered.args, {})
    elif undoable.kind == "child":
        await _undo_child(registry, machine, undoable)
    else:
        await _undo_step(registry, machine, undoable)


async def _undo_child(registry: Module, machine: Machine, undoable: Undoable) -> None:
    workflow = registry.find_workflow(undoable.function)
    if workflow is None:
        await machine.report_missing(undoable.function)
        return
    call = ChildCall(workflow, CHILD_DEFAULTS, b"{}", 0, compensates=undoable.key, name=compensation_key(undoable.key))
    await wait_for_child(machine, machine.call_step(call))


async def _undo_step(registry: Module, machine: Machine, undoable: Undoable) -> None:
    call = undoable.call
    if isinstance(call, Call):
        undo = call.settings.undo_with
        (args, kwargs), result = call.decode_call(), call.decode_result(undoable.value)
    else:  # from before a retry, and not asked for again: what the step declares now has to do
        step = registry.find_step(undoable.function)
        if step is None:
            await machine.report_missing(undoable.function)
            return
        undo = step.settings.undo_with
        args, kwargs = step.function.arguments.decode_call(undoable.arguments)
        result = step.function.returns.decode(undoable.value)
    if undo is None:
        problem = f"Nothing is declared any more that undoes the step {undoable.key!r}"
        raise InvalidDefinition(problem, undoable.function, "Declare a compensation, or undo it by hand.")
    await _run(undo, compensation_key(undoable.key), undoable.key, (*args, result), kwargs)


async def _run(
    fn: Callable[..., object], name: str, compensates: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    if isinstance(fn, Step):
        await call_durably(fn.function, name, fn.settings, args, kwargs, compensates=compensates)
    else:
        closure = Closure("compensation", functools.partial(fn, *args, **kwargs), returns=Any)
        await call_durably(closure, name, DEFAULTS, (), {}, compensates=compensates)
