"""Values to JSON and back (SPEC D1, D4, S12)."""

import collections
import datetime as dt
import enum
import json
import pathlib
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, TypedDict
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.authoring.codec import MAX_VALUE, Returns, decoder, encode, is_same_json
from outlast.authoring.schema import check_type, describe_type, json_schema
from outlast.authoring.values import MAX_DEPTH
from outlast.errors import InvalidDefinition, NotEncodable, ResultInvalid, ValueTooLarge


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Row(TypedDict, total=False):
    id: str
    when: dt.datetime


@dataclass
class Item:
    sku: str
    price: Decimal
    tags: set[str] = field(default_factory=set)
    parent: "Item | None" = None


@dataclass(frozen=True, slots=True)
class Order:
    id: str
    items: list[Item]
    note: str | None = None


class Payment(msgspec.Struct, frozen=True):
    order: Order
    by: Color
    codes: frozenset[int] = frozenset()


@attrs.define
class Parcel:
    weight: float
    labels: tuple[str, ...] = ()


class Address(pydantic.BaseModel):
    street: str = pydantic.Field(alias="streetName")
    since: dt.date | None = None
    tags: set[str] = set()

    @pydantic.computed_field
    def label(self) -> str:
        return self.street.upper()


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: dt.datetime
    home: Address


class Name(str):
    __slots__ = ()


ITEM = Item("a", Decimal("1.10"), {"x", "y"})
ORDER = Order("A-17", [ITEM, Item("b", Decimal(2), parent=ITEM)])
ROME = ZoneInfo("Europe/Rome")


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


PRINT_ENCODED = """
import attrs, dataclasses, decimal, msgspec, pydantic
from outlast.authoring.codec import encode

class Model(pydantic.BaseModel):
    tags: set[str]
    more: dict[str, list[frozenset[str]]] = {}

@dataclasses.dataclass(frozen=True)
class Part:
    names: frozenset[str]
    any: object = None

@attrs.frozen
class Box:
    names: frozenset[str]

class S(msgspec.Struct):
    inner: object

words = {"one", "two", "three", "four", "five", "six"}
value = {
    "z": words, "a": [frozenset(words), (words,)], "part": Part(frozenset(words), [words]),
    "nested": {frozenset({"a", "b"}), frozenset({"c"}), 1, None, ("x",), Part(frozenset({"q", "r", "s"}))},
    "model": Model(tags=words, more={"k": [frozenset(words)]}), "box": [Box(frozenset(words))],
    "struct": S({"deep": words}), "decimals": {decimal.Decimal("1.0"), decimal.Decimal("2")},
}
print(encode(value).decode())
"""


