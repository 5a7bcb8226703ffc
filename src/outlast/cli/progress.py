"""A run as it goes: a live table on a terminal, plain lines elsewhere. Layer: cli.

Both are told the run's timeline, item by item, so that they show the same; and neither knows more than the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from outlast.cli.output import STYLES, Output, harmless, show_duration, show_error, show_instant, show_value, table
from outlast.core.timeline import Kind
from outlast.run import TimelineItem

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["LiveView", "PlainView", "View", "make_view", "tell_item"]

LONGEST_VALUE = 60
ROOM = 8
"""Lines of the terminal that the live table leaves free."""


class View(Protocol):
    """Somebody who watches a run."""

    def showing(self) -> AbstractContextManager[object]:
        """While the run is watched."""
        ...

    def take(self, item: TimelineItem) -> None:
        """The next item of its timeline."""
        ...


def make_view(output: Output, title: str) -> View:
    """What fits standard output."""
    return LiveView(output, title) if output.can_redraw else PlainView(output)


class PlainView:
    """One line for each thing that happens."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._began: dict[str, datetime] = {}

    def showing(self) -> AbstractContextManager[object]:
        """Nothing is to be put away."""
        return nullcontext()

    def take(self, item: TimelineItem) -> None:
        """Print it."""
        took = None
        if item.step is not None:
            if item.kind is Kind.STARTED:
                self._began[item.step] = item.at
            elif item.step in self._began and item.kind in {Kind.SUCCEEDED, Kind.FAILED, Kind.RETRYING, Kind.CANCELLED}:
                took = item.at - self._began.pop(item.step)
        self._output.say(f"{show_instant(item.at)}  {tell_item(item, took)}")


def tell_item(item: TimelineItem, took: timedelta | None = None) -> str:
    """One item, on one line: who, what, and the rest in brackets."""
    who = "run" if item.step is None else item.step
    what = str(item.kind).replace("_", " ")
    about = []
    if item.attempt is not None and item.attempt > 1:
        about.append(f"attempt {item.attempt}")
    if took is not None:
        about.append(f"in {show_duration(took)}")
    if item.until is not None:
        about.append(f"until {show_instant(item.until)}")
    tail = f" ({', '.join(about)})" if about else ""
    return f"{who}  {what}{tail}{_tell_rest(item)}"


def _tell_rest(item: TimelineItem) -> str:
    if item.error is not None:
        return f": {show_error(item.error)}"
    if item.kind in {Kind.PROGRESSED, Kind.STATE}:
        name = f"{item.name} = " if item.name else ""
        return f": {name}{show_value(item.value, LONGEST_VALUE)}"
    if item.step is None and item.name:
        detail = item.detail.partition("\n")[0]
        return f": {item.name}{f', {detail}' if detail else ''}"
    return ""


@dataclass
class _Line:
    """A step, as the live table shows it."""

    key: str
    status: str = "pending"
    attempt: int = 0
    began: datetime | None = None
    ended: datetime | None = None
    again: datetime | None = None
    """When its next attempt is due."""
    note: str = ""

    def told(self, now: datetime) -> str:
        """What there is to say of it beside."""
        if self.again is None:
            return self.note
        when = f"again in {show_duration(self.again - now)}" if self.again > now else "again now"
        return f"{when}; {self.note}".rstrip("; ")

    def took(self, now: datetime) -> timedelta | None:
        """Of the attempt under way, so far."""
        return None if self.began is None else max((self.ended or now) - self.began, timedelta(0))


_STEP_KINDS = {
    Kind.PENDING,
    Kind.STARTED,
    Kind.RETRYING,
    Kind.SUCCEEDED,
    Kind.REUSED,
    Kind.FAILED,
    Kind.CANCELLED,
    Kind.LOST,
}
_MOVING_KINDS = {
    Kind.RESUMED,
    Kind.REOPENED,
    Kind.TAKEN_OVER,
    Kind.SLEEPING,
    Kind.TIMER,
    Kind.WAITING,
    Kind.OPENED,
    Kind.TAKEN,
    Kind.ACCEPTED,
    Kind.EXPIRED,
}
_RUN_KINDS = {Kind.QUEUED, Kind.SUSPENDED, Kind.COMPLETED, Kind.CONTINUED, Kind.FAILED, Kind.CANCELLED}


