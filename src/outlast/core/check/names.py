"""What the names in one function stand for, followed through its variables in the order of the source. Layer: core.

What always holds: a variable is what was last assigned to it above; where that cannot be told it is nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from outlast.core.plan.reading.frames import assigned_names
from outlast.core.plan.reading.meaning import FunctionMeaning, KnownMeaning, Meaning

__all__ = ["Names"]

_SET_METHODS = frozenset({"copy", "difference", "intersection", "symmetric_difference", "union"})
_SET_TYPES = frozenset({"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"})

_LOOPS = frozenset({"asyncio.get_running_loop", "asyncio.get_event_loop"})


@dataclass
class _Known:
    meaning: Meaning | None = None
    is_set: bool = False


class Names:
    """The names of one function. `assign` is to be told of each assignment, in order."""

    def __init__(self, function: FunctionMeaning) -> None:
        self._function = function
        definition = function.definition
        body = [definition.body] if isinstance(definition, ast.Lambda) else definition.body
        arguments = [node for node in ast.walk(definition.args) if isinstance(node, ast.arg)]
        self._locals = set(assigned_names(body)) | {argument.arg for argument in arguments}
        self._known: dict[str, _Known] = {
            argument.arg: _Known(is_set=_is_set_type(argument.annotation)) for argument in arguments
        }

    def enter(self, arguments: ast.arguments) -> None:
        """A function inside this one begins: its parameters hide what is outside."""
        for argument in ast.walk(arguments):
            if isinstance(argument, ast.arg):
                self._locals.add(argument.arg)
                self._known[argument.arg] = _Known(is_set=_is_set_type(argument.annotation))

    def assign(self, target: ast.AST, value: ast.expr | None, annotation: ast.expr | None = None) -> None:
        """A variable was set."""
        if isinstance(target, ast.Name):
            self._locals.add(target.id)
            meaning = None if value is None else self.meaning(value)
            is_set = _is_set_type(annotation) or (value is not None and self.is_set(value))
            self._known[target.id] = _Known(meaning, is_set)
        else:
            for part in ast.walk(target):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    self._locals.add(part.id)
                    self._known[part.id] = _Known()

    def set_meaning(self, name: str, meaning: Meaning | None) -> None:
        """A name was imported."""
        self._locals.add(name)
        self._known[name] = _Known(meaning)

    def is_global(self, name: str) -> bool:
        """Whether it is none of the function's own."""
        return name not in self._locals

    def meaning(self, node: ast.AST) -> Meaning | None:
        """What an expression is: a name, a part of something, or what a known class made."""
        match node:
            case ast.Name(id=name):
                if name in self._locals:
                    known = self._known.get(name)
                    return None if known is None else known.meaning
                return self._function.scope.find(name)
            case ast.Attribute(value=value, attr=attr):
                of = self.meaning(value)
                return None if of is None else of.attribute(attr)
            case ast.Call(func=func):
                of = self.meaning(func)
                if isinstance(of, KnownMeaning) and of.path in _LOOPS:
                    return KnownMeaning("asyncio.loop()")
                return KnownMeaning(f"{of.path}()") if isinstance(of, KnownMeaning) and _is_class(of.path) else None
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                return self.meaning(value)
            case _:
                return None

    def is_set(self, node: ast.AST) -> bool:
        """Whether it is certainly a set."""
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                known = self._known.get(name)
                return known is not None and known.is_set
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _SET_METHODS:
                return self.is_set(value)
            case ast.Call(func=func):
                meaning = self.meaning(func)
                return isinstance(meaning, KnownMeaning) and meaning.path in {"builtins.set", "builtins.frozenset"}
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.BitXor() | ast.Sub(), right=right):
                return self.is_set(left) or self.is_set(right)
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_set(body) or self.is_set(orelse)
            case ast.NamedExpr(value=value):
                return self.is_set(value)
            case _:
                return False


def _is_set_type(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    if isinstance(annotation, ast.Attribute):
        return annotation.attr in _SET_TYPES
    return isinstance(annotation, ast.Name) and annotation.id in _SET_TYPES


def _is_class(path: str) -> bool:
    """By its spelling, as the standard library spells classes."""
    return path.rpartition(".")[2][:1].isupper()
