"""What commands print, and how: for people, or as JSON. Layer: cli.

What always holds: with `--json` nothing but JSON reaches standard output, whatever the user's own code prints; and text
that came from users cannot command the terminal.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Generator, Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from outlast.authoring.hooks import encode_unknown
from outlast.cli.exits import Problem
from outlast.core.durations import format_duration
from outlast.core.events import ErrorRecord
from outlast.payloads import Sealed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "STYLES",
    "Output",
    "ago",
    "harmless",
    "show_duration",
    "show_error",
    "show_instant",
    "show_value",
    "table",
]

WIDE = 4000
"""Columns where standard output is no terminal: nothing is cut or wrapped in a file."""

STYLES = {
    "completed": "green",
    "succeeded": "green",
    "ok": "green",
    "reused": "green",
    "failed": "red",
    "wrong": "bold red",
    "lost": "red",
    "compensation_failed": "red",
    "cancelled": "yellow",
    "suspended": "yellow",
    "retrying": "yellow",
    "compensating": "yellow",
    "compensated": "yellow",
    "started": "cyan",
    "running": "cyan",
    "pending": "dim",
    "queued": "dim",
}
"""Colour of each status, for terminals that have any."""

_encoder = msgspec.json.Encoder(enc_hook=encode_unknown)
# All that moves the cursor or the colours, but newlines and tabs.
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Output:
    """Standard output and error of one command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._stdout: TextIO = sys.stdout
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a value that this terminal's encoding lacks is no reason to die
                stream.reconfigure(errors="backslashreplace")

    @property
    def can_redraw(self) -> bool:
        """Whether what was drawn can be drawn over: a terminal, and not a dumb one. Colours are another question."""
        return not self.as_json and self._stdout.isatty() and not self.console.is_dumb_terminal

    @cached_property
    def console(self) -> Console:
        """For people."""
        from rich.console import Console  # only where something is drawn: it takes a tenth of a second

        width = None if self._stdout.isatty() else WIDE
        return Console(file=self._stdout, width=width, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def say(self, text: str, *, style: str | None = None) -> None:
        """A line, or several, for people. With `--json`: nothing."""
        if self.as_json:
            return
        if style is None:
            self._stdout.write(f"{harmless(text)}\n")
        else:
            self.console.print(harmless(text), style=style)
        self._stdout.flush()

    def draw(self, drawn: Table) -> None:
        """A table, for people. With `--json`: nothing."""
        if not self.as_json:
            self.console.print(drawn, soft_wrap=False)

    def emit(self, document: object) -> None:
        """One JSON document, on one line. Without `--json`: nothing."""
        if self.as_json:
            self._stdout.write(_encoder.encode(document).decode() + "\n")
            self._stdout.flush()

    def note(self, text: str) -> None:
        """A line on standard error, for people, whatever the mode."""
        print(harmless(text), file=sys.stderr, flush=True)

    def report(self, problem: Problem) -> None:
        """An error: three parts on standard error, with `--json` a document besides."""
        where = f": {problem.where}" if problem.where else ""
        said = f"{problem.what}{where}".rstrip()
        self.note(f"Error: {said}{'' if said.endswith(('.', '!', '?')) else '.'}")
        if problem.todo:
            self.note(f"  {problem.todo}")
        self.emit({"error": problem._asdict()})

    @contextlib.contextmanager
    def reserved(self) -> Generator[None]:
        """While the user's own code runs: with `--json`, what it prints goes to standard error instead."""
        if not self.as_json:
            yield
            return
        with contextlib.redirect_stdout(sys.stderr), self._own_descriptor():
            yield

    @contextlib.contextmanager
    def _own_descriptor(self) -> Generator[None]:
        """Point descriptor 1 at standard error, for child processes and C code, and keep the real one to ourselves."""
        stdout = self._stdout
        try:
            is_real = stdout.fileno() == 1
        except (OSError, ValueError):  # somebody's StringIO
            is_real = False
        if not is_real:
            yield
            return
        stdout.flush()
        with os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace") as kept:
            os.dup2(2, 1)
            self._stdout = kept
            try:
                yield
            finally:
                kept.flush()
                os.dup2(kept.fileno(), 1)
                self._stdout = stdout


def harmless(text: object) -> str:
    """The text, with what would command a terminal spelt out: an escape as its code, in four characters."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


# --- values as people read them ---------------------------------------------------------------------------------------


def show_instant(at: datetime | None) -> str:
    """In UTC, to the millisecond: what can be compared with every other line here, and passed to `--at`."""
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def show_duration(duration: timedelta | None) -> str:
    """With no more digits than anybody reads: `12ms`, `3.4s`, `2min5s`, `1d2h`."""
    if duration is None:
        return ""
    us = max(0, round(duration / timedelta(microseconds=1)))
    if us < 1_000:
        return "<1ms" if us else "0ms"
    unit = next((unit for limit, unit in _PRECISIONS if us < limit), 3_600_000_000)
    return format_duration(us // unit * unit)


_PRECISIONS = (
    (1_000_000, 1_000),
    (60_000_000, 100_000),
    (3_600_000_000, 1_000_000),
    (86_400_000_000, 60_000_000),
)
"""Durations below the first are shown in whole numbers of the second; in µs."""


def ago(at: datetime | None, now: datetime) -> str:
    """`5min ago`, `in 3h`."""
    if at is None:
        return ""
    if at > now:
        return f"in {show_duration(at - now)}"
    return f"{show_duration(now - at)} ago"


def show_value(value: object, longest: int | None = None) -> str:
    """A value as compact JSON; cut where it is long, if `longest` says what that is. Or why it cannot be read."""
    text = str(value) if isinstance(value, Sealed) else _encoder.encode(value).decode()
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"


def show_error(error: ErrorRecord) -> str:
    """Type and message, on one line."""
    message = " ".join(error.message.split())
    return f"{error.type}: {message}" if message else error.type


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]], *, status: str = "status") -> Table:
    """Aligned columns without lines, the one called `status` in its colours."""
    from rich.table import Table
    from rich.text import Text

    names = list(columns)
    drawn = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in names:
        drawn.add_column(name, overflow="fold")
    for row in rows:
        texts = (harmless("" if cell is None else cell) for cell in row)
        drawn.add_row(
            *(
                Text(text, style=STYLES.get(text, "") if name == status else "")
                for name, text in zip(names, texts, strict=True)
            )
        )
    return drawn