class LiveView:
    """A table of the run's steps that moves."""

    def __init__(self, output: Output, title: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._output = output
        self._title = title
        self._now = now
        self._lines: dict[str, _Line] = {}
        self._status = "queued"
        self._began: datetime | None = None
        self._ended: datetime | None = None
        self._sleeps: list[datetime] = []
        self._note = ""

    def showing(self) -> AbstractContextManager[object]:
        """Draws eight times a second; what else is printed meanwhile goes above it."""
        from rich.live import Live

        return Live(
            console=self._output.console, get_renderable=self.draw, refresh_per_second=8, vertical_overflow="crop"
        )

    def take(self, item: TimelineItem) -> None:
        """Remember what it says."""
        if item.step is not None:
            self._take_step(self._lines.setdefault(item.step, _Line(item.step)), item)
            self._status = "running" if self._status == "queued" else self._status
            return
        self._began = self._began or item.at
        self._note = _tell_rest(item).removeprefix(": ") if item.kind is not Kind.COMPLETED else ""
        if item.kind in _RUN_KINDS:
            self._status = str(item.kind)
        elif item.kind in _MOVING_KINDS:
            self._status = "running"
        if item.kind is Kind.SLEEPING and item.until is not None:
            self._sleeps.append(item.until)
        elif item.kind is Kind.SLEPT:
            self._sleeps = sorted(self._sleeps)[1:]
        is_end = item.kind in {Kind.COMPLETED, Kind.CONTINUED, Kind.FAILED, Kind.CANCELLED}
        self._ended = item.at if is_end else None

    def _take_step(self, line: _Line, item: TimelineItem) -> None:
        if item.kind in _STEP_KINDS:
            line.status = str(item.kind)
            line.note, line.again = "", item.until
        if item.attempt is not None:
            line.attempt = item.attempt
        if item.kind is Kind.STARTED:
            line.began, line.ended = item.at, None
        elif item.kind in _STEP_KINDS - {Kind.PENDING}:
            line.ended = item.at
        if item.error is not None:
            line.note = show_error(item.error)
        elif item.kind is Kind.PROGRESSED:
            line.note = show_value(item.value, LONGEST_VALUE)

    def draw(self) -> Group:
        """The picture at this moment."""
        from rich.console import Group
        from rich.text import Text

        now = self._now()
        head = Text(f"{harmless(self._title)}  ", style="bold")
        head.append(self._status, style=STYLES.get(self._status, ""))
        if self._began is not None:
            head.append(f"  {show_duration(max((self._ended or now) - self._began, timedelta(0)))}")
        if self._note:
            head.append(f"  {harmless(self._note)}", style="dim")
        shown, hidden = self._choose()
        rows = [
            (
                line.key,
                line.status,
                line.attempt if line.attempt > 1 else "",
                show_duration(line.took(now)),
                line.told(now),
            )
            for line in shown
        ]
        parts: list[object] = [head]
        if hidden:
            parts.append(Text(f"  {hidden} steps are not shown", style="dim"))
        if rows:
            parts.append(table(("step", "status", "attempt", "took", ""), rows))
        if self._sleeps and self._ended is None:
            until = min(self._sleeps)
            left = show_duration(until - now) if until > now else "0s"
            parts.append(Text(f"sleeps until {show_instant(until)}, {left} left", style="cyan"))
        return Group(*parts)  # type: ignore[arg-type]

    def _choose(self) -> tuple[list[_Line], int]:
        """What has room: all that is under way, then the latest, in the order of the calls; and how many have none."""
        lines = list(self._lines.values())
        room = max(self._output.console.height - ROOM, 3)
        if len(lines) <= room:
            return lines, 0
        under_way = [line for line in lines if line.ended is None][:room]
        ended = [line for line in lines if line.ended is not None]
        kept = {line.key for line in (*under_way, *ended[max(len(ended) - (room - len(under_way)), 0) :])}
        if len(under_way) == room:
            kept = {line.key for line in under_way}
        return [line for line in lines if line.key in kept], len(lines) - len(kept)
