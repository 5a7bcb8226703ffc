"""The version of a workflow without source: a fingerprint of its bytecode. Layer: authoring.

Where there is no source (a notebook's dead cell, `exec`, a frozen program) the bytecode stands in, which differs from
Python to Python. With source, `outlast.core.plan.fingerprint` says what counts.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from outlast.core.plan.fingerprint import digest

__all__ = ["fingerprint_code"]


def fingerprint_code(fn: Callable[..., Any]) -> str:
    """Twelve hexadecimal digits, with `b-` before them."""
    inner = inspect.unwrap(fn)
    return f"b-{digest(_iter_code(inner.__code__, inner.__doc__))}"


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
