"""What a graph's run does (SPEC G1, G2, G4)."""

from __future__ import annotations

import pytest

from outlast.authoring.module import Module
from outlast.core.events import CancelRequested, RunCancelled, RunFailed, StepCancelled
from outlast.errors import GraphFailed
from tests.authoring.graph.kitchen import Kitchen


@pytest.fixture
def kitchen() -> Kitchen:
    return Kitchen()


# --- values and ways --------------------------------------------------------------------------------------------------


async def test_values_go_from_node_to_node(kitchen: Kitchen) -> None:
    """A node gets literals, what the run and other nodes gave, and texts of them; so does the output."""  # SPEC G1
    player = kitchen.play(
        {
            "a": {"input": {"value": {"id": "$input.order", "n": [1, "$run.id"]}}, "next": "b"},
            "b": {"function": "say", "input": "Order ${nodes.a.id}, ${nodes.a.n}", "next": ["c", "d"]},
            "c": {},
            "d": {"input": "$input"},
        },
        {"order": "A-17"},
        output={"said": "$nodes.b", "all": ["$nodes.d", "$nodes.c", "$run.workflow"]},
    )
    said = 'Order A-17, [1,"run-1"]'
    assert await player.output() == {"said": said, "all": [{"order": "A-17"}, None, "g"]}
    assert player.keys == ["a", "b", "c", "d"]


async def test_without_an_output_the_run_gives_null(kitchen: Kitchen) -> None:
    """What a run gives is said by its output alone."""  # SPEC G1
    assert await kitchen.play({"a": {"input": 3}}).output() is None


@pytest.mark.parametrize(
    ("value", "key"),
    [("yes", "b"), ("no", "c"), (True, "d"), (None, "e"), (7, "f"), ("what", "g"), (3, "g")],
)
async def test_a_branch_goes_by_its_key(kitchen: Kitchen, value, key: str) -> None:
    """By what the node gave: a text, a boolean, null or a whole number; else by the case for any other."""  # SPEC G1
    cases = {"yes": "b", "no": ["c"], "true": "d", "null": "e", "7": "f", "*": "g"}
    nodes = {"a": {"input": {"value": "$input"}, "next": cases}, **{name: {} for name in "bcdefg"}}
    player = kitchen.play(nodes, value)
    await player.output()
    assert player.keys == ["a", key]


async def test_a_branch_may_name_what_decides(kitchen: Kitchen) -> None:
    """A field of the result, of the input, or of what another node gave."""  # SPEC G1
    nodes = {
        "a": {"input": {"value": {"verdict": "ship"}}, "branch": "$output.verdict", "next": {"ship": "b", "*": None}},
        "b": {"branch": "$input.way", "next": {"left": None, "right": "c"}},
        "c": {"branch": "$nodes.a.verdict", "next": {"ship": ["d", "e"]}},
        "d": {},
        "e": {},
    }
    player = kitchen.play(nodes, {"way": "right"})
    await player.output()
    assert player.keys == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("what", "Its result is 'what', and next has no such key: graph 'g', node 'a', next. It has 'yes', 'no'; '*'"),
        ({"x": 1}, "Its result is an object, which is no key"),
        (1.5, "Its result is a number, which is no key"),
    ],
)
async def test_a_branch_without_a_case_fails_loudly(kitchen: Kitchen, value, told: str) -> None:
    """The run fails with what the key was, and which there are."""
    player = kitchen.play({"a": {"input": {"value": "$input"}, "next": {"yes": None, "no": None}}}, value)
    failed = await player.play()
    assert isinstance(failed, RunFailed)
    assert failed.error.code == "GRAPH_FAILED"
    assert told in failed.error.message


async def test_a_reference_to_what_is_missing_fails_loudly(kitchen: Kitchen) -> None:
    """It names the node, the field and what is there; with a question mark it is null."""
    nodes = {"a": {"input": {"value": {"x": 1}}, "next": "b"}, "b": {"input": {"value": "$nodes.a.y"}}}
    failed = await kitchen.play(nodes).play()
    told = "$nodes.a has 'x', and no 'y': graph 'g', node 'b', input. Where it may be missing, write ?"
    assert told in failed.error.message
    nodes["b"] = {"input": {"value": "$nodes.a.y?"}}
    assert await kitchen.play(nodes, output="$nodes.b").output() is None


