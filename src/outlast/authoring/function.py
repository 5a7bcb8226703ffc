"""What runs when a step is called: a declared function, or a closure of the body. Layer: authoring.

What always holds: all calls of one function share one of these, and what a call costs does not depend on how the
function was declared.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from outlast.authoring.codec import Returns
from outlast.authoring.declaration import place_of
from outlast.authoring.schema import resolve_annotation
from outlast.authoring.signature import Arguments
from outlast.core.keys import check_step_name
from outlast.errors import InvalidDefinition, ResultInvalid

__all__ = ["Closure", "Function", "declare_arguments"]


def declare_arguments(fn: Callable[..., Any], name: str, *, skip_first: bool = False) -> Arguments:
    """The function's parameters, checked as far as what they are annotated with is defined by now.

    Raises InvalidDefinition, with the place in the source.
    """
    try:
        arguments = Arguments(fn, name=name, skip_first=skip_first)
        arguments.prepare(strict=False)
    except InvalidDefinition as error:
        raise InvalidDefinition(error.problem, f"{error.where}, {place_of(fn)}", error.fix) from error.__cause__
    return arguments


class Function:
    """A function with a name of its own: anybody who imported its module can run it."""

    __slots__ = ("arguments", "fn", "is_async", "name", "returns")

    kind: str = "step"
    returns: Returns
    """The codec of its results. Raises InvalidDefinition at the first look if the annotation is still not defined."""

    def __init__(self, fn: Callable[..., Any], name: str, arguments: Arguments | None = None) -> None:
        """`name` is the full one, with its module's. Raises InvalidDefinition for annotations that cannot work."""
        self.fn = fn
        self.name = name
        self.is_async = inspect.iscoroutinefunction(fn)
        self.arguments = declare_arguments(fn, name) if arguments is None else arguments

    def __getattr__(self, name: str) -> Any:
        # Only for a slot that is not filled yet. A property would cost each step a call more.
        if name != "returns":
            raise AttributeError(name, name=name, obj=self)
        self.returns = self.arguments.returns
        return self.returns

    @property
    def place(self) -> str:
        """Where it stands in the source, for messages."""
        return place_of(self.fn)

    def encode_result(self, value: object) -> bytes:
        """What the journal keeps. Raises NotEncodable, ValueTooLarge, or ResultInvalid where it is not as annotated."""
        return self.returns.settle(value)[0]


class Closure(Function):
    """A function without arguments that the body made: only the body itself can make it again."""

    __slots__ = ()

    kind = "closure"

    def __init__(self, name: str, fn: Callable[[], Any], returns: Any = inspect.Parameter.empty) -> None:
        """`returns` is the type of the result, where `fn` cannot say it. Raises InvalidDefinition or InvalidName."""
        _check_closure(name, fn)
        super().__init__(fn, check_step_name(name), _NO_ARGUMENTS)
        self.is_async = _is_async(fn)
        annotation = _find_annotation(fn) if returns is inspect.Parameter.empty else returns
        self.returns = _make_returns(name, annotation)

    def encode_result(self, value: object) -> bytes:
        """As any function's; besides, what comes back must be what the closure returned, even where it does not say.

        A lambda cannot be annotated. That its date would be a text in the body, no type checker could know.
        """
        data, decoded = self.returns.settle(value)
        if self.returns.annotation is Any and decoded != value:
            problem = "JSON would give it back as something else: annotate the function, or pass returns="
            raise ResultInvalid(self.name, "plain JSON", _shorten(value), problem)
        return data


def _check_closure(name: str, fn: Any) -> None:
    where = f"ctx.do({name!r})"
    if inspect.isawaitable(fn):
        if inspect.iscoroutine(fn):
            fn.close()
        raise InvalidDefinition("This is a call that was made already", where, "Pass the function: without the ().")
    if not callable(fn):
        problem = f"This is {type(fn).__name__}, which cannot be called"
        raise InvalidDefinition(problem, where, "Pass a function without parameters.")
    call = _unwrap(fn)
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        problem = "A generator cannot be a step"
        raise InvalidDefinition(problem, where, "Return a list: a result is recorded as one value.")


def _unwrap(fn: Any) -> Any:
    """The function in a partial, a bound method, or an object with `__call__`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not inspect.isroutine(fn) and not inspect.isclass(fn) and not hasattr(fn, "__wrapped__"):
        fn = fn.__call__
    return getattr(fn, "__func__", fn)


def _is_async(fn: Any) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(_unwrap(fn))


def _find_annotation(fn: Any) -> Any:
    call = _unwrap(fn)
    annotation = getattr(call, "__annotations__", {}).get("return", Any)
    if isinstance(annotation, str) and hasattr(inspect.unwrap(call), "__code__"):
        return resolve_annotation(call, "return", annotation, None)
    return annotation


@functools.lru_cache(maxsize=1024)
def _cached_returns(name: str, annotation: Any) -> Returns:
    return Returns(name, annotation)


def _make_returns(name: str, annotation: Any) -> Returns:
    """Checking an annotation takes longer than running most closures, and the same come again and again."""
    try:
        return _cached_returns(name, annotation)
    except TypeError:  # annotated with something unhashable
        return Returns(name, annotation)


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _nothing() -> None: ...


_NO_ARGUMENTS: Final = Arguments(_nothing, name="closure")
