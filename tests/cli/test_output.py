"""What is printed, piece by piece: durations, values, options, and the two views of a run."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from rich.console import Console

from outlast.cli.exits import ExitCode, exit_code_of, exit_code_of_status, problem_of
from outlast.cli.input import read_input
from outlast.cli.options import read_attribute, read_duration, read_moment
from outlast.cli.output import Output, ago, harmless, show_duration, show_instant, show_value
from outlast.cli.progress import LiveView, tell_item
from outlast.core.events import ErrorRecord
from outlast.core.states import RunStatus
from outlast.core.timeline import Kind
from outlast.errors import InvalidInput, RunCancelled, RunNotFound, StoreUnavailable
from outlast.run import TimelineItem

AT = datetime(2026, 7, 1, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0ms"),
        (timedelta(microseconds=3), "<1ms"),
        (timedelta(microseconds=1999), "1ms"),
        (timedelta(seconds=3.456), "3.4s"),
        (timedelta(seconds=125.9), "2min5s"),
        (timedelta(hours=2, minutes=3, seconds=4), "2h3min"),
        (timedelta(days=3, hours=4, minutes=5), "3d4h"),
        (timedelta(seconds=-1), "0ms"),
    ],
)
def test_durations_are_as_exact_as_they_are_read(duration: timedelta, text: str) -> None:
    """Two units at most, and never a negative one: clocks of two machines may differ."""
    assert show_duration(duration) == text


def test_instants_are_in_utc_whatever_they_came_in() -> None:
    """What is printed can be passed to --at, and compared with every other line."""
    assert show_instant(AT) == "2026-07-01T12:00:00.250Z"
    assert read_moment(show_instant(AT)) == AT
    assert ago(AT, AT + timedelta(minutes=5)) == "5min ago"
    assert ago(AT + timedelta(hours=3), AT) == "in 3h"


def test_text_that_would_move_the_cursor_is_spelt_out() -> None:
    """Escapes, bells and text that runs backwards are shown as codes; newlines, tabs and emoji as they are."""
    assert harmless("a\x1b[2J\x07\u202eb\r\n\tc 🎉") == "a\\x1b[2J\\x07\\u202eb\\r\n\tc 🎉"


def test_values_are_json_and_cut_where_they_are_long() -> None:
    """Whatever a workflow may return can be shown."""
    assert show_value({"at": AT, "tags": {"x"}}) == '{"at":"2026-07-01T12:00:00.250000Z","tags":["x"]}'
    assert show_value("x" * 100, 10) == '"xxxxxxxx…'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("region=eu", "eu"),
        ("n=5", 5),
        ("n=1.5", 1.5),
        ("ok=true", True),
        ("gone=null", None),
        ('n="5"', "5"),
        ("zip=01234", "01234"),
        ("list=[1]", "[1]"),
        ("empty=", ""),
        ("query=a=b", "a=b"),
    ],
)
def test_an_attribute_is_json_where_it_can_be(text: str, value: object) -> None:
    """A scalar of JSON is one; anything else is text."""
    assert read_attribute(text) == (text.partition("=")[0], value)


@pytest.mark.parametrize(("text", "value"), [("60", "1min"), ("0.25", "250ms"), (" 1h30m ", "1h30min"), ("0", "0s")])
def test_a_bare_number_is_seconds(text: str, value: str) -> None:
    """Durations on the command line are as everywhere; a number without a unit is seconds."""
    assert read_duration(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [(read_duration, "5x"), (read_duration, "-1s"), (read_duration, ""), (read_attribute, "=x"), (read_attribute, "x"),
     (read_moment, "noon"), (read_moment, "1.5")],
)  # fmt: skip
def test_what_cannot_be_read_is_wrong_usage(read: Any, text: str) -> None:
    """It says what was expected."""
    with pytest.raises(click.BadParameter, match=r"is not|neither"):
        read(text)


def test_a_time_without_a_zone_is_utc() -> None:
    """As all that the command prints."""
    assert read_moment("2026-07-01") == datetime(2026, 7, 1, tzinfo=UTC)
    assert read_moment("12") == 12


def test_input_that_is_given_as_it_is_stays_as_it_is() -> None:
    """Bytes that are no UTF-8 reach the workflow's check, which names them."""
    assert read_input('{"a": "ä"}') == '{"a": "ä"}'.encode()
    assert read_input('"\udcff"') == b'"\xff"'


