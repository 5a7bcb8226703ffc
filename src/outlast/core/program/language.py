"""What a program is made of: functions, each a tree of plain JSON. Layer: core.

A tree is an object whose `t` says what it is; the other fields are Python's own for that kind of node. What always
holds: a kind that is not in `FIELDS` is not in a program; and a kind, once stored, means the same for ever.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

__all__ = [
    "BUILTINS",
    "CONTEXT",
    "FIELDS",
    "KNOWN",
    "Program",
    "ProgramFunction",
    "Tree",
    "decode_program",
    "encode_program",
]

Tree: TypeAlias = dict[str, Any]
"""`{"t": "BinOp", "left": …, "op": "+", "right": …}`"""

FIELDS: Final[dict[str, tuple[str, ...]]] = {
    # expressions
    "Attribute": ("value", "attr"),
    "Await": ("value",),
    "BinOp": ("left", "op", "right"),
    "BoolOp": ("op", "values"),
    "Call": ("func", "args", "keywords"),
    "Compare": ("left", "ops", "comparators"),
    "Dict": ("keys", "values"),
    "DictComp": ("key", "value", "generators"),
    "FormattedValue": ("value", "conversion", "format_spec"),
    "GeneratorExp": ("elt", "generators"),
    "IfExp": ("test", "body", "orelse"),
    "JoinedStr": ("values",),
    "List": ("elts",),
    "ListComp": ("elt", "generators"),
    "NamedExpr": ("target", "value"),
    "Set": ("elts",),
    "SetComp": ("elt", "generators"),
    "Slice": ("lower", "upper", "step"),
    "Starred": ("value",),
    "Subscript": ("value", "slice"),
    "Tuple": ("elts",),
    "UnaryOp": ("op", "operand"),
    # parts of them
    "comprehension": ("target", "iter", "ifs", "is_async"),
    "keyword": ("arg", "value"),
    # statements
    "Assert": ("test", "msg"),
    "Assign": ("targets", "value"),
    "AsyncFor": ("target", "iter", "body", "orelse"),
    "AsyncWith": ("items", "body"),
    "AugAssign": ("target", "op", "value"),
    "Break": (),
    "Continue": (),
    "Delete": ("targets",),
    "Expr": ("value",),
    "For": ("target", "iter", "body", "orelse"),
    "If": ("test", "body", "orelse"),
    "Raise": ("exc", "cause"),
    "Return": ("value",),
    "Try": ("body", "handlers", "orelse", "finalbody"),
    "While": ("test", "body", "orelse"),
    "With": ("items", "body"),
    "ExceptHandler": ("type", "name", "body"),
    "withitem": ("context_expr", "optional_vars"),
}
"""Of each kind that is taken over as it is, its fields. Besides: `Constant`, `Name`, `Function` (a `def` or lambda),
`Define` (binds one), and what a name outside the function stands for: `Step`, `Workflow`, `Known`, `Class`, `Global` (a
function of the program)."""

BUILTINS: Final = frozenset(
    """abs all any bool bytes chr dict divmod enumerate filter float frozenset int isinstance iter len list map max min
    next ord pow range repr reversed round set sorted str sum tuple zip""".split()  # noqa: SIM905 - a table to be read
)
"""Functions that touch nothing but their arguments."""

KNOWN: Final = frozenset(
    {
        "asyncio.ALL_COMPLETED",
        "asyncio.Condition",
        "asyncio.Event",
        "asyncio.FIRST_COMPLETED",
        "asyncio.FIRST_EXCEPTION",
        "asyncio.LifoQueue",
        "asyncio.Lock",
        "asyncio.PriorityQueue",
        "asyncio.Queue",
        "asyncio.Semaphore",
        "asyncio.BoundedSemaphore",
        "asyncio.TaskGroup",
        "asyncio.as_completed",
        "asyncio.create_task",
        "asyncio.current_task",
        "asyncio.ensure_future",
        "asyncio.gather",
        "asyncio.shield",
        "asyncio.sleep",
        "asyncio.timeout",
        "asyncio.wait",
        "asyncio.wait_for",
        "contextlib.suppress",
        "datetime.UTC",
        "datetime.date",
        "datetime.datetime",
        "datetime.time",
        "datetime.timedelta",
        "datetime.timezone",
        "decimal.Decimal",
        "functools.partial",
        "math.ceil",
        "math.floor",
        "uuid.UUID",
    }
)
"""What of the standard library a program may name, beside exceptions."""

CONTEXT: Final = frozenset(
    """approval attributes call compensate continue_as_new evicting gather get_run keep log map milestone now patched
    random run_id set_state sleep sleep_until start state suspend uid user uuid wait wait_for workflow""".split()  # noqa: SIM905
)
"""What a program may ask of its context. Not `do`: nothing in the language is worth a closure's step."""


class ProgramFunction(msgspec.Struct, frozen=True, omit_defaults=True):
    """One function: a tree of kind `Function`, at the top of the program."""

    name: str
    tree: Tree


class Program(msgspec.Struct, frozen=True, omit_defaults=True):
    """A body, and every function of the author's that it calls."""

    body: Tree
    """A `Function`, whose first parameter is the context."""
    functions: tuple[ProgramFunction, ...] = ()
    typed: dict[str, str] = {}
    """Parameters whose values are more than the JSON of the run's input, and what they are annotated with."""


_decode = msgspec.json.Decoder(Program).decode
_encode = msgspec.json.Encoder().encode


def encode_program(program: Program) -> bytes:
    """As JSON, for the store."""
    return _encode(program)


def decode_program(data: bytes) -> Program | None:
    """A stored program; None for what is none to this release."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
