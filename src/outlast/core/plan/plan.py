"""Plans: what a workflow's source, or its graph, says it will do. Layer: core.

One structure for bodies and graphs: a body's plan is a tree of nodes (`nodes`), a graph's is its flow; whoever draws
asks `flow_of` (`flow`) and need not know which it is. What always holds: a plan is JSON, and a later release reads it:
fields are only added, with defaults.
"""

from __future__ import annotations

import re

import msgspec

from outlast.core.plan.nodes import ChildNode, Node

__all__ = [
    "FORMAT",
    "Flow",
    "FlowEdge",
    "FlowGroup",
    "FlowNode",
    "Plan",
    "PlannedStep",
    "decode_plan",
    "encode_plan",
    "sentence_case",
]

FORMAT = 1
"""Raised when a plan of this release means something that an earlier one would misread."""


class PlannedStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that the plan foresees."""

    key: str
    """Its key in a run that goes each way once: of a deterministic plan, in every run."""
    label: str
    """In words: `charge_card` is "Charge card"."""
    function: str = ""
    """Registered name; empty for a closure, or where only the call knows it."""
    kind: str = "step"
    """`step`, or `child`."""


class FlowNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """One box of a drawing."""

    id: str
    kind: str
    """As of the plan's nodes; besides `start` and `end`."""
    label: str
    detail: str = ""
    """A second line: a condition, what is looped over."""
    group: str = ""
    """Id of the group it is drawn in."""
    functions: tuple[str, ...] = ()
    """Registered names of what runs in it, for the status of a run to be shown there."""
    line: int = 0


class FlowEdge(msgspec.Struct, frozen=True, omit_defaults=True):
    """What may follow what."""

    source: str
    target: str
    label: str = ""
    kind: str = "next"
    """`next`, `back` (a loop's next round), `error` or `beside` (begun, not waited for)."""


class FlowGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is drawn as one: a loop, a parallel group, a function."""

    id: str
    kind: str
    label: str
    group: str = ""
    """Id of the group around it."""


class Flow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Boxes and arrows."""

    nodes: tuple[FlowNode, ...] = ()
    edges: tuple[FlowEdge, ...] = ()
    groups: tuple[FlowGroup, ...] = ()


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one version of a workflow will do, as far as that can be told."""

    workflow: str
    version: str
    source: str = "body"
    """`body` (read from an `async def`) or `graph`."""
    deterministic: bool = False
    """Neither branch nor loop, nothing that could not be read: every run goes this way."""
    steps: tuple[PlannedStep, ...] = ()
    """Every step and child run foreseen, in the order of the source."""
    inputs: tuple[str, ...] = ()
    """Names of the parameters."""
    module: str = ""
    """Where the source is."""
    nodes: tuple[Node, ...] = ()
    """Of a body. Empty for a graph."""
    flow: Flow | None = None
    """Of a graph; of a body it follows from the nodes."""
    unclosed: str = ""
    """What of a body has no place in a program (`outlast.core.program`), so that no run of it goes on when its code is
    gone. Empty: there is one."""
    format: int = FORMAT


_decode = msgspec.json.Decoder(Plan).decode
_encode = msgspec.json.Encoder().encode


def encode_plan(plan: Plan) -> bytes:
    """As JSON, for the store."""
    return _encode(plan)


def decode_plan(data: bytes) -> Plan | None:
    """A stored plan; None for one of a later release that this one cannot read, or that is no plan."""
    try:
        plan = _decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return plan if plan.format <= FORMAT else None


# --- labels ---------------------------------------------------------------------------------------------------------


def sentence_case(name: str) -> str:
    """`charge_card`, `ChargeCard`, `billing:charge-card`: "Charge card". A name with spaces is a sentence already."""
    local = name.rpartition(":")[2].strip("_- .") or name
    if " " in local:
        return local[:1].upper() + local[1:]
    words = [part for word in re.split(r"[_\-.\s]+", local) for part in _split_humps(word)]
    told = [word if word.isupper() and len(word) > 1 else word.lower() for word in words]
    text = " ".join(told)
    return text[:1].upper() + text[1:] if text else name


def _split_humps(word: str) -> list[str]:
    """`chargeCard2x` → charge, Card2x: a digit does not part a word."""
    return [part for part in re.split(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", word) if part]


def plan_step(node: Node) -> PlannedStep:
    """A step's or child's line in `Plan.steps`."""
    if isinstance(node, ChildNode):
        return PlannedStep(node.id, node.label, node.workflow, "child")
    return PlannedStep(node.id, node.label, getattr(node, "function", ""))
