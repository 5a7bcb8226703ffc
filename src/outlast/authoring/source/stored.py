"""A body that runs from its stored plan, when its code is gone. Layer: authoring.

What always holds: it asks for what its source asked for, in the same order; steps and workflows are found by name among
those at hand. Where it cannot go on it stops, and says why; it never guesses.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.authoring.codec import encode
from outlast.authoring.context import Context
from outlast.authoring.runs.child import Child
from outlast.authoring.runs.extension import run_extended
from outlast.authoring.runs.unwinding import unwind
from outlast.authoring.step import Step
from outlast.authoring.workflow import Workflow
from outlast.core.program.access import NotInterpretable, get_attribute
from outlast.core.program.language import CONTEXT, Program
from outlast.core.program.running import Interpreter
from outlast.core.program.scopes import Function
from outlast.errors import InvalidInput, VersionConflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.authoring.context import RunFacts
    from outlast.authoring.module import Module
    from outlast.core.machine import Machine
    from outlast.core.unwinding import Undoable

__all__ = ["StoredBody"]


class StoredBody:
    """The program of a version, with what it needs of the code at hand. It stands in for a `Workflow`."""

    def __init__(self, program: Program, known: Workflow[..., Any], version: str, *, fails: bool = False) -> None:
        """`known` is the workflow as it is now: it says what the input's typed fields are decoded as. With `fails`, a
        run of it that cannot go on fails, with VersionConflict."""
        self._program = program
        self._known = known
        self._version = version
        self._fails = fails
        self._home = known.name.rpartition(":")[0]

    async def run_body(self, machine: Machine, facts: RunFacts) -> bytes:
        """The coroutine of a run: gives the output as JSON. Raises whatever the program raises."""
        context = Context(machine, facts, self._home)
        halt = _go_on if self._fails else machine.halt
        interpreter = Interpreter(self._program, _World(facts.registry, self._home, halt))

        async def body() -> Any:
            return await interpreter.run(context, **self._decode(machine.started.input))

        try:
            output = await run_extended(context, facts.registry.extensions, body)
        except BaseException as error:
            reason = _find_stop(error)
            if reason is None:
                raise
            if self._fails:
                problem = f"Its stored plan cannot be carried out: {reason}"
                raise VersionConflict(machine.started.id, self._version, self._known.version, problem) from None
            await machine.halt(reason)
            raise
        return encode(output, "the output")

    async def run_unwind(self, machine: Machine, facts: RunFacts, undoables: list[Undoable]) -> tuple[str, ...]:
        """The coroutine that undoes what the run did: gives the keys of what could not be undone."""
        return await unwind(facts.registry, machine, undoables)

    def _decode(self, data: msgspec.Raw) -> dict[str, Any]:
        """The input, by the names of the program's parameters. Raises NotInterpretable for a value whose type the code
        at hand does not have under that name."""
        parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        names = {*self._program.body["args"][1:], *self._program.body.get("kwonly", ())}
        return {name: self._decode_part(name, raw) for name, raw in parts.items() if name in names}

    def _decode_part(self, name: str, raw: msgspec.Raw) -> Any:
        typed = self._program.typed.get(name)
        if typed is None:
            return msgspec.json.decode(raw)
        try:
            return self._known.arguments.decode_part(name, raw)
        except (InvalidInput, LookupError):
            raise NotInterpretable(f"the input {name!r}, which is no {typed} to the code at hand") from None


class _World:
    def __init__(self, registry: Module, home: str, halt: Callable[[str], object]) -> None:
        self._registry = registry
        self._home = home
        self._halt = halt

    def stop(self, reason: str) -> None:
        """At once: whatever it is that ends the body asks for nothing more."""
        self._halt(reason)

    def step(self, name: str) -> Any:
        """A step that this process knows; of any other a call reports that it is missing."""
        found = self._registry.find_step(name, "")
        return functools.partial(_call_missing, name) if found is None else found

    def workflow(self, name: str) -> Any:
        """A workflow that this process knows."""
        found = self._registry.find_workflow(name, "")
        return functools.partial(_call_missing, name) if found is None else found

    def attribute(self, value: Any, name: str) -> Any:
        """Of the context, of steps and of children; else as `get_attribute` says."""
        if isinstance(value, Context):
            allowed = name in CONTEXT
        elif isinstance(value, Step | Workflow):
            allowed = name in {"options", "name"}
            if name == "options":
                return functools.partial(_tune, value)
        elif isinstance(value, Child | logging.LoggerAdapter):
            allowed = not name.startswith("_")
        else:
            return get_attribute(value, name)
        if not allowed:
            raise NotInterpretable(f"{name!r} of {value!r}")
        return getattr(value, name)


def _tune(function: Step[..., Any] | Workflow[..., Any], **changes: Any) -> object:
    """Its `options`. What the engine would call of them, outside the body, is nothing that a program can give."""
    for name, value in changes.items():
        if isinstance(value, Function):
            raise NotInterpretable(f"a function as the option {name!r}")
    return function.options(**changes)


def _go_on(_reason: str) -> None:
    """The body fails as any other does."""


async def _call_missing(name: str, *_args: object, **_kwargs: object) -> Any:
    """The run waits for a worker that knows it (SPEC S13)."""
    from outlast.core.loop import running_body_loop

    loop = running_body_loop()
    assert loop is not None
    await loop.machine.report_missing(name)


def _find_stop(error: BaseException) -> str | None:
    """Why the program cannot go on, if that is what was raised."""
    if isinstance(error, NotInterpretable):
        return str(error)
    if isinstance(error, BaseExceptionGroup):
        return next((reason for inner in error.exceptions if (reason := _find_stop(inner)) is not None), None)
    return None
