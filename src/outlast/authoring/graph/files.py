"""Reading a graph from a file. Layer: authoring."""

from __future__ import annotations

from pathlib import Path

from outlast.core.graph.definition import GraphDefinition
from outlast.core.graph.limits import LONGEST_TEXT
from outlast.core.graph.reading import read_text
from outlast.errors import InvalidDefinition

__all__ = ["GRAPH_SUFFIXES", "read_graph"]

GRAPH_SUFFIXES = {".json": False, ".yaml": True, ".yml": True}
"""By which a file is known to be a graph; whether it is YAML."""


def read_graph(path: Path) -> GraphDefinition:
    """The definition in a file. Raises InvalidDefinition, OSError, ExtraMissing for YAML without `outlast[yaml]`."""
    is_yaml = GRAPH_SUFFIXES.get(path.suffix.lower())
    if is_yaml is None:
        fix = f"Name it one of *{', *'.join(GRAPH_SUFFIXES)}."
        raise InvalidDefinition("Its name does not say how it is written", str(path), fix)
    with path.open("rb") as file:
        raw = file.read(LONGEST_TEXT + 1)  # one more than is allowed shows that there is too much
    return read_text(raw, yaml=is_yaml, where=str(path))
