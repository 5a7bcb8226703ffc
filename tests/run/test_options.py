"""What is asked for from outside is checked before anything is stored (SPEC R2, R4, R9, D4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import InvalidDuration, InvalidName, InvalidSetting, ValueTooLarge
from outlast.run.options import (
    check_attributes,
    check_ended,
    check_query,
    check_start,
    check_statuses,
    check_worker,
    cursor_of,
)
from tests.run.rows import row

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def query(**given):
    names = "workflow status waiting_on user parent worker created_from created_until attributes after"
    options = dict.fromkeys(names.split())
    return check_query(**{**options, "limit": 50, **given})


# SPEC R4
def test_what_is_asked_for_arrives():
    """Each option of a start, with durations and instants as whole microseconds."""
    start = check_start(
        id="A-17",
        on_conflict="restart",
        delay="1.5s",
        at=None,
        priority=0,
        queue="gpu",
        user="ada",
        attributes={"region": "eu", "n": 3, "x": 0.5, "ok": True, "no": None},
        trace=TRACE,
    )
    assert (start.id, start.on_conflict, start.delay_us, start.at_us) == ("A-17", "restart", 1_500_000, None)
    assert (start.priority, start.queue, start.user, start.trace) == (0, "gpu", "ada", TRACE)
    assert msgspec.json.decode(start.attributes) == {"region": "eu", "n": 3, "x": 0.5, "ok": True, "no": None}


# SPEC R4
@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30))])
def test_a_time_with_a_zone_is_an_instant(zone):
    """The same moment is the same, whatever zone it is written in; microseconds are kept."""
    moment = datetime(2026, 7, 1, 12, 0, 0, 123457, tzinfo=UTC)
    assert check_start(at=moment.astimezone(zone)).at_us == 1_782_907_200_123_457


# SPEC R2
@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("at", datetime(2026, 7, 1), "naive"),  # noqa: DTZ001 - that it has none is the point
        ("at", "2026-07-01", "a datetime with a time zone"),
        ("on_conflict", "ignore", "one of return, raise, restart"),
        ("priority", 10, "a whole number from 0 to 9"),
        ("priority", -1, "a whole number from 0 to 9"),
        ("priority", True, "a whole number from 0 to 9"),
        ("priority", "5", "a whole number from 0 to 9"),
        ("trace", "abc", "traceparent"),
        ("trace", TRACE.replace("00-", "ff-", 1), "traceparent"),
        ("trace", f"00-{'0' * 32}-{'a' * 16}-01", "traceparent"),
        ("trace", TRACE.upper(), "traceparent"),
        ("trace", 7, "traceparent"),
        ("attributes", ["eu"], "a mapping"),
        ("attributes", {"where": {"region": "eu"}}, "text, a finite number"),
        ("attributes", {"n": float("nan")}, "text, a finite number"),
        ("attributes", {"n": float("inf")}, "text, a finite number"),
        ("attributes", {"n": 2**63}, "a whole number from"),
        ("attributes", {"t": "a\0b"}, "without NUL"),
        ("attributes", {"t": "\ud800"}, "valid Unicode"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(option, value, says):
    """It is named, with its value and what was expected."""
    with pytest.raises(InvalidSetting) as caught:
        check_start(**{option: value})
    assert option in caught.value.setting
    assert says in str(caught.value)


# SPEC D4
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("id", ""),
        ("id", "x" * 513),
        ("id", "a\0b"),
        ("id", 17),
        ("user", ""),
        ("user", "\ud800"),
        ("queue", ""),
        ("queue", None),
        ("attributes", {"": 1}),
        ("attributes", {7: 1}),
        ("attributes", {"k" * 513: 1}),
    ],
)
def test_a_name_that_cannot_be_stored_is_refused(option, value):
    """Empty, over 512 bytes, no text, or text that no store holds."""
    with pytest.raises(InvalidName):
        check_start(**{option: value})


# SPEC D4
@pytest.mark.parametrize("id", ["O'Neill; drop table runs", "a/b/../c", "été #1", "🚚", " ", "x" * 512])
def test_odd_names_are_names(id):
    """Quotes, slashes, spaces, emoji: stored as they are."""
    assert check_start(id=id).id == id


# SPEC S3
def test_a_delay_that_is_none_is_refused():
    """Naming it, and the option it was given as."""
    with pytest.raises(InvalidDuration) as caught:
        check_start(delay="soon")
    assert "'soon'" in str(caught.value)
    assert caught.value.__notes__ == ["Given as delay=."]


def test_a_run_begins_at_one_time():
    """Either after a delay or at a time, not both."""
    with pytest.raises(InvalidSetting, match="not both"):
        check_start(delay=1, at=datetime.now(UTC))


def test_attributes_stay_small():
    """They are copied to every child and shown in every list: at most 16 KiB."""
    with pytest.raises(ValueTooLarge, match="16384"):
        check_attributes({"text": "x" * 16_384})


def test_a_list_by_attributes_wants_a_mapping():
    """As a start does."""
    with pytest.raises(InvalidSetting, match="a mapping of names"):
        query(attributes=["eu"])


# SPEC R9
def test_a_list_asks_for_one_more_than_a_page():
    """So it knows whether there is a next one; filters arrive as the store wants them."""
    found = query(
        status=["failed", "suspended"],
        limit=20,
        attributes={"region": "eu"},
        created_from=datetime(2026, 7, 1, tzinfo=UTC),
    )
    assert (found.limit, found.statuses) == (21, ("failed", "suspended"))
    assert (found.attributes, found.created_from) == ((("region", b'"eu"'),), 1_782_864_000_000_000)


# SPEC R9
@given(created_at=st.integers(0, 10**17), uid=st.uuids().map(str))
def test_a_cursor_is_read_as_it_was_written(created_at, uid):
    """The place a page ended at is where the next one begins."""
    assert query(after=cursor_of(row(created_at=created_at, uid=uid))).after == (created_at, uid)


# SPEC R9
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("after", "xyz"),
        ("after", "12:"),
        ("after", "9" * 40 + ":u"),
        ("limit", 0),
        ("limit", 1001),
        ("status", "done"),
        ("status", []),
        ("created_until", datetime(2026, 7, 1)),  # noqa: DTZ001 - that it has no zone is the point
        ("attributes", {"where": []}),
    ],
)
def test_a_filter_that_cannot_be_one_is_refused(option, value):
    """A misspelt status finds nothing for ever; it is an error instead."""
    with pytest.raises(InvalidSetting):
        query(**{option: value})


# SPEC R9
def test_only_what_has_ended_is_pruned():
    """All five terminal statuses by default; a run that goes on is not on offer."""
    assert set(check_ended(None)) == {"completed", "failed", "cancelled", "compensated", "compensation_failed"}
    assert check_ended("failed") == ("failed",)
    with pytest.raises(InvalidSetting, match="only ended runs"):
        check_ended(["failed", "running"])
    assert check_statuses(None) == ()


WORKER = {"concurrency": 1, "queues": ("default",), "max_hot": 0, "lease": "10s", "grace": 0, "threads": 1}


@pytest.mark.parametrize(
    ("option", "value"),
    [("concurrency", 0), ("queues", "gpu"), ("queues", ()), ("max_hot", -1), ("lease", 0), ("threads", 0)],
)
def test_a_worker_that_could_not_work_is_refused(option, value):
    """No places, no queues, no lease: said at once, not found out later."""
    assert check_worker(**WORKER).queues == ("default",)
    with pytest.raises(InvalidSetting):
        check_worker(**{**WORKER, option: value})


# SPEC L2
def test_a_short_lease_is_warned_about_and_kept(caplog):
    """Below three seconds there is a warning, and no other lease than was asked for."""
    assert check_worker(**{**WORKER, "lease": "3s"}).lease_us == 3_000_000
    assert caplog.records == []
    assert check_worker(**{**WORKER, "lease": "2.9s"}).lease_us == 2_900_000
    assert [record.levelname for record in caplog.records] == ["WARNING"]
