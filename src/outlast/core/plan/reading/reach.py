"""Which steps and workflows a function comes to, through whatever it calls. Layer: core.

A quick look that decides what is worth following, and what may run behind a name. What always holds: it looks at names
alone, so it may find too much, never too little of what names can tell.
"""

from __future__ import annotations

import ast
from typing import Final

from outlast.core.plan.reading.frames import assigned_names
from outlast.core.plan.reading.meaning import (
    Definition,
    FunctionMeaning,
    KnownMeaning,
    Meaning,
    PartialMeaning,
    StepMeaning,
    WorkflowMeaning,
)

__all__ = ["Reach"]

_DEEPEST: Final = 8


class Reach:
    """Answers for one reading, and remembers."""

    def __init__(self) -> None:
        self._names: dict[Definition, tuple[str, ...]] = {}
        self._locals: dict[Definition, frozenset[str]] = {}

    def __call__(self, function: FunctionMeaning) -> tuple[str, ...]:
        """Registered names of the steps and workflows it comes to, in the order of the source."""
        known = self._names.get(function.definition)
        if known is not None:
            return known
        found: dict[str, None] = {}
        complete = self._look(function, found, [])
        names = tuple(found)
        if complete:
            self._names[function.definition] = names
        return names

    def _look(self, function: FunctionMeaning, found: dict[str, None], path: list[Definition]) -> bool:
        """False: it stopped at a depth, and the answer is this path's alone."""
        if function.definition in path:
            return True
        if len(path) >= _DEEPEST:
            return False
        complete = True
        for node in ast.walk(function.definition):
            if isinstance(node, ast.Name | ast.Attribute):
                complete &= self._add(self.plain_meaning(node, function), found, [*path, function.definition])
        return complete

    def _add(self, meaning: Meaning | None, found: dict[str, None], path: list[Definition]) -> bool:
        match meaning:
            case StepMeaning(function=name):
                found[name] = None
            case WorkflowMeaning(name=name):
                found[name] = None
            case FunctionMeaning():
                return self._look(meaning, found, path)
            case PartialMeaning(of=of):
                return self._add(of, found, path)
            case KnownMeaning() | None:
                pass
            case _:
                answers = [self._add(member, found, path) for member in meaning.members()]
                return all(answers)
        return True

    def plain_meaning(self, node: ast.AST, function: FunctionMeaning) -> Meaning | None:
        """What a dotted name means that begins with a global or a variable of an enclosing function."""
        if isinstance(node, ast.Attribute):
            of = self.plain_meaning(node.value, function)
            return None if of is None else of.attribute(node.attr)
        if not isinstance(node, ast.Name) or node.id in self._own_names(function.definition):
            return None
        frame = function.frame
        value = None if frame is None else frame.find(node.id)
        return function.scope.find(node.id) if value is None else value.meaning

    def _own_names(self, definition: Definition) -> frozenset[str]:
        names = self._locals.get(definition)
        if names is None:
            body = [definition.body] if isinstance(definition, ast.Lambda) else definition.body
            arguments = [node.arg for node in ast.walk(definition.args) if isinstance(node, ast.arg)]
            names = self._locals[definition] = assigned_names(body) | frozenset(arguments)
        return names
