"""Graphs on the command line: `outlast run graph.yaml`, `outlast worker --graph`."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.cli.commands import begin, call, finish

GRAPH = """
name: ship
module: shop.py
input: {id: string, amount: integer}
nodes:
  charge: {function: charge, input: {order: {id: $input.id, amount: $input.amount}}, next: pack}
  pack: {function: pack, for_each: [book, lamp], input: {item: $item}}
output: {receipt: $nodes.charge, parcels: $nodes.pack}
"""
WAITING = """name: wait
module: shop.py
input: {file: string}
nodes: {w: {function: wait_for_file, input: {name: $input.file}}}
"""
INPUT = '{"id": "A-17", "amount": 3}'


@pytest.mark.parametrize("name", ["ship.yaml", "ship.yml", "graphs/ship.yaml"])
def test_a_graph_is_run_from_its_file(shop: Path, name: str) -> None:
    """Its functions are in the module that it names, from where the file is."""  # SPEC G1
    (shop / "graphs").mkdir()
    text = GRAPH.replace("shop.py", "../shop.py") if "/" in name else GRAPH
    (shop / name).write_text(text)
    done = call("run", name, "--id", "A-17", "--input", INPUT, "--json")
    assert done.code == 0, done.err
    output = {"receipt": "receipt for A-17", "parcels": ["parcel of book", "parcel of lamp"]}
    assert done.document["output"] == output
    assert [step["key"] for step in done.document["steps"]] == ["charge", "pack[0]", "pack[1]"]


def test_json_does_as_well_and_a_module_can_be_named(shop: Path) -> None:
    """A graph in JSON; its module said by an option."""
    nodes = {"a": {"function": "charge", "input": {"order": "$input"}}}
    (shop / "g.json").write_text(json.dumps({"name": "g", "nodes": nodes, "output": "$nodes.a"}))
    done = call("run", "g.json", "--module", "shop.py:app", "--input", INPUT, "--json")
    assert (done.code, done.document["output"]) == (0, "receipt for A-17")
    refused = call("run", "g.json", "--input", INPUT)
    assert refused.code == 2
    assert "does not say where its functions are: g.json" in refused.err
    assert "--module" in refused.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.yaml"], "The graph cannot be read, No such file or directory: none.yaml"),
        (["ship.yaml", "--input", '{"id": "A"}'], "input.amount"),
        (["shop.py:fulfil", "--module", "shop"], "Only a graph's functions are in another module"),
        (["ship.yaml", "--module", "other.py"], "There is no such file"),
        (["bad.yaml"], "It can never be reached: graph 'bad', node 'b'"),
        (["bad.yaml"], "Also: It can never be reached: graph 'bad', node 'c'"),
        (["missing.yaml"], "No step is registered as 'nothing': graph 'missing', node 'a', function"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_stored(shop: Path, words: list[str], told: str) -> None:
    """All of it, with graph, node and field; exit code 2, and no run."""  # SPEC G3
    (shop / "ship.yaml").write_text(GRAPH)
    nodes = "nodes: {a: {function: a}, b: {function: b, next: c}, c: {function: c}}"
    (shop / "bad.yaml").write_text(f"name: bad\nmodule: shop.py\nentry: a\n{nodes}\n")
    (shop / "missing.yaml").write_text("name: missing\nmodule: shop.py\nnodes: {a: {function: nothing}}\n")
    done = call("run", *words)
    assert done.code == 2
    assert told in done.err
    assert (
        not (shop / "shop.db").exists() or call("runs", "--store", "sqlite:///shop.db", "--json").document["runs"] == []
    )


@pytest.mark.process
@pytest.mark.slow
def test_a_graph_that_was_left_goes_on_in_a_worker(shop: Path) -> None:
    """Ctrl-C leaves the run; a worker that is given the graph besides its module goes on with it."""
    (shop / "wait.yaml").write_text(WAITING)
    one = begin(shop, "run", "wait.yaml", "--id", "w-1", "--input", '{"file": "go"}', "--grace", "0s")
    deadline = time.monotonic() + 20
    while not (shop / "go.begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    one.send_signal(signal.SIGINT)
    left = finish(one)
    assert left.code == 130
    assert "outlast run wait.yaml --id w-1 --input" in left.err + left.out
    (shop / "go").touch()
    two = begin(shop, "worker", "shop.py", "--graph", "wait.yaml")
    while '"status":"completed"' not in call("show", "w-1", "--store", "sqlite:///shop.db", "--json").out.replace(
        " ", ""
    ):
        assert time.monotonic() < deadline + 20
        time.sleep(0.05)
    two.send_signal(signal.SIGTERM)
    assert finish(two).code == 0


def test_a_graph_is_drawn_from_its_file(shop: Path) -> None:
    """Also one whose functions nobody has written yet."""  # SPEC G5
    (shop / "ship.yaml").write_text(GRAPH)
    (shop / "new.yaml").write_text("name: new\nnodes: {a: {function: nothing}}\n")
    for name, box in (("ship.yaml", "Charge"), ("new.yaml", "nothing")):
        done = call("graph", name)
        assert done.code == 0, done.err
        assert done.out.startswith("flowchart TD")
        assert box in done.out


def test_a_graph_is_checked_against_its_functions(shop: Path) -> None:
    """`outlast check` tells which of its nodes could not be called."""  # SPEC G3
    (shop / "ship.yaml").write_text(GRAPH)
    done = call("check", "ship.yaml")
    assert (done.code, done.out.splitlines()[-1]) == (0, "0 found in 1 workflow")
    wrong = GRAPH.replace("name: ship", "name: wrong").replace("$item", "$item, more: 1")
    (shop / "wrong.yaml").write_text(wrong.replace("function: charge", "function: x"))
    done = call("check", "wrong.yaml")
    assert done.code == 1
    assert "No step is registered as 'x': graph 'wrong', node 'charge', function" in done.out
    assert "'pack' cannot be called so" in done.out
    assert done.out.splitlines()[-1] == "2 found in 1 workflow"
