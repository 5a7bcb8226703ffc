"""One fingerprint for all ways to write a graph (SPEC V1)."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.core.graph.canonical import fingerprint_graph
from outlast.core.graph.compiling import compile_graph
from outlast.core.graph.reading import read_data, read_text
from tests.core.graph.graphs import graph

NODES: dict[str, Any] = {
    "a": {"input": {"x": "$input.x", "y": "at ${input.y}"}, "next": "b", "timeout": "1m", "on_error": "h"},
    "b": {"for_each": "$nodes.a.items", "input": "$item", "next": {"yes": "c", "*": None}, "branch": "$output[0]"},
    "c": {"input": {"n": 1}, "backoff": "5s"},
    "h": {"input": "$error.message"},
}


def fingerprint(nodes: dict[str, Any] = NODES, **more: Any) -> str:
    return fingerprint_graph(compile_graph(read_data(graph(nodes, **more))))


def changed(node: str, **fields: Any) -> dict[str, Any]:
    return {**NODES, node: {**NODES[node], **fields}}


@pytest.mark.parametrize(
    "other",
    [
        dict(reversed(NODES.items())),
        changed("a", notes="said once more"),
        changed("a", timeout=60),
        changed("a", timeout="60s", after_error="fail"),
        changed("a", next=["b"]),
        changed("a", input={"y": 'at ${input["y"]}', "x": '$input["x"]'}),
        changed("b", mode="parallel", limit=20),
        changed("b", next={"*": [], "yes": ["c"]}),
        changed("c", backoff=5),
    ],
)
def test_another_way_to_write_it_is_the_same(other) -> None:
    """Notes, order of keys, defaults written out, durations and references in other words do not count."""  # SPEC V1
    assert fingerprint(other) == fingerprint()


def test_name_and_notes_of_the_graph_do_not_count() -> None:
    """Nor what is for people or for the command line, nor entry nodes that are found anyway."""
    assert fingerprint(notes="x", module="shop", entry="a") == fingerprint()
    assert fingerprint_graph(compile_graph(read_data(graph(NODES) | {"name": "other"}))) == fingerprint()


@pytest.mark.parametrize(
    "other",
    [
        changed("a", function="aa"),
        changed("a", timeout="2m"),
        changed("a", input={"x": "$input.x", "y": "to ${input.y}"}),
        changed("a", input={"x": "$$input.x", "y": "at ${input.y}"}),
        changed("a", input={"x": "$input.x?", "y": "at ${input.y}"}),
        changed("a", after_error="continue"),
        changed("a", retries=5),
        changed("b", limit=10),
        changed("b", mode="sequential"),
        changed("b", input={"item": "$item"}),
        changed("b", next={"yes": "c", "*": "c"}),
        changed("b", branch="$output[1]"),
        changed("c", input={"n": 1.0}),
        changed("c", input={"n": True}),
        changed("c", max_visits=1),
        changed("c", backoff={"first": "5s"}),
        {**NODES, "c": {"workflow": "c", "input": {"n": 1}}},
    ],
)
def test_what_a_run_could_notice_counts(other) -> None:
    """Anything that a run does otherwise is another version."""  # SPEC V1
    assert fingerprint(other) != fingerprint()


def test_input_and_output_count() -> None:
    """What goes in and what comes out is what the graph is for."""
    found = {fingerprint(), fingerprint(output="$nodes.c?"), fingerprint(output="$$nodes.c?"), fingerprint(output=3)}
    fields: list[dict[str, Any]] = [{"x": "any", "y": "any"}, {"x": "any", "y": "any?"}, {"x": "string", "y": "any"}]
    found |= {fingerprint(input=one) for one in fields}
    found.add(fingerprint(input={"x": "any", "y": {"type": "any", "default": 1}}))
    assert len(found) == 8


def test_json_and_yaml_are_the_same_graph() -> None:
    """However it is laid out."""
    one = read_text(
        '{"name": "g", "nodes": {"a": {"function": "f", "input": {"n": 1, "t": "x"}, "next": {"no": null}}}}'
    )
    other = read_text("name: g\nnodes:\n  a:\n    next: {no: }\n    input: {t: x, n: 1}\n    function: f\n", yaml=True)
    assert fingerprint_graph(compile_graph(one)) == fingerprint_graph(compile_graph(other))
