"""Everything that is wrong with a graph is told before a run exists, with its node and field (SPEC G3)."""

from __future__ import annotations

import pytest

from tests.core.graph.graphs import compiled, graph, refused

A = {"function": "a"}
LONG = "x" * 201


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ({}, ["It has no nodes: graph 'g', nodes"]),
        ({"a": {"next": "b"}}, ["leads to 'b', and there is no such node: graph 'g', node 'a', next. There are 'a'"]),
        ({"a": {"next": ["a", "b"]}}, ["leads to 'b'"]),
        ({"a": {"next": {"yes": "b", "no": None}}}, ["leads to 'b'"]),
        ({"a": {"on_error": "b"}}, ["leads to 'b', and there is no such node: graph 'g', node 'a', on_error"]),
        ({"a": {"next": ["b", "b"]}, "b": {}}, ["leads to 'b' twice: graph 'g', node 'a', next"]),
        ({"a": {"next": "b"}, "b": {"next": "a"}}, ["no entry node: some other node leads to each"]),
        ({"a": {"function": None}}, ["neither a function nor a workflow: graph 'g', node 'a'"]),
        ({"a": {"function": "f", "workflow": "w"}}, ["a function and a workflow"]),
        ({"a": {"function": ""}}, ["is empty: graph 'g', node 'a', function"]),
        ({"a": {"mode": "parallel"}}, ["mode without for_each: graph 'g', node 'a', mode"]),
        ({"a": {"limit": 3}}, ["limit without for_each: graph 'g', node 'a', limit"]),
        ({"a": {"for_each": [1], "limit": 0}}, ["0 is not from 1 to 1000: graph 'g', node 'a', limit"]),
        ({"a": {"for_each": [1], "limit": 2, "mode": "sequential"}}, ["limit, and is sequential"]),
        ({"a": {"for_each": "items"}}, ["'items' is a text, not a list: graph 'g', node 'a', for_each"]),
        ({"a": {"for_each": "all ${input.items}"}}, ["is a text, not a list"]),
        ({"a": {"for_each": [1], "next": {"x": None}}}, ["the result of a for_each is a list, which is no key"]),
        ({"a": {"branch": "$output.x"}}, ["a branch, and no keys in next"]),
        ({"a": {"branch": "x", "next": {"x": None}}}, ["'x' is no reference: graph 'g', node 'a', branch"]),
        ({"a": {"next": {}}}, ["a branch without keys"]),
        ({"a": {"retries": -1}}, ["-1 is not from 0 to 1,000,000: graph 'g', node 'a', retries"]),
        ({"a": {"timeout": "soon"}}, ["'soon' is no duration: graph 'g', node 'a', timeout"]),
        ({"a": {"timeout": 0}}, ["0 leaves no time"]),
        ({"a": {"backoff": {"first": "x"}}}, ["'x' is no duration: graph 'g', node 'a', backoff"]),
        ({"a": {"backoff": {"factor": 0}}}, ["factor=0 is not from 1 to 1000"]),
        ({"a": {"queue": ""}}, ["is empty: graph 'g', node 'a', queue"]),
        ({"a": {"workflow": "w", "timeout": 1, "retries": 1}}, ["calls a workflow, which has no 'retries'"]),
        ({"a": {"max_visits": 0}}, ["0 is not from 1 to 10,000: graph 'g', node 'a', max_visits"]),
        ({"a#1": A}, ["contains '#': graph 'g', node 'a#1'"]),
        ({"a[0]": A}, ["has a bracket"]),
        ({"": A}, ["is empty"]),
        ({LONG: A}, ["over 200 bytes long"]),
        ({"a\0": A}, ["contains a NUL character"]),
    ],
)
def test_what_a_node_says_is_checked(nodes, told: list[str]) -> None:
    """Each thing that no run could do is told with its node and field."""  # SPEC G3
    found = "\n".join(refused(graph(nodes)))
    for text in told:
        assert text.lower() in found.lower(), found


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"entry": "b"}, "There is no node 'b': graph 'g', entry"),
        ({"entry": []}, "It has no entry node: entry is empty"),
        ({"entry": ["a", "a"]}, "It names 'a' twice"),
        ({"max_visits": 100_000}, "100000 is not from 1 to 10,000: graph 'g', max_visits"),
        ({"name": "g#1"}, "The name contains '#'"),
        ({"input": {"x" * 600: "string"}}, "graph 'g', input.xxx"),
        ({"output": "$error"}, "It is there in a node that an on_error names."),
        ({"output": "$output"}, "It is there in branch; elsewhere write $nodes and the node's name."),
        ({"input": {"x": "text"}}, "There is no type 'text': graph 'g', input.x"),
        ({"input": {"x": {"type": "integer", "default": "3"}}}, "default '3' is a text, and it is 'integer'"),
        ({"output": "$nodes.b"}, "$nodes.b refers to no node: graph 'g', output"),
        ({"output": "$item"}, "$item cannot stand here: graph 'g', output"),
    ],
)
def test_what_the_graph_says_is_checked(more, told: str) -> None:
    """So is what the graph says as a whole."""  # SPEC G3
    assert any(told in text for text in refused(graph({"a": {}}) | more))


def test_all_problems_are_told_at_once() -> None:
    """Whoever wrote a graph learns in one go what is wrong with it."""
    told = refused(graph({"a": {"next": "x", "retries": -1}, "b": {"mode": "parallel", "on_error": "y"}}))
    assert len(told) == 4


