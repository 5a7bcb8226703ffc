"""Steps: what `@app.step` makes of a function, and what calling one does. Layer: authoring.

In a body a call is durable: recorded before it runs, retried, and answered from the record on replay. Anywhere else it
is a plain call (`plain`). What always holds: which of the two it is, is decided when the coroutine first runs, by the
loop it runs on; and a body never sees a result that did not go through the codec (invariant 9).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, Unpack, overload

import msgspec
from msgspec import Raw

from outlast.authoring.call import Call, CompensatingCall
from outlast.authoring.declaration import is_nested
from outlast.authoring.exceptions import rebuild_error
from outlast.authoring.function import Closure, Function
from outlast.authoring.options import CallOptions, StepOptions, StepSettings, settle
from outlast.authoring.plain import call_plainly
from outlast.authoring.schema import decoder
from outlast.core.calls import STEP_MARK
from outlast.core.events import ErrorRecord
from outlast.core.keys import check_step_name, invocation_id
from outlast.core.loop import running_body_loop
from outlast.errors import InvalidDefinition

if TYPE_CHECKING:
    from outlast.authoring.codec import Returns
    from outlast.core.calls import PendingStep
    from outlast.core.machine import Machine

__all__ = ["DEFAULTS", "Coro", "FailedStep", "Step", "call_durably", "mark_coroutine_function", "settle_options"]

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")

Coro: TypeAlias = Coroutine[Any, Any, R]
"""What calls return. By this name: spelt out, mypy takes a gather of two different ones for `Any`."""

Undo: TypeAlias = Callable[P, object]
"""What a compensation may be: `async def` or `def`; what it returns is recorded, and of no consequence."""

DEFAULTS: Final = StepSettings()
_MOST_VARIANTS: Final = 64
"""How many different options of one step are remembered; a name made for each call would fill any memory."""


async def call_durably(
    function: Function,
    name: str,
    settings: StepSettings,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    returns: Returns | None = None,
    compensates: str = "",
) -> Any:
    """The coroutine of a step's call. `returns` decodes the result instead of the function's own annotation;
    `compensates` is the key of the step that this one undoes.

    Raises TypeError or NotEncodable for arguments that cannot be, and what the step failed with: as itself where the
    codec can make it again, else as StepFailed.
    """
    # The hot path: everything a step costs its body is in this frame and in what it calls.
    loop = running_body_loop()
    if loop is None:
        return await call_plainly(function, args, kwargs)
    machine: Machine = loop.machine
    data, explicit = function.arguments.encode_call(args, kwargs)
    if compensates:
        pending = machine.call_step(CompensatingCall(compensates, function, name, settings, data, explicit))
    else:
        pending = machine.call_step(Call(function, name, settings, data, explicit))
    future = pending.future
    try:
        outcome = await future
    except CancelledError:
        if future.cancelled():  # else the outcome was there already, and the cancel is about the task
            machine.give_up(pending)
        raise
    if type(outcome) is Raw:
        return (function.returns if returns is None else returns).decode(outcome)
    error = await _fail(machine, pending, outcome, settings)
    try:
        raise error
    finally:
        del error  # its traceback holds this frame


async def _fail(machine: Machine, pending: PendingStep, record: ErrorRecord, settings: StepSettings) -> Exception:
    """The error to raise in the body, when the handler has been told."""
    error = rebuild_error(record, step=pending.key, attempts=pending.attempt)
    object.__setattr__(error, STEP_MARK, pending.key)  # not setattr: an author's class may be frozen
    if settings.on_error is not None:
        uid, call = machine.started.uid, pending.call
        failed = FailedStep(
            name=call.name,
            key=pending.key,
            arguments=_decode_arguments(call.arguments),
            error=record,
            invocation_id=invocation_id(uid, pending.key),
        )
        try:
            await _call_handler(settings.on_error, failed)
        except Exception as other:  # noqa: BLE001 - the original error is what the body gets
            error.add_note(f"Its on_error handler failed as well: {type(other).__name__}: {other}")
    return error


_decode_arguments = decoder(dict[str, Any])


async def _call_handler(handler: Callable[..., Any], failed: FailedStep) -> None:
    """Run the handler as a durable step: a step under its own name, a function as `<name>.on_error`."""
    if isinstance(handler, Step):
        await handler(failed)
    else:
        closure = Closure(f"{failed.name}.on_error", functools.partial(handler, failed), returns=Any)
        await call_durably(closure, closure.name, DEFAULTS, (), {})


def settle_options(base: StepSettings, options: Mapping[str, Any], where: str) -> StepSettings:
    """`base` with the options. Raises InvalidDefinition, InvalidDuration or InvalidName."""
    settings = settle(base, options, where) if options else base
    if "on_error" in options and settings.on_error is not None:
        try:
            inspect.signature(settings.on_error).bind(None)
        except TypeError as error:
            problem = f"The function given as on_error= cannot be called with one argument: {error}"
            raise InvalidDefinition(problem, where, "Let it take the FailedStep.") from None
        except ValueError:  # a builtin that does not say
            pass
    return settings


class FailedStep(msgspec.Struct, frozen=True):
    """What an `on_error` handler is told: which step has failed for good, and how (SPEC S9).

    A handler that is a step itself annotates its parameter with it.
    """

    name: str
    """What the step was called as."""
    key: str
    """What it is called in its run: the name, and the number of its use."""
    arguments: dict[str, Any]
    """By parameter name, as plain JSON."""
    error: ErrorRecord
    """Type, message, code and traceback of the error."""
    invocation_id: str
    """What the step is called in the world: under it others may have taken note of its effect."""

    @property
    def exception(self) -> Exception:
        """The error as the body gets it: as itself, or as a StepFailed."""
        return rebuild_error(self.error, step=self.key)


class Step(Generic[P, R]):
    """A durable function. Awaited in a workflow's body it is a step; anywhere else it is the function itself."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, fn: Callable[..., Any], name: str, options: Mapping[str, Any] | None = None) -> None:
        """Made by `@app.step`. `name` is the full one. Raises InvalidDefinition, InvalidDuration or InvalidName."""
        functools.update_wrapper(self, fn, updated=())
        self.function: Final = Function(fn, name)
        self.name = name
        """What its keys are made from: the name it was declared with, unless `options` changed it."""
        self.settings = settle_options(DEFAULTS, options or {}, self.function.place)
        self._variants: dict[Any, Step[P, R]] = {}
        self._declare: Callable[[Any, str | None, dict[str, Any]], Step[..., Any]] | None = None
        mark_coroutine_function(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coro[R]:
        """Call it. The coroutine runs when it is awaited, or given to `gather`, `create_task` and the like."""
        call: Any = call_durably(self.function, self.name, self.settings, args, kwargs)
        call.__qualname__ = self.__qualname__  # what Python says of one that was never awaited
        return call  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<step {self.name!r}>"

    @property
    def fn(self) -> Callable[P, Coroutine[Any, Any, R] | R]:
        """The function itself, undecorated."""
        return self.function.fn

    @property
    def place(self) -> str:
        """Where it stands in the source, for messages."""
        return self.function.place

    def options(self, **changes: Unpack[CallOptions]) -> Step[P, R]:
        """The same step, tuned: `await charge.options(retries=1, name="second try")(order)`. See `CallOptions`.

        Cheap enough for a loop. Raises InvalidDefinition, InvalidDuration or InvalidName.
        """
        key: Any = None
        try:
            # With the types: 1, 1.0 and True are equal, and not all of them are valid.
            key = (*changes.items(), *map(type, changes.values()))
            known = self._variants.get(key)
        except TypeError:  # an option that cannot be hashed, such as a list of exceptions
            key = known = None
        if known is not None:
            return known
        variant = self._vary(dict(changes))
        if key is not None:
            if len(self._variants) >= _MOST_VARIANTS:
                self._variants.clear()
            self._variants[key] = variant
        return variant

    @overload
    def compensation(self: Step[[], R], fn: Undo[[R]], /) -> Step[[R], Any]: ...
    @overload
    def compensation(self: Step[[A], R], fn: Undo[[A, R]], /) -> Step[[A, R], Any]: ...
    @overload
    def compensation(self: Step[[A, B], R], fn: Undo[[A, B, R]], /) -> Step[[A, B, R], Any]: ...
    @overload
    def compensation(self: Step[[A, B, C], R], fn: Undo[[A, B, C, R]], /) -> Step[[A, B, C, R], Any]: ...
    @overload
    def compensation(self: Step[[A, B, C, D], R], fn: Undo[[A, B, C, D, R]], /) -> Step[[A, B, C, D, R], Any]: ...
    @overload
    def compensation(
        self: Step[[A, B, C, D, E], R], fn: Undo[[A, B, C, D, E, R]], /
    ) -> Step[[A, B, C, D, E, R], Any]: ...
    @overload
    def compensation(
        self: Step[[A, B, C, D, E, F], R], fn: Undo[[A, B, C, D, E, F, R]], /
    ) -> Step[[A, B, C, D, E, F, R], Any]: ...
    @overload
    def compensation(
        self, /, *, name: str | None = None, **options: Unpack[StepOptions]
    ) -> Callable[[Callable[..., object]], Step[..., Any]]: ...
    def compensation(self, fn: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Declare what undoes this step when its run is unwound: `@charge.compensation`, bare or with a step's options.

        It gets the step's arguments and then its result, runs as a durable step with retries of its own, and knows as
        `current_step().compensating_for` whom it undoes. A nested function without a name of its own is called after
        the step. Raises InvalidDefinition for one that cannot take them.
        """
        if fn is None:
            return lambda fn: self._compensate(fn, name, options)
        return self._compensate(fn, name, options)

    def _compensate(self, fn: Any, name: str | None, options: dict[str, Any]) -> Step[..., Any]:
        assert self._declare is not None
        if name is None and callable(fn) and not isinstance(fn, Step) and is_nested(fn):
            name = f"{self.function.name.rpartition(':')[2]}.compensation"
        undo: Step[..., Any] = fn if isinstance(fn, Step) else self._declare(fn, name, options)
        taken = self.function.arguments
        try:
            undo.function.arguments.signature.bind(*[None] * (taken.positional_count + 1), **taken.keyword_only)
        except TypeError as error:
            problem = f"It undoes the step {self.name!r}, and cannot take its arguments and its result: {error}"
            raise InvalidDefinition(problem, undo.function.place, "Let it take them all, the result last.") from None
        self.settings = replace(self.settings, undo_with=undo)
        self._variants.clear()
        return undo

    def _vary(self, changes: dict[str, Any]) -> Step[P, R]:
        name = check_step_name(changes.pop("name", self.name))
        variant: Step[P, R] = object.__new__(type(self))
        vars(variant).update(vars(self))
        variant.name = name
        variant.settings = settle_options(self.settings, changes, self.function.place)
        variant._variants = {}
        return variant


def mark_coroutine_function(callable_object: Any) -> None:
    """Let `inspect.iscoroutinefunction` and `asyncio.iscoroutinefunction` be true for it, as frameworks ask."""
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(callable_object)
    else:
        callable_object._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]  # noqa: SLF001
        # What inspect takes for a function, as it does those of Cython.
        callable_object.__code__ = call_durably.__code__
        callable_object.__defaults__ = callable_object.__kwdefaults__ = None
