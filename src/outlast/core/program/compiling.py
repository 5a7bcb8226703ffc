"""From the source of a body to a program of the closed language, where it can be had. Layer: core.

What always holds: a program says all that its body says, or there is none; the first thing that has no place in the
language is named, with its line.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

from outlast.core.plan.reading.express import OPERATORS, source_of
from outlast.core.plan.reading.frames import assigned_names
from outlast.core.plan.reading.meaning import (
    ClassMeaning,
    Definition,
    FunctionMeaning,
    KnownMeaning,
    Meaning,
    StepMeaning,
    ValueMeaning,
    WorkflowMeaning,
)
from outlast.core.program.access import is_known
from outlast.core.program.language import CONTEXT, FIELDS, Program, ProgramFunction, Tree

__all__ = ["NotClosed", "compile_program"]

_MOST_FUNCTIONS: Final = 200


class NotClosed(Exception):
    """The body says something that has no place in the language."""

    def __init__(self, node: ast.AST, module: str, why: str) -> None:
        self.line = getattr(node, "lineno", 0)
        super().__init__(f"{module}, line {self.line}: {source_of(node, 80)}: {why}")


def compile_program(body: FunctionMeaning) -> Program:
    """The program of a body. Raises NotClosed."""
    if not isinstance(body.definition, ast.AsyncFunctionDef):  # it waits within its calls, and programs are walked
        raise NotClosed(body.definition, body.scope.module, "a plain def body")
    compiler = _Compiler()
    tree = compiler.compile(body)
    functions = tuple(ProgramFunction(name, code) for name, code in compiler.functions.items())
    arguments = body.definition.args
    for spread in (arguments.vararg, arguments.kwarg):
        if spread is not None:
            raise NotClosed(spread, body.scope.module, "a body's parameter for any number of arguments")
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][1:]
    typed = {p.arg: source_of(p.annotation, 80) for p in parameters if p.annotation and not _is_json(p.annotation)}
    return Program(tree, functions, typed)


class _Compiler:
    def __init__(self) -> None:
        self.functions: dict[str, Tree] = {}
        self._names: dict[Definition, str] = {}
        self._handlers: Final[Mapping[type[ast.AST], Callable[[Any, _Place], Tree]]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Lambda: self._lambda,
            ast.FunctionDef: self._define,
            ast.AsyncFunctionDef: self._define,
            ast.AnnAssign: self._annotated,
        }

    def compile(self, function: FunctionMeaning) -> Tree:
        """A function at the top."""
        return self._function(function.definition, _Place(function, frozenset()))

    # --- functions ----------------------------------------------------------------------------------------------------

    def _function(self, definition: Definition, place: _Place) -> Tree:
        arguments = definition.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        spread = [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
        body: list[ast.stmt]
        body = [ast.Return(definition.body)] if isinstance(definition, ast.Lambda) else definition.body
        names = assigned_names(body) | {parameter.arg for parameter in (*parameters, *spread)}
        inside = _Place(place.function, place.names | names)
        tree: Tree = {"t": "Function", "args": [p.arg for p in (*arguments.posonlyargs, *arguments.args)]}
        if arguments.defaults:
            tree["defaults"] = [self.tree(default, place) for default in arguments.defaults]
        if arguments.kwonlyargs:
            tree["kwonly"] = [p.arg for p in arguments.kwonlyargs]
            tree["kw_defaults"] = [None if d is None else self.tree(d, place) for d in arguments.kw_defaults]
        for field, extra in (("vararg", arguments.vararg), ("kwarg", arguments.kwarg)):
            if extra is not None:
                tree[field] = extra.arg
        if isinstance(definition, ast.AsyncFunctionDef):
            tree["is_async"] = True
        tree["body"] = self.block(body, inside)
        return tree

    def _lambda(self, node: ast.Lambda, place: _Place) -> Tree:
        return self._function(node, place)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place) -> Tree:
        if node.decorator_list:
            raise place.refuse(node.decorator_list[0], "a decorator inside a body")
        return {"t": "Define", "name": node.name, "function": self._function(node, place)}

    def _global_function(
        self, node: ast.AST, function: FunctionMeaning, place: _Place, *, is_body: bool = False
    ) -> Tree:
        """A function of the author's: it comes along."""
        if function.bound is not None or function.frame is not None:
            raise place.refuse(node, "a method")
        name = self._names.get(function.definition)
        if name is None:
            definition = function.definition
            if not is_body and not isinstance(definition, ast.Lambda) and definition.decorator_list:
                raise place.refuse(node, "a function with a decorator")
            if len(self._names) >= _MOST_FUNCTIONS:
                raise place.refuse(node, "too many functions")
            name = f"{function.scope.module}.{function.name}#{len(self._names)}"
            self._names[definition] = name
            self.functions[name] = self.compile(function)
        return {"t": "Global", "name": name}

    # --- trees --------------------------------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt], place: _Place) -> list[Tree]:
        """Statements, without those that do nothing."""
        return [self.tree(statement, place) for statement in statements if not _is_idle(statement)]

    def tree(self, node: ast.AST, place: _Place) -> Tree:
        """Any node."""
        handler = self._handlers.get(type(node))
        if handler is not None:
            return handler(node, place)
        if isinstance(node, ast.Call):
            self._check_undo(node, place)
        kind = type(node).__name__
        fields = FIELDS.get(kind)
        if fields is None:
            raise place.refuse(node, f"{kind} has no place in a stored plan")
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            place = _Place(place.function, place.names | _targets(node))
            if isinstance(node, ast.GeneratorExp) and _awaits(node):
                raise place.refuse(node, "an asynchronous generator")
        tree: Tree = {"t": kind}
        for field in fields:
            value = self._field(getattr(node, field), place)
            if value not in (None, [], 0, -1, False) or isinstance(value, str):
                tree[field] = value
        if "body" in fields:
            tree.setdefault("body", [])
        return tree

    def _check_undo(self, call: ast.Call, place: _Place) -> None:
        """What undoes something runs as a step, outside the body: so it is one."""
        given = [keyword.value for keyword in call.keywords if keyword.arg == "compensate"]
        if isinstance(call.func, ast.Attribute) and call.func.attr == "compensate":
            given += call.args[:1]
        for undo in given:
            if not isinstance(undo, ast.Constant) and not isinstance(place.meaning(undo), StepMeaning):
                raise place.refuse(call, "an undo that is no step")

    def _field(self, value: Any, place: _Place) -> Any:
        if isinstance(value, list):
            if value and isinstance(value[0], ast.stmt):
                return self.block(value, place)
            return [self._field(item, place) for item in value]
        if isinstance(value, ast.operator | ast.unaryop | ast.boolop | ast.cmpop):
            return OPERATORS[type(value)]
        return self.tree(value, place) if isinstance(value, ast.AST) else value

    def _constant(self, node: ast.Constant, place: _Place) -> Tree:
        tree = _to_constant(node.value)
        if tree is None:
            raise place.refuse(node, "a constant that JSON does not have")
        return tree

    def _annotated(self, node: ast.AnnAssign, place: _Place) -> Tree:
        if node.value is None:
            return {"t": "Expr", "value": {"t": "Constant", "value": None}}
        return self.tree(ast.copy_location(ast.Assign([node.target], node.value), node), place)

    def _name(self, node: ast.Name, place: _Place) -> Tree:
        if node.id in place.names or not isinstance(node.ctx, ast.Load):
            if node.id not in place.names:
                raise place.refuse(node, "a global that is set")
            return {"t": "Name", "id": node.id}
        return self._outside(node, place.function.scope.find(node.id), place)

    def _attribute(self, node: ast.Attribute, place: _Place) -> Tree:
        meaning = place.meaning(node)
        if meaning is not None:
            return self._outside(node, meaning, place)
        of = place.meaning(node.value)
        if isinstance(of, WorkflowMeaning) and node.attr == "fn" and of.body is not None:
            return self._global_function(node, of.body, place, is_body=True)
        if isinstance(of, StepMeaning | WorkflowMeaning) and node.attr not in {"options", "name"}:
            raise place.refuse(node, "what it does runs no step")
        if node.attr.startswith("_"):
            raise place.refuse(node, "a private attribute")
        if isinstance(node.value, ast.Name) and node.value.id == place.context and node.attr not in CONTEXT:
            raise place.refuse(node, "not in the context of a stored plan")
        return {"t": "Attribute", "value": self.tree(node.value, place), "attr": node.attr}

    def _outside(self, node: ast.AST, meaning: Meaning | None, place: _Place) -> Tree:
        """What a name outside the function stands for."""
        match meaning:
            case StepMeaning(function=function, name=name):
                if name != function:
                    raise place.refuse(node, "a step that was tuned outside the body")
                return {"t": "Step", "name": function}
            case WorkflowMeaning(name=name, called=""):
                return {"t": "Workflow", "name": name}
            case FunctionMeaning():
                return self._global_function(node, meaning, place)
            case ClassMeaning(module=module, name=name):
                return {"t": "Class", "module": module, "name": name}
            case ValueMeaning(value=value):
                tree = _to_constant(value)
                if tree is not None:
                    return tree
            case KnownMeaning(path=path):
                if is_known(path):
                    return {"t": "Known", "path": path}
            case _:
                pass
        raise place.refuse(node, "what it stands for cannot be stored")


