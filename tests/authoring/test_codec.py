"""Values to JSON and back (SPEC D1)."""

import datetime as dt
import json
import pathlib
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.authoring.codec import Returns, decoder, encode, is_same_json
from tests.authoring.samples import (
    ORDER,
    ROME,
    Address,
    Color,
    Item,
    Level,
    Name,
    Order,
    Parcel,
    Payment,
    Point,
    Row,
    Strict,
)


# SPEC D1
@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (ORDER, Order),
        (Payment(ORDER, Color.RED, frozenset({3, 1})), Payment),
        (Parcel(1.5, ("a", "b")), Parcel),
        (Address(streetName="Via Roma", since=dt.date(2020, 2, 3), tags={"a"}), Address),
        (Strict(at=dt.datetime(2020, 1, 1, tzinfo=dt.UTC), home=Address(streetName="x")), Strict),
        ({"id": "x", "when": dt.datetime(2020, 1, 1, tzinfo=ROME)}, Row),
        (Color.BLUE, Color),
        (Level.HIGH, Level),
        (dt.datetime(2026, 3, 29, 4, 30, tzinfo=ROME), dt.datetime),
        (dt.datetime(2026, 3, 29, 4, 30), dt.datetime),  # noqa: DTZ001 - a naive one stays naive
        (dt.date(2020, 1, 1), dt.date),
        (dt.time(1, 2, 3, 4), dt.time),
        (dt.timedelta(days=-3, microseconds=1), dt.timedelta),
        (Decimal("0.1000"), Decimal),
        (uuid.UUID(int=7), uuid.UUID),
        (b"\x00\xff", bytes),
        ({3, 1, 2}, set[int]),
        (frozenset({"a"}), frozenset[str]),
        ((1, "a", None), tuple[int, str, None]),
        ((1, 2, 3), tuple[int, ...]),
        (Point(1, 2), Point),
        ({1: "a"}, dict[int, str]),
        ({Color.RED: [1]}, dict[Color, list[int]]),
        ({dt.date(2020, 1, 1): 1}, Mapping[dt.date, int]),
        ([1, 2], Sequence[int]),
        ([Color.RED], Iterable[Color]),
        (None, Order | None),
        (ORDER, Order | None),
        ("a", int | str | None),
        (["x"], list[str] | dict[str, int]),
        ("a", Literal["a", "b"]),
        (3, Annotated[int, msgspec.Meta(ge=3)]),
        (2**200, int),
        (True, bool),
        (1.5, float),
        (pathlib.PurePosixPath("/a/b"), pathlib.PurePosixPath),
        (Name("n"), Name),
        ({"a": [1, None, {"b": 1.5}]}, Any),
        ({"a": Name("x"), "b": 1}, dict[str, object]),
        ([[Address(streetName="x")]], list[list[Address]]),
    ],
)
def test_a_value_comes_back_as_its_annotation_says(value, annotation):
    """What went in comes out, equal and of the same type."""
    back = decoder(annotation)(encode(value))
    assert back == value
    assert type(back) is type(value) or annotation is Any


def test_zones_keep_their_offset():
    """A datetime keeps its instant and its distance from UTC; the zone's name is not stored."""
    winter = dt.datetime(2026, 1, 1, tzinfo=ROME)
    back = decoder(dt.datetime)(encode(winter))
    assert back == winter
    assert back.utcoffset() == dt.timedelta(hours=1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
ITEMS = st.builds(
    Item,
    st.text(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.sets(st.text(max_size=3), max_size=4),
    st.none() | st.builds(Item, st.text(), st.decimals(allow_nan=False, allow_infinity=False)),
)
PAYMENTS = st.builds(
    Payment,
    st.builds(Order, st.text(), st.lists(ITEMS, max_size=3), st.none() | st.text()),
    st.sampled_from(Color),
    st.frozensets(st.integers()),
)


@given(JSON)
def test_plain_json_comes_back_as_it_is(value):
    """JSON's own types need no annotation."""
    assert decoder(Any)(encode(value)) == value
    assert json.loads(encode(value)) == value


@given(PAYMENTS)
def test_a_live_value_is_the_replayed_one(payment):
    """What the body sees first is what every replay decodes, to the byte."""
    data, live = Returns("pay", Payment).settle(payment)
    assert live == payment
    assert Returns("pay", Payment).decode(data) == live
    assert encode(live) == data


@given(JSON)
def test_an_unannotated_result_is_the_same_live_and_on_replay(value):
    """Without an annotation, too, live and replay agree; and nobody shares a list with the step that made it."""
    data, live = Returns("f").settle(value)
    assert live == value
    assert Returns("f").decode(data) == live
    assert live is not value or not isinstance(value, list | dict)


def test_without_an_annotation_a_value_loses_its_class():
    """Plain JSON comes back: lists for tuples and sets, text for dates, dicts for records."""
    value = {"point": Point(1), "when": dt.date(2020, 1, 1), "item": Item("a", Decimal(1)), "set": {1}, 3: b"x"}
    item = {"sku": "a", "price": "1", "tags": [], "parent": None}
    expected = {"point": [1, 0], "when": "2020-01-01", "item": item, "set": [1], "3": "eA=="}
    assert Returns("f").settle(value)[1] == expected


# --- comparing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"a":1,"b":[2]}', b'{"b":[2],"a":1}', True),
        (b"[1,2]", b"[2,1]", False),
        (b"1", b"1.0", False),
        (b"1", b"true", False),
        (b"[1, 2]", b"[1,2]", True),
        (b'"\\u00e9"', '"é"'.encode(), True),
    ],
)
def test_json_is_compared_by_what_it_says(one, other, same):
    """The order of keys says nothing; types do."""
    assert is_same_json(one, other) is same


def test_pydantic_is_never_imported_for_its_own_sake():
    """A process without models does not pay for them."""
    code = (
        "import sys; from outlast.authoring.codec import *; encode({'a': [1, {2}]}); decoder(list[int]);"
        "print('pydantic' in sys.modules, 'attrs' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "False"]
