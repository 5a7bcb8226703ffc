"""Graphs written in Python: `Graph` and `ref` (SPEC G1)."""

from __future__ import annotations

import copy
import json
from datetime import timedelta
from typing import Any

import pytest

from outlast import Graph, GraphWorkflow, Module, exponential, fixed, ref
from outlast.errors import InvalidDefinition


@pytest.fixture
def shop() -> Module:
    module = Module("")

    @module.step(name="charge")
    async def charge(order: str) -> dict[str, Any]:
        return {"receipt": order}

    @module.step(name="pack")
    async def pack(item: str) -> str:
        return item

    @module.step(name="tell")
    async def tell(text: str, why: str | None = None) -> None: ...

    return module


def build(module: Module) -> Graph:
    charge, pack, tell = (module.find_step(name) for name in ("charge", "pack", "tell"))
    assert charge
    assert pack
    assert tell
    return (
        Graph("fulfil", input={"order": str, "items": list[str], "coupon": str | None}, notes="as we do it")
        .node(
            "charge",
            charge,
            input={"order": ref.input.order},
            retries=3,
            timeout=timedelta(seconds=90),
            backoff=exponential("2s", factor=3),
            on_error="sorry",
            next="pack",
        )
        .node(
            "pack", pack, for_each=ref.input["items"], input=ref.item, limit=5, backoff=fixed(1), next={"*": ["tell"]}
        )
        .node(
            "tell", tell, input={"text": f"{ref.nodes.charge.receipt}: {ref.nodes.pack[0]}, {ref.input.coupon | None}"}
        )
        .node("sorry", "tell", input={"text": "sorry", "why": ref.error.message})
        .output({"receipt": ref.nodes.charge.receipt, "parcels": ref.nodes.pack})
    )


DATA = {
    "name": "fulfil",
    "input": {"order": "string", "items": "array", "coupon": "string?"},
    "nodes": {
        "charge": {
            "function": "charge",
            "input": {"order": "$input.order"},
            "retries": 3,
            "timeout": "90s",
            "backoff": {"first": 2, "factor": 3},
            "on_error": "sorry",
            "next": "pack",
        },
        "pack": {
            "function": "pack",
            "for_each": "$input.items",
            "input": "$item",
            "limit": 5,
            "backoff": 1,
            "next": {"*": "tell"},
        },
        "tell": {
            "function": "tell",
            "input": {"text": "${nodes.charge.receipt}: ${nodes.pack[0]}, ${input.coupon?}"},
        },
        "sorry": {"function": "tell", "input": {"text": "sorry", "why": "$error.message"}},
    },
    "output": {"receipt": "$nodes.charge.receipt", "parcels": "$nodes.pack"},
}


def test_a_graph_in_python_is_the_same_graph(shop: Module) -> None:
    """Built, as data, or as JSON that the builder wrote: one fingerprint, and one workflow."""  # SPEC G1
    made = shop.graph(build(shop))
    assert isinstance(made, GraphWorkflow)
    assert shop.graph_from(DATA) is made
    assert shop.graph_from(json.loads(made.to_json())) is made
    assert json.loads(build(shop).to_json()) == json.loads(made.to_json())
    assert made.definition.notes == "as we do it"
    assert shop.find_workflow("fulfil") is made


def test_a_workflow_is_called_as_one(shop: Module) -> None:
    """A node that calls a workflow: itself, or by its name."""
    inner = shop.graph(Graph("inner").node("a", "charge", input={"order": "x"}))
    by_name = Graph("outer").workflow("a", "inner")
    assert by_name.define() == Graph("outer").node("a", inner).define()
    assert by_name.define().nodes["a"].workflow == "inner"


def test_what_is_wrong_is_told_where_it_is_built(shop: Module) -> None:
    """Two nodes of one id; an option that is none; and what is wrong with the whole graph, when it is registered."""
    with pytest.raises(InvalidDefinition, match="two nodes of this id: graph 'g', node 'a'"):
        Graph("g").node("a", "charge").node("a", "pack")
    with pytest.raises(InvalidDefinition, match=r"no field 'retrys': graph 'g', node 'a'\. Is it 'retries'"):
        shop.graph(Graph("g").node("a", "charge", retrys=3))  # type: ignore[call-arg]
    with pytest.raises(InvalidDefinition, match="leads to 'b', and there is no such node"):
        shop.graph(Graph("g").node("a", "charge", next="b"))
    with pytest.raises(InvalidDefinition, match="of type object, which is no JSON: graph 'g'"):
        shop.graph(Graph("g").node("a", "charge", input={"order": object()}))


def test_a_tuned_step_is_refused(shop: Module) -> None:
    """A graph keeps names: options of a step that was tuned would be lost without a word."""
    charge = shop.find_step("charge")
    assert charge
    with pytest.raises(InvalidDefinition, match=r"calls <step 'charge'>.*is another one here: graph 'g', node 'a'"):
        shop.graph(Graph("g").node("a", charge.options(retries=1)))


# --- references -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (ref.input.order.id, "input.order.id"),
        (ref.nodes["my node"].lines[0]["a.b"], 'nodes["my node"].lines[0]["a.b"]'),
        (ref.item["items"].get.format, "item.items.get.format"),
        (ref.error.message | None, "error.message?"),
        (ref.index, "index"),
    ],
)
def test_a_reference_is_a_text_in_another_form(made, text: str) -> None:
    """As a value it is a reference, within a text a part of it."""
    data = Graph("g").node("a", "f", input={"at": made, "text": f"a {made} b", "also": "a " + str(made)}).define()
    assert data.nodes["a"].input == {"at": f"${text}", "text": f"a ${{{text}}} b", "also": f"a ${{{text}}}"}


def test_a_reference_has_no_value_while_a_graph_is_written() -> None:
    """Whoever takes it for a value is told, and nothing loops for ever."""
    with pytest.raises(InvalidDefinition, match=r"no value while the graph is written: reference ref\.input\.n"):
        bool(ref.input.n)
    with pytest.raises(InvalidDefinition, match="cannot be formatted as '>3'"):
        f"{ref.input.n:>3}"
    with pytest.raises(InvalidDefinition, match="no other default than None"):
        ref.input.n | 3  # type: ignore[operator]
    with pytest.raises(InvalidDefinition, match="neither a name nor a number"):
        ref.input[1.5]  # type: ignore[index]
    with pytest.raises(InvalidDefinition, match="Nothing can be set"):
        ref.input.n = 3
    with pytest.raises(TypeError, match="not iterable"):
        list(ref.input)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="has no len"):
        len(ref.input)  # type: ignore[arg-type]
    assert repr(copy.copy(ref.input.n)) == "ref.input.n"
