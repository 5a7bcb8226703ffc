"""A run in its worker's memory, and what its next entry does beside being written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outlast.core.states import RunStatus
from outlast.stores.store import Effects, NewMessage, NewRun, NewTask, Progress, RowChange, Send
from tests.simulation.program import CHILD, PARENT, Attempt, Event, Picture, encode

if TYPE_CHECKING:
    from tests.simulation.scene import Scene

__all__ = ["LEASE_US", "TICK_US", "Hot", "Option", "effects_of"]

TICK_US = 15_000_000
LEASE_TICKS = 4
LEASE_US = LEASE_TICKS * TICK_US

Option = tuple[Any, ...]
"""What could be done next: a method's name, and its arguments."""


@dataclass(eq=False)
class Hot:
    """A run in its worker's memory."""

    uid: str
    epoch: int
    recoveries: int
    picture: Picture
    head: int = -1
    """Position of the next entry; -1: not loaded yet."""
    mark: int = 0
    """Of the entry before it."""
    in_flight: list[int] = field(default_factory=list)
    """Marks of entries that were sent and not answered."""
    buffer: list[Event] = field(default_factory=list)
    """What happened and is in no entry yet."""
    consumed: list[int] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    """Numbers of messages that were taken from the inbox."""
    to_do: list[Attempt] = field(default_factory=list)
    running: list[Attempt] = field(default_factory=list)
    polled_at: int = -1
    """`mail` when the inbox was last read."""
    seen: int = 0
    """`mail`, as a park names it."""

    def is_idle(self) -> bool:
        return not (self.in_flight or self.buffer or self.to_do) and self.polled_at >= 0


def effects_of(hot: Hot, events: Sequence[Event], scene: Scene) -> Effects | None:
    """What an entry with these events does to other rows."""
    children = tuple(_start_child(scene) for event in events if event.what == "child")
    queued = [event for event in events if event.what == "start" and event.kind == "queued"]
    tasks = tuple(NewTask(event.id, event.attempt, "default", "f", b"", scene.now) for event in queued)
    sends: tuple[Send, ...] = ()
    row = RowChange(recovered=True) if hot.recoveries and any(event.what == "ok" for event in events) else None
    if events and events[-1].what == "end":
        row = RowChange(status=RunStatus(events[-1].kind), ended=True)
        kind, to = ("child", PARENT) if hot.uid == CHILD else ("cancel", CHILD)
        sends = (Send(to, NewMessage(f"{kind} of {hot.uid}", kind)),)
    if not (children or tasks or sends or row or hot.consumed):
        return None
    return Effects(consumed=tuple(hot.consumed), children=children, tasks=tasks, sends=sends, row=row)


def _start_child(scene: Scene) -> Progress:
    child = NewRun(id=CHILD, workflow="child", version="1", parent=PARENT, root=PARENT)
    progress = Progress(CHILD, 0, mark=scene.next_mark(), events=encode([]), effects=Effects(start=child))
    scene.audit.expect(progress)
    return progress
