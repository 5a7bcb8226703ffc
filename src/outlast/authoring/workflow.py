"""Workflows: what `@app.workflow` makes of a body. Layer: authoring.

What always holds: a workflow's input and output go through the codec, checked against its annotations, before anything
is stored; and its version says whether two processes have the same body.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, Unpack, cast

import msgspec

from outlast.authoring.context import Context, RunFacts
from outlast.authoring.declaration import check_body, place_of
from outlast.authoring.function import declare_arguments
from outlast.authoring.inputs import decode_input, encode_input
from outlast.authoring.runs.child import CHILD_DEFAULTS, ChildOptions, run_child, settle_child
from outlast.authoring.runs.extension import run_extended
from outlast.authoring.runs.unwinding import unwind
from outlast.authoring.sharing import UNSHARED, RunLimits
from outlast.authoring.source.snapshots import take_snapshot
from outlast.authoring.step import Coro, mark_coroutine_function
from outlast.authoring.waits.plain_waiting import load_plain_bodies
from outlast.core.keys import check_name
from outlast.core.loop import running_body_loop
from outlast.core.program.language import encode_program
from outlast.errors import NotInBody

if TYPE_CHECKING:
    from outlast.authoring.module import Module
    from outlast.authoring.signature import Arguments
    from outlast.authoring.source.reading import Reading
    from outlast.core.graph.compiling import CompiledGraph
    from outlast.core.machine import Machine
    from outlast.core.plan.plan import Plan
    from outlast.core.unwinding import Undoable

__all__ = ["RunFacts", "Workflow"]

P = ParamSpec("P")
R = TypeVar("R")


class Workflow(Generic[P, R]):
    """A body that is run durably: `app.start(fulfil, order)`. `P` are its parameters behind the context."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __init__(
        self,
        fn: Callable[..., Any],
        name: str,
        *,
        home: str = "",
        version: str | None = None,
        limits: RunLimits = UNSHARED,
    ) -> None:
        """Made by `@app.workflow`. `name` is the full one, `home` its module's. Raises InvalidDefinition."""
        check_body(fn, Context)
        self._plain = (
            None if inspect.iscoroutinefunction(fn) else load_plain_bodies(f"A plain def as the workflow {name!r}")
        )
        functools.update_wrapper(self, fn, updated=())
        self._fn = fn
        self.name: Final = name
        self._version = None if version is None else check_name("version", version)
        self._snapshot = take_snapshot(fn, is_declared=True)
        self._reading: Reading | None = None
        self.arguments: Final = self._declare_arguments(fn, name)
        """Its input: the parameters behind the context."""
        self._home = home
        self.limits: Final = limits
        """How its runs are shared out."""
        self.child_settings = CHILD_DEFAULTS
        """How it is run as a child."""
        mark_coroutine_function(self)

    def _declare_arguments(self, fn: Callable[..., Any], name: str) -> Arguments:
        return declare_arguments(fn, name, skip_first=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coro[R]:
        """For a body: run this workflow as a child run, and wait for its output. Raises what the child failed with, or
        RunCancelled; NotInBody outside; InvalidInput. If the wait is cancelled, so is the child.
        """
        if running_body_loop() is None:
            raise NotInBody(f"{self.name}()")
        call: Any = run_child(self, self.child_settings, args, kwargs)
        call.__qualname__ = self.__qualname__  # what Python says of one that was never awaited
        return call  # type: ignore[no-any-return]

    def options(self, **changes: Unpack[ChildOptions]) -> Workflow[P, R]:
        """The same workflow, tuned for a child run: `await refund.options(queue="night")(order)`. See `ChildOptions`.

        Raises InvalidDefinition, InvalidDuration or InvalidName.
        """
        variant: Workflow[P, R] = object.__new__(type(self))
        vars(variant).update(vars(self))
        variant.child_settings = settle_child(self.child_settings, changes, f"{self.name}.options()")
        return variant

    def __repr__(self) -> str:
        return f"<workflow {self.name!r}>"

    @property
    def fn(self) -> Callable[Concatenate[Context, P], Coroutine[Any, Any, R] | R]:
        """The body itself, undecorated: it takes the context first."""
        return self._fn

    @property
    def graph(self) -> CompiledGraph | None:
        """What it walks, if it is a graph (`GraphWorkflow`)."""
        return None

    @property
    def version(self) -> str:
        """The author's own, or a fingerprint of the body and of the functions through which it comes to its steps.

        Worked out at the first use: the functions may be defined behind the workflow.
        """
        return self._version or self.read().version

    @property
    def plan(self) -> Plan | None:
        """What the source says it will do; None where there is no source."""
        return self.read().plan

    def read(self) -> Reading:
        """Its source, read once."""
        if self._reading is None:
            from outlast.authoring.source.reading import read_workflow  # it looks for workflows, in turn

            self._reading = read_workflow(self.name, self._fn, self._snapshot, self._version)
        return self._reading

    @property
    def place(self) -> str:
        """Where it stands in the source, for messages."""
        return place_of(self._fn)

    # --- what the app and the engine call -----------------------------------------------------------------------------

    def check(self, registry: Module) -> None:
        """That a run of it can be started with what `registry` knows; a body's code is only known by running it."""

    def definition_json(self) -> bytes:
        """It as data, for a store: a body's program; empty where there is none."""
        program = self.read().program
        return b"" if program is None else encode_program(program)

    def encode_input(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The input of a run that is about to start, as JSON by parameter name.

        Raises InvalidInput, which names the field and what was expected, also for an argument too many or missing;
        NotEncodable or ValueTooLarge.
        """
        return encode_input(self.arguments, args, kwargs)

    def decode_input_json(self, data: bytes) -> bytes:
        """The same from JSON that a person or a program wrote. Raises InvalidInput."""
        return decode_input(self.arguments, data)

    def decode_output(self, raw: bytes | msgspec.Raw) -> R:
        """A run's output, as the body's return annotation says. Raises ResultInvalid where it has changed since."""
        return cast(R, self.arguments.returns.decode(raw))

    async def run_body(self, machine: Machine, facts: RunFacts) -> bytes:
        """The coroutine of a run: gives the output as JSON. Raises InvalidInput, and whatever the body raises."""
        args, kwargs = self.arguments.decode_call(machine.started.input)
        context, extensions = Context(machine, facts, self._home), facts.registry.extensions
        fn = self._fn
        if self._plain is not None:
            context.let_wait(self._plain)
            fn = functools.partial(self._plain.run, fn)
        if extensions:
            body = functools.partial(fn, context, *args, **kwargs)
            output = await run_extended(context, extensions, body)
        else:
            output = await fn(context, *args, **kwargs)
        return self.arguments.returns.settle(output)[0]

    async def run_unwind(self, machine: Machine, facts: RunFacts, undoables: list[Undoable]) -> tuple[str, ...]:
        """The coroutine that undoes what the run did: gives the keys of what could not be undone."""
        return await unwind(facts.registry, machine, undoables)
