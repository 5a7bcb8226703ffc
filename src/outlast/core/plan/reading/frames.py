"""What the reader of plans knows of variables, and of coroutines that were made and not begun. Layer: core.

What always holds: a `Value` never changes; a `Thunk` is told once where it begins, however many variables hold it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from outlast.core.plan.reading.meaning import FunctionMeaning, Meaning, PartialMeaning, StepMeaning, WorkflowMeaning

__all__ = ["UNKNOWN", "Frame", "Thunk", "Value", "assigned_names", "either", "merge_variables"]


@dataclass(eq=False)
class Thunk:
    """A call that was made, and begins where it is awaited."""

    begin: Callable[[], str]
    """Put its nodes where the reader stands; answers the id of the one whose result it has."""
    functions: tuple[str, ...]
    """Registered names of what it runs."""
    source: str
    line: int
    parts: tuple[Thunk, ...] = ()
    """The calls it will begin, in turn."""
    is_eager: bool = False
    """It goes on by itself once it was made: `gather`."""
    result: str | None = None
    """Once begun: the id of the node whose result it has."""

    def inside(self) -> Iterator[Thunk]:
        """All that it begins, directly or not."""
        for part in self.parts:
            yield part
            yield from part.inside()


@dataclass(frozen=True, eq=False)
class Value:
    """What is known of a value while the body is read. Nothing, mostly."""

    meaning: Meaning | None = None
    thunks: tuple[Thunk, ...] = ()
    """Calls that begin when it is awaited."""
    begun: tuple[str, ...] = ()
    """Ids of nodes that are under way, and are waited for when it is awaited."""
    result: str = ""
    """Id of the node whose result it is."""
    loop: str = ""
    """Id of the loop whose item it is."""
    form: str = ""
    """`input`, `group` (a TaskGroup), `timeout`, `quiet` (awaiting it does nothing of note) or `unsure`."""
    items: tuple[Value, ...] = ()
    """Of a list or tuple written out."""
    pairs: Mapping[object, Value] = field(default_factory=dict)
    """Of a dict written out, by constant key."""
    origins: frozenset[int] = frozenset()
    """The places in the source where what it means was named."""

    def parts(self) -> Iterator[Value]:
        """Itself, and what is inside it."""
        yield self
        for part in (*self.items, *self.pairs.values()):
            yield from part.parts()

    def calls(self) -> Iterator[Thunk]:
        """The calls that begin when it, or what is inside it, is awaited."""
        for part in self.parts():
            yield from part.thunks

    def functions(self, reach: Callable[[FunctionMeaning], Iterable[str]]) -> tuple[str, ...]:
        """Registered names of all that may run through it."""
        found: dict[str, None] = {}
        for part in self.parts():
            found.update(dict.fromkeys(name for thunk in part.thunks for name in thunk.functions))
            found.update(dict.fromkeys(_names_in(part.meaning, reach)))
        return tuple(found)

    def is_live(self, reach: Callable[[FunctionMeaning], Iterable[str]]) -> bool:
        """Whether anything durable may run through it that has not begun."""
        return any(
            any(thunk.result is None for thunk in part.thunks) or any(_names_in(part.meaning, reach))
            for part in self.parts()
        )


def _names_in(meaning: Meaning | None, reach: Callable[[FunctionMeaning], Iterable[str]]) -> Iterator[str]:
    match meaning:
        case None:
            return
        case StepMeaning(function=function):
            yield function
        case WorkflowMeaning(name=name):
            yield name
        case FunctionMeaning():
            yield from reach(meaning)
        case PartialMeaning(of=of):
            yield from _names_in(of, reach)
        case _:
            for member in meaning.members():
                yield from _names_in(member, reach)


UNKNOWN = Value()


def either(values: Iterable[Value]) -> Value:
    """One of these, and it is not known which."""
    known: list[Value] = []
    for value in values:
        if value not in known:
            known.append(value)
    if len(known) == 1:
        return known[0]
    return Value(
        thunks=tuple(dict.fromkeys(thunk for value in known for thunk in value.thunks)),
        begun=tuple(dict.fromkeys(begun for value in known for begun in value.begun)),
        form="unsure",
        items=tuple(replace(value, thunks=(), begun=()) for value in known if value.meaning or value.items),
        origins=frozenset().union(*(value.origins for value in known)),
    )


def merge_variables(ways: list[dict[str, Value]]) -> dict[str, Value]:
    """What is known where several ways meet."""
    names = dict.fromkeys(name for way in ways for name in way)
    return {name: either(way.get(name, UNKNOWN) for way in ways) for name in names}


@dataclass(eq=False)
class Frame:
    """A function that is being read."""

    function: FunctionMeaning
    names: frozenset[str]
    """Its own variables."""
    variables: dict[str, Value]
    outer: Frame | None = None
    returns: list[Value] = field(default_factory=list)
    is_body: bool = False

    def find(self, name: str) -> Value | None:
        """A variable; None if it is none of this function or those around it."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.variables.get(name, UNKNOWN)
            frame = frame.outer
        return None


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def assigned_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Variables that these statements set, in the function they stand in."""
    found: set[str] = set()
    outside: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            waiting += node.decorator_list
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            outside.update(node.names)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            found.update(inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))
        elif not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))
    return frozenset(found - outside)
