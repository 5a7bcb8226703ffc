"""Workflows: what may be declared as one, its input and output, and its version."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.core.events import RunFailed
from outlast.errors import (
    InvalidInput,
    NotEncodable,
    NotInBody,
    ResultInvalid,
)
from tests.authoring.player import Player

app = Module("")


@dataclass
class Order:
    id: str
    amount: int = 1


@app.workflow
async def fulfil(ctx: Context, order: Order, note: str = "", *, loud: bool = False) -> list[str]:
    """Ship it."""
    return [order.id, note, str(loud)]


# --- input and output -------------------------------------------------------------------------------------------------


def test_input_is_stored_by_name_with_defaults() -> None:
    """However it was passed, the same input is the same bytes; the context is no part of it."""
    expected = b'{"order":{"id":"a","amount":1},"note":"","loud":false}'
    assert fulfil.encode_input((Order("a"),), {}) == expected
    assert fulfil.encode_input((), {"order": Order("a"), "loud": False}) == expected
    assert fulfil.decode_input_json(b' {"order": {"id": "a"}} ') == expected


@pytest.mark.parametrize(
    ("args", "kwargs", "field", "expected"),
    [
        ((), {}, "order", "Order"),
        ((Order("a", "many"),), {}, "order.amount", "int"),  # type: ignore[arg-type]
        ((3,), {}, "order", "object"),
        ((Order("a"), 3), {}, "note", "str"),
        ((Order("a"),), {"colour": "red"}, "colour", "order, note, loud"),
        ((Order("a"), "x", True, 4), {}, "input", "order"),
        ((Order("a"),), {"order": Order("b")}, "order", "one value"),
    ],
)
def test_input_that_does_not_fit_is_refused_naming_the_field(args: Any, kwargs: Any, field: str, expected: str) -> None:
    """Wrong input raises InvalidInput, which names the field and what was expected, before anything is stored."""
    # SPEC R2
    with pytest.raises(InvalidInput) as caught:
        fulfil.encode_input(args, kwargs)
    assert caught.value.field == field
    assert expected in caught.value.expected
    assert caught.value.function == "fulfil"


def test_input_that_cannot_be_stored_names_its_path() -> None:
    """An object JSON cannot carry is told by its place in the input."""

    @app.workflow(name="anything")
    async def anything(ctx: Context, value: Any) -> None: ...

    with pytest.raises(NotEncodable, match=r"value\[0\]"):
        anything.encode_input(([object()],), {})


async def test_a_run_gets_input_and_gives_output_as_annotated() -> None:
    """The body gets its parameters decoded; its output is decoded likewise for whoever asks."""
    player = Player(fulfil, Order("a"), "n")
    assert await player.output() == ["a", "n", "False"]

    @app.workflow(name="returns orders")
    async def returns_orders(ctx: Context) -> list[Order]:
        return [Order("b")]

    assert await Player(returns_orders).output() == [Order("b")]
    with pytest.raises(ResultInvalid):
        returns_orders.decode_output(msgspec.Raw(b'[{"id":3}]'))


@pytest.mark.parametrize("output", [0, False, "", None, []])
async def test_falsy_outputs_arrive_as_they_are(output: Any) -> None:
    """Nothing is taken for the absence of something."""  # SPEC R6

    @Module("").workflow(name="falsy")
    async def falsy(ctx: Context) -> Any:
        return output

    assert await Player(falsy).output() == output


async def test_an_output_that_is_not_as_annotated_fails_the_run() -> None:
    """The run fails with ResultInvalid: what its caller was promised, it has not got."""

    @app.workflow(name="liar")
    async def liar(ctx: Context) -> int:
        return "three"  # type: ignore[return-value]

    last = await Player(liar).play()
    assert isinstance(last, RunFailed)
    assert last.error.type == "ResultInvalid"


# --- calling it -------------------------------------------------------------------------------------------------------


def test_a_workflow_called_outside_a_body_says_how_to_start_it() -> None:
    """It raises at the call, not at an await that may never come, and names `app.start` and `run_sync`."""
    with pytest.raises(NotInBody, match=r"fulfil\(\).*app\.start or app\.run_sync"):
        _ = fulfil(Order("a"))


def test_a_workflow_looks_like_its_function() -> None:
    """Name, docstring and signature are the function's, and it is a coroutine function."""
    assert (fulfil.__name__, fulfil.__doc__, fulfil.name) == ("fulfil", "Ship it.", "fulfil")
    assert list(inspect.signature(fulfil).parameters) == ["ctx", "order", "note", "loud"]
    assert inspect.iscoroutinefunction(fulfil)
    assert asyncio.iscoroutinefunction(fulfil)
    assert fulfil.fn is inspect.unwrap(fulfil)
