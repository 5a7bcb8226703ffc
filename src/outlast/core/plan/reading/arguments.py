"""A call that was read, with its arguments. Layer: core."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from outlast.core.plan.expressions import Argument, Literal
from outlast.core.plan.reading.frames import Value

__all__ = ["Given", "name_given"]


@dataclass(frozen=True, slots=True)
class Given:
    """A call that was read: its source, and its arguments."""

    node: ast.Call
    positional: tuple[Value, ...]
    named: dict[str, Value]
    others: tuple[Value, ...]
    """Of `*args` and `**kwargs`."""
    shown: tuple[Argument, ...]

    @property
    def values(self) -> tuple[Value, ...]:
        """All that is handed over."""
        return (*self.positional, *self.named.values(), *self.others)

    def named_shown(self) -> tuple[Argument, ...]:
        """The keyword arguments, as shown."""
        return tuple(argument for argument in self.shown if argument.name)


def name_given(shown: tuple[Argument, ...], name: str) -> str:
    """What `name=` says among these, else `name`; nothing where only the call knows."""
    for argument in shown:
        if argument.name == "name":
            value = argument.value
            name = value.value if isinstance(value, Literal) and isinstance(value.value, str) else ""
        elif argument.spread:
            name = ""
    return name
