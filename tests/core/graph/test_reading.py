"""Reading a graph: what cannot be one is refused, at once, whoever sent it (SPEC D4, G3)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from outlast.core.graph import yaml_text
from outlast.core.graph.compiling import compile_graph
from outlast.core.graph.limits import LONGEST_TEXT, MOST_NODES
from outlast.core.graph.reading import read_data, read_text, write_json
from outlast.errors import ExtraMissing, InvalidDefinition
from tests.core.graph.graphs import graph

TINY = '{"name": "g", "nodes": {"a": {"function": "a"}}}'


def refusal(raw: Any, *, yaml: bool = False) -> str:
    """What is told of it; for a few seconds of this thread's CPU, however busy the machine is."""
    began = time.thread_time()
    with pytest.raises(InvalidDefinition) as caught:
        compile_graph(read_text(raw, yaml=yaml, where="g.json") if isinstance(raw, str | bytes) else read_data(raw))
    assert time.thread_time() - began < 8
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
        ("[]", "A graph is an object: g.json"),
        ("3", "A graph is an object"),
        ('{"name": "g"}', "has no nodes"),
        ('{"nodes": {}}', "It has no 'name'"),
        ('{"name": 3, "nodes": {}}', "3 is a whole number: graph 'g.json', name. Give a text."),
        ('{"name": "g", "nodes": []}', "Its nodes are no object: graph 'g', nodes"),
        ('{"name": "g", "nodes": {"a": 3}}', "node 'a'"),
        ('{"name": "g", "node": {}, "nodes": {}}', "There is no field 'node': graph 'g'. Is it 'nodes'?"),
        ('{"name": "g", "nodes": {"a": {"functon": "a"}}}', "There is no field 'functon': graph 'g', node 'a'. Is it"),
        (
            '{"name": "g", "nodes": {"a": {"retries": "3"}}}',
            "'3' is a text: graph 'g', node 'a', retries. Give a whole",
        ),
        ('{"name": "g", "nodes": {"a": {"retries": true}}}', "graph 'g', node 'a', retries"),
        ('{"name": "g", "nodes": {"a": {"after_error": "stop"}}}', "node 'a', after_error"),
        ('{"name": "g", "nodes": {"a": {"next": [3]}}}', "node 'a', next[0]"),
        ('{"name": "g", "nodes": {"a": {"backoff": {"first": 1, "max": 3}}}}', "There is no field 'max'"),
        ('{"name": "g", "nodes": {"a": {}, "a": {}}}', "The key 'a' is there twice: g.json"),
        ('{"name": NaN}', "It has NaN, which is no JSON"),
        ('{"name": 1e999}', "It has inf, which is no JSON"),
        ('{"name": "\\ud800"}', "half a surrogate pair"),
        ('{"name": "g", "nodes": {"\\udfff": {}}}', "half a surrogate pair"),
        ('{"name": ' + "9" * 5000 + "}", "cannot be read as JSON"),
        ('{"name": ' + "9" * 25 + "}", "an integer of over 64 bits"),
        (json.dumps({str(n): 0 for n in range(60_000)})[:-1] + ', "7": 1}', "The key '7' is there twice"),
        ("[" * 100_000, "nests over 40 deep"),
        ('{"a":' * 100_000, "nests over 40 deep"),
        ("[" * 42 + "]" * 42, "nests over 40 deep"),
    ],
)
def test_json_that_is_no_graph_is_refused(text: str, told: str) -> None:
    """Each with what is wrong, and where."""  # SPEC G3
    assert told in refusal(text)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"\xff\xfe{", "It is not UTF-8: byte 0 is 0xff: g.json"),
        (TINY.encode().replace(b"a", b"\xc3"), "It is not UTF-8: byte 3 is 0xc3"),
        (b" " * (LONGEST_TEXT + 1), "It has over 1,048,576 bytes"),
        ('{"name": "' + "x" * LONGEST_TEXT + '"}', "It has over 1,048,576 bytes"),
    ],
)
def test_texts_that_are_none_are_refused(raw: bytes | str, told: str) -> None:
    """Bad UTF-8, and too much of it, before anything is parsed."""  # SPEC D4
    assert told in refusal(raw)


def test_a_byte_order_mark_is_no_text() -> None:
    """As some editors write it."""
    assert read_text(b"\xef\xbb\xbf" + TINY.encode()).name == "g"


def endless() -> Any:
    data: dict[str, Any] = graph({"a": {}})
    data["output"] = data
    return data


