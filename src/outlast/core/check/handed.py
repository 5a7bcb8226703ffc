"""What of a body runs as a step: what is handed to `ctx.do`, `ctx.compensate`, and the options of a step. Layer: core.

What always holds: a function inside counts as a step's code only if the body does nothing else with it. One that is
called as well, kept, or handed to anything else is the body's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

__all__ = ["find_handed", "parts_of_steps"]

_AS_STEPS: Final = frozenset({"do", "compensate"})
_Inside = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def parts_of_steps(node: ast.Call) -> set[ast.expr]:
    """Arguments that run as steps, or that the engine calls."""
    func = node.func
    if not isinstance(func, ast.Attribute):
        return set()
    if func.attr in _AS_STEPS:
        parts = set(node.args[:2] if func.attr == "do" else node.args[:1])
        parts |= {keyword.value for keyword in node.keywords}
    elif func.attr == "options":
        parts = {keyword.value for keyword in node.keywords}
    else:
        return set()
    return {part for part in parts if isinstance(part, ast.Lambda | ast.Name | ast.Attribute | ast.Call)}


def find_handed(definition: ast.AST) -> set[ast.AST]:
    """Functions inside this one that nothing but steps runs, and those that nothing but these call."""
    functions = _named_functions(definition)
    if not functions:
        return set()
    used: dict[str, set[ast.AST]] = {name: set() for name in functions}
    in_steps: set[ast.AST] = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in used:
            used[node.id].add(node)
        elif isinstance(node, ast.Call):
            in_steps.update(_run_by(parts_of_steps(node)))
    handed: set[ast.AST] = set()
    waiting = dict(functions)
    while True:
        found = [name for name, each in waiting.items() if _is_handed(used[name], each, in_steps)]
        if not found:
            return handed
        for name in found:
            each = waiting.pop(name)
            handed.update(each)
            in_steps.update(_iter_bodies(each))


def _named_functions(definition: ast.AST) -> dict[str, list[_Inside]]:
    """By name, every `def` inside and every lambda that is given a name."""
    found: dict[str, list[_Inside]] = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node is not definition:
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _run_by(parts: Iterable[ast.expr]) -> Iterator[ast.AST]:
    """What of these the step runs: a name, what stands in a lambda, what a `partial` is of."""
    for part in parts:
        match part:
            case ast.Lambda(body=body):
                yield from ast.walk(body)
            case ast.Call(func=ast.Name(id="partial") | ast.Attribute(attr="partial"), args=[first, *_]):
                yield first
            case _:
                yield part


def _is_handed(used: set[ast.AST], functions: list[_Inside], in_steps: set[ast.AST]) -> bool:
    """Whether some step runs it, and nothing else does; that it calls itself is nothing else."""
    return not used.isdisjoint(in_steps) and used <= in_steps | set(_iter_bodies(functions))


def _iter_bodies(functions: Iterable[_Inside]) -> Iterator[ast.AST]:
    """All that runs when these are called; their defaults and decorators do not."""
    for function in functions:
        for part in [function.body] if isinstance(function, ast.Lambda) else function.body:
            yield from ast.walk(part)
