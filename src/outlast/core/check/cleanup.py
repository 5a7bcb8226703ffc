"""Clean-up: what runs not only at a body's end, but each time it is parked or dropped (LOOP §3). Layer: core."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Final

from outlast.core.check.names import Names
from outlast.core.plan.reading.meaning import (
    FunctionMeaning,
    KnownMeaning,
    Meaning,
    OptionsMeaning,
    StepMeaning,
    WorkflowMeaning,
)

__all__ = ["is_catching_all", "is_harmless_in_cleanup", "raises_again"]

_DROPPING: Final = frozenset({"builtins.BaseException", "builtins.GeneratorExit"})
# Methods that change nothing but what the body itself holds.
_OWN: Final = frozenset(
    """acquire add append cancel cancelled clear copy debug discard done encode endswith error exception extend format
    get get_nowait index info insert is_set items join keys locked lower notify notify_all pop popleft
    put_nowait release remove replace result set setdefault split startswith strip uncancel update upper values
    warning""".split()  # noqa: SIM905
)
_PURE: Final = ("builtins.", "asyncio.", "math.", "functools.", "itertools.", "operator.", "copy.", "contextlib.")


def is_catching_all(handler: ast.ExceptHandler, names: Names) -> bool:
    """Whether it catches GeneratorExit, with which a body is dropped."""
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    meanings = [names.meaning(node) for node in types]
    return any(isinstance(meaning, KnownMeaning) and meaning.path in _DROPPING for meaning in meanings)


def raises_again(handler: ast.ExceptHandler) -> bool:
    """Whether there is any `raise` in it."""
    return any(isinstance(node, ast.Raise) for statement in handler.body for node in ast.walk(statement))


def is_harmless_in_cleanup(
    node: ast.Call, meaning: Meaning | None, reaches: Callable[[FunctionMeaning], Iterable[str]]
) -> bool:
    """A step, a call of the context, or something that touches nothing outside the body."""
    match meaning:
        case StepMeaning() | WorkflowMeaning() | OptionsMeaning():
            return True
        case FunctionMeaning():
            return bool(reaches(meaning))
        case KnownMeaning(path=path):
            return path.startswith(_PURE) or path.rpartition(".")[2][:1].isupper()
        case _:
            func = node.func
            if isinstance(func, ast.Call):  # `charge.options(…)(order)`
                return True
            if isinstance(func, ast.Attribute):
                return func.attr in _OWN or _begins_with_context(func)
            return False


def _begins_with_context(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return isinstance(node, ast.Name) and node.id in {"ctx", "context"}
