"""What a graph does when a node fails (SPEC G4, S9)."""

from __future__ import annotations

import pytest

from outlast.core.events import RunFailed, StepCancelled
from tests.authoring.graph.kitchen import Kitchen


@pytest.fixture
def kitchen() -> Kitchen:
    return Kitchen()


FRAGILE = {"function": "fragile", "input": {"value": "$input"}, "next": "after"}


async def test_a_failure_fails_the_run(kitchen: Kitchen) -> None:
    """Without more said, the run fails with the node's own error, and what runs beside it is cancelled."""  # SPEC G4
    kitchen.failures["x"] = -1
    nodes = {"a": FRAGILE, "after": {}, "beside": {}}
    player = kitchen.play(nodes, "x")
    failed = await player.play()
    assert isinstance(failed, RunFailed)
    assert (failed.error.type, failed.error.message) == ("ValueError", "x broke")
    assert failed.steps == ("a",)
    assert StepCancelled("beside") in player.journal
    assert "after" not in player.keys


async def test_a_handler_is_told_once_and_then_the_run_fails(kitchen: Kitchen) -> None:
    """After the attempts are used up; it gets node, key, input, error and invocation id."""  # SPEC G4, S9
    kitchen.failures["x"] = -1
    error = {"value": "$error"}
    nodes = {"a": {**FRAGILE, "retries": 2, "backoff": 0, "on_error": "h"}, "after": {}, "h": {"input": error}}
    player = kitchen.play(nodes, "x")
    failed = await player.play()
    assert failed.error.message == "x broke"
    assert player.keys == ["a", "h"]
    assert kitchen.asked("fragile") == ["x"] * 3
    (told,) = kitchen.asked("give")
    assert told.pop("invocation_id")
    assert told == {
        "node": "a",
        "key": "a",
        "type": "ValueError",
        "message": "x broke",
        "code": "",
        "input": {"value": "x"},
        "index": None,
        "failed": [],
    }


async def test_a_handler_is_not_told_while_attempts_remain(kitchen: Kitchen) -> None:
    """A step that succeeds in the end has not failed."""  # SPEC G4
    kitchen.failures["x"] = 2
    nodes = {"a": {**FRAGILE, "retries": 2, "backoff": 0, "on_error": "h"}, "after": {}, "h": {}}
    player = kitchen.play(nodes, "x")
    await player.output()
    assert player.keys == ["a", "after"]


async def test_a_run_may_go_on_after_a_failure(kitchen: Kitchen) -> None:
    """The handler first, if there is one, then what follows; the node has given null."""  # SPEC G4
    kitchen.failures["x"] = -1
    nodes = {
        "a": {**FRAGILE, "on_error": "h", "after_error": "continue"},
        "h": {"input": "$error.message"},
        "after": {"input": {"value": ["$nodes.a", "$nodes.h?"]}},
    }
    player = kitchen.play(nodes, "x", output="$nodes.after")
    assert await player.output() == [None, "x broke"]
    assert player.keys == ["a", "h", "after"]
    nodes = {"a": {**FRAGILE, "after_error": "continue"}, "after": {}}
    player = kitchen.play(nodes, "x")
    await player.output()
    assert player.keys == ["a", "after"]


@pytest.mark.parametrize(
    ("cases", "key"), [({"error": "b", "*": "c"}, "b"), ({"*": "c", "x": "b"}, "c"), ({"x": "b", "y": "c"}, None)]
)
async def test_a_failure_is_a_key_of_its_own(kitchen: Kitchen, cases, key: str | None) -> None:
    """Where the run goes on, `error` is the key; else that for any other; else nothing follows."""  # SPEC G4
    kitchen.failures["x"] = -1
    player = kitchen.play({"a": {**FRAGILE, "next": cases, "after_error": "continue"}, "b": {}, "c": {}}, "x")
    await player.output()
    assert player.keys == ["a", *([key] if key else [])]


async def test_success_and_failure_may_be_all_that_matters(kitchen: Kitchen) -> None:
    """With no other keys than these, the result may be anything."""
    nodes = {"a": {**FRAGILE, "next": {"*": "b", "error": "c"}, "after_error": "continue"}, "b": {}, "c": {}}
    player = kitchen.play(nodes, {"any": ["thing"]})
    await player.output()
    assert player.keys == ["a", "b"]


async def test_a_handler_that_fails_does_not_hide_the_error(kitchen: Kitchen) -> None:
    """The run fails with the original error, with a note of the other; the handler's handler is told."""  # SPEC S9
    kitchen.failures["x"] = kitchen.failures["h"] = -1
    nodes = {
        "a": {**FRAGILE, "on_error": "h"},
        "after": {},
        "h": {"function": "fragile", "input": {"value": "h"}, "on_error": "hh"},
        "hh": {"input": "$error.node"},
    }
    player = kitchen.play(nodes, "x")
    failed = await player.play()
    assert failed.error.message == "x broke"
    assert "Its on_error handler failed as well: ValueError: h broke" in failed.error.traceback
    assert player.keys == ["a", "h", "hh"]


async def test_a_fan_out_fails_with_its_first_error(kitchen: Kitchen) -> None:
    """What is open is cancelled, what has not begun does not; its handler is told once, of which item."""  # SPEC G4
    kitchen.failures["1"] = -1
    nodes = {
        "a": {"function": "fragile", "for_each": [0, 1, 2, 3, 4], "limit": 2, "input": "$item", "on_error": "h"},
        "h": {"input": {"value": ["$error.index", "$error.key", "$error.input.value"]}},
    }
    player = kitchen.play(nodes)
    failed = await player.play()
    assert failed.error.message == "1 broke"
    assert player.keys == ["a[0]", "a[1]", "a[2]", "h"]
    assert kitchen.asked("give") == [[1, "a[1]", 1]]
    assert StepCancelled("a[2]") in player.journal


async def test_a_fan_out_may_go_on_after_failures(kitchen: Kitchen) -> None:
    """All items are done; null stands for those that failed, of which the handler is told once."""  # SPEC G4
    kitchen.failures["1"] = kitchen.failures["3"] = -1
    nodes = {
        "a": {"function": "fragile", "for_each": [0, 1, 2, 3], "input": "$item", "on_error": "h", "next": "b"}
        | {"after_error": "continue"},
        "h": {"input": "$error.failed"},
        "b": {"input": "$nodes.a"},
    }
    player = kitchen.play(nodes, output="$nodes.b")
    assert await player.output() == [0, None, 2, None]
    (told,) = [value for value in kitchen.asked("give") if value and isinstance(value[0], dict)]
    assert [(one["index"], one["message"]) for one in told] == [(1, "1 broke"), (3, "3 broke")]