async def test_a_run_may_begin_at_some_entry_nodes(kitchen: Kitchen) -> None:
    """At all of them, or at those that its start names; no others."""  # SPEC G3
    nodes = {"a": {"next": "c"}, "b": {"next": "c"}, "c": {}}
    for entry, keys in (((), ["a", "b", "c"]), (("b",), ["b", "c"]), ((["b", "a"],), ["b", "a", "c"])):
        player = kitchen.play(nodes, None, *entry)
        await player.output()
        assert player.keys == keys


# --- joins and cycles -------------------------------------------------------------------------------------------------


async def test_branches_run_at_the_same_time_and_join_once(kitchen: Kitchen) -> None:
    """Nodes that follow one run side by side; one that all lead to runs once, after the last."""  # SPEC G2
    nodes = {"a": {"next": ["b", "c"]}, "b": {"next": "d"}, "c": {"next": "d"}, "d": {}}
    player = kitchen.play(nodes)
    await player.play(lambda keys: keys[-1])
    assert player.keys == ["a", "b", "c", "d"]
    assert player.most_open == 2


async def test_a_cycle_numbers_its_visits(kitchen: Kitchen) -> None:
    """The second visit of a node is `node#1`, and it is told what the last one gave."""  # SPEC G2
    nodes = {
        "begin": {"input": 0, "next": "up"},
        "up": {"function": "next_number", "input": {"start": "$nodes.ask?"}, "next": "ask"},
        "ask": {"input": "$nodes.up", "next": {"3": None, "*": "up"}},
    }

    @kitchen.module.step(name="next_number")
    async def next_number(start: int | None) -> int:
        return (start or 0) + 1

    player = kitchen.play(nodes, max_visits=5, output="$nodes.ask")
    assert await player.output() == 3
    assert player.keys == ["begin", "up", "ask", "up#1", "ask#1", "up#2", "ask#2"]


async def test_a_cycle_stops_at_its_limit(kitchen: Kitchen) -> None:
    """A node is visited as often as it may be; then the run fails and names it."""  # SPEC G2
    nodes = {"a": {"next": "b"}, "b": {"next": "a", "max_visits": 3}}
    player = kitchen.play(nodes, entry="a")
    failed = await player.play()
    assert player.keys == ["a", "b", "a#1", "b#1", "a#2", "b#2", "a#3"]
    assert "It has been visited 3 times, which is its limit: graph 'g', node 'b', max_visits" in failed.error.message


# --- fan-outs ---------------------------------------------------------------------------------------------------------


async def test_a_fan_out_gives_results_in_order(kitchen: Kitchen) -> None:
    """One call for each item, some at a time; whatever ends first, the order is the items'."""  # SPEC G2
    nodes = {
        "a": {
            "for_each": "$input.list",
            "limit": 3,
            "input": {"value": ["$item.n", "$index", "$input.more"]},
            "next": "b",
        },
        "b": {"function": "say", "input": "${nodes.a}"},
    }
    player = kitchen.play(nodes, {"list": [{"n": n * n} for n in range(5)], "more": "!"}, output="$nodes.a")
    last = await player.play(lambda keys: keys[-1])
    assert player.keys == [*(f"a[{n}]" for n in range(5)), "b"]
    assert player.most_open == 3
    assert player.workflow.decode_output(last.output) == [[n * n, n, "!"] for n in range(5)]


async def test_a_sequential_fan_out_goes_one_by_one(kitchen: Kitchen) -> None:
    """The next item begins when the one before has ended."""  # SPEC G1
    player = kitchen.play({"a": {"for_each": [3, 2, 1], "mode": "sequential", "input": "$item"}}, output="$nodes.a")
    assert await player.output() == [3, 2, 1]
    assert player.most_open == 1
    assert kitchen.asked("give") == [3, 2, 1]


async def test_an_empty_fan_out_is_done(kitchen: Kitchen) -> None:
    """It gives an empty list, calls nothing, and the run goes on."""  # SPEC G2
    player = kitchen.play({"a": {"for_each": "$input", "input": "$item", "next": "b"}, "b": {}}, [], output="$nodes.a")
    assert await player.output() == []
    assert player.keys == ["b"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [("text", "a text"), (None, "null"), ({"a": 1}, "an object"), (7, "a number"), (True, "a boolean")],
)
async def test_a_source_that_is_no_list_fails_loudly(kitchen: Kitchen, value, kind: str) -> None:
    """The run fails, with the source and what it is; no handler is asked and nothing goes on."""  # SPEC G2
    nodes = {
        "a": {"for_each": "$input.list", "input": "$item", "next": "b", "on_error": "h", "after_error": "continue"},
        "b": {},
        "h": {},
    }
    player = kitchen.play(nodes, {"list": value})
    failed = await player.play()
    assert f"$input.list is {kind}, not a list: graph 'g', node 'a', for_each" in failed.error.message
    assert player.keys == []


