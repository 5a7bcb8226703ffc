"""Checks a body, and every function of the author's that it calls. Layer: core.

What always holds: each function is looked over once, however often it is called; a place is told once for each rule.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Protocol

from outlast.core.check.findings import Finding
from outlast.core.check.tables import TODO
from outlast.core.check.visitor import Visitor
from outlast.core.plan.nodes import (
    FunctionNode,
    JoinNode,
    Node,
    OpaqueNode,
    ParallelNode,
    TaskNode,
    blocks_of,
    iter_nodes,
)
from outlast.core.plan.plan import Plan
from outlast.core.plan.reading.meaning import Definition, FunctionMeaning
from outlast.core.plan.reading.reach import Reach
from outlast.core.plan.reading.reader import NEVER_AWAITED, NOBODY_WAITS

__all__ = ["Texts", "check_body"]


class Texts(Protocol):
    """What is to be known of source files."""

    def is_allowed(self, file: str, first: int, last: int) -> bool:
        """Whether one of these lines says `# outlast: ok`."""
        ...

    def changed_globals(self, file: str) -> frozenset[str]:
        """Globals that some function of this file changes."""
        ...


def check_body(workflow: str, functions: Iterable[FunctionMeaning], plan: Plan, texts: Texts) -> list[Finding]:
    """The findings of one workflow, by file and line. `functions` are those its plan was read from, the body first."""
    checking = _Checking(workflow, texts)
    functions = list(functions)
    for function in functions:
        checking.follow(function)
    checking.run()
    if functions:
        files = {(function.name, function.scope.module): function.scope.file for function in functions}
        checking.look_at_plan(plan, functions[0], files)
    return sorted(checking.findings.values(), key=lambda found: (found.file, found.line, found.column, found.rule))


class _Checking:
    def __init__(self, workflow: str, texts: Texts) -> None:
        self.findings: dict[tuple[str, int, int, str], Finding] = {}
        self._workflow = workflow
        self._texts = texts
        self._reach = Reach()
        self._known: set[Definition] = set()
        self._waiting: list[FunctionMeaning] = []

    def follow(self, function: FunctionMeaning) -> None:
        """It is called: look it over, too."""
        definition = function.definition
        if definition not in self._known:
            self._known.add(definition)
            if not self._texts.is_allowed(function.scope.file, definition.lineno, definition.lineno):
                self._waiting.append(function)

    def run(self) -> None:
        """Look over all that there is to."""
        while self._waiting:
            function = self._waiting.pop(0)
            if function.frame is not None:
                continue  # it stands inside one that is looked over

            def report(rule: str, node: ast.AST, message: str, function: FunctionMeaning = function) -> None:
                first, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1
                last = getattr(node, "end_lineno", first) if not isinstance(node, ast.ExceptHandler) else first
                self._add(rule, function.scope.file, (first, column, last), function.name, message)

            changed = self._texts.changed_globals(function.scope.file)
            Visitor(function, report, self.follow, changed, self._reach).look(function.definition)

    def _add(self, rule: str, file: str, place: tuple[int, int, int], function: str, message: str) -> None:
        first, column, last = place
        if not self._texts.is_allowed(file, first, last):
            finding = Finding(rule, file, first, column, self._workflow, function, message, TODO[rule])
            self.findings.setdefault((file, first, column, rule), finding)

    # --- what the plan knows ------------------------------------------------------------------------------------------

    def look_at_plan(self, plan: Plan, body: FunctionMeaning, files: dict[tuple[str, str], str]) -> None:
        """Calls that nothing awaits."""
        joined = set(_iter_joined(plan.nodes))
        self._look(plan.nodes, body.scope.file, body.name, (files, joined), in_group=False)

    def _look(
        self,
        nodes: tuple[Node, ...],
        file: str,
        function: str,
        known: tuple[dict[tuple[str, str], str], set[str]],
        *,
        in_group: bool,
    ) -> None:
        files, joined = known
        for node in nodes:
            if isinstance(node, OpaqueNode) and node.why in {NEVER_AWAITED, NOBODY_WAITS}:
                what = "makes the call" if node.why == NEVER_AWAITED else "begins"
                message = f"{what} {node.source}, which nothing awaits"
                self._add("unawaited", file, (node.line, 1, node.line), function, message)
            elif isinstance(node, TaskNode) and not in_group and node.id not in joined:
                message = f"begins {node.label}, which nothing awaits: it is cancelled when the body ends"
                self._add("unawaited", file, (node.line, 1, node.line), function, message)
            inner_file, inner_function = file, function
            if isinstance(node, FunctionNode):
                inner_file, inner_function = files.get((node.function, node.module), file), node.function
            is_group = in_group or (isinstance(node, ParallelNode) and node.form == "group")
            for block in blocks_of(node):
                self._look(block.nodes, inner_file, inner_function, known, in_group=is_group)


def _iter_joined(nodes: tuple[Node, ...]) -> Iterator[str]:
    for node in iter_nodes(nodes):
        if isinstance(node, JoinNode | ParallelNode):
            yield from node.joins
