"""A graph as a workflow: its input, its entry nodes, its functions (SPEC G3, R2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outlast import Context, ExtraMissing, Graph, InvalidDefinition, InvalidInput, Module, ref
from outlast.authoring.graph.workflow import GraphWorkflow
from tests.authoring.player import Player

FIELDS: dict[str, Any] = {
    "order": "string",
    "amount": "integer?",
    "items": {"type": "array", "default": ["book"]},
    "class": {"type": "string?", "default": None},
}


def make(module: Module | None = None, **more: Any) -> GraphWorkflow:
    module = module or Module("")
    if module.find_step("give") is None:

        @module.step(name="give")
        async def give(value: Any) -> Any:
            return value

    data = {"name": "g", "nodes": {"a": {"function": "give", "input": {"value": "$input"}}}, "output": "$nodes.a"}
    return module.graph(data | more)


def read(raw: bytes) -> Any:
    return json.loads(raw)


# --- input ------------------------------------------------------------------------------------------------------------


def test_input_is_checked_and_completed() -> None:
    """By field: what is missing, unknown or of another type is named; defaults are filled in."""  # SPEC R2
    graph = make(input=FIELDS)
    full = {"order": "A", "amount": None, "items": ["book"], "class": None}
    assert read(graph.encode_input(({"order": "A"},), {})) == full
    assert read(graph.encode_input((), {"order": "A"})) == full
    assert read(graph.decode_input_json(b'{"order": "A"}')) == full
    for given, told in [
        ({}, "at input.order"),
        ({"order": 3}, "got int: g, at input.order. Expected str"),
        ({"order": "A", "amount": "3"}, "at input.amount"),
        ({"order": "A", "colour": 3}, "colour"),
        ("A", "at input"),
    ]:
        with pytest.raises(InvalidInput, match=told):
            graph.encode_input((given,), {})
    with pytest.raises(InvalidInput, match="input"):
        graph.encode_input((), {})
    with pytest.raises(InvalidInput, match="by position and by name"):
        graph.encode_input(({},), {"order": "A"})


def test_input_without_fields_is_any_value() -> None:
    """A graph that declares no fields takes what it is given."""
    graph = make()
    for value in (None, 3, "x", [1], {"a": {"b": 1}}):
        assert read(graph.encode_input((value,), {})) == value
    assert read(graph.encode_input((), {})) is None
    assert read(make(input={"n": "integer?"}).encode_input((), {})) == {"n": None}


async def test_a_default_belongs_to_one_run_alone() -> None:
    """And the body gets plain data, under the names that were declared."""
    graph = make(input=FIELDS)
    registry = Module("")
    make(registry)
    assert await Player(graph, {"order": "A", "class": "first"}, registry=registry).output() == {
        "order": "A",
        "amount": None,
        "items": ["book"],
        "class": "first",
    }


def test_a_form_can_be_made_of_the_input() -> None:
    """The JSON Schema of the input has the fields, as for any workflow."""
    found = make(input=FIELDS).arguments.json_schema()
    assert found["properties"].keys() == FIELDS.keys()
    assert found["required"] == ["order"]
    assert make().arguments.json_schema() == {"default": None}


# --- entry nodes ------------------------------------------------------------------------------------------------------


def test_only_entry_nodes_can_be_started() -> None:
    """A start that names another node is refused, with those there are."""  # SPEC G3
    nodes = {"a": {"function": "give", "next": "b"}, "b": {"function": "give"}, "c": {"function": "give"}}
    graph = make(nodes=nodes, output=None)
    assert read(graph.encode_input((3, "c"), {})) == {"$entry": ["c"], "$input": 3}
    assert read(graph.encode_input((None, ("c", "a")), {})) == {"$entry": ["c", "a"], "$input": None}
    assert graph.decode_input_json(b'{"$entry": "c", "$input": 3}') == graph.encode_input((3, "c"), {})
    assert graph.decode_input_json(b'{"$entry": ["c"]}') == graph.encode_input((None, "c"), {})
    assert read(graph.encode_input(({"x": 1}, []), {})) == {"x": 1}
    for entry in ("b", ["a", "b"], "", 3, None, [["a"]]):
        with pytest.raises(InvalidInput, match=r"at entry\. Expected some of its entry nodes, 'a', 'c'"):
            graph.encode_input((None, entry), {})
        if entry not in ("", None):
            with pytest.raises(InvalidInput, match="at entry"):
                graph.decode_input_json(json.dumps({"$entry": entry}).encode())


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'1,"entry":["c"]', "JSON"),
        (b'1}, {"a": 2', "JSON"),
        (b"\xff", "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"$entry": ["a"], "order": 1}', "at order. Expected .input beside .entry"),
    ],
)
def test_input_as_json_is_one_value(data: bytes, told: str) -> None:
    """Whatever a text is made of, it is the input alone, or says so."""  # SPEC D4
    with pytest.raises(InvalidInput, match=told):
        make().decode_input_json(data)


def test_an_input_cannot_look_like_entry_nodes() -> None:
    """What begins at entry nodes is on record as such, so an input of that form is refused."""
    with pytest.raises(InvalidInput, match="the entry nodes as an argument of their own"):
        make().encode_input(({"$entry": "a"},), {})


# --- functions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ({"function": "gove"}, "No step is registered as 'gove': graph 'g', node 'a', function"),
        ({"function": "body"}, "'body' is a workflow, not a step: graph 'g', node 'a', function. Write workflow"),
        ({"workflow": "give"}, "'give' is a step, not a workflow: graph 'g', node 'a', workflow. Write function"),
        ({"workflow": "none"}, "No workflow is registered as 'none'"),
        ({"function": "give"}, "missing a required argument: 'value': graph 'g', node 'a', input"),
        ({"function": "give", "input": {"valeu": 1}}, "argument: 'value'|unexpected keyword argument 'valeu'"),
        ({"function": "two", "input": "$input"}, "'two' takes 2 parameters, and is given one value"),
        ({"function": "two", "input": {"a": 1, "b": 2, "c": 3}}, "unexpected keyword argument 'c'"),
        ({"workflow": "body", "input": {"y": 1}}, "'x'|'y'"),
        ({"workflow": "inner", "input": {"y": 1}}, "missing the field 'x' of its input"),
        ({"workflow": "inner", "input": {"x": "", "y": 1}}, "its input has no field 'y'"),
        ({"workflow": "inner", "input": "$input"}, "is a graph, whose input is an object"),
    ],
)
def test_functions_have_to_fit(node, told: str) -> None:
    """That they exist and take what they are given is checked before a run exists."""  # SPEC G3
    module = Module("")

    @module.step(name="two")
    async def two(a: int, b: int = 0) -> None: ...

    @module.workflow(name="body")
    async def body(ctx: Context, x: int) -> None: ...

    make(module)
    module.graph(Graph("inner", input={"x": str}).node("a", "give", input=ref.input.x))
    graph = Module("").graph({"name": "g", "nodes": {"a": node}})
    with pytest.raises(InvalidDefinition, match=told):
        graph.check(module)


def test_a_graph_in_a_module_finds_its_own_functions_first() -> None:
    """As any workflow of a module does."""  # SPEC N1
    billing, app = Module("billing"), Module("")
    graph = make(billing)
    assert graph.name == "billing:g"
    graph.check(billing)
    app.include(billing)
    graph.check(app)
    assert app.find_workflow("billing:g") is graph


def test_graphs_that_call_each_other_are_checked_together() -> None:
    """What is wrong with a graph that a node calls is told as well; two that call each other are no problem."""
    module = Module("")
    one = module.graph(Graph("one").workflow("a", "two"))
    module.graph(Graph("two").workflow("a", "one", next="b").node("b", "missing"))
    with pytest.raises(InvalidDefinition, match="No step is registered as 'missing': graph 'two', node 'b'"):
        one.check(module)
    module.step(name="missing")(_missing)
    one.check(module)


async def _missing() -> None: ...


def test_two_graphs_of_one_name_are_refused() -> None:
    """Unless they are the same: the second place is named."""
    module = Module("")
    first = make(module)
    assert make(module, notes="the same") is first
    with pytest.raises(InvalidDefinition, match="There are two functions called 'g': graph 'g'"):
        make(module, output=None)


# --- files ------------------------------------------------------------------------------------------------------------

YAML = "name: g\nnodes: {a: {function: give, input: {value: $input}}}\noutput: $nodes.a\n"


def test_a_graph_is_read_from_a_file(tmp_path: Path) -> None:
    """JSON or YAML, by the file's name; what is wrong is told with the file."""  # SPEC G1
    module = Module("")
    graph = make(module)
    for name, text in (("g.json", graph.to_json().decode()), ("g.yaml", YAML), ("g.YML", YAML)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert module.graph_from(tmp_path / name) is graph
        assert module.graph_from(str(tmp_path / name)) is graph
    (tmp_path / "g.txt").write_text(YAML, encoding="utf-8")
    with pytest.raises(InvalidDefinition, match=r"g\.txt\. Name it one of \*\.json, \*\.yaml, \*\.yml"):
        module.graph_from(tmp_path / "g.txt")
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(InvalidDefinition, match=r"cannot be read as JSON: .*bad\.json"):
        module.graph_from(tmp_path / "bad.json")
    with pytest.raises(FileNotFoundError):
        module.graph_from(tmp_path / "none.json")
    (tmp_path / "other.json").write_text(graph.to_json().decode().replace("give", "give2"), encoding="utf-8")
    with pytest.raises(InvalidDefinition, match=r"two functions called 'g': graph 'g', .*other\.json"):
        module.graph_from(tmp_path / "other.json")


def test_yaml_without_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    (tmp_path / "g.yaml").write_text(YAML, encoding="utf-8")
    with pytest.raises(ExtraMissing):
        Module("").graph_from(tmp_path / "g.yaml")