def doubling() -> Any:
    """Thirty lists, that are a billion texts if one writes them out."""
    value: Any = ["x"]
    for _ in range(30):
        value = [value, value]
    return graph({"a": {}}, output=value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (endless(), "nests over 40 deep"),
        (doubling(), "over 200,000 values"),
        (graph({f"n{n}": {} for n in range(MOST_NODES + 1)}), "5,001 nodes, over the limit of 5,000"),
        (graph({f"n{n}": {"next": [f"n{m}" for m in range(40)]} for n in range(1500)}), "over 50,000 edges"),
        (graph({"a": {}}, output=["x" * 60_000] * 20), "bytes of text"),
        (graph({"a": {}}, output={1: 2}), "It has the key 1, which is no text"),
        (graph({"a": {}}, output={1, 2}), "of type set, which is no JSON"),
        (graph({"a": {}}, output=b"x"), "of type bytes, which is no JSON"),
        (graph({"a": {}}, output=float("nan")), "It has nan"),
        (graph({"a": {}}, output="$input" + ".a" * 60_000), "steps"),
        (graph({"a": {}}, output="${input}" * 60_000), "over 200 references"),
        (
            graph(
                {f"n{n}": {"next": sorted({f"n{(n * k + 1) % 5000}" for k in range(2, 9)})} for n in range(5000)},
                entry="n0",
                max_visits=1,
            ),
            "cycles lie within each other",
        ),
        ({"name": "g", "nodes": {"a": {"function": "a"}}, "x" * 100_000: 1}, "There is no field"),
        (graph({"a": {"next": [f"n{n}" for n in range(99_999)] + ["n7"]}}), "leads to 'n7' twice"),
        (graph({"a": {}}, entry=["a"] * 150_000), "It names 'a' twice"),
        (graph({f"n{n}": {} for n in range(4_000)}, output=["$nodes.x"] * 90_000), "refers to no node"),
        ("no graph", "A graph is an object"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_data_that_is_no_graph_is_refused(data: Any, told: str) -> None:
    """What a program passes is held to the same limits; and told briefly, however large it is."""  # SPEC D4
    found = refusal(data) if not isinstance(data, str) else refusal(json.dumps(data))
    assert told in found
    assert len(found) < 1500


def test_a_million_nodes_are_refused() -> None:
    """As JSON and YAML before anything is parsed; as data when the limit is reached."""  # SPEC D4
    text = "{nodes: {" + ", ".join([f"n{n}: {{}}" for n in range(1_000_000)]) + "}}"
    node = {"function": "f"}
    data = {"name": "g", "nodes": {f"n{n}": node for n in range(1_000_000)}}
    for told in (refusal(text), refusal(text, yaml=True), refusal(data)):
        assert "It has over 1,048,576 bytes" in told


def test_a_definition_reads_back_as_written() -> None:
    """JSON that a definition was written to is the same definition."""
    nodes = {"a": {"input": {"x": "$input.x"}, "next": {"y": "b", "*": None}, "notes": "why"}, "b": {"retries": 0}}
    definition = read_data(graph(nodes, output=["$nodes.a"], input={"x": {"type": "string", "default": ""}}))
    assert read_text(write_json(definition)) == definition


# --- YAML -------------------------------------------------------------------------------------------------------------


def test_yaml_is_json_written_more_nicely() -> None:
    """The same graph; and words that older YAML took for booleans and dates are words."""
    text = """
# a comment
name: g
notes: 2024-01-01
nodes:
  a:
    function: a
    input: {on: yes, "n": 010, f: 1.50, e: 1e3, t: true, z: ~, s: "3", d: 12:30, l: [a, 'b'], empty: }
    next: {yes: b, no: , on: [b], "true": b, 1: b}
  b:
    function: b
    notes: >
      several
      lines
"""
    data = read_text(text, yaml=True)
    assert data.notes == "2024-01-01"
    given = data.nodes["a"].input
    assert given == {"on": "yes", "n": 10, "f": 1.5, "e": 1000.0, "t": True, "z": None, "s": "3", "d": "12:30"} | {
        "l": ["a", "b"],
        "empty": None,
    }
    assert data.nodes["a"].next == {"yes": "b", "no": None, "on": ["b"], "true": "b", "1": "b"}


BOMB = "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, *a]\n" for n in range(50))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BOMB, "It has an anchor or alias: g.json, line 1"),
        ("name: *x", "alias"),
        ("name: !!python/object/apply:os.system [ls]", "It has the tag"),
        ("name: !!str 3", "It has the tag"),
        ("name: g\n---\nname: h", "a second document: g.json, line 2"),
        ("name: g\nname: h", "The key 'name' is there twice: g.json, line 2"),
        ("nodes: {a: {function: a}, a: {function: b}}", "The key 'a' is there twice"),
        ("[a, b]: c", "a key that is no text"),
        ("name: .nan\nnodes: {a: {function: a}}", "$"),
        ("<<: {name: g}", "There is no field '<<'"),
        ("name: 'g", "cannot be read as YAML"),
        ("name: \x07", "cannot be read as YAML"),
        ("[" * 30_000, "nest"),  # libyaml has a limit of its own
        ("- " * 30_000, "nests over 40 deep"),
        ("- - - " * 30_000 + "x", "nests over 40 deep"),
        ("a:\n" + "- x\n" * 260_000, "over 200,000 values"),
        ("", "A graph is an object"),
        ("name: " + "9" * 300, "an integer of over 64 bits"),
    ],
    ids=lambda value: value[:24],
)
def test_yaml_that_is_no_graph_is_refused(text: str, told: str) -> None:
    """Bombs, tags and tangles, at once."""  # SPEC D4
    if told == "$":
        assert read_text(text, yaml=True).name == ".nan"
    else:
        assert told in refusal(text, yaml=True)


def test_yaml_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library the error says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(ExtraMissing, match=r"outlast\[yaml\]"):
        yaml_text.read_yaml("a: 1", "g.yaml")
