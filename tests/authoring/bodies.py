"""What tests of bodies share: a workflow from any function, and steps that do next to nothing."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from outlast.authoring.module import Module
from outlast.authoring.workflow import Workflow

app = Module("")


@dataclass
class Point:
    x: int


@dataclass
class Order:
    id: str
    items: list[str] = field(default_factory=list)


class CardDeclined(Exception):
    """What `decline` raises. The codec can rebuild it."""


def body(fn: Any) -> Workflow[..., Any]:
    """A workflow of a test's own, whatever its name."""
    return Module("").workflow(name=fn.__name__)(fn)


@app.step
async def echo(value: Any) -> Any:
    return value


@app.step
async def charge(order: Order, note: str = "") -> str:
    """Take the money."""
    return f"receipt {order.id}{note}"


@app.step
def pack(item: str) -> str:
    """Says whether it is in a thread of its own."""
    return f"{item} in {threading.current_thread() is not threading.main_thread()}"


@app.step(retries=2)
async def decline(amount: int) -> None:
    raise CardDeclined(f"no {amount}")
