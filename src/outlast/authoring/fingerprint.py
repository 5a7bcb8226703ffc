"""The version of a workflow that names none: a fingerprint of its body. Layer: authoring.

What always holds: comments, docstrings, formatting, annotations and decorators do not change it, what the body does
changes it, and the same source gives the same fingerprint on every Python that can parse it. Where there is no source
(a notebook's dead cell, `exec`, a frozen program) the bytecode stands in, which differs from Python to Python.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Final

__all__ = ["fingerprint"]

_LENGTH: Final = 12
"""Hexadecimal digits: 48 bits tell apart all the versions a workflow will ever have, and can be read aloud."""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef

# What says nothing about behaviour, or is not in every Python's tree.
_SILENT_FIELDS: Final = frozenset(
    {"annotation", "ctx", "decorator_list", "kind", "returns", "type_comment", "type_params"}
)


def fingerprint(fn: Callable[..., Any]) -> str:
    """Twelve hexadecimal digits, with `b-` before them where they were made from bytecode.

    Reads the source now, so call it when the function is declared: later the file may hold the next deploy's.
    """
    fn = inspect.unwrap(fn)
    definition = _find_definition(fn)
    if definition is None:
        return f"b-{_digest(_iter_code(fn.__code__, fn.__doc__))}"
    # The parameters count (their order and defaults do), the name does not: a run knows its workflow by another one.
    return _digest(token for part in (definition.args, *definition.body) for token in _iter_tokens(part))


def _digest(tokens: Iterator[str]) -> str:
    # A NUL parts the tokens. One inside a token is escaped by repr, so no two rows of tokens give the same bytes.
    text = "\0".join(tokens).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:_LENGTH]


def _find_definition(fn: Callable[..., Any]) -> _Definition | None:
    """The `def` of this function in its source, or None where that cannot be had."""
    try:
        source = inspect.getsource(fn)
        # A nested function is indented. Not textwrap.dedent: it would reach into texts of several lines.
        tree = ast.parse(f"if True:\n{source}" if source[:1].isspace() else source)
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, _Definition) and node.name == fn.__code__.co_name:
            return node
    return None


def _iter_tokens(node: ast.AST) -> Iterator[str]:
    """The tree in a form of our own: `ast.dump` changes with Python."""
    if isinstance(node, ast.AnnAssign):
        if node.value is None:
            return
        # As if it had no annotation.
        node = ast.Assign(targets=[node.target], value=node.value)
    if _is_idle(node):
        return
    yield f"({type(node).__name__}"
    for field, value in ast.iter_fields(node):
        if field in _SILENT_FIELDS or value is None or value == []:
            continue  # a Python without the field says as much as one where it is empty
        yield field
        if isinstance(value, list):
            for item in value:
                # `None` in a list has a meaning: the `**` in {**a}.
                yield from _iter_tokens(item) if isinstance(item, ast.AST) else (repr(item),)
        elif isinstance(value, ast.AST):
            yield from _iter_tokens(value)
        else:
            yield f"{type(value).__name__} {value!r}"
    yield ")"


def _is_idle(node: ast.AST) -> bool:
    """Docstrings, comments kept as texts, and `pass`: statements without effect."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, ast.Pass)


def _iter_code(code: CodeType, docstring: str | None = None) -> Iterator[str]:
    yield f"python {sys.version_info[0]}.{sys.version_info[1]}"
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], code.co_flags))
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _iter_code(const)
        elif isinstance(const, frozenset):
            yield repr(sorted(map(repr, const)))  # its own order is that of hashes
        elif docstring is None or const != docstring:
            yield f"{type(const).__name__} {const!r}"
