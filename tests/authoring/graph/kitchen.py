"""Steps for graphs in tests, and how to play a graph in memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

from outlast.authoring.graph.workflow import GraphWorkflow
from outlast.authoring.module import Module
from tests.authoring.player import Player
from tests.core.graph.graphs import graph

__all__ = ["Kitchen"]


class Kitchen:
    """A module with some steps, and what they were called with."""

    def __init__(self) -> None:
        self.module = Module("")
        self.registry = self.module
        """That knows the latest graph."""
        self.calls: list[tuple[str, Any]] = []
        self.failures: Counter[str] = Counter()
        """How often a value makes `fragile` fail; -1: always."""

        @self.module.step(name="say")
        async def say(text: str) -> str:
            self.calls.append(("say", text))
            return text

        @self.module.step(name="give")
        async def give(value: Any = None) -> Any:
            self.calls.append(("give", value))
            return value

        @self.module.step(name="fragile", retries=0)
        async def fragile(value: Any) -> Any:
            self.calls.append(("fragile", value))
            if self.failures[str(value)]:
                self.failures[str(value)] -= 1
                raise ValueError(f"{value} broke")
            return value

        @self.module.step(name="count")
        async def count(start: int = 0) -> int:
            self.calls.append(("count", start))
            return start + 1

    def graph(self, nodes: dict[str, dict[str, Any]], **more: Any) -> GraphWorkflow:
        """Nodes that name no function give what they are given."""
        given = {
            name: node if node.keys() & {"function", "workflow"} else {"function": "give", **node}
            for name, node in nodes.items()
        }
        self.registry = Module("")
        self.registry.include(self.module)
        made = self.registry.graph(graph(given, **more))
        made.check(self.registry)
        return made

    def play(self, nodes: dict[str, dict[str, Any]], value: Any = None, *entry: Any, **more: Any) -> Player:
        """A run of it, not begun."""
        return Player(self.graph(nodes, **more), value, *entry, registry=self.registry)

    def asked(self, step: str) -> list[Any]:
        """What this step was called with."""
        return [value for name, value in self.calls if name == step]
