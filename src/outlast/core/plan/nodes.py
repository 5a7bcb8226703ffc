"""The nodes of a plan: what a body does, in the order in which its source says it. Layer: core.

A body's plan is a tree: a branch, a loop, a parallel group hold what is inside. What always holds: ids are unique in a
plan, and made from names and their order alone; of a node, only `line` depends on how the source is laid out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import msgspec

from outlast.core.plan.expressions import Argument, Expr

__all__ = [
    "Arm",
    "Block",
    "BranchNode",
    "ChildNode",
    "EndNode",
    "FunctionNode",
    "JoinNode",
    "LoopNode",
    "MarkNode",
    "Node",
    "OpaqueNode",
    "ParallelNode",
    "ScopeNode",
    "StepNode",
    "TaskNode",
    "TryNode",
    "WaitNode",
    "blocks_of",
    "iter_nodes",
]


class _Node(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag=lambda name: name[:-4].lower()):
    """What all have in common."""

    id: str
    line: int = 0
    """In its file; 0: not from source."""
    label: str = ""
    """What a drawing shows."""


class StepNode(_Node, frozen=True):
    """A durable step."""

    function: str = ""
    """Registered name; of a closure (`ctx.do`) its step name; empty where only the call knows it."""
    name: str = ""
    """The name used: of `.options(name=…)`, or the function's. Empty where only the call knows it."""
    arguments: tuple[Argument, ...] = ()
    options: tuple[Argument, ...] = ()
    """What `.options(…)` says, or `ctx.do` and `ctx.call` are given."""
    call: str = "step"
    """`step`, `do` (a closure) or `call` (by its registered name)."""
    when: str = "now"
    """`now`, or `later`: the call is made here, and begins when what it is put into is awaited."""
    handler: str = ""
    """Registered name of the step that its failure calls."""
    undo: str = ""
    """Registered name of the step that undoes it, when the run is unwound."""


class ChildNode(_Node, frozen=True):
    """A child run."""

    workflow: str = ""
    arguments: tuple[Argument, ...] = ()
    options: tuple[Argument, ...] = ()
    when: str = "now"
    """As of a step; or `started`: it goes on beside the body (`ctx.start`)."""


class WaitNode(_Node, frozen=True):
    """The body waits, for a time, for a person or for a part of itself."""

    wait: str = ""
    """`sleep`, `sleep_until`, `signal`, `gate`, `approval`, or what of asyncio it waits for: `Queue.get`."""
    arguments: tuple[Argument, ...] = ()


class MarkNode(_Node, frozen=True):
    """The body notes something about its run: a milestone, its state, an undo."""

    mark: str = ""
    """`milestone`, `set_state`, `patched`, `compensate` or `keep`."""
    arguments: tuple[Argument, ...] = ()
    functions: tuple[str, ...] = ()
    """Registered names of the steps named in it."""


class Arm(msgspec.Struct, frozen=True, omit_defaults=True):
    """One way through a branch, or one handler of a `try`."""

    condition: Expr | None = None
    """None: otherwise; of a handler: of any error."""
    test: tuple[Node, ...] = ()
    """What runs to find out."""
    body: tuple[Node, ...] = ()
    pattern: str = ""
    """Of a `match`, the pattern's source."""


class BranchNode(_Node, frozen=True):
    """One of these; none where no arm's condition holds and there is none without."""

    form: str = "if"
    """`if`, `match`, `choice` (a conditional expression), `and` or `or`."""
    subject: Expr | None = None
    """Of a `match`."""
    arms: tuple[Arm, ...] = ()


class LoopNode(_Node, frozen=True):
    """Again and again."""

    form: str = "for"
    """`for`, `async for`, `while`, or `each` (a comprehension)."""
    target: str = ""
    over: Expr | None = None
    condition: Expr | None = None
    """Of a `while`."""
    test: tuple[Node, ...] = ()
    """What runs before each round, to find out whether there is one."""
    body: tuple[Node, ...] = ()
    orelse: tuple[Node, ...] = ()
    """What runs when it ends without `break`."""


