"""A plan as an indented outline: what a person can check line by line."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.core.plan.expressions import argument_text, to_text
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
    WaitNode,
)
from outlast.core.plan.plan import Plan


def outline(plan: Plan) -> str:
    """All of a plan."""
    kind = "deterministic" if plan.deterministic else "not deterministic"
    head = [f"{plan.workflow}({', '.join(plan.inputs)}), {kind}"]
    head += [f"  {step.key}: {step.label}" for step in plan.steps]
    return "\n".join([*head, "", *_lines(plan.nodes, "")]) + "\n"


def _lines(nodes: tuple[Node, ...], indent: str) -> Iterator[str]:
    for node in nodes:
        yield f"{indent}{_told(node)}"
        yield from _inside(node, f"{indent}    ")


def _told(node: Node) -> str:
    match node:
        case StepNode():
            options = f" with {_arguments(node.options)}" if node.options else ""
            when = "" if node.when == "now" else f" {node.when}"
            kind = f"{node.call} " if node.call != "step" else ""
            handler = f", on error {node.handler}" if node.handler else ""
            return f"{kind}step{when} {node.id} = {node.function}({_arguments(node.arguments)}){options}{handler}"
        case ChildNode():
            return f"child {node.when} {node.id} = {node.workflow}({_arguments(node.arguments)})"
        case WaitNode():
            return f"wait {node.wait} {_arguments(node.arguments)}".rstrip()
        case MarkNode():
            return f"mark {node.mark} {_arguments(node.arguments)} {' '.join(node.functions)}".rstrip()
        case JoinNode():
            return f"join {' '.join(node.joins)}"
        case EndNode():
            value = "" if node.value is None else to_text(node.value)
            return f"{node.form} {value}{_arguments(node.arguments)}".rstrip()
        case OpaqueNode():
            return f"opaque [{node.source}] {node.why}: {' '.join(node.functions)}".rstrip(": ")
        case _:
            return _told_group(node)


def _told_group(node: Node) -> str:
    match node:
        case BranchNode():
            return f"{node.form} {'' if node.subject is None else to_text(node.subject)}".rstrip()
        case LoopNode(form="while", condition=condition) if condition is not None:
            return f"while {to_text(condition)}"
        case LoopNode():
            return f"{node.form} {node.target} in {'' if node.over is None else to_text(node.over)}"
        case ParallelNode():
            joins = f" joins {' '.join(node.joins)}" if node.joins else ""
            over = "" if node.over is None else f" over {to_text(node.over)}"
            return f"parallel {node.form}{over}{joins} {_arguments(node.arguments)}".rstrip()
        case TryNode():
            return "try*" if node.is_group else "try"
        case ScopeNode():
            return f"scope {node.form} {', '.join(map(to_text, node.over))}".rstrip()
        case FunctionNode():
            return f"function {node.function}({_arguments(node.arguments)})"
        case TaskNode():
            return f"task {node.id}"
        case _:
            raise AssertionError(node)


def _arguments(arguments: tuple[object, ...]) -> str:
    return ", ".join(map(argument_text, arguments))  # type: ignore[arg-type]


def _inside(node: Node, indent: str) -> Iterator[str]:
    match node:
        case BranchNode(arms=arms):
            for arm in arms:
                yield from _arm(arm, indent)
        case LoopNode():
            yield from _part("test", node.test, indent)
            yield from _lines(node.body, indent)
            yield from _part("else", node.orelse, indent)
        case ParallelNode(lanes=lanes):
            for lane in lanes:
                yield from _part("lane", lane, indent)
        case TryNode():
            yield from _lines(node.body, indent)
            for handler in node.handlers:
                yield f"{indent[4:]}except {handler.pattern}".rstrip()
                yield from _lines(handler.body, indent)
            yield from _part("else", node.orelse, indent[4:])
            yield from _part("finally", node.finalbody, indent[4:])
        case ScopeNode(body=body) | FunctionNode(body=body) | TaskNode(body=body):
            yield from _lines(body, indent)
        case _:
            pass


def _arm(arm: Arm, indent: str) -> Iterator[str]:
    yield from _part("test", arm.test, indent)
    condition = "" if arm.condition is None else to_text(arm.condition)
    if arm.pattern:
        yield f"{indent}case {arm.pattern}{' if ' if condition else ''}{condition}"
    else:
        yield f"{indent}when {condition}" if condition else f"{indent}otherwise"
    yield from _lines(arm.body, f"{indent}    ")


def _part(name: str, nodes: tuple[Node, ...], indent: str) -> Iterator[str]:
    if nodes:
        yield f"{indent}{name}"
        yield from _lines(nodes, f"{indent}    ")
