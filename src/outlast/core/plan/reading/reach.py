"""Which steps and workflows a function comes to, through whatever it calls. Layer: core.

A quick look that decides what is worth following, and what may run behind a name. What always holds: it looks at names
alone, so it may find too much, never too little of what names can tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

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
        seen = {function.definition}
        waiting = [self._met_in(function)]  # no recursion: a chain of calls may be longer than Python's own stack
        while waiting:
            meaning = next(waiting[-1], None)
            match meaning:
                case None:
                    waiting.pop()
                case StepMeaning(function=name) | WorkflowMeaning(name=name):
                    found[name] = None
                case FunctionMeaning(definition=definition) if definition not in seen:
                    seen.add(definition)
                    waiting.append(self._met_in(meaning))
                case _:
                    pass
        names = self._names[function.definition] = tuple(found)
        return names

    def _met_in(self, function: FunctionMeaning) -> Iterator[Meaning]:
        """What one function names, in the order in which it is met."""
        for node in ast.walk(function.definition):
            if isinstance(node, ast.Name | ast.Attribute):
                yield from _callable_in(self.plain_meaning(node, function))

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


def _callable_in(meaning: Meaning | None) -> Iterator[Meaning]:
    match meaning:
        case KnownMeaning() | None:
            pass
        case StepMeaning() | WorkflowMeaning() | FunctionMeaning():
            yield meaning
        case PartialMeaning(of=of):
            yield from _callable_in(of)
        case _:
            for member in meaning.members():
                yield from _callable_in(member)
