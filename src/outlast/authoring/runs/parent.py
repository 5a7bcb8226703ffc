"""What a body may do beyond its own steps: start children, go on as a next round, and say what undoes what it did.

Layer: authoring.

The base of `Context`. What always holds: it answers in its own body alone; elsewhere it raises NotInBody.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple, Unpack, overload

from outlast.authoring.runs.child import Child, ChildOptions, make_call, settle_child
from outlast.authoring.runs.unwinding import Registered
from outlast.authoring.step import Step
from outlast.core.keys import check_name
from outlast.core.lineage.rounds import GoesOn
from outlast.core.loop import running_body_loop
from outlast.errors import FunctionNotFound, InvalidDefinition, NotInBody

if TYPE_CHECKING:
    from outlast.authoring.module import Module
    from outlast.core.machine import Machine

__all__ = ["Parent"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Parent:
    """The half of a context that is about other runs and about undoing."""

    def __init__(self, machine: Machine, registry: Module, home: str) -> None:
        """`home` is the module whose bare names come first."""
        self._machine = machine
        self._registry = registry
        self._home = home

    # --- children -----------------------------------------------------------------------------------------------------

    @overload
    async def start(
        self, workflow: Callable[[*Ts], Coroutine[Any, Any, R]], /, *args: *Ts, **options: Unpack[ChildOptions]
    ) -> Child[R]: ...
    @overload
    async def start(self, workflow: str, /, *args: object, **options: Unpack[ChildOptions]) -> Child[Any]: ...
    async def start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, Any]] | str,
        /,
        *args: *Ts,
        **options: Unpack[ChildOptions],
    ) -> Child[Any]:
        """Start a workflow as a child run, and go on: `child = await ctx.start(pack, order)`, then `child.result()`.

        It ends with its parent (`on_parent_close="cancel"`) or goes on by itself (`"abandon"`). If nobody here knows
        the name, the run waits for a worker that does. Raises InvalidInput, and what `workflow.options` raises.
        """
        machine = self._inside("start()")
        found: Any = workflow
        if isinstance(workflow, str):
            found = self._registry.find_workflow(workflow, self._home)
            if found is None:
                await machine.report_missing(self._qualify(check_name("workflow name", workflow)))
                raise FunctionNotFound(workflow, "workflow")
        settled = getattr(found, "child_settings", None)
        if settled is None:
            problem = f"Only a workflow can be started, and this is {type(workflow).__name__}"
            raise InvalidDefinition(problem, "ctx.start()", "Declare it with @app.workflow.")
        settings = settle_child(settled, options, f"ctx.start({found.name!r})")
        return Child(machine, machine.call_step(make_call(found, settings, args, {})))

    async def continue_as_new(self, *args: object) -> NoReturn:
        """End this round of the run, and go on as the next, which begins with `args`: for a body that would loop for
        ever, since its journal would grow for ever.

        The next round has the id of this one, its user, attributes, trace, priority, queue, deadline and parent, what
        people sent and no one took, a new `uid` and an empty journal; it begins with the code at hand. What this round
        did stays done: it is not undone when a later one fails. Children that it left are cancelled, as at any end.
        `result()` waits for the last round. Raises InvalidInput for what the workflow does not take, NotEncodable or
        ValueTooLarge; and, for the engine, what no `except Exception` catches.
        """
        machine = self._inside("continue_as_new()")
        workflow = self._registry.find_workflow(machine.started.workflow, "")
        if workflow is None:
            await machine.report_missing(machine.started.workflow)
            raise FunctionNotFound(machine.started.workflow, "workflow")
        raise GoesOn(workflow.encode_input(args, {}), workflow.version)

    # --- undoing ------------------------------------------------------------------------------------------------------

    def keep(self, step: Step[..., Any] | str, /) -> None:
        """Let the effect stay when the run is unwound: of the step with this key, or of all calls of a step so far.

        Raises InvalidDefinition for a key that no step of this run has so far.
        """
        machine = self._inside("keep()")
        keys = [step] if isinstance(step, str) else machine.keys_of(step.function.name)
        for key in keys:
            if not machine.keep(key):
                raise InvalidDefinition(f"No step has the key {key!r} so far", "ctx.keep()", "Give the key of one.")

    def compensate(self, fn: Callable[[*Ts], object], /, *args: *Ts) -> None:
        """Register an undo of the body's own: when the run is unwound, `fn(*args)` runs as a durable step, in its turn.

        `fn` is a step, or any function; what is registered last is undone first.
        """
        machine = self._inside("compensate()")
        given: Any = fn
        if not callable(given):
            problem = f"An undo has to be a step or a function, and this is {type(given).__name__}"
            raise InvalidDefinition(problem, "ctx.compensate()", "Give what to call, and its arguments behind it.")
        name = str(getattr(given, "name", None) or getattr(given, "__name__", "function"))
        machine.register_undo(f"undo:{name}", Registered(given, args))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _inside(self, call: str) -> Machine:
        """The machine, in its own body. Raises NotInBody, which names the call, anywhere else."""
        loop = running_body_loop()
        found: Machine | None = None if loop is None else loop.machine
        if found is None or found is not self._machine:
            raise NotInBody(f"ctx.{call}")
        return found

    def _qualify(self, function: str) -> str:
        return f"{self._home}:{function}" if self._home and ":" not in function else function
