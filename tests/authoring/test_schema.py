"""Types: which can be decoded, and how people are told (SPEC D1)."""

# pyright: reportUndefinedVariable=false
# (a name that is not defined is one of the cases)

import collections
import datetime as dt
import enum
import json
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import attrs
import pytest

from outlast.authoring.codec import Returns, decoder, encode
from outlast.authoring.schema import check_type, describe_type, json_schema
from outlast.errors import InvalidDefinition, ResultInvalid
from tests.authoring.samples import Address, Color, Item, Order, Payment, Strict


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
