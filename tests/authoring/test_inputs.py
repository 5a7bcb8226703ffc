"""Input from outside: checked before anything is stored (SPEC R2, R3, D4)."""

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from outlast.authoring.inputs import decode_input, encode_input
from outlast.authoring.signature import Arguments
from outlast.errors import InvalidInput, NotEncodable, ValueTooLarge


@dataclass
class Item:
    sku: str
    price: Decimal = Decimal(1)


@dataclass
class Order:
    id: str
    items: list[Item]
    tags: set[str] = field(default_factory=set)


class Model(pydantic.BaseModel):
    amount: int
    inner: list[dict[str, int]] = []


def pack(item: str) -> str: ...
def nothing() -> None: ...
def every(a: int, /, b: str, *rest: float, flag: bool = False, **more: Decimal) -> None: ...
async def count(limit: int, step: int = 1) -> int: ...
async def ship(order: Order) -> str: ...
async def nest(order: dict[str, int]) -> str: ...
async def model(given: Model) -> str: ...
async def optional(order: Order | None = None) -> str: ...


WHOLE = {"a": 1, "b": "x", "rest": [1.5], "flag": False, "more": {"k": "1"}}


# SPEC R2
@pytest.mark.parametrize(
    ("function", "args", "kwargs", "field_", "expected"),
    [
        (count, (), {}, "limit", "int"),
        (count, ("x",), {}, "limit", "int"),
        (count, (1,), {"step": None}, "step", "int"),
        (count, (1,), {"stepp": 2}, "stepp", "limit, step"),
        (count, (1,), {"limit": 2}, "limit", "one value"),
        (count, (1, 2, 3), {}, "input", "(limit: int, step: int = 1)"),
        (ship, ({"id": "a", "items": [{"sku": 3}]},), {}, "order.items[0].sku", "str"),
        (ship, ({"items": []},), {}, "order.id", "a value"),
        (ship, (None,), {}, "order", "object"),
        (ship, ([],), {}, "order", "object"),
        (model, ({"amount": "many"},), {}, "given.amount", "a valid value"),
        (model, ({"amount": 1, "inner": [{"x": "y"}]},), {}, "given.inner[0].x", "a valid value"),
        (model, (3,), {}, "given", "a valid value"),
    ],
)
def test_wrong_input_names_the_field_and_what_was_expected(function, args, kwargs, field_, expected):
    """Before anything is stored."""
    with pytest.raises(InvalidInput) as caught:
        encode_input(Arguments(function), args, kwargs)
    assert caught.value.field == field_
    assert expected in caught.value.expected
    assert all(text in str(caught.value) for text in (function.__name__, field_, caught.value.expected))


# SPEC R3
def test_input_is_written_in_one_way_however_it_was_given():
    """So that a start with the same id can be told to have the same input."""
    ways = [
        encode_input(Arguments(ship), (Order("a", [Item("x")]),), {}),
        encode_input(Arguments(ship), (), {"order": {"id": "a", "items": [{"sku": "x"}]}}),
        encode_input(Arguments(ship), ({"tags": [], "items": [Item("x")], "id": "a"},), {}),
        decode_input(Arguments(ship), b' {"id" : "a", "items": [{"sku": "x", "price": 1}]} '),
        decode_input(Arguments(ship), '{"order": {"items": [{"price": "1", "sku": "x"}], "id": "a"}}'),
    ]
    assert set(ways) == {b'{"order":{"id":"a","items":[{"sku":"x","price":"1"}],"tags":[]}}'}


@pytest.mark.parametrize(
    ("function", "data", "stored"),
    [
        (count, '{"limit": 3}', {"limit": 3, "step": 1}),
        (count, '{"step": 2, "limit": 3}', {"limit": 3, "step": 2}),
        (pack, '"x"', {"item": "x"}),
        (pack, '{"item": "x"}', {"item": "x"}),
        (optional, "{}", {"order": None}),
        (optional, "null", {"order": None}),
        (optional, '{"order": null}', {"order": None}),
        (nest, '{"order": 1}', {"order": {"order": 1}}),
        (nest, '{"order": {"order": 1}}', {"order": {"order": 1}}),
        (nest, '{"order": 1, "other": 2}', {"order": {"order": 1, "other": 2}}),
        (nest, "{}", {"order": {}}),
        (every, '{"a": 1, "b": "x", "rest": [1.5], "more": {"k": 1}}', WHOLE),
        (nothing, "{}", {}),
    ],
)
def test_input_as_json_is_an_object_by_name_or_the_only_value(function, data, stored):
    """A command line may leave the name of the only parameter out."""
    assert json.loads(decode_input(Arguments(function), data)) == stored


# SPEC R2, D4
@pytest.mark.parametrize(
    ("function", "data", "field_", "problem"),
    [
        (count, "{", "input", "truncated"),
        (count, "", "input", "truncated"),
        (count, "3", "input", "no object"),
        (count, "{}", "limit", "missing"),
        (count, '{"limit": "x"}', "limit", "got str"),
        (count, '{"limit": 1, "limitt": 2}', "limitt", "no such parameter"),
        (pack, '{"item": 3}', "item", "got int"),
        (pack, '{"itm": "x"}', "item", "got object"),
        (nothing, "3", "input", "no object"),
        (nothing, '{"a": 1}', "a", "no such parameter"),
        (ship, '{"order": {"id": 3}}', "order.id", "got int"),
        (ship, '{"id": "a"}', "order.items", "missing"),
        (pack, b'"\xff"', "input", "UTF-8"),
        (pack, '"\ud800"', "input", "UTF-8"),
        (nest, "[" * 100_000, "order", "array"),
        (nest, '{"a":' * 5_000, "input", ""),
        (count, '{"limit": ' + "9" * 5_000 + "}", "limit", ""),
    ],
)
def test_wrong_json_input_names_the_field_and_the_problem(function, data, field_, problem):
    """Whatever a request holds, the answer is InvalidInput."""
    with pytest.raises(InvalidInput) as caught:
        decode_input(Arguments(function), data)
    assert caught.value.field == field_
    assert problem in caught.value.problem
    str(caught.value).encode()


# SPEC D4
def test_input_that_is_too_deep_or_too_large_is_refused():
    """By the same limits as any value."""

    async def anything(value: Any) -> None: ...

    with pytest.raises(NotEncodable, match="nested"):
        decode_input(Arguments(anything), "[" * 300 + "]" * 300)
    with pytest.raises(ValueTooLarge, match="the input of"):
        decode_input(Arguments(anything), json.dumps("x" * 3_000_000))
