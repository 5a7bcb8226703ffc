"""From a body to its plan and its fingerprint. Layer: core."""

from __future__ import annotations

from typing import NamedTuple

from outlast.core.plan.fingerprint import fingerprint_of
from outlast.core.plan.nodes import (
    BranchNode,
    ChildNode,
    LoopNode,
    Node,
    OpaqueNode,
    ParallelNode,
    StepNode,
    TryNode,
    iter_nodes,
)
from outlast.core.plan.plan import Plan, plan_step
from outlast.core.plan.reading.meaning import FunctionMeaning
from outlast.core.plan.reading.reader import Reader
from outlast.core.program.compiling import NotClosed, compile_program
from outlast.core.program.language import Program

__all__ = ["ReadBody", "read_body"]


class ReadBody(NamedTuple):
    """What reading a body gives."""

    plan: Plan
    """Its version is the fingerprint."""
    program: Program | None
    """What a run goes on with when its code is gone; none, where the plan says what is in the way."""
    followed: tuple[FunctionMeaning, ...]
    """The functions that were read, the body first."""


def read_body(workflow: str, body: FunctionMeaning, version: str | None = None) -> ReadBody:
    """Read a body. Its version is the fingerprint, if none is given."""
    reader = Reader(body)
    nodes = reader.read()
    program, unclosed = _compile(body)
    arguments = body.definition.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][1:]
    plan = Plan(
        workflow=workflow,
        version=version or fingerprint_of(reader.followed, reader.named),
        deterministic=not any(map(_parts_ways, iter_nodes(nodes))),
        steps=tuple(plan_step(node) for node in iter_nodes(nodes) if isinstance(node, StepNode | ChildNode)),
        inputs=tuple(parameter.arg for parameter in parameters),
        module=body.scope.module,
        nodes=nodes,
        unclosed=unclosed,
    )
    return ReadBody(plan, program, tuple(reader.followed.values()))


def _compile(body: FunctionMeaning) -> tuple[Program | None, str]:
    """The program of a body, or why there is none."""
    try:
        return compile_program(body), ""
    except NotClosed as error:
        return None, str(error)


def _parts_ways(node: Node) -> bool:
    """Whether not every run goes the same way here."""
    match node:
        case BranchNode() | LoopNode() | OpaqueNode():
            return True
        case ParallelNode(form="map"):
            return True
        case TryNode(handlers=handlers):
            return any(handler.body for handler in handlers)
        case _:
            return False
