"""What may be declared as a step or a workflow, and where it stands in the source. Layer: authoring.

What always holds: a declared function can be found again by its module and qualified name, or has a name its author
gave it; and awaiting it, or running it in a thread, does what its signature says. Everything else is refused while the
module is imported, with its file and line: later it would fail a run.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable
from types import CodeType
from typing import Any, Final

from outlast.core.keys import check_step_name
from outlast.errors import InvalidDefinition

__all__ = ["check_body", "check_function", "is_nested", "place_of"]

_OUT_OF_CLASS: Final = "Move it out of its class, and pass as arguments what it needs of the object."


def place_of(fn: Callable[..., Any]) -> str:
    """`shop.py:12, in charge`: for messages. The file is as Python knows it."""
    inner = inspect.unwrap(fn)
    code = getattr(inner, "__code__", None)
    name = getattr(inner, "__qualname__", None) or repr(fn)
    if not isinstance(code, CodeType):
        return name
    return f"{code.co_filename}:{code.co_firstlineno}, in {name}"


def is_nested(fn: Callable[..., Any]) -> bool:
    """Whether it is made anew each time another function runs: it then has no name of its own in its module."""
    return "<" in fn.__qualname__


def check_function(kind: str, fn: Callable[..., Any], name: str | None) -> str:
    """The name the function goes by, in its module. `kind` is `step` or `workflow`.

    Raises InvalidDefinition or InvalidName for what can be neither.
    """
    _check_shape(kind, fn)
    _check_place(kind, fn, name)
    _check_result(kind, fn)
    return check_step_name(fn.__name__ if name is None else name, f"{kind} name")


def _check_shape(kind: str, fn: Any) -> None:
    if isinstance(fn, staticmethod | classmethod) or inspect.ismethod(fn):
        raise _refused(fn, f"A method cannot be a {kind}", _OUT_OF_CLASS)
    if not callable(fn) or not isinstance(getattr(fn, "__code__", None), CodeType):
        problem = f"A {kind} is a Python function, and this is {type(fn).__name__}"
        raise _refused(fn, problem, "Wrap it in a def.")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        problem = f"A generator cannot be a {kind}"
        raise _refused(fn, problem, "Return a list: a result is recorded as one value.")


def _check_place(kind: str, fn: Callable[..., Any], name: str | None) -> None:
    parameters = list(inspect.signature(fn).parameters)
    home, _, _ = fn.__qualname__.rpartition(".")
    if home and not home.endswith(">") and parameters[:1] in (["self"], ["cls"]):
        raise _refused(fn, f"A method cannot be a {kind}", _OUT_OF_CLASS)
    if name is None and fn.__name__ == "<lambda>":
        raise _refused(fn, f"A lambda cannot be a {kind} without a name", "Give it name=, or write a def.")
    if name is None and is_nested(fn):
        problem = f"A nested function cannot be a {kind} without a name"
        fix = "Move it to the module's top, or give it name=: other processes know it by that."
        raise _refused(fn, problem, fix)


def _check_result(kind: str, fn: Callable[..., Any]) -> None:
    if inspect.iscoroutinefunction(fn):
        return
    if inspect.iscoroutinefunction(inspect.unwrap(fn)):
        problem = f"A decorator hides that this {kind} is an async def"
        raise _refused(fn, problem, "Let the decorator's wrapper be an async def as well.")
    result = _find_result(fn)
    result = typing.get_origin(result) or result
    if isinstance(result, type) and issubclass(result, Awaitable):
        problem = f"A def that returns an awaitable cannot be a {kind}"
        raise _refused(fn, problem, "Write async def, and await it there.")


def _find_result(fn: Callable[..., Any]) -> Any:
    """The return annotation; None where there is none or it cannot be resolved yet."""
    annotation = inspect.unwrap(fn).__annotations__.get("return")
    if not isinstance(annotation, str):
        return annotation
    try:
        return typing.get_type_hints(fn).get("return")
    except Exception:  # noqa: BLE001 - a forward reference, or a user's own code; it is resolved at the first use
        return None


def check_body(fn: Callable[..., Any], context: type) -> None:
    """What a workflow must be besides: a function that takes a `context` first, and the rest by position."""
    parameters = list(inspect.signature(fn).parameters.values())
    if not parameters or not _is_context(fn, parameters[0], context):
        found = f"its first parameter is {_show(parameters[0])}" if parameters else "it has no parameter"
        fix = "Write (ctx: Context, …) and import Context from outlast."
        raise _refused(fn, f"A workflow takes a context first, and {found}", fix)
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            problem = f"The keyword-only parameter {parameter.name!r} of this workflow has no default"
            raise _refused(fn, problem, "Give it one, or let it come before the *: input is passed by position.")


def _show(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name
    return f"{parameter.name}: {annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)}"


def _is_context(fn: Callable[..., Any], parameter: inspect.Parameter, context: type) -> bool:
    if parameter.kind not in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
        return False
    annotation = parameter.annotation
    if isinstance(annotation, str):
        try:
            annotation = typing.get_type_hints(fn)[parameter.name]
        except Exception:  # noqa: BLE001 - some annotation is a forward reference: this one's spelling has to do
            return str(annotation).strip("\"'").rpartition(".")[2] == context.__name__
    if annotation is parameter.empty:
        return parameter.name.strip("_") in {"", "ctx", "context"}
    return annotation is Any or (isinstance(annotation, type) and issubclass(annotation, context))


def _refused(fn: Any, problem: str, fix: str) -> InvalidDefinition:
    return InvalidDefinition(problem, place_of(fn), fix)