# --- exits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("f", "x", "int", "got str"), ExitCode.USAGE),
        (RunNotFound("A"), ExitCode.FAILED),
        (RunCancelled("A"), ExitCode.CANCELLED),
        (StoreUnavailable("x", "y"), ExitCode.FAILED),
        (TimeoutError(), ExitCode.WAITING),
    ],
)
def test_errors_exit_by_whose_problem_they_are(error: Exception, code: ExitCode) -> None:
    """Scripts can tell a wrong call from a run that failed, was cancelled, or is not done."""
    assert exit_code_of(error) is code
    assert problem_of(error).what


def test_every_status_has_an_exit_code() -> None:
    """0 is for completed alone; what has not ended is 4."""
    codes = {status: exit_code_of_status(status) for status in RunStatus}
    assert [status for status, code in codes.items() if code == 0] == [RunStatus.COMPLETED]
    assert {status for status, code in codes.items() if code == 4} == {"queued", "running", "suspended", "compensating"}


# --- views ------------------------------------------------------------------------------------------------------------


def item(seq: int, kind: Kind, **more: Any) -> TimelineItem:
    return TimelineItem(seq=seq, at=AT + timedelta(seconds=seq), kind=kind, **more)


def draw(items: list[TimelineItem], *, after: float, height: int = 24) -> list[str]:
    """The live view's lines, so many seconds after the first event."""
    output = Output(as_json=False)
    screen = io.StringIO()
    output.console = Console(file=screen, width=100, height=height, force_terminal=True, color_system=None)
    view = LiveView(output, "fulfil  A-17", now=lambda: AT + timedelta(seconds=after))
    for one in items:
        view.take(one)
    output.console.print(view.draw())
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def test_an_item_is_told_on_one_line() -> None:
    """Who, what, and what is worth knowing of it, whatever the error's message looks like."""
    error = ErrorRecord("ValueError", "two\nlines")
    retried = item(2, Kind.RETRYING, step="charge", attempt=2, error=error, until=AT)
    expected = "charge  retrying (attempt 2, in 1s, until 2026-07-01T12:00:00.250Z): ValueError: two lines"
    assert tell_item(retried, timedelta(seconds=1)) == expected
    assert tell_item(item(3, Kind.STATE, name="n", value=[1])) == "run  state: n = [1]"
    suspended = item(4, Kind.SUSPENDED, name="DEADLOCK", detail="It waits.\nstack")
    assert tell_item(suspended) == "run  suspended: DEADLOCK, It waits."


def test_the_live_view_counts_on_while_a_step_is_under_way() -> None:
    """A step that has begun and not ended grows older; one that is retried says when."""
    error = ErrorRecord("OSError", "no")
    items = [
        item(0, Kind.QUEUED),
        item(1, Kind.STARTED, step="charge", attempt=1),
        item(2, Kind.SUCCEEDED, step="charge", attempt=1),
        item(3, Kind.STARTED, step="pack", attempt=1),
        item(4, Kind.RETRYING, step="pack", attempt=1, error=error, until=AT + timedelta(seconds=10)),
        item(4, Kind.STARTED, step="ship", attempt=1),
    ]
    lines = draw(items, after=7)
    assert lines[0] == "fulfil  A-17  running  7s"
    assert [line.split() for line in lines[2:]] == [
        ["charge", "succeeded", "1s"],
        ["pack", "retrying", "1s", "again", "in", "3s;", "OSError:", "no"],
        ["ship", "started", "3s"],
    ]


def test_the_live_view_shows_what_the_run_sleeps_for() -> None:
    """The earliest of its sleeps; none once it has woken or ended."""
    sleep = item(1, Kind.SLEEPING, until=AT + timedelta(seconds=61))
    assert draw([item(0, Kind.QUEUED), sleep], after=1)[-1] == "sleeps until 2026-07-01T12:01:01.250Z, 1min left"
    assert draw([item(0, Kind.QUEUED), sleep, item(61, Kind.SLEPT)], after=62) == ["fulfil  A-17  running  1min2s"]
    ended = [item(0, Kind.QUEUED), sleep, item(9, Kind.CANCELLED, name="enough")]
    assert draw(ended, after=99) == ["fulfil  A-17  cancelled  9s  enough"]


def test_the_live_view_of_many_steps_fits_the_terminal() -> None:
    """Steps under way come first, then the latest; the rest is counted."""
    items = [item(0, Kind.QUEUED), item(0, Kind.STARTED, step="first", attempt=1)]
    for number in range(50):
        items += [item(1, kind, step=f"s{number}", attempt=1) for kind in (Kind.STARTED, Kind.SUCCEEDED)]
    lines = draw(items, after=5, height=14)
    assert lines[1].strip() == "45 steps are not shown"
    assert [line.split()[0] for line in lines[3:]] == ["first", "s45", "s46", "s47", "s48", "s49"]