def test_the_same_value_gives_the_same_bytes_in_every_process():
    """Sets are sorted wherever they are, though their order differs from process to process; dicts keep theirs."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PRINT_ENCODED],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
    decoded = json.loads(outputs.pop())
    assert decoded["z"] == ["five", "four", "one", "six", "three", "two"]
    assert list(decoded)[:2] == ["z", "a"]


def test_a_record_is_written_with_all_that_it_has():
    """Also one that was decoded without some fields: a default that changes later changes no record."""
    decoded = decoder(list[Item | None])(b'[{"sku":"a","price":"1"},null]')
    written = b'{"sku":"a","price":"1","tags":[],"parent":null}'
    assert encode(decoded) == b"[" + written + b",null]"
    assert encode(decoder(Item)(written)) == written
    assert encode({"deep": (Holder(decoded[0]), Payment(Order("x", decoded[:1]), Color.RED))}).count(written) == 2


def test_ordering_sets_leaves_the_value_alone():
    """The sorted copy is for the encoder; what the caller passed keeps its sets."""
    order = Payment(ORDER, Color.RED, frozenset({2, 1}))
    encode({"order": order, "tags": {"b", "a"}})
    assert order.codes == frozenset({1, 2})
    assert ORDER.items[0].tags == {"x", "y"}


# --- what cannot be encoded -------------------------------------------------------------------------------------------


@dataclass
class Holder:
    inner: Any


CYCLE: list[Any] = []
CYCLE.append([CYCLE])


class Hidden(pydantic.BaseModel):
    password: pydantic.SecretStr


class Broken(pydantic.BaseModel):
    value: Any

    @pydantic.field_serializer("value")
    def explode(self, value: Any) -> Any:
        raise RuntimeError("boo")


# SPEC S12
@pytest.mark.parametrize(
    ("value", "path", "kind", "problem"),
    [
        (object(), "result", "object", ""),
        ({"order": Holder([1, {"price": 1j}])}, "result['order'].inner[1]['price']", "complex", ""),
        (Order("a", [Item("b", Decimal(1), {1j})]), "result.items[0].tags{1j}", "complex", ""),
        ([lambda: 0], "result[0]", "function", ""),
        ((x for x in [1]), "result", "generator", ""),
        ([float("nan")], "result[0]", "float", "nan"),
        ({"a": None, "b": Holder(float("-inf"))}, "result['b'].inner", "float", "-inf"),
        (Parcel(float("inf")), "result.weight", "float", "inf"),
        (float("nan"), "result", "float", "nan"),
        ({"big": 2**100, "x": [None, float("nan")]}, "result['x'][1]", "float", "nan"),
        (CYCLE, "result[0][0]", "list", "contains itself"),
        ("\ud800", "result", "str", "surrogate"),
        ({"a": ["\udfff"]}, "result['a'][0]", "str", "surrogate"),
        ({(1, 2): 3}, "result[(1, 2)]", "tuple", "as a key"),
        ({None: 3}, "result[None]", "NoneType", "as a key"),
        ([{"\ud800": 1}], "result[0]['\\ud800']", "str", "surrogate"),
        ([10**5000], "result[0]", "int", "digits"),
        ([Hidden(password="x")], "result[0].password", "SecretStr", ""),
        ({"m": Broken(value=1)}, "result['m']", "Broken", "boo"),
        (ValueError("x"), "result", "ValueError", ""),
        (collections.deque([1]), "result", "deque", ""),
    ],
)
def test_what_json_cannot_carry_is_named_by_path_and_type(value, path, kind, problem):
    """The error says where in the value it is, of what type, and why; nothing is written as something else."""
    with pytest.raises(NotEncodable) as caught:
        Returns("pay").settle(value)
    assert caught.value.path == path
    assert caught.value.type == kind
    assert problem in caught.value.problem
    assert caught.value.what == "the result of pay"
    str(caught.value).encode()


# SPEC D4
def test_deep_nesting_is_refused_before_it_can_fail_a_replay():
    """How deep the stack is when a journal is read must not matter: there is one limit, for every way to nest."""

    def nest(levels, wrap, inner=1):
        for _ in range(levels):
            inner = wrap(inner)
        return inner

    wraps = (lambda v: [v], lambda v: {"k": v}, lambda v: (v, v if False else 2), Holder)
    for wrap in wraps:
        fits = nest(MAX_DEPTH, wrap)
        decoder(Any)(encode(fits))
        for levels in (MAX_DEPTH + 1, 5_000):
            with pytest.raises(NotEncodable, match="nested"):
                encode(nest(levels, wrap))


def test_brackets_within_text_are_not_nesting():
    """Text is text, whatever brackets it has."""
    text = "[" * 1000 + '"\\' + "{" * 500
    assert decoder(Any)(encode([text, {"a": text}])) == [text, {"a": text}]


# SPEC S12
def test_a_value_over_the_limit_is_refused_with_its_size():
    """2 MiB of JSON, by default."""
    fits = "x" * (MAX_VALUE - 2)
    assert len(encode(fits)) == MAX_VALUE
    with pytest.raises(ValueTooLarge) as caught:
        Returns("load").settle(fits + "x")
    assert (caught.value.size, caught.value.limit) == (MAX_VALUE + 1, MAX_VALUE)
    assert caught.value.what == "the result of load"
    with pytest.raises(ValueTooLarge):
        encode([1, 2, 3], limit=6)


# SPEC D4
@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b'"\xed\xa0\x80"', b"[1,]", b"nul", b"[" * 100_000])
def test_what_is_no_json_is_an_error_and_no_crash(data):
    """Bytes that no release wrote are refused, whatever they are."""
    with pytest.raises((msgspec.DecodeError, RecursionError, UnicodeDecodeError)):
        decoder(Any)(data)


# --- types ------------------------------------------------------------------------------------------------------------


@attrs.define
class Private:
    _secret: int


class Fraction(enum.Enum):
    HALF = 0.5


@dataclass
class Wrapped:
    inner: list[dict[str, complex]]


@dataclass
class Dangling:
    other: "Nowhere"  # noqa: F821 - on purpose


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (complex, "complex"),
        (Wrapped, "complex"),
        (list[Wrapped | None], "complex"),
        (collections.deque[int], "deque"),
        (Callable[[int], int], "Callable"),
        (type[int], "type"),
        (ValueError, "ValueError"),
        (Order | Item, "union"),
        (dt.datetime | str, "union"),
        (Address | Strict, "union"),
        (Fraction, "Enum"),
        (Private, "_secret"),
        (Dangling, "Nowhere"),
        ("Order", "Order"),
        (json, "json"),
    ],
)
def test_a_type_that_can_never_be_decoded_is_refused(annotation, problem):
    """Declaring it is the error; running the step first would be too late."""
    with pytest.raises(InvalidDefinition, match=problem):
        check_type(annotation)
    with pytest.raises(InvalidDefinition, match="pay, its result"):
        Returns("pay", annotation)


@dataclass
class Tree:
    children: "list[Tree]"


@pytest.mark.parametrize("annotation", [Any, object, None, NoReturn, Tree, dict[str, object], list, set, Payment])
def test_what_can_be_decoded_is_accepted(annotation):
    """Recursive types, bare containers and Any are all right."""
    check_type(annotation)
    assert decoder(annotation) is decoder(annotation)


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (Order, {"id": 1, "items": []}, "result.id: expected str, got int"),
        (list[int], [1, "x"], "result[1]: expected int, got str"),
        (int, None, "result: expected int, got null"),
        (None, 3, "result: expected null, got int"),
        (Order, {"id": "a"}, "result.items: expected a value, it is missing"),
        (Color, "green", "green"),
        (int, True, "result: expected int, got bool"),
        (Strict, {"at": "2020-01-01T00:00:00Z", "home": {"streetName": 3}}, "result.home.streetName"),
    ],
)
def test_a_result_that_is_not_as_annotated_is_told(annotation, value, problem):
    """The error names the function, what it promises and what came, and where they part."""
    with pytest.raises(ResultInvalid) as caught:
        Returns("pay", annotation).settle(value)
    assert problem in str(caught.value)
    assert "pay" in str(caught.value)
    assert caught.value.expected == describe_type(annotation)
    assert repr(value) in caught.value.got
    with pytest.raises(ResultInvalid):
        Returns("pay", annotation).decode(encode(value))


def test_a_default_of_a_newer_release_fills_what_an_old_record_lacks():
    """Fields with defaults can be added, and fields removed, while runs are under way."""
    assert decoder(Order)(b'{"id":"a","items":[],"gone":1}') == Order("a", [])


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Order, "Order"),
        (list[Order], "list[Order]"),
        (Order | None, "Order | None"),
        (None, "None"),
        (dict[str, Color], "dict[str, Color]"),
        (Any, "a value"),
    ],
)
def test_types_are_shown_as_authors_write_them(annotation, text):
    """Without modules, which only make it hard to read."""
    assert describe_type(annotation) == text


def test_types_have_a_json_schema():
    """Forms and OpenAPI are made from it; models and paths are in it as well."""
    schema = json_schema(Annotated[Order, None])
    assert schema["$defs"]["Order"]["required"] == ["id", "items"]
    assert json_schema(list[Address])["items"]["properties"]["streetName"] == {"title": "Streetname", "type": "string"}
    assert json_schema(pathlib.Path) == {"type": "string"}


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
