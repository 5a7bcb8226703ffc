"""The source of functions, as it was when they were declared. Layer: authoring.

What always holds: a snapshot is the text of one file at one moment; a workflow keeps the one of its declaration, so
that a deploy that replaces the file under a running process changes nothing. Files are parsed when a plan is first
asked for, not when a module is imported.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from outlast.core.plan.reading.meaning import Definition

__all__ = ["Snapshot", "find_definition", "take_snapshot"]

_MOST_KEPT: Final = 200


class Snapshot:
    """A file's text, and its tree once somebody asked for it."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._text = text
        self._places: dict[tuple[int, str], list[Definition]] | None = None

    def find(self, code: CodeType) -> Definition | None:
        """The definition that this code was compiled from; None where the text does not say, or says it twice."""
        if self._places is None:
            self._places = _find_places(self._text)
        found = self._places.get((code.co_firstlineno, code.co_name), [])
        return found[0] if len(found) == 1 and _fits(found[0], code) else None


def _find_places(text: str) -> dict[tuple[int, str], list[Definition]]:
    places: dict[tuple[int, str], list[Definition]] = {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return places
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            places.setdefault((line, node.name), []).append(node)
        elif isinstance(node, ast.Lambda):
            places.setdefault((node.lineno, "<lambda>"), []).append(node)
    return places


def _fits(definition: Definition, code: CodeType) -> bool:
    """A file that has changed since may have another function in the same place: its parameters give it away."""
    arguments = definition.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    count = code.co_argcount + code.co_kwonlyargcount
    is_async = bool(code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))
    names = [_mangled(argument.arg, code) for argument in named]
    return names == list(code.co_varnames[:count]) and is_async == isinstance(definition, ast.AsyncFunctionDef)


def _mangled(name: str, code: CodeType) -> str:
    """As the compiler has it: `__x` in a class is `_Class__x`."""
    return next((known for known in code.co_varnames if known.endswith(name) and known.startswith("_")), name)


_snapshots: dict[str, Snapshot] = {}


def take_snapshot(fn: Callable[..., Any], *, is_declared: bool = False) -> Snapshot | None:
    """The text of the function's file; None where there is none.

    One taken when a workflow was declared serves all later questions about its file. Declaring another one, as when the
    module is loaded again, looks whether the file has changed.
    """
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if not isinstance(code, CodeType):
        return None
    file = code.co_filename
    known = _snapshots.get(file)
    if known is not None and not is_declared:
        return known
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file, getattr(fn, "__globals__", None)))
    if not text:
        return None
    if known is not None and known._text == text:  # noqa: SLF001 - its own module
        return known
    if len(_snapshots) >= _MOST_KEPT and file not in _snapshots:
        _snapshots.pop(next(iter(_snapshots)))
    snapshot = _snapshots[file] = Snapshot(file, text)
    return snapshot


def find_definition(fn: Callable[..., Any], snapshot: Snapshot | None = None) -> Definition | None:
    """The definition of this function in its source, or None where that cannot be had."""
    inner = inspect.unwrap(fn)
    code = getattr(inner, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    source = take_snapshot(inner) if snapshot is None or snapshot.file != code.co_filename else snapshot
    return None if source is None else source.find(code)
