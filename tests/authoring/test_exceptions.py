"""Exceptions as data, and back (SPEC R8)."""

# pyright: reportAttributeAccessIssue=false
# (authors set attributes on exceptions, and what is rebuilt is only known to be an Exception)

import asyncio
import datetime as dt
import json
import subprocess
import sys
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import errors
from outlast.authoring.exceptions import encode_error, rebuild_error
from outlast.core.events import ErrorRecord
from outlast.core.retry import RetryPolicy, decide_retry, find_retry_after, is_retryable
from outlast.errors import NonRetryable, RunFailed, StepFailed, StepTimeout
from tests.authoring.raising import (
    Card,
    Declined,
    Final,
    OutOfStock,
    Reason,
    Shy,
    Silent,
    Slotted,
    Unprintable,
    WithResponse,
    caught,
    make_local,
    raise_it,
    through,
)


# SPEC R8
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        ValueError(),
        KeyError("x"),
        KeyError((1, "a")),
        ValueError(Decimal("1.10"), dt.date(2020, 1, 1), b"x", {1}, None, [1, {"a": 2}]),
        Declined(Reason.POOR, Card("1"), amount=Decimal(3)),
        Silent(1, 2),
        Slotted(7),
        OutOfStock("bolts"),
        Final("enough"),
        caught(open, "/no/such/file"),
        caught(json.loads, "{"),
        caught(b"\xff".decode),
        caught(lambda: 1 / 0),
        caught(lambda: [].nothing),
        caught(__import__, "no_such_module"),
        caught(compile, "a b", "file", "exec"),
        caught(subprocess.run, [sys.executable, "-c", "exit(3)"], check=True),
        ConnectionResetError(104, "reset by peer"),
        UnicodeDecodeError("utf-8", b"ab", 0, 1, "bad"),
        StopAsyncIteration(3),
        TimeoutError(),
        StepTimeout("charge", 2, "30s"),
        errors.NotEncodable("order.x", "socket"),
        StepFailed("other.Declined", "no", "trace", "X", {"a": 1}, "charge", 3, True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_that_can_be_made_again_is_raised_as_itself(error):
    """Same class, args, attributes and text, without its constructor having run."""
    again = through(error, step="charge")
    assert type(again) is type(error)
    assert again.args == error.args
    assert str(again) == str(error)
    assert {name: getattr(again, name) for name in vars(error)} == vars(error)
    for name in ("filename", "limit", "name", "returncode"):
        assert getattr(again, name, None) == getattr(error, name, None)


# SPEC R8
@pytest.mark.parametrize(
    ("error", "name"),
    [
        (make_local(), "Local"),
        (WithResponse("bad", object()), "WithResponse"),
        (ValueError(object()), "ValueError"),
        (Unprintable(), "Unprintable"),
        (ValueError("\ud800"), "ValueError"),
        (ValueError(float("nan")), "ValueError"),
        (ValueError("x" * 300_000), "ValueError"),
        (SystemExit(3), "SystemExit"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError("no"), "CancelledError"),
        (RunFailed("A-17", "failed", ValueError("x")), "RunFailed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_other_arrives_as_step_failed_with_everything(error, name):
    """Type, message, traceback, code, data, step and attempts: nothing is lost that could be kept."""
    again = through(caught(raise_it, error), step="charge#1", attempts=3)
    assert type(again) is StepFailed
    assert again.type.endswith(name)
    assert (again.step, again.attempts) == ("charge#1", 3)
    assert "raise_it" in again.traceback
    assert name in str(again)
    assert "charge#1" in str(again)
    str(again).encode()


def test_what_a_stand_in_carries():
    """The original's message, code, expected flag and those attributes that JSON can carry."""
    error = WithResponse("bad gateway", object())
    error.status = 502
    error.code = "BAD_GATEWAY"
    error.expected = True
    again = through(error, step="get", attempts=2)
    assert again.message == "bad gateway"
    assert again.code == "BAD_GATEWAY"
    assert again.expected is True
    assert again.data == {"status": 502, "code": "BAD_GATEWAY", "expected": True, "args": ["bad gateway"]}
    assert again.type == "tests.authoring.raising.WithResponse"


# SPEC R8
def test_the_record_says_all_that_people_ask():
    """Type, module, message, traceback, code and the expected flag are fields of the record."""
    record = encode_error(caught(raise_it, Declined(Reason.POOR, Card("1"), amount=Decimal(3))))
    assert (record.type, record.module) == ("Declined", "tests.authoring.raising")
    assert record.message == "declined: poor"
    assert record.code == "CARD_DECLINED"
    assert record.expected is True
    assert record.traceback.startswith("Traceback")
    assert "raise_it" in record.traceback
    assert encode_error(StepTimeout("a", 1, "1s")).code == "STEP_TIMEOUT"
    assert encode_error(SystemExit(3)).code == ""


# SPEC R8
@pytest.mark.parametrize(
    ("error", "given_flag", "expected"),
    [
        (ValueError(), None, False),
        (OutOfStock(), None, True),
        (Declined(Reason.POOR, Card("1"), amount=1), None, True),
        (ValueError(), True, True),
        (OutOfStock(), False, False),
    ],
)
def test_an_author_marks_an_error_as_expected(error, given_flag, expected):
    """By the base class, by an attribute, or where it is recorded."""
    assert encode_error(error, expected=given_flag).expected is expected


# SPEC S4
@pytest.mark.parametrize(
    "error", [Final("x"), Shy("x"), NonRetryable(object()), ExceptionGroup("g", [ValueError(), Final()])]
)
def test_an_error_that_is_final_stays_final(error):
    """Also where its class is not known: a queued step's owner decides like the worker that ran it."""
    record = encode_error(error)
    for again in (rebuild_error(record), rebuild_error(msgspec.structs.replace(record, module="gone"))):
        assert not is_retryable(again)
        assert decide_retry(RetryPolicy(), 1, again, lambda: 1.0) is None


# SPEC S4
def test_retry_after_is_kept_also_by_a_stand_in():
    """What the error asked for is honoured wherever the next attempt is decided."""
    error = make_local()
    error.retry_after = "90s"
    assert find_retry_after(through(error)) == 90_000_000
    again = ValueError()
    again.retry_after = 2
    assert find_retry_after(through(again)) == 2_000_000


def test_encoding_does_not_change_the_error():
    """It may be raised on: same traceback, args and attributes."""
    error = caught(raise_it, WithResponse("x", object()))
    before = (error.args, dict(vars(error)), error.__traceback__, error.__cause__)
    encode_error(error)
    assert (error.args, dict(vars(error)), error.__traceback__, error.__cause__) == before


@given(
    st.builds(
        lambda cls, args, attributes: (error := cls(*args), vars(error).update(attributes))[0],
        st.sampled_from([ValueError, KeyError, RuntimeError, OutOfStock, Final, OSError, ConnectionError]),
        st.lists(st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.dates(), max_size=3),
        st.dictionaries(st.sampled_from(["reason", "limit", "code"]), st.integers() | st.text()),
    )
)
def test_live_and_replay_raise_the_same(error):
    """What the body catches first is what it catches on every replay."""
    record = encode_error(error)
    live = rebuild_error(record, step="s")
    replayed = rebuild_error(msgspec.json.decode(msgspec.json.encode(record), type=ErrorRecord), step="s")
    assert type(live) is type(replayed)
    assert (str(live), live.args, vars(live)) == (str(replayed), replayed.args, vars(replayed))
    assert encode_error(live).type == encode_error(replayed).type


def test_the_engines_own_marks_are_not_recorded_as_the_exceptions():
    """An error that was made again and is recorded again says what its author gave it, and nothing of ours."""
    try:
        raise ValueError("x")
    except ValueError as error:
        again = rebuild_error(encode_error(error), step="charge")
    record = encode_error(again)
    assert b"__outlast" not in bytes(record.data)
    assert "That was the step" in record.traceback
