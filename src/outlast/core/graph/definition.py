"""A graph as data: what a person writes as JSON or YAML, and what `Graph` in Python makes. Layer: core.

    {"name": "fulfil", "input": {"order": "string", "items": "array"},
     "nodes": {"charge": {"function": "charge", "input": {"order": "$input.order"}, "next": "pack"},
               "pack": {"function": "pack", "for_each": "$input.items", "input": {"item": "$item"}}},
     "output": {"receipt": "$nodes.charge", "parcels": "$nodes.pack"}}

What always holds: a definition is plain data, and says all that its runs do; which functions there are is the app's.
`reading` makes one of plain data, `checking` says whether it is a graph, `canonical` what of it counts.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

__all__ = ["After", "GraphDefinition", "Growth", "InputField", "Mode", "Next", "NodeDefinition", "Span"]

Span: TypeAlias = int | float | str
"""A duration: seconds, or text such as `"30s"`."""
Targets: TypeAlias = str | list[str] | None
Next: TypeAlias = str | list[str] | dict[str, Targets] | None
"""Where it goes on: at one node, at several, or by the key of a branch. None: nothing follows."""
After: TypeAlias = Literal["fail", "continue"]
Mode: TypeAlias = Literal["parallel", "sequential"]


class Growth(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A delay that grows from attempt to attempt, as `outlast.exponential` says."""

    first: Span = 1
    factor: int | float = 2
    cap: Span = 300
    jitter: bool = True


class InputField(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One field of the run's input."""

    type: str
    """`string`, `integer`, `number`, `boolean`, `array`, `object` or `any`; with `?` behind it, it may be left out."""
    default: Any = msgspec.UNSET
    """What it is where it is left out; without one: null."""
    notes: str = ""


class NodeDefinition(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """One node: what to call, with what, and where to go on."""

    function: str | None = None
    """Registered name of a step; or"""
    workflow: str | None = None
    """of a workflow, which becomes a child run."""
    input: Any = None
    """An object by parameter name, or the value of the only parameter. Texts in it may refer: `references`."""
    next: Next = None
    branch: str | None = None
    """What decides between the keys of `next`; without it the result itself."""
    on_error: str | None = None
    """Node that is told when this one has failed for good."""
    after_error: After = "fail"
    """What comes then: the run fails, or goes on at `next`, where the key of the branch is `error`."""
    for_each: str | list[Any] | None = None
    """A list, or a reference to one: the node is done once for each item."""
    mode: Mode | None = None
    """Of `for_each`: some items at once (the default), or one after the other."""
    limit: int | None = None
    """Of `for_each`: how many at once."""
    max_visits: int | None = None
    """How often a run may come here. Needed somewhere on each cycle."""
    retries: int | None = None
    backoff: Span | Growth | None = None
    timeout: Span | None = None
    heartbeat_timeout: Span | None = None
    queue: str | None = None
    executor: str | None = None
    at_most_once: bool | None = None
    compensate: bool | None = None
    notes: str = ""


class GraphDefinition(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """A whole graph."""

    name: str
    nodes: dict[str, NodeDefinition]
    entry: str | list[str] | None = None
    """Where a run begins. None: at the nodes that nothing leads to."""
    input: dict[str, str | InputField] | None = None
    """The fields of the run's input. None: any value."""
    output: Any = None
    """What the run gives: a value with references."""
    max_visits: int | None = None
    """How often a run may come to a node that does not say itself."""
    module: str | None = None
    """For the command line: where the functions are declared."""
    notes: str = ""
