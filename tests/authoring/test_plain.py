"""Steps called outside a run: plain calls of their functions."""

from __future__ import annotations

import asyncio
import inspect
import logging
import typing
from typing import Any

import pytest

from outlast.authoring.context import Context
from outlast.authoring.current import current_step
from tests.authoring.bodies import CardDeclined, Order, app, charge, decline, pack
from tests.authoring.player import Player


async def test_a_step_called_outside_a_run_is_the_function() -> None:
    """Steps can be unit-tested: without a run, calling one runs it, and nothing else."""
    assert await charge(Order("a"), note="!") == "receipt a!"
    assert await pack("x") == "x in True"  # in a thread, as a worker would
    with pytest.raises(CardDeclined, match="no 3"):
        await decline(3)


def test_a_step_is_a_coroutine_function_to_whoever_asks() -> None:
    """Frameworks that ask whether they have to await are told yes, for `def` and `async def` alike."""
    for step in (charge, pack, charge.options(retries=1)):
        assert asyncio.iscoroutinefunction(step)
        assert inspect.iscoroutinefunction(step)
    assert not inspect.iscoroutinefunction(pack.fn)


async def test_a_call_is_a_real_coroutine() -> None:
    """A call can be given to `create_task`, `gather` and `wait_for`, and does nothing until then."""
    call = charge(Order("a"))
    assert asyncio.iscoroutine(call)
    assert await asyncio.create_task(call) == "receipt a"
    assert await asyncio.gather(pack("x"), charge(Order("b"))) == ["x in True", "receipt b"]


def test_a_call_nobody_awaits_is_reported_by_name() -> None:
    """Python warns that the coroutine was never awaited, and calls it what its author did."""
    call = charge(Order("a"))
    with pytest.warns(RuntimeWarning, match=r"coroutine 'charge' was never awaited"):
        del call


def test_a_step_looks_like_its_function() -> None:
    """Name, docstring, signature and hints are the function's; `fn` is the function."""
    assert (charge.__name__, charge.__doc__, charge.__module__) == ("charge", "Take the money.", Order.__module__)
    assert list(inspect.signature(charge).parameters) == ["order", "note"]
    assert typing.get_type_hints(charge) == {"order": Order, "note": str, "return": str}
    assert inspect.unwrap(charge) is charge.fn
    assert "charge" in repr(charge)


async def test_a_step_within_a_step_runs_plainly_and_is_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    """Inside a step's function another step is a plain call, and the log says so once for the pair."""

    @app.step(name="outer")
    async def outer() -> list[Any]:
        return [await charge(Order("a")), await charge(Order("b")), current_step().key]

    @app.workflow(name="nesting")
    async def nesting(ctx: Context) -> list[Any]:
        return await outer()

    with caplog.at_level(logging.WARNING, "outlast"):
        player = Player(nesting)
        assert await player.output() == ["receipt a", "receipt b", "outer"]
    assert player.keys == ["outer"]
    assert [record.getMessage() for record in caplog.records if "plain" in record.getMessage()] == [
        "step charge was called within step outer: it runs as a plain function there, without record or retries"
    ]


async def test_a_step_in_the_clean_up_of_a_dropped_coroutine_does_not_run() -> None:
    """While a GeneratorExit is being handled a step has no effect: a body that the collector found must do nothing."""
    effects: list[str] = []

    @app.step(name="refund")
    async def refund() -> None:
        effects.append("refund")

    async def dropped() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            try:
                raise ValueError  # somewhere up the chain is enough
            except ValueError:
                await refund()

    body = dropped()
    body.send(None)
    body.close()
    assert effects == []
    await refund()
    assert effects == ["refund"]
