"""Which globals of a module its functions change. Layer: core."""

from __future__ import annotations

import ast

from outlast.core.plan.reading.frames import assigned_names

__all__ = ["find_changed_globals"]

_MUTATING = frozenset(
    """add append appendleft clear discard extend extendleft insert pop popitem popleft remove reverse setdefault sort
    update""".split()  # noqa: SIM905 - a table to be read
)


def find_changed_globals(tree: ast.Module) -> frozenset[str]:
    """Names at the top of the module whose value, or what they hold, some function of it changes."""
    globals_ = assigned_names(tree.body)
    changed: set[str] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            own = assigned_names(function.body) | {
                node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)
            }
            changed |= {name for name in _iter_changed(function) if name not in own}
    return frozenset(changed & globals_)


def _iter_changed(function: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            found.update(node.names)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            found |= _owner(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATING:
            found |= _owner(node.func.value)
    return found


def _owner(node: ast.AST) -> set[str]:
    return {node.id} if isinstance(node, ast.Name) else set()
