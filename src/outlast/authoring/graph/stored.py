"""A graph from the definition that a store keeps of it. Layer: authoring."""

from __future__ import annotations

from outlast.authoring.graph.workflow import GraphWorkflow
from outlast.core.graph.compiling import compile_graph
from outlast.core.graph.reading import read_text

__all__ = ["load_graph"]


def load_graph(name: str, definition: bytes) -> GraphWorkflow:
    """The workflow of this full name. Raises InvalidDefinition for what is no graph any more."""
    where = f"the stored graph {name!r}"
    compiled = compile_graph(read_text(definition, where=where))
    return GraphWorkflow(compiled, name, home=name.rpartition(":")[0], source="kept in the store")
