"""The version of a workflow that names none: a fingerprint of what its source says. Layer: core.

What always holds: comments, docstrings, formatting, annotations and decorators do not change it, what the body does
changes it, and the same source gives the same fingerprint on every Python that can parse it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

from outlast.core.plan.reading.meaning import Definition

__all__ = ["digest", "fingerprint_of"]

_LENGTH: Final = 12
"""Hexadecimal digits: 48 bits tell apart all the versions a workflow will ever have, and can be read aloud."""

# What says nothing about behaviour, or is not in every Python's tree.
_SILENT_FIELDS: Final = frozenset(
    {"annotation", "ctx", "decorator_list", "kind", "returns", "type_comment", "type_params"}
)


def fingerprint_of(definitions: Iterable[Definition], names: Iterable[str]) -> str:
    """Of a body, the functions of the author's that it comes to steps through, and the names those are registered by.

    The parameters count (their order and defaults do), the function's name does not: a run knows its workflow by
    another one.
    """
    return digest(token for part in (_iter_definitions(definitions), names) for token in part)


def _iter_definitions(definitions: Iterable[Definition]) -> Iterator[str]:
    for number, definition in enumerate(definitions):
        if number:
            yield f"function {number}"
        body = [definition.body] if isinstance(definition, ast.Lambda) else definition.body
        for part in (definition.args, *body):
            yield from _iter_tokens(part)


def digest(tokens: Iterable[str]) -> str:
    """Of a row of texts. No two rows give the same bytes: a NUL parts them, and `repr` escapes one inside a token."""
    text = "\0".join(tokens).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:_LENGTH]


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