class _Place:
    """Where the compiler is: in which function, and which names are its own or those of functions around it."""

    def __init__(self, function: FunctionMeaning, names: frozenset[str]) -> None:
        self.function = function
        self.names = names
        arguments = function.definition.args
        first = [*arguments.posonlyargs, *arguments.args][:1]
        self.context = first[0].arg if first else ""

    def meaning(self, node: ast.AST) -> Meaning | None:
        """What a dotted name means that begins outside the function."""
        if isinstance(node, ast.Attribute):
            of = self.meaning(node.value)
            return None if of is None or isinstance(of, StepMeaning | WorkflowMeaning) else of.attribute(node.attr)
        if isinstance(node, ast.Name) and node.id not in self.names:
            return self.function.scope.find(node.id)
        return None

    def refuse(self, node: ast.AST, why: str) -> NotClosed:
        """The error to raise."""
        return NotClosed(node, self.function.scope.module, why)


def _is_idle(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _targets(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> frozenset[str]:
    targets = (part for clause in node.generators for part in ast.walk(clause.target))
    return frozenset(part.id for part in targets if isinstance(part, ast.Name))


def _is_json(annotation: ast.expr) -> bool:
    """Whether values of this type are the JSON that they are stored as."""
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in {"str", "int", "float", "bool", "list", "dict", "object", "Any"}
        case ast.Constant(value=None):
            return True
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return _is_json(item)
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[ast.Name(id="str"), item])):
            return _is_json(item)
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=item):
            return _is_json(item)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_json(left) and _is_json(right)
        case _:
            return False


def _awaits(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Await) or getattr(part, "is_async", 0) for part in ast.walk(node))


def _to_constant(value: object) -> Tree | None:
    """A value as a tree: an atom of JSON, or a tuple, list or dict of such."""
    if value is None or isinstance(value, bool | str):
        return {"t": "Constant", "value": value}
    if isinstance(value, int):
        return {"t": "Constant", "value": value} if -(1 << 63) <= value < 1 << 63 else None
    if isinstance(value, float):
        return {"t": "Constant", "value": value} if value - value == 0 else None
    if type(value) in {tuple, list}:
        items = [_to_constant(item) for item in value]  # type: ignore[attr-defined]
        return None if None in items else {"t": "Tuple" if type(value) is tuple else "List", "elts": items}
    if type(value) is dict:
        keys, values = [_to_constant(key) for key in value], [_to_constant(item) for item in value.values()]
        return None if None in keys or None in values else {"t": "Dict", "keys": keys, "values": values}
    return None
