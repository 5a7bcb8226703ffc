"""From a plan to boxes and arrows: what drawings are made of. Layer: core.

What always holds: every node of the plan stands in the flow, as a box or as a group; each box is reached by an arrow,
but for those behind a `return` or `raise`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from outlast.core.plan.expressions import Expr, to_text
from outlast.core.plan.nodes import (
    Arm,
    BranchNode,
    ChildNode,
    EndNode,
    FunctionNode,
    JoinNode,
    LoopNode,
    MarkNode,
    Node,
    OpaqueNode,
    ParallelNode,
    ScopeNode,
    StepNode,
    TaskNode,
    TryNode,
)
from outlast.core.plan.plan import Flow, FlowEdge, FlowGroup, FlowNode, Plan

__all__ = ["END", "START", "flow_of", "with_flow"]

START: Final = "#start"
END: Final = "#end"
_LONGEST: Final = 80


class _Exit(NamedTuple):
    """Where an arrow begins, and what is written on it."""

    id: str
    label: str = ""
    kind: str = "next"


_Exits = list[_Exit]


def flow_of(plan: Plan) -> Flow:
    """The flow of any plan: a graph's own, or a body's, from its nodes."""
    if plan.flow is not None:
        return plan.flow
    drawing = _Drawing()
    drawing.box(START, "start", plan.workflow)
    exits = drawing.draw(plan.nodes, [_Exit(START)])
    drawing.box(END, "end", "end")
    drawing.link([*exits, *drawing.returns], END)
    drawing.link([_Exit(leave.id, leave.label, "beside") for tasks in drawing.tasks.values() for leave in tasks], END)
    return Flow(tuple(drawing.nodes), tuple(dict.fromkeys(drawing.edges)), tuple(drawing.groups))


def with_flow(plan: Plan) -> Plan:
    """The plan with its flow filled in, for export."""
    return msgspec.structs.replace(plan, flow=flow_of(plan))


class _Drawing:
    def __init__(self) -> None:
        self.nodes: list[FlowNode] = []
        self.edges: list[FlowEdge] = []
        self.groups: list[FlowGroup] = []
        self.returns: _Exits = []
        self.breaks: _Exits = []
        self.rounds: _Exits = []
        """Exits that lead to the next round of the loop at hand."""
        self.tasks: dict[str, _Exits] = {}
        """Of tasks that nothing has waited for yet."""
        self._group = ""

    # --- boxes and arrows --------------------------------------------------------------------------------------------

    def box(
        self, id: str, kind: str, label: str, detail: str = "", functions: Iterable[str] = (), line: int = 0
    ) -> str:
        """Draw one box."""
        self.nodes.append(FlowNode(id, kind, _short(label), _short(detail), self._group, tuple(functions), line))
        return id

    def link(self, exits: Iterable[_Exit], target: str, kind: str = "") -> None:
        """Draw arrows."""
        for leave in exits:
            self.edges.append(FlowEdge(leave.id, target, _short(leave.label), kind or leave.kind))

    @contextmanager
    def _inside(self, node: Node, kind: str) -> Generator[None]:
        node_id = f"{node.id}."
        self.groups.append(FlowGroup(node_id, kind, _short(node.label), self._group))
        before, self._group = self._group, node_id
        try:
            yield
        finally:
            self._group = before

    # --- nodes -------------------------------------------------------------------------------------------------------

    def draw(self, nodes: Iterable[Node], entries: _Exits) -> _Exits:
        """Draw these in a row; answers where it goes on from."""
        exits = entries
        for node in nodes:
            exits = self._draw(node, exits)
        return exits

    def _draw(self, node: Node, entries: _Exits) -> _Exits:
        match node:
            case BranchNode():
                return self._branch(node, entries)
            case LoopNode():
                return self._loop(node, entries)
            case ParallelNode():
                return self._parallel(node, entries)
            case TryNode():
                return self._try(node, entries)
            case ScopeNode(body=body):
                with self._inside(node, node.form):
                    return self.draw(body, self._note(node, entries) if not body else entries)
            case FunctionNode():
                return self._function(node, entries)
            case TaskNode():
                return self._task(node, entries)
            case JoinNode(joins=joins):
                self.box(node.id, "join", node.label, line=node.line)
                self.link([*entries, *self._joined(joins)], node.id)
                return [_Exit(node.id)]
            case EndNode():
                return self._end(node, entries)
            case _:
                return self._note(node, entries)

    def _note(self, node: Node, entries: _Exits) -> _Exits:
        functions: tuple[str, ...] = ()
        kind, detail = type(node).__name__[:-4].lower(), ""
        if isinstance(node, StepNode):
            functions = (node.function,) if node.function else ()
            detail = "" if node.when == "now" else "begins later"
        elif isinstance(node, ChildNode):
            functions, detail = (node.workflow,), "" if node.when == "now" else node.when
        elif isinstance(node, MarkNode | OpaqueNode):
            functions = node.functions
            detail = node.why if isinstance(node, OpaqueNode) else ""
        self.box(node.id, kind, node.label, detail, functions, node.line)
        self.link(entries, node.id)
        return [_Exit(node.id)]

    def _end(self, node: EndNode, entries: _Exits) -> _Exits:
        if node.form in {"break", "continue"}:
            (self.breaks if node.form == "break" else self.rounds).extend(entries)
            return []
        self.box(node.id, "end" if node.form == "return" else node.form, node.label, line=node.line)
        self.link(entries, node.id)
        if node.form == "return":
            self.returns.append(_Exit(node.id))
        return []

    def _branch(self, node: BranchNode, entries: _Exits) -> _Exits:
        if node.form == "match":
            return self._match(node, entries)
        exits: _Exits = []
        for number, arm in enumerate(node.arms):
            if arm.condition is None:
                exits += self.draw(arm.body, entries)
                entries = []
                break
            entries = self.draw(arm.test, entries)
            node_id = node.id if number == 0 else f"{node.id}.{number}"
            self.box(node_id, "branch", _text(arm.condition), line=node.line)
            self.link(entries, node_id)
            yes, no = ("false", "true") if node.form == "or" else ("true", "false")
            exits += self.draw(arm.body, [_Exit(node_id, yes)])
            entries = [_Exit(node_id, no)]
        return [*exits, *entries]

    def _match(self, node: BranchNode, entries: _Exits) -> _Exits:
        self.box(node.id, "branch", f"match {node.label}", line=node.line)
        self.link(entries, node.id)
        exits: _Exits = []
        for arm in node.arms:
            label = arm.pattern if arm.condition is None else f"{arm.pattern} if {_text(arm.condition)}"
            exits += self.draw([*arm.test, *arm.body], [_Exit(node.id, label)])
        is_complete = bool(node.arms) and node.arms[-1].condition is None and node.arms[-1].pattern.isidentifier()
        return exits if is_complete else [*exits, _Exit(node.id, "none of these")]

    def _loop(self, node: LoopNode, entries: _Exits) -> _Exits:
        breaks, rounds = self.breaks, self.rounds
        self.breaks, self.rounds = [], []
        with self._inside(node, "loop"):
            first = len(self.nodes)
            exits = self.draw(node.test, entries)
            self.box(node.id, "loop", node.label, line=node.line)
            self.link(exits, node.id)
            again = self.nodes[first].id
            back = self.draw(node.body, [_Exit(node.id, "each" if node.form != "while" else "true")])
            self.link([leave for leave in [*back, *self.rounds] if leave.id != again], again, "back")
        left, self.breaks, self.rounds = self.breaks, breaks, rounds
        return [*self.draw(node.orelse, [_Exit(node.id, "done" if node.form != "while" else "false")]), *left]

    def _parallel(self, node: ParallelNode, entries: _Exits) -> _Exits:
        before = set(self.tasks)
        with self._inside(node, "parallel"):
            self.box(node.id, "parallel", node.label, _text(node.over), line=node.line)
            self.link(entries, node.id)
            exits: _Exits = []
            for lane in node.lanes:
                exits += self.draw(lane, [_Exit(node.id)])
            if node.form == "group":
                exits += self._joined(task for task in list(self.tasks) if task not in before)
            done = f"{node.id}.done"
            self.box(done, "join", "all done" if node.form != "as_completed" else "each as it is done")
            self.link([*(exits or [_Exit(node.id)]), *self._joined(node.joins)], done)
        return [_Exit(done)]

    def _task(self, node: TaskNode, entries: _Exits) -> _Exits:
        with self._inside(node, "task"):
            self.tasks[node.id] = self.draw(node.body, entries)
        return entries

    def _joined(self, joins: Iterable[str]) -> _Exits:
        exits: _Exits = []
        for joined in joins:
            exits += self.tasks.pop(joined, [_Exit(joined)] if any(node.id == joined for node in self.nodes) else [])
        return exits

    def _function(self, node: FunctionNode, entries: _Exits) -> _Exits:
        returns, self.returns = self.returns, []
        with self._inside(node, "function"):
            exits = self.draw(node.body, entries)
        inner, self.returns = self.returns, returns
        return [*exits, *inner]

    def _try(self, node: TryNode, entries: _Exits) -> _Exits:
        group = f"{node.id}."
        with self._inside(node, "try"):
            count = len(self.nodes)
            exits = self.draw(node.body, entries)
            if len(self.nodes) == count:  # a group without a box has no place for the arrows of its errors
                self.box(node.id, "scope", "try", line=node.line)
                self.link(entries, node.id)
                exits = [_Exit(node.id)]
        exits = self.draw(node.orelse, exits)
        for handler in node.handlers:
            exits += self._handler(handler, group)
        return self.draw(node.finalbody, exits)

    def _handler(self, handler: Arm, group: str) -> _Exits:
        label = f"except {handler.pattern}".strip()
        return self.draw(handler.body, [_Exit(group, label, "error")])


def _text(expr: Expr | None) -> str:
    return "" if expr is None else to_text(expr)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
