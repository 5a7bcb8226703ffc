"""Durations in, microseconds out (SPEC S3)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.durations import LONGEST_US, format_duration, parse_duration
from outlast.errors import DefinitionError, InvalidDuration

SECOND = 1_000_000


# SPEC S3
@pytest.mark.parametrize(
    ("written", "us"),
    [
        (0, 0),
        (30, 30 * SECOND),
        (0.25, 250_000),
        (1e-6, 1),
        (timedelta(days=1, microseconds=7), 86_400 * SECOND + 7),
        ("250ms", 250_000),
        ("30s", 30 * SECOND),
        ("5min", 300 * SECOND),
        ("2h", 7200 * SECOND),
        ("3d", 3 * 86_400 * SECOND),
        ("1w", 7 * 86_400 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1h30min", 5400 * SECOND),
        ("1d2h3min4s5ms", 93_784_005_000),
        ("1.5h", 5400 * SECOND),
        ("0s", 0),
        ("0.5ms", 500),
    ],
)
def test_a_duration_is_seconds_a_timedelta_or_text(written, us):
    """Numbers are seconds, text has units, and all of them come out as whole microseconds."""
    assert parse_duration(written) == us


# SPEC S3
@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "soon",
        "30",
        "30 s",
        "-1s",
        "1s\n",
        "1h1h",
        "30s2h",
        "5 parsecs",
        "5mins",
        "1M",
        "٣s",
        "1e3s",
        "9" * 30 + "s",
        -1,
        -0.001,
        float("nan"),
        float("inf"),
        True,
        None,
        [1],
        b"1s",
        timedelta(seconds=-1),
        10**400,
        1e300,
        "999999999999w",
    ],
)
def test_anything_else_is_an_error_that_names_it(written):
    """What is no duration is refused where it is written, with the value in the message and in the error."""
    with pytest.raises(InvalidDuration) as caught:
        parse_duration(written)
    assert caught.value.value is written
    assert repr(written) in str(caught.value)
    assert isinstance(caught.value, DefinitionError)
    assert isinstance(caught.value, ValueError)


@given(st.integers(0, LONGEST_US))
def test_what_is_shown_can_be_written_back(us):
    """The text shown for a duration is one that means exactly it."""
    assert parse_duration(format_duration(us)) == us


@given(st.integers(0, LONGEST_US))
def test_whole_microseconds_stay_exact(us):
    """A timedelta of any length loses nothing."""
    assert parse_duration(timedelta(microseconds=us)) == us


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0s"),
        (500, "0.5ms"),
        (250_000, "250ms"),
        (SECOND, "1s"),
        (90 * SECOND + 500_000, "1min30.5s"),
        (5400 * SECOND, "1h30min"),
        (8 * 86_400 * SECOND, "8d"),
        (-SECOND, "-1s"),
    ],
)
def test_durations_are_shown_short_and_exact(us, text):
    """The shortest text that is exact, with the units people use."""
    assert format_duration(us) == text
