"""Graphs for tests, and how to make them wrong."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.core.graph.compiling import CompiledGraph, compile_graph
from outlast.core.graph.reading import read_data
from outlast.errors import InvalidDefinition

__all__ = ["compiled", "graph", "refused"]


def graph(nodes: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The data of a graph whose nodes call functions of their own names."""
    named = {
        name: node if node.keys() & {"function", "workflow"} else {"function": name, **node}
        for name, node in nodes.items()
    }
    return {"name": "g", "nodes": named, **more}


def compiled(nodes: dict[str, dict[str, Any]], **more: Any) -> CompiledGraph:
    """The same, compiled."""
    return compile_graph(read_data(graph(nodes, **more)))


def refused(data: Any) -> list[str]:
    """All that is told of data that is no graph."""
    with pytest.raises(InvalidDefinition) as caught:
        compile_graph(read_data(data))
    return [str(caught.value), *(note.removeprefix("Also: ") for note in getattr(caught.value, "__notes__", []))]