async def test_a_fan_out_in_a_cycle_numbers_its_items(kitchen: Kitchen) -> None:
    """Each item of each round has a key of its own."""  # SPEC G2
    nodes = {
        "a": {"for_each": ["x", "y"], "input": "$item", "next": "b", "max_visits": 2},
        "b": {"function": "twice", "next": {"again": "a", "done": None}},
    }
    seen: list[None] = []

    @kitchen.module.step(name="twice")
    async def twice() -> str:
        seen.append(None)
        return "again" if len(seen) < 2 else "done"

    player = kitchen.play(nodes, entry="a")
    await player.output()
    assert player.keys == ["a[0]", "a[1]", "b", "a[0]#1", "a[1]#1", "b#1"]


async def test_what_an_item_gets_does_not_change_meanwhile(kitchen: Kitchen) -> None:
    """All items of a visit refer to what nodes had given when it began, whatever they give while it goes on."""
    nodes = {
        "up": {"function": "next_number", "input": "$nodes.up?", "next": {"1": ["fan", "up"], "*": None}},
        "fan": {"for_each": ["x", "y", "z"], "mode": "sequential", "input": {"value": "$nodes.up"}},
    }

    @kitchen.module.step(name="next_number")
    async def next_number(start: int | None) -> int:
        return (start or 0) + 1

    player = kitchen.play(nodes, entry="up", max_visits=3, output=["$nodes.fan", "$nodes.up"])
    last = await player.play()
    assert player.keys == ["up", "up#1", "fan[0]", "fan[1]", "fan[2]"]
    assert player.workflow.decode_output(last.output) == [[1, 1, 1], 2]


# --- the machine beneath ----------------------------------------------------------------------------------------------


async def test_a_graph_replays(kitchen: Kitchen) -> None:
    """The same journal gives the same commands; no step runs again."""
    kitchen.failures["2"] = -1
    nodes = {
        "a": {
            "function": "fragile",
            "for_each": [1, 2, 3],
            "input": "$item",
            "after_error": "continue",
            "next": ["b", "c"],
        },
        "b": {"next": "d"},
        "c": {"next": "d"},
        "d": {"input": "$nodes.a"},
    }
    player = kitchen.play(nodes, output="$nodes.d")
    await player.play(lambda keys: keys[-1])
    before = len(kitchen.calls)
    assert player.replay() == []
    assert len(kitchen.calls) == before


async def test_a_cancelled_graph_cancels_its_steps(kitchen: Kitchen) -> None:
    """A cancel reaches every open step, once; no handler is told."""
    nodes = {
        "a": {"on_error": "h", "after_error": "continue", "next": "b"},
        "b": {},
        "h": {},
        "c": {"for_each": [1, 2], "input": "$item"},
    }
    player = kitchen.play(nodes)
    player.begin()
    player.feed(CancelRequested(player.machine.loop.now_us, "m-1", "enough"))
    assert isinstance(player.machine.outcome, RunCancelled)
    cancelled = sorted(event.key for event in player.journal if isinstance(event, StepCancelled))
    assert cancelled == ["a", "c[0]", "c[1]"]


async def test_an_evicted_graph_runs_nothing(kitchen: Kitchen) -> None:
    """A graph that is dropped from memory ends without a trace."""
    player = kitchen.play(
        {"a": {"on_error": "h", "next": "b"}, "b": {}, "h": {}, "c": {"for_each": [1, 2], "input": "$item"}}
    )
    player.begin()
    assert player.close() == 0
    assert kitchen.calls == []


async def test_an_unknown_function_leaves_the_run_waiting(kitchen: Kitchen) -> None:
    """A run whose function this process does not know is left to one that does."""  # SPEC S13
    player = kitchen.play({"a": {"next": "b"}, "b": {"input": 1}})
    player.registry = Module("")
    player.machine = player.make_machine()
    player.begin()
    assert player.machine.missing == "give"


def test_graph_failed_says_where() -> None:
    """The output is no node's."""
    told = str(GraphFailed("x is missing", "g", "", "output", "Mend it."))
    assert told == "x is missing: graph 'g', output. Mend it."
