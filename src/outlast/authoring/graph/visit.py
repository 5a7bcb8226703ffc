"""One visit of a node: its call, or for a fan-out one call for each item, and what failed of them. Layer: authoring.

What always holds: an item is called once, under a key of its own (`pack[3]`), and what it gave stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from outlast.authoring.exceptions import encode_error
from outlast.authoring.mapping import run_map
from outlast.core.calls import STEP_MARK
from outlast.core.keys import invocation_id
from outlast.errors import StepFailed

if TYPE_CHECKING:
    from outlast.core.graph.node import Node

__all__ = ["Caller", "Scope", "Visit", "is_step_failure"]

Caller: TypeAlias = Callable[[str, dict[str, Any]], Coroutine[Any, Any, Any]]
"""Calls what a node calls, as a step of this name with these arguments."""
Scope: TypeAlias = dict[str, Any]
"""What there is to refer to."""

MOST_FAILURES: Final = 100
"""Items whose failures a handler is told one by one."""


def is_step_failure(error: Exception) -> bool:
    """Whether a step or child failed with it; else it is the graph's or the engine's, and no handler's business."""
    return bool(getattr(error, STEP_MARK, ""))


class Visit:
    """See the module's docstring."""

    def __init__(
        self, node: Node, caller: Caller, arguments: Callable[[Scope], dict[str, Any]], items: list[Any] | None = None
    ) -> None:
        """`arguments` are those of an item, which it is given as `item` and `index`; without `items` of the only call.

        They are worked out when the call begins.
        """
        self._node = node
        self._call = caller
        self._arguments = arguments
        self._items = items
        self.first_error: Exception | None = None
        self._first: dict[str, Any] = {}
        self._failed: list[dict[str, Any]] = []

    async def run(self, *, collects: bool) -> Any:
        """The result; or the list of results. With `collects`, null stands in it for an item that failed."""
        if self._items is None:
            return await self._one(self._node.id, self._arguments({}), None)
        return await run_map(self._item, enumerate(self._items), self._node.limit, _skip if collects else None)

    async def _item(self, numbered: tuple[int, Any]) -> Any:
        index, item = numbered
        return await self._one(f"{self._node.id}[{index}]", self._arguments({"item": item, "index": index}), index)

    async def _one(self, name: str, arguments: dict[str, Any], index: int | None) -> Any:
        try:
            return await self._call(name, arguments)
        except Exception as error:
            if is_step_failure(error):
                self._note(error, arguments, index)
            raise

    def _note(self, error: Exception, arguments: dict[str, Any], index: int | None) -> None:
        if self.first_error is not None and len(self._failed) >= MOST_FAILURES:
            return
        told = {"index": index, "key": getattr(error, STEP_MARK)} | _tell(error)
        if self.first_error is None:
            self.first_error = error
            self._first = told | {"input": arguments}
        if index is not None:
            self._failed.append(told)

    def describe(self, uid: str) -> dict[str, Any]:
        """What a handler may refer to as `$error`: the first failure, and in `failed` those of all items."""
        about = {"node": self._node.id, "invocation_id": invocation_id(uid, self._first["key"])}
        return about | self._first | {"failed": self._failed}


def _tell(error: Exception) -> dict[str, str]:
    """Class, message and code of an error, also of one that stands for another."""
    if isinstance(error, StepFailed):
        kind, message = error.type, error.message
    else:
        record = encode_error(error)
        kind, message = record.type, record.message
    code = getattr(error, "code", "")
    return {"type": kind.rpartition(".")[2], "message": message, "code": code if isinstance(code, str) else ""}


def _skip(error: Exception) -> None:
    """In the place of what an item would have given."""
    if not is_step_failure(error):
        raise error
