"""Nothing that a body may run is missing from its plan."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.authoring.source.scope import LiveScope
from outlast.authoring.source.snapshots import find_definition
from outlast.core.plan.flow import flow_of
from outlast.core.plan.making import read_body
from outlast.core.plan.mermaid import to_mermaid
from outlast.core.plan.nodes import iter_nodes
from outlast.core.plan.plan import Plan, decode_plan, encode_plan
from outlast.core.plan.reading.meaning import FunctionMeaning
from tests.plans.making import Maker

SEEDS = range(0, 120, 20)  # thousands have been tried; each is a fraction of a second
FOREIGN = ("asyncio.tasks", "argparse", "json.decoder")


def shown_in(plan: Plan) -> set[str]:
    """Every function that a node says it runs, or may run."""
    found: set[str] = set()
    for node in iter_nodes(plan.nodes):
        found |= {getattr(node, "function", ""), getattr(node, "handler", ""), *getattr(node, "functions", ())}
    return found


@pytest.mark.parametrize("first", SEEDS)
def test_every_step_named_in_a_body_stands_in_its_plan(first: int, tmp_path: Path) -> None:
    """However it is called or passed on: a step that the source names is in a node, opaque or not."""  # SPEC V2
    for seed in range(first, first + 20):
        maker = Maker(seed)
        source = maker.module()
        path = tmp_path / f"body{seed}.py"
        path.write_text(source)
        namespace: dict[str, Any] = {"__name__": f"body{seed}"}
        exec(compile(source, str(path), "exec"), namespace)
        plan = namespace["body"].plan
        assert plan is not None
        lost = {f"s{number}" for number in range(maker.count)} - shown_in(plan)
        assert not lost, f"seed {seed}: {lost}\n{source}"
        assert decode_plan(encode_plan(plan)) == plan
        flow_of(plan)
        assert re.match(r"flowchart TD\n", to_mermaid(plan))


def iter_functions(name: str) -> Iterator[types.FunctionType]:
    """All functions of a module, methods too."""
    module = importlib.import_module(name)
    for value in vars(module).values():
        inside = vars(value).values() if inspect.isclass(value) and value.__module__ == name else [value]
        for function in inside:
            if isinstance(function, types.FunctionType) and function.__module__ == name:
                yield function


@pytest.mark.parametrize("name", FOREIGN)
def test_any_source_can_be_read(name: str) -> None:
    """Code that nobody wrote as a body has a plan as well: the reader stumbles over nothing."""
    count = 0
    for function in iter_functions(name):
        definition = find_definition(function)
        if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
            plan = read_body("w", FunctionMeaning("w", definition, LiveScope(function))).plan
            assert decode_plan(encode_plan(plan)) == plan
            to_mermaid(plan)
            count += 1
    assert count > 3
