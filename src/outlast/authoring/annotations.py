"""Annotations of functions, resolved: text becomes the type it names. Layer: authoring."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from outlast.errors import InvalidDefinition

__all__ = ["resolve_annotation"]


def resolve_annotation(fn: Callable[..., Any], name: str, annotation: Any, namespace: Mapping[str, Any] | None) -> Any:
    """The type that `name`, a parameter or `return`, is annotated with.

    One at a time: a name that only a type checker imports is an error of its own parameter, not of all. Names are
    looked up in the function's globals, what it closes over, and `namespace`. Raises InvalidDefinition, caused by a
    NameError where the name may only be defined later.
    """
    inner: Any = inspect.unwrap(fn)
    local: dict[str, Any] = dict(namespace or {})
    closure = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True)
    local.update({variable: cell.cell_contents for variable, cell in closure if _is_filled(cell)})
    holder: Any = SimpleNamespace(__annotations__={name: annotation})
    try:
        return typing.get_type_hints(holder, inner.__globals__, local, include_extras=True)[name]
    except Exception as error:
        of = "Its return annotation" if name == "return" else f"The annotation of its parameter {name!r}"
        problem = f"{of}, {annotation!r}, cannot be resolved: {error}"
        fix = "Import what it names at run time, not under TYPE_CHECKING only, and define it at the module's top."
        raise InvalidDefinition(problem, f"{inner.__module__}.{inner.__qualname__}", fix) from error


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
