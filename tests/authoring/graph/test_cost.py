"""What an item of a fan-out costs does not depend on how many there are (SPEC G2, invariant 12)."""

from __future__ import annotations

import sys
from typing import Any

from msgspec import Raw

from outlast.core.events import StepSucceeded
from tests.authoring.graph.kitchen import Kitchen


def calls_of(items: int, nodes: dict[str, dict[str, Any]]) -> int:
    """How many calls of functions, Python's and C's, a run takes whose steps succeed one after the other."""
    player = Kitchen().play(nodes, list(range(items)), output="$nodes.last")
    player.begin()
    machine, count = player.machine, 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        while machine.outcome is None:
            key = next(iter(machine.pending))
            machine.feed(StepSucceeded(machine.loop.now_us + 1, key, 1, Raw(b"7")))
    finally:
        sys.setprofile(None)
    assert machine.outcome is not None
    player.close()
    return count


def growth(nodes: dict[str, dict[str, Any]]) -> float:
    """Of the calls for one item more: from the third hundred of items to the second thousand."""
    calls_of(10, nodes)
    few = (calls_of(300, nodes) - calls_of(200, nodes)) / 100
    many = (calls_of(2_000, nodes) - calls_of(1_000, nodes)) / 1_000
    return many / few


def test_an_item_of_a_fan_out_costs_the_same_among_many() -> None:
    """Ten times as many items take ten times as many calls of functions, and not one more for each."""
    fan = {"for_each": "$input", "input": {"value": ["$item", "$index"]}, "next": "last"}
    assert growth({"fan": fan, "last": {"input": "$nodes.fan[0]"}}) < 1.01


def test_a_fan_out_that_goes_on_after_failures_costs_the_same() -> None:
    """So does one whose failures are collected."""
    fan = {"for_each": "$input", "input": "$item", "next": "last", "after_error": "continue", "mode": "sequential"}
    assert growth({"fan": fan, "last": {"input": "$nodes.fan[0]"}}) < 1.01
