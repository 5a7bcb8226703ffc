"""What is wrong with a graph: found one by one, told together. Layer: core.

What always holds: whoever wrote a graph learns all that is wrong with it in one go, each problem with its node and
field, in the order of the definition.
"""

from __future__ import annotations

from collections.abc import Iterable

from outlast.errors import InvalidDefinition

__all__ = ["Problems", "find_twice", "graph_error", "list_names", "shorten"]

MOST_TOLD = 20
MOST_FOUND = 200
"""Then it is told: whoever sends nonsense does not get to choose how long it is looked at."""


def shorten(value: object, longest: int = 60) -> str:
    """`value` as it would be written, cut where it is long."""
    text = repr(value[: longest + 1] if isinstance(value, str) else value)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def find_twice(names: Iterable[str]) -> str | None:
    """The first name that comes a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def list_names(names: list[str]) -> str:
    """As in a sentence; of many the first few."""
    shown = ", ".join(shorten(name) for name in names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown


def graph_error(graph: str, problem: str, fix: str, *, node: str | None = None, field: str = "") -> InvalidDefinition:
    """One problem, with the graph, node and field it is in."""
    where = f"graph {shorten(graph)}"
    if node is not None:
        where += f", node {shorten(node)}"
    return InvalidDefinition(problem, f"{where}, {field}" if field else where, fix)


class Problems:
    """Collects; `check` raises the first with notes of the others."""

    def __init__(self, graph: str) -> None:
        self.graph = graph
        self._found: list[InvalidDefinition] = []

    def add(self, problem: str, fix: str, *, node: str | None = None, field: str = "") -> None:
        """One more. Raises InvalidDefinition if there are too many by now."""
        self._found.append(graph_error(self.graph, problem, fix, node=node, field=field))
        if len(self._found) >= MOST_FOUND:
            self.check()

    def check(self) -> None:
        """Raise InvalidDefinition if there are any."""
        if not self._found:
            return
        first, *others = self._found
        for other in others[: MOST_TOLD - 1]:
            first.add_note(f"Also: {other}")
        if len(others) >= MOST_TOLD:
            first.add_note("And more.")
        raise first
