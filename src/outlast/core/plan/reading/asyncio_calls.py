"""What a body asks of asyncio, read: `gather`, `TaskGroup`, `timeout` … Layer: core.

What always holds: what is awaited of asyncio, and is not in these tables, is shown as opaque.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from outlast.core.plan.nodes import Node, ParallelNode, ScopeNode, TaskNode, WaitNode
from outlast.core.plan.reading.express import source_of
from outlast.core.plan.reading.frames import UNKNOWN, Value
from outlast.core.plan.reading.meaning import KnownMeaning

if TYPE_CHECKING:
    from outlast.core.plan.reading.arguments import Given
    from outlast.core.plan.reading.reader import Reader

__all__ = ["AsyncioCalls"]

_PRIMITIVES: Final = frozenset(
    {
        "Barrier",
        "BoundedSemaphore",
        "Condition",
        "Event",
        "Lock",
        "LifoQueue",
        "PriorityQueue",
        "Queue",
        "Semaphore",
    }
)
_TASK_MAKERS: Final = frozenset({"create_task", "ensure_future", "Task"})


class AsyncioCalls:
    """Reads calls of asyncio, for one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def make(self, name: str, callee: Value, given: Given) -> Value:
        """What `asyncio.name(…)` gives."""
        owner, _, method = name.partition("().")
        if owner in _PRIMITIVES:
            return self._wait(f"{owner}.{method}" if method else "", f"{owner}()", given)
        if name in _TASK_MAKERS or name in {"TaskGroup().create_task", "loop().create_task"}:
            return self._task(given)
        match name:
            case "TaskGroup":
                return Value(meaning=KnownMeaning("asyncio.TaskGroup()"), form="group")
            case "timeout" | "timeout_at":
                return Value(form=name)
            case "get_running_loop" | "get_event_loop":
                return Value(meaning=KnownMeaning("asyncio.loop()"))
            case "sleep":
                return self._wait("sleep", "", given)
            case "gather":
                return self._group("gather", given, is_eager=True)
            case "wait":
                return self._group("wait", given)
            case "as_completed":
                value = self._group("as_completed", given)
                return Value(begun=(self._reader.begin(value.thunks[0]),))
            case "wait_for" | "shield":
                return self._scope(name, given)
            case _:
                return self._reader.calls.unknown(given, callee)

    def _wait(self, wait: str, made: str, given: Given) -> Value:
        reader = self._reader
        reader.calls.hand_over(given)
        if not wait:
            return Value(meaning=KnownMeaning(f"asyncio.{made}"), form="primitive")

        def begin() -> str:
            detail = source_of(given.node.args[0], 60) if given.node.args else ""
            label = f"Sleep {detail}" if wait == "sleep" else source_of(given.node, 60)
            return reader.add(WaitNode(reader.new_id("wait"), given.node.lineno, label, wait, given.shown))

        if wait.partition(".")[2] in {"put_nowait", "get_nowait", "set", "clear", "is_set", "release", "locked"}:
            return UNKNOWN
        value = reader.make_thunk(given.node, begin, ())
        for thunk in value.thunks:
            reader.excuse(thunk)
        return value

    def _task(self, given: Given) -> Value:
        """It begins here, and goes on beside what follows."""
        reader = self._reader
        value = given.positional[0] if given.positional else given.named.get("coro", UNKNOWN)
        node_id = reader.new_id("task")
        nodes, joins = reader.calls.lane(given.node, value)
        if joins and not nodes:
            return Value(begun=joins)  # a task of it was made already
        result = nodes[-1].id if nodes else ""
        reader.add(TaskNode(node_id, given.node.lineno, source_of(given.node), nodes))
        return Value(begun=(node_id,), result=result)

    def _group(self, form: str, given: Given, *, is_eager: bool = False) -> Value:
        reader = self._reader
        functions = tuple(dict.fromkeys(name for value in given.values for name in value.functions(reader.reach)))
        if form == "gather":
            parts = [*given.positional, *given.others]
        else:
            first = given.positional[0] if given.positional else UNKNOWN
            parts = list(first.items) if first.items and first.form != "unsure" else [first]

        def begin() -> str:
            node_id = reader.new_id(form)
            lanes: list[tuple[Node, ...]] = []
            joins: dict[str, None] = {}
            for part in parts:
                nodes, begun = reader.calls.lane(given.node, part)
                if nodes:
                    lanes.append(nodes)
                joins.update(dict.fromkeys(begun))
            settings = given.named_shown()
            label = source_of(given.node.func)
            return reader.add(
                ParallelNode(node_id, given.node.lineno, label, form, tuple(lanes), tuple(joins), arguments=settings)
            )

        if not parts:
            return Value(form="quiet")
        return reader.make_thunk(given.node, begin, functions, parts, is_eager=is_eager)

    def _scope(self, form: str, given: Given) -> Value:
        reader = self._reader
        value = given.positional[0] if given.positional else UNKNOWN
        over = tuple(argument.value for argument in given.shown[1:])

        def begin() -> str:
            node_id = reader.new_id(form)
            with reader.block() as nodes:
                reader.values.awaited(given.node, value)
            return reader.add(
                ScopeNode(node_id, given.node.lineno, source_of(given.node.func), form, over, tuple(nodes))
            )

        return reader.make_thunk(given.node, begin, value.functions(reader.reach), [value])

    def enter(self, value: Value, node: ast.expr, *, is_async: bool) -> tuple[Value, str]:
        """What `with` gives its name, and the form of what it is."""
        if value.form in {"group", "timeout", "timeout_at"}:
            return value, value.form
        if is_async and value.form not in {"primitive", "quiet"}:
            self._reader.show_opaque(node, "what entering and leaving it does is not known", value)
        else:
            self._reader.values.escape(node, value)
        return value if value.begun else UNKNOWN, "with"
