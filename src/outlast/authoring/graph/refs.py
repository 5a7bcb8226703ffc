"""`ref`: references of a graph, written in Python. Layer: authoring.

    ref.input.order     ref.nodes.charge.receipt     ref.item["sku"]     ref.input.coupon | None
    f"Order {ref.input.order} is on its way"

What always holds: a reference is a text in another form. It has no value while a graph is written, and says so to
whoever asks it for one.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

from outlast.core.graph.references import write_step
from outlast.errors import InvalidDefinition

__all__ = ["Ref", "ref", "to_data"]

_DUNDER = re.compile(r"__\w+__")


class Ref:
    """A place in what a run will know. Its attributes and items are places within; with `| None` it may be missing."""

    __slots__ = ("_inner",)
    _inner: str

    def __init__(self, inner: str) -> None:
        object.__setattr__(self, "_inner", inner)

    def __getattr__(self, name: str) -> Ref:
        if _DUNDER.fullmatch(name):  # asked for by copy, pickle, inspect and the like
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, step: str | int) -> Ref:
        if isinstance(step, bool) or not isinstance(step, str | int):
            raise self._refused(f"{step!r} is neither a name nor a number")
        return Ref(self._inner + write_step(step))

    def __or__(self, other: None) -> Ref:
        if other is not None:
            raise self._refused("A reference has no other default than None")
        return Ref(f"{self._inner}?")

    def __format__(self, spec: str) -> str:
        if spec:
            raise self._refused(f"It cannot be formatted as {spec!r}")
        return f"${{{self._inner}}}"

    def __str__(self) -> str:
        return format(self)

    def __repr__(self) -> str:
        return f"ref.{self._inner}"

    def __reduce__(self) -> tuple[type[Ref], tuple[str]]:
        return Ref, (self._inner,)

    def __bool__(self) -> NoReturn:
        raise self._refused("It has no value while the graph is written")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise self._refused("Nothing can be set in what a run will know")

    __iter__ = None  # else Python would iterate by index, for ever

    def _refused(self, problem: str) -> InvalidDefinition:
        fix = "Let a step decide, and branch by what it gives."
        return InvalidDefinition(problem, f"reference {self!r}", fix)


class _Roots:
    """`ref` itself."""

    __slots__ = ()

    input: Final = Ref("input")
    """The run's input."""
    nodes: Final = Ref("nodes")
    """What nodes gave, by id: `ref.nodes.charge`."""
    item: Final = Ref("item")
    """In a node with `for_each`: the item at hand, and"""
    index: Final = Ref("index")
    """its number, from 0."""
    error: Final = Ref("error")
    """In a node that an `on_error` names: what failed, and how."""
    run: Final = Ref("run")
    """Which run it is: `id`, `uid`, `user`, `workflow`."""
    output: Final = Ref("output")
    """In `branch`: what the node gave."""

    def __repr__(self) -> str:
        return "ref"


ref: Final = _Roots()


def to_data(value: Any) -> Any:
    """The value with references as a graph's text has them."""
    if isinstance(value, Ref):
        return f"${repr(value).removeprefix('ref.')}"
    if isinstance(value, dict):
        return {key: to_data(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_data(part) for part in value]
    return value
