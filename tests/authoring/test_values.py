"""What is written in one way, and what cannot be written at all (SPEC S12, D4)."""

# pyright: reportArgumentType=false
# (wrong values are the cases)

import collections
import json
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest

from outlast.authoring.codec import MAX_VALUE, Returns, decoder, encode
from outlast.authoring.values import MAX_DEPTH, is_too_deep
from outlast.errors import NotEncodable, ValueTooLarge
from tests.authoring.samples import ORDER, Color, Item, Order, Parcel, Payment

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


@pytest.mark.parametrize(
    ("data", "is_deep"),
    [
        (b"[" * 201 + b"]" * 201, True),
        (b"[" * 200 + b"]" * 200, False),
        (b'{"a":' * 201 + b"1" + b"}" * 201, True),
        (b'["' + b"[" * 1000 + b'"]', False),
        (b'["\\"' + b"[" * 1000 + b'"]', False),
        (b'["\\\\",' + b"[" * 201, True),
        (b"[" + b'"]",[' * 201, True),
        (b"[" + b'"[",[],' * 1000 + b"1]", False),
        (b'["' + b'\\"' * 1000, False),
        (b"[" * 1_000_000, True),
    ],
)
def test_depth_is_that_of_the_value(data, is_deep):
    """Brackets within texts do not count, escaped quotes end no text, and it takes one look at the bytes."""
    assert is_too_deep(data) is is_deep