def test_what_cannot_be_reached_is_told() -> None:
    """A node that nothing leads to from the entry nodes is a slip."""  # SPEC G3
    told = refused(graph({"a": {}, "b": {"next": "c"}, "c": {}}, entry="a"))
    assert told == [
        "It can never be reached: graph 'g', node 'b'. Let another node lead to it, name it in entry, or remove it.",
        "It can never be reached: graph 'g', node 'c'. Let another node lead to it, name it in entry, or remove it.",
    ]


# --- handlers ---------------------------------------------------------------------------------------------------------


def test_handlers_are_no_entry_nodes() -> None:
    """A node that only failures lead to is not begun at."""  # SPEC G3
    made = compiled({"a": {"on_error": "h"}, "h": {"on_error": "hh"}, "hh": {}, "b": {}})
    assert made.entries == ("a", "b")


def test_handlers_lead_nowhere() -> None:
    """What follows a failure is said by the node that failed."""
    told = refused(graph({"a": {"on_error": "h"}, "h": {"next": "b"}, "b": {}}))
    assert "Only failures lead to it, and it has next: graph 'g', node 'h', next" in "\n".join(told)
    compiled({"a": {"next": "h", "on_error": "h"}, "h": {"next": "b"}, "b": {}})


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ({"a": {"on_error": "a"}}, "Its handlers lead in a circle: 'a' to 'a'"),
        ({"a": {"on_error": "b"}, "b": {"on_error": "a"}, "c": {}}, "Its handlers lead in a circle"),
        ({f"h{n}": {"on_error": f"h{n + 1}"} for n in range(17)} | {"h17": {}}, "Over 16 handlers follow each other"),
    ],
)
def test_handlers_of_handlers_end(nodes, told: str) -> None:
    """A handler may have one of its own, and so on, but not for ever."""
    assert told in refused(graph(nodes))[0]


# --- cycles -----------------------------------------------------------------------------------------------------------


def test_a_cycle_needs_a_limit() -> None:
    """A cycle in which nothing says how often it may come round is refused, with its nodes."""  # SPEC G2, G3
    cycle = {"a": {"next": "b"}, "b": {"next": {"again": "a", "*": None}}}
    assert "A cycle without a limit leads from 'a' to 'b' to 'a'" in refused(graph(cycle, entry="a"))[0]
    assert compiled({**cycle, "a": {"next": "b", "max_visits": 3}}, entry="a").limits == {"a": 3}
    assert compiled(cycle, entry="a", max_visits=5).limits == {"a": 5, "b": 5}
    assert compiled({**cycle, "a": {"next": "b", "max_visits": 3}}, entry="a", max_visits=5).limits == {"a": 3, "b": 5}
    assert "leads from 'a' to 'a'" in refused(graph({"a": {"next": ["a"]}}, entry="a"))[0]


# --- references -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ({"input": {"x": "$nodes.z.y"}}, "$nodes.z refers to no node: graph 'g', node 'c', input"),
        ({"input": ["$nodes.d"]}, "$nodes.d refers to a node that never comes before this one"),
        ({"input": "$nodes.c"}, "never comes before this one"),
        ({"input": "$input.y"}, "$input.y refers to 'y', which $input does not have"),
        ({"input": "$item"}, "$item cannot stand here: graph 'g', node 'c', input"),
        ({"for_each": "$item"}, "$item cannot stand here: graph 'g', node 'c', for_each"),
        ({"input": "at ${index}"}, "$index cannot stand here"),
        ({"input": "$error.message"}, "It is there in a node that an on_error names"),
        ({"input": "$output"}, "It is there in branch; elsewhere write $nodes"),
        ({"input": "$run.name"}, "$run.name refers to 'name', which $run does not have"),
        ({"input": "$secret"}, "'$secret' is no reference: graph 'g', node 'c', input"),
        ({"branch": "$item", "next": {"x": None}}, "$item cannot stand here: graph 'g', node 'c', branch"),
    ],
)
def test_references_to_what_cannot_be_there_are_told(node, told: str) -> None:
    """A reference is held against the graph: what it names has to be able to be there."""  # SPEC G3
    told_all = refused(graph({"a": {"next": "c"}, "c": node, "b": {"next": "d"}, "d": {}}, input={"x": "any"}))
    assert any(told.replace("$nodes.z refers", "$nodes.z.y refers") in text for text in told_all), told_all


def test_references_along_ways_are_all_right() -> None:
    """To any node that can have run before: also through a cycle, and to a handler from what follows the failure."""
    compiled(
        {
            "a": {"next": "b", "on_error": "h", "after_error": "continue"},
            "h": {"input": ["$error.message", "$nodes.a?"]},
            "b": {"input": ["$nodes.a", "$nodes.h?", "$nodes.c.x?"], "next": "c"},
            "c": {
                "for_each": "$nodes.b",
                "input": ["$item", "$index", "$run.id"],
                "branch": "$output[0]",
                "next": {"x": "b"},
            },
        },
        entry="a",
        max_visits=3,
        output={"h": "$nodes.h?"},
    )


def test_an_error_is_not_always_there() -> None:
    """A handler that other ways lead to as well has to say that there may be no error."""
    told = refused(graph({"a": {"on_error": "h", "next": "h"}, "h": {"input": "$error.type"}}))
    assert "$error.type is not always there" in told[0]
    compiled({"a": {"on_error": "h", "next": "h"}, "h": {"input": "$error.type?"}})
