"""Reads a body: its syntax tree in, the nodes of its plan out. Layer: core.

The reader walks the source once, in the order in which Python evaluates it, and keeps for each variable what it is
known to be: a step under another name, a call that was made and not awaited, the result of a node. What always holds:
nothing is dropped. A step or workflow that is named anywhere in what was read stands in some node; where no better one
was found, in an `OpaqueNode` with its source.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from outlast.core.keys import take_key
from outlast.core.plan.expressions import Expr, Reference
from outlast.core.plan.nodes import ChildNode, Node, OpaqueNode, StepNode
from outlast.core.plan.reading.calls import Calls
from outlast.core.plan.reading.express import Express, source_of
from outlast.core.plan.reading.frames import UNKNOWN, Frame, Thunk, Value, assigned_names
from outlast.core.plan.reading.meaning import (
    Definition,
    FunctionMeaning,
    KnownMeaning,
    Meaning,
    Scope,
    StepMeaning,
    WorkflowMeaning,
)
from outlast.core.plan.reading.reach import Reach
from outlast.core.plan.reading.statements import Statements
from outlast.core.plan.reading.values import Values

__all__ = ["NEVER_AWAITED", "NOBODY_WAITS", "Reader"]

NEVER_AWAITED: Final = "it is never awaited"
NOBODY_WAITS: Final = "nothing waits for it"

MOST_NODES: Final = 2_000
"""Past this, functions are not followed any more: one that calls another twice, which calls a third twice …"""
DEEPEST: Final = 8
"""Functions inside functions that are followed."""


class Reader:
    """Reads one body. Its parts: `statements`, `values` (expressions) and `calls`."""

    def __init__(self, body: FunctionMeaning) -> None:
        self.statements = Statements(self)
        self.values = Values(self)
        self.calls = Calls(self)
        self.reach = Reach()
        self.results: dict[ast.AST, str] = {}
        """Parts of the tree that are results of nodes."""
        self.followed: dict[Definition, FunctionMeaning] = {}
        """The functions that were read, in the order in which the body comes to them; the body first."""
        self.named: dict[str, None] = {}
        """Registered names of all steps and workflows met, in order."""
        self.stack: list[Frame] = []
        self._body = body
        self._block: list[Node] = []
        self._keys: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._size = 0
        self._shown: set[int] = set()
        self._open: list[Thunk] = []

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self) -> tuple[Node, ...]:
        """The nodes of the body."""
        frame = self.frame_of(self._body)
        frame.is_body = True
        parameters = _parameters(self._body.definition)
        for place, name in enumerate(parameters):
            frame.variables[name] = Value(meaning=KnownMeaning("ctx")) if place == 0 else Value(form="input")
        with self.block() as nodes:
            self.run(frame)
            self.close_open(0)
            for definition, function in list(self.followed.items()):
                self._show_rest(definition, function)
        return tuple(nodes)

    def run(self, frame: Frame) -> None:
        """Read a function's statements; its nodes go where the reader stands."""
        definition = frame.function.definition
        self.followed.setdefault(definition, frame.function)
        self.stack.append(frame)
        mark = len(self._open)
        try:
            if isinstance(definition, ast.Lambda):
                frame.returns.append(self.values.read(definition.body))
            else:
                self.statements.read_all(definition.body)
            if not frame.is_body:
                kept = {thunk for value in frame.returns for thunk in value.calls()}
                self.close_open(mark, kept)
        finally:
            self.stack.pop()

    def frame_of(self, function: FunctionMeaning) -> Frame:
        """A frame for reading this function; its parameters are still unknown."""
        definition = function.definition
        body = [definition.body] if isinstance(definition, ast.Lambda) else definition.body
        names = assigned_names(body) | set(_parameters(definition))
        return Frame(function, names, {}, function.frame)

    @property
    def frame(self) -> Frame:
        """The function that is being read."""
        return self.stack[-1]

    @property
    def scope(self) -> Scope:
        """Where its free names are found."""
        return self.frame.function.scope

    def may_follow(self, function: FunctionMeaning) -> str:
        """Why not; empty: it may."""
        if any(frame.function.definition is function.definition for frame in self.stack):
            return "it calls itself"
        if len(self.stack) > DEEPEST:
            return f"it is more than {DEEPEST} calls away"
        return "the plan is too large already" if self._size > MOST_NODES else ""

    def forget_outside(self, name: str) -> None:
        """A variable of a function around this one was set."""
        frame = self.frame.outer
        while frame is not None:
            if name in frame.names:
                frame.variables[name] = UNKNOWN
            frame = frame.outer

    # --- nodes -------------------------------------------------------------------------------------------------------

    def step_id(self, name: str) -> str:
        """The next free key of a step's name."""
        return take_key(self._keys, name)

    def new_id(self, form: str) -> str:
        """An id for what is no step: no step's key begins with `#`."""
        self._counts[form] = count = self._counts.get(form, 0) + 1
        return f"#{form}{count}"

    def add(self, node: Node) -> str:
        """Put it where the reader stands; answers its id."""
        self._block.append(node)
        self._size += 1
        return node.id

    @property
    def last_node(self) -> Node | None:
        """The latest one where the reader stands."""
        return self._block[-1] if self._block else None

    @contextmanager
    def block(self) -> Generator[list[Node]]:
        """What is added inside goes into a list of its own."""
        before, self._block = self._block, []
        try:
            yield self._block
        finally:
            self._block = before

    def begin_later(self, thunk: Thunk) -> str:
        """Show a call here that begins elsewhere, where what holds it is awaited; answers its id."""
        if thunk.result is None:
            mark = len(self._block)
            self.begin(thunk)
            self._block[mark:] = [
                replace(node, when="later") if isinstance(node, StepNode | ChildNode) else node
                for node in self._block[mark:]
            ]
        return thunk.result or ""

    # --- expressions -------------------------------------------------------------------------------------------------

    @property
    def express(self) -> Express:
        """Makes expressions of what the function at hand says."""
        return Express(self.refer, self.results)

    def express_maybe(self, node: ast.AST | None) -> Expr | None:
        """The expression, if there is one."""
        return None if node is None else self.express(node)

    def refer(self, name: str) -> Reference:
        """What a name stands for."""
        value = self.frame.find(name)
        if value is None:
            return Reference(name, "global")
        if value.form == "input":
            return Reference(name, "input")
        if isinstance(value.meaning, KnownMeaning) and value.meaning.path == "ctx":
            return Reference(name, "context")
        if value.result:
            return Reference(name, "result", value.result)
        return Reference(name, "item", value.loop) if value.loop else Reference(name)

    # --- that nothing is dropped -------------------------------------------------------------------------------------

    def make_thunk(
        self,
        node: ast.AST,
        begin: Callable[[], str],
        functions: tuple[str, ...],
        parts: Iterable[Value] = (),
        *,
        is_eager: bool = False,
    ) -> Value:
        """A call that begins where it is awaited, and with it the calls in `parts`. At the end it is shown if it is
        still open."""
        inside = tuple(dict.fromkeys(thunk for value in parts for thunk in value.calls()))
        thunk = Thunk(begin, functions, source_of(node), getattr(node, "lineno", 0), inside, is_eager)
        self._open.append(thunk)
        return Value(thunks=(thunk,))

    def begin(self, thunk: Thunk) -> str:
        """Begin it here, if it has not begun; answers the id of the node whose result it has."""
        if thunk.result is None:
            thunk.result = ""  # a call that awaits itself ends here
            thunk.result = thunk.begin()
        return thunk.result

    def mark_shown(self, value: Value) -> None:
        """What it means stands in a node."""
        for part in value.parts():
            self._shown |= part.origins

    def note_reference(self, meaning: Meaning) -> None:
        """A step or workflow was named: for the fingerprint."""
        match meaning:
            case StepMeaning(function=name) | WorkflowMeaning(name=name):
                self.named[name] = None
            case _:
                pass

    def note_harmless(self, node: ast.AST) -> None:
        """What is named here is no step."""
        self._shown.add(id(node))

    def show_opaque(self, node: ast.AST, why: str, *values: Value) -> str:
        """Show what cannot be read, and all that may run in it."""
        functions = dict.fromkeys(name for value in values for name in value.functions(self.reach))
        node_id = self.new_id("opaque")
        for value in values:
            self.mark_shown(value)
            for call in value.calls():
                for thunk in (call, *call.inside()):
                    thunk.result = thunk.result or node_id
        source = source_of(node)
        return self.add(OpaqueNode(node_id, getattr(node, "lineno", 0), source, source, why, tuple(functions)))

    def excuse(self, thunk: Thunk) -> None:
        """It is no loss if nothing awaits it."""
        self._open.remove(thunk)

    def close_open(self, mark: int, kept: Iterable[Thunk] = ()) -> None:
        """Calls made since `mark` that nothing awaited: Python would never run them, or they go on by themselves."""
        left = [thunk for thunk in self._open[mark:] if thunk.result is None]
        inside = {part for thunk in left for part in thunk.inside()}
        passed_on = {part for thunk in kept for part in (thunk, *thunk.inside())}
        del self._open[mark:]
        self._open += [thunk for thunk in left if thunk in passed_on]
        for thunk in left:
            if thunk not in passed_on and thunk not in inside:
                why = NOBODY_WAITS if thunk.is_eager else NEVER_AWAITED
                node_id = self.new_id("opaque")
                thunk.result = node_id
                self.add(OpaqueNode(node_id, thunk.line, thunk.source, thunk.source, why, thunk.functions))

    def _show_rest(self, definition: Definition, function: FunctionMeaning) -> None:
        """The second net: whatever names a step anywhere in the source, and stands in no node."""
        for node in ast.walk(definition):
            if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            if id(node) in self._shown:
                continue
            meaning = self.reach.plain_meaning(node, function)
            is_function = isinstance(meaning, FunctionMeaning) and meaning.definition not in self.followed
            if not is_function and not isinstance(meaning, StepMeaning | WorkflowMeaning):
                continue
            if isinstance(meaning, FunctionMeaning) and not self.reach(meaning):
                continue
            if isinstance(node, ast.Attribute):
                self._shown.add(id(node.value))
            value = Value(meaning=meaning, origins=frozenset({id(node)}))
            self.show_opaque(node, "it is named here, and how it is called cannot be read", value)


def _parameters(definition: Definition) -> list[str]:
    arguments = definition.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    spread = [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
    return [argument.arg for argument in (*named, *spread)]