class ParallelNode(_Node, frozen=True):
    """Side by side, until all are done (of `wait` and `as_completed`, as their arguments say)."""

    form: str = "gather"
    """`gather`, `group` (a TaskGroup), `wait`, `as_completed` or `map`."""
    lanes: tuple[tuple[Node, ...], ...] = ()
    """What runs side by side. Of a `group`, one lane: the body that makes the tasks."""
    joins: tuple[str, ...] = ()
    """Ids of nodes that were begun, or made, before, and are waited for here."""
    target: str = ""
    over: Expr | None = None
    """Of a `map`: its items."""
    arguments: tuple[Argument, ...] = ()
    """Settings: `return_exceptions`, `limit`, `timeout` …"""


class TryNode(_Node, frozen=True):
    """What happens to errors in the body."""

    body: tuple[Node, ...] = ()
    handlers: tuple[Arm, ...] = ()
    orelse: tuple[Node, ...] = ()
    finalbody: tuple[Node, ...] = ()
    is_group: bool = False
    """`except*`."""


class ScopeNode(_Node, frozen=True):
    """What holds while the body runs: a `timeout`, `wait_for`, a lock."""

    form: str = "with"
    """`timeout`, `timeout_at`, `wait_for`, `shield` or `with`."""
    over: tuple[Expr, ...] = ()
    body: tuple[Node, ...] = ()


class FunctionNode(_Node, frozen=True):
    """A function of the author's that calls steps: its body stands in its place."""

    function: str = ""
    module: str = ""
    """Where it is; `line`s inside are of that file."""
    arguments: tuple[Argument, ...] = ()
    body: tuple[Node, ...] = ()


class TaskNode(_Node, frozen=True):
    """Begun here (`create_task`), and goes on beside what follows."""

    body: tuple[Node, ...] = ()


class JoinNode(_Node, frozen=True):
    """Waits for what was begun before."""

    joins: tuple[str, ...] = ()
    """Ids of those nodes."""


class EndNode(_Node, frozen=True):
    """Where the body, a function or a round of a loop ends early; and where a body gives its result."""

    form: str = "return"
    """`return`, `raise`, `break`, `continue` or `continue_as_new`."""
    value: Expr | None = None
    arguments: tuple[Argument, ...] = ()


class OpaqueNode(_Node, frozen=True):
    """Something that could not be read. Nothing is left out: what may happen here stands in `functions`."""

    source: str = ""
    why: str = ""
    functions: tuple[str, ...] = ()
    """Registered names of steps and workflows named in it."""


Node: TypeAlias = (
    StepNode
    | ChildNode
    | WaitNode
    | MarkNode
    | BranchNode
    | LoopNode
    | ParallelNode
    | TryNode
    | ScopeNode
    | FunctionNode
    | TaskNode
    | JoinNode
    | EndNode
    | OpaqueNode
)
"""Any node."""


class Block(NamedTuple):
    """Nodes inside a node, and what leads to them."""

    label: str
    nodes: tuple[Node, ...]


def blocks_of(node: Node) -> list[Block]:
    """All that is inside a node, in the order of the source."""
    match node:
        case BranchNode(arms=arms):
            return [Block(label, part) for arm in arms for label, part in (("test", arm.test), ("arm", arm.body))]
        case LoopNode():
            return [Block("test", node.test), Block("body", node.body), Block("else", node.orelse)]
        case ParallelNode(lanes=lanes):
            return [Block("lane", lane) for lane in lanes]
        case TryNode():
            handlers = [Block("handler", arm.body) for arm in node.handlers]
            return [Block("body", node.body), *handlers, Block("else", node.orelse), Block("finally", node.finalbody)]
        case ScopeNode(body=body) | FunctionNode(body=body) | TaskNode(body=body):
            return [Block("body", body)]
        case _:
            return []


def iter_nodes(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """All nodes, those inside others behind them."""
    for node in nodes:
        yield node
        for block in blocks_of(node):
            yield from iter_nodes(block.nodes)
