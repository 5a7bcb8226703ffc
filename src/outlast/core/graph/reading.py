"""From a text or plain data to a definition. Layer: core.

What always holds: what comes out has the fields of a graph, each of its type; what does not fit is told with its node
and field, and nothing that is not known is passed over in silence. Whether it can run, `compiling` says.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from outlast.core.graph.definition import GraphDefinition, NodeDefinition
from outlast.core.graph.limits import MOST_NODES
from outlast.core.graph.problems import Problems, graph_error, shorten
from outlast.core.graph.text import Data, decode_text, read_json, to_plain
from outlast.core.graph.yaml_text import read_yaml
from outlast.errors import InvalidDefinition

__all__ = ["read_data", "read_text", "write_json"]

T = TypeVar("T", bound=msgspec.Struct)

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_EXPECTED = re.compile(r"Expected (.*), got (.*)")
_encode = msgspec.json.Encoder().encode


def read_text(raw: bytes | str, *, yaml: bool = False, where: str = "the graph") -> GraphDefinition:
    """The definition that a JSON or YAML text holds. Raises InvalidDefinition; ExtraMissing for YAML without `yaml`."""
    text = decode_text(raw, where)
    return _read(read_yaml(text, where) if yaml else read_json(text, where), where)


def read_data(data: object, where: str = "the graph") -> GraphDefinition:
    """The definition that plain data is, as a program passes it. Raises InvalidDefinition."""
    return _read(to_plain(data, where), where)


def write_json(definition: GraphDefinition) -> bytes:
    """The definition as JSON: for a store, or a person. `read_text` reads it back."""
    return msgspec.json.format(_encode(definition), indent=2)


def _read(data: Data, where: str) -> GraphDefinition:
    if not isinstance(data, dict):
        raise InvalidDefinition("A graph is an object", where, 'Write {"name": …, "nodes": {…}}.')
    name = data.get("name")
    shown = name if isinstance(name, str) else where
    nodes = data.get("nodes", {})
    if not isinstance(nodes, dict):
        fix = "Write an object: each node by its id."
        raise graph_error(shown, "Its nodes are no object", fix, field="nodes")
    if len(nodes) > MOST_NODES:
        fix = "Take it apart: a node may be a workflow, which may be a graph."
        raise graph_error(shown, f"It has {len(nodes):,} nodes, over the limit of {MOST_NODES:,}", fix)
    problems = Problems(shown)
    definition = _convert({**data, "nodes": {}}, GraphDefinition, problems, None)
    read = {name: _convert(node, NodeDefinition, problems, name) for name, node in nodes.items()}
    problems.check()
    assert definition is not None
    return msgspec.structs.replace(definition, nodes=read)


def _convert(data: Any, kind: type[T], problems: Problems, node: str | None) -> T | None:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        field = path.rstrip("`").lstrip(".")
        problems.add(*_explain(message, kind, field, data), node=node, field=field)
        return None


def _explain(message: str, kind: type[msgspec.Struct], field: str, data: Any) -> tuple[str, str]:
    """What is wrong, and what to do."""
    if unknown := _UNKNOWN.fullmatch(message):
        fields = [] if field else [one.name for one in msgspec.structs.fields(kind)]
        close = get_close_matches(unknown[1], fields, n=1)
        fix = f"Is it {close[0]!r}?" if close else f"There are {', '.join(fields)}." if fields else "Remove it."
        return f"There is no field {shorten(unknown[1])}", fix
    if missing := _MISSING.fullmatch(message):
        return f"It has no {missing[1]!r}", "Add it."
    if expected := _EXPECTED.fullmatch(message):
        kinds = _in_json(expected[1])
        value = data.get(field) if isinstance(data, dict) and field in data else data if not field else None
        told = "This" if value is None else shorten(value)
        return f"{told} is {_in_json(expected[2])}", f"Give {kinds}."
    return message, "Correct it."


_NAMES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _in_json(kinds: str) -> str:
    """As JSON calls them: `str | array | null`."""
    names = [name.strip(" `") for name in kinds.split("|")]
    return " or ".join(_NAMES.get(name, name) for name in names if name != "null" or len(names) == 1)
