"""What the simulation's runs do: a parent, its child, and what their journals say.

The parent runs a step of its own (`a`), starts the child, waits for its end and for a signal, runs a queued step (`q`),
and ends. The child runs one step (`b`) at most once. Either ends early when it is cancelled. That is little, and it has
every kind of thing that can cross: steps in the worker and on a queue, a child, messages, a park between each two.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec

from outlast.core.states import RunStatus

__all__ = ["CHILD", "PARENT", "Attempt", "Event", "Picture", "decode", "encode", "think"]

PARENT, CHILD = "p", "c"
MANY = 9  # attempts of a step that may be repeated

Attempt = tuple[str, int]
"""A step's key, and which attempt of it."""


class Event(NamedTuple):
    """One event of a journal. What its fields mean depends on `what`:

    start    an attempt of a step is on record; `id` is its key, `kind` is `local` or `queued`
    ok, lost the attempt's outcome
    child    the child was started
    message  a message was read; `id` and `kind` are the message's, `attempt` is that of a queued step's outcome
    end      `kind` is the run's last status
    """

    what: str
    id: str = ""
    attempt: int = 0
    kind: str = ""


_decoder = msgspec.json.Decoder(tuple[Event, ...])


def encode(events: Iterable[Event]) -> bytes:
    return msgspec.json.encode(list(events))


@lru_cache(maxsize=4096)
def decode(events: bytes) -> tuple[Event, ...]:
    return _decoder.decode(events)


@dataclass
class Step:
    kind: str
    attempt: int
    outcome: str | None = None


@dataclass
class Picture:
    """A run as the fold of its journal."""

    uid: str
    status: RunStatus = RunStatus.RUNNING
    steps: dict[str, Step] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    """Ids of the messages that were read: the fold's memory, when the inbox has forgotten them."""
    child_started: bool = False
    child_ended: bool = False
    signals: int = 0
    cancelled: bool = False

    def copy(self) -> Picture:
        steps = {key: copy.copy(step) for key, step in self.steps.items()}
        return Picture(
            self.uid,
            self.status,
            steps,
            set(self.read),
            self.child_started,
            self.child_ended,
            self.signals,
            self.cancelled,
        )

    def has_ended(self) -> bool:
        return self.status is not RunStatus.RUNNING

    def apply(self, event: Event) -> None:
        match event.what:
            case "start":
                self.steps[event.id] = Step(event.kind, event.attempt)
            case "ok" | "lost":
                self._settle(event.id, event.attempt, event.what)
            case "child":
                self.child_started = True
            case "message":
                self._read(event)
            case "end":
                self.status = RunStatus(event.kind)

    def open_attempts(self, kind: str) -> list[Attempt]:
        return [(key, step.attempt) for key, step in self.steps.items() if step.kind == kind and step.outcome is None]

    def _settle(self, key: str, attempt: int, outcome: str) -> None:
        """The first outcome of the latest attempt counts."""
        step = self.steps.get(key)
        if step is not None and step.attempt == attempt and step.outcome is None:
            step.outcome = outcome

    def _read(self, event: Event) -> None:
        self.read.add(event.id)
        match event.kind:
            case "signal":
                self.signals += 1
            case "cancel":
                self.cancelled = True
            case "child":
                self.child_ended = True
            case "task":
                self._settle("q", event.attempt, "ok")
            case "lost":
                self._settle("q", event.attempt, "lost")


def think(picture: Picture) -> list[Event]:
    """Run the body ahead: all it asks for now. Changes the picture as if it were on record."""
    asked: list[Event] = []
    while (event := _next(picture)) is not None:
        picture.apply(event)
        asked.append(event)
    return asked


def _next(picture: Picture) -> Event | None:
    if picture.has_ended():
        return None
    if picture.cancelled:
        return Event("end", kind=RunStatus.CANCELLED)
    if picture.uid == CHILD:
        return _step(picture, "b", "local", 1) or _end_if_ok(picture, "b")
    event = _step(picture, "a", "local", MANY)
    if event is not None or picture.steps["a"].outcome != "ok":
        return event
    if not picture.child_started:
        return Event("child")
    if not picture.child_ended or not picture.signals:
        return None
    return _step(picture, "q", "queued", MANY) or _end_if_ok(picture, "q")


def _step(picture: Picture, key: str, kind: str, attempts: int) -> Event | None:
    """What the step needs: its first attempt, the next one, or the end of a run whose attempts are used up."""
    step = picture.steps.get(key)
    if step is None:
        return Event("start", key, 1, kind)
    if step.outcome != "lost":
        return None
    return (
        Event("start", key, step.attempt + 1, kind) if step.attempt < attempts else Event("end", kind=RunStatus.FAILED)
    )


def _end_if_ok(picture: Picture, key: str) -> Event | None:
    return Event("end", kind=RunStatus.COMPLETED) if picture.steps[key].outcome == "ok" else None
