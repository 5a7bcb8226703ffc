"""A stored plan does what its source did."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outlast.core.events import encode_events
from outlast.core.program.language import decode_program
from tests.versions.programs import HEAD, TWINS, UNSTORED, UNSTORED_HEAD, body_of, make_source
from tests.versions.twins import declared, play_both

SEEDS = range(0, 120, 20)


def told(journal: list[Any]) -> list[str]:
    """Events without their tracebacks: the lines of code are others."""
    return [json.dumps(without_tracebacks(event)) for event in json.loads(encode_events(journal))]


def without_tracebacks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_tracebacks(part) for name, part in value.items() if name != "traceback"}
    return [without_tracebacks(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("source", TWINS.values(), ids=TWINS)
async def test_a_stored_plan_asks_for_what_its_source_asked_for(source: str) -> None:
    """Steps, arguments, timers, state, in the same order, however steps end; the same output or error."""  # SPEC V3
    with declared(HEAD + source, f"twin_{abs(hash(source))}") as (app, body):
        for seed in range(3):
            live, stored = await play_both(app, body, seed, 3, ["a", "b", "c"])
            assert told(live) == told(stored)
            assert type(live[-1]).__name__ in {"RunCompleted", "RunFailed"}


# SPEC V3
@pytest.mark.parametrize("why", UNSTORED)
def test_what_cannot_be_stored_is_named(why: str) -> None:
    """A body that only its source can run is none the worse for it; its plan says which part that is."""
    source = HEAD + UNSTORED_HEAD + body_of(*UNSTORED[why].splitlines())
    with declared(source, f"unstored_{abs(hash(source))}") as (_app, body):
        assert body.plan is not None
        assert body.plan.unclosed.endswith(why)


# SPEC V3
def test_a_stored_plan_that_is_not_understood_is_none() -> None:
    """One of a later release, or what is none at all."""
    assert decode_program(b'{"format": 10000}') is None
    assert decode_program(b"no JSON") is None


@pytest.mark.parametrize("first", SEEDS)
async def test_random_bodies_and_their_plans_are_twins(first: int) -> None:
    """Bodies that nobody thought of, with loops, branches, groups, errors and functions in each other."""
    for seed in range(first, first + 20):
        source = make_source(seed)
        with declared(source, f"random_{seed}") as (app, body):
            live, stored = await play_both(app, body, seed, 3, ["a", "b", "c"])
            assert told(live) == told(stored), source
