"""The expressions of a running program. Layer: core.

What always holds: parts are evaluated in Python's order, and only those that Python would.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from outlast.core.program.access import NotInterpretable
from outlast.core.program.language import Tree
from outlast.core.program.operators import BINARY, COMPARING, UNARY
from outlast.core.program.scopes import Scope, finish

if TYPE_CHECKING:
    from outlast.core.program.running import Interpreter

__all__ = ["Expressions"]

_Add: TypeAlias = Callable[[Scope], Coroutine[Any, Any, None]]


def _as_it_is(value: Any) -> Any:
    return value


_CONVERSIONS: Final[Mapping[int, Callable[[Any], Any]]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}


class Expressions:
    """Evaluates expressions, for one interpreter."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._handlers: Final[Mapping[str, Callable[[Tree, Scope], Coroutine[Any, Any, Any]]]] = {
            "Attribute": self._attribute,
            "Await": self._await,
            "BinOp": self._binary,
            "BoolOp": self._bool,
            "Call": self._call,
            "Compare": self._compare,
            "Dict": self._dict,
            "DictComp": self._dict_comp,
            "FormattedValue": self._formatted,
            "Function": self._function,
            "GeneratorExp": self._generator,
            "Global": self._global,
            "IfExp": self._choice,
            "JoinedStr": self._joined,
            "List": self._list,
            "ListComp": self._list_comp,
            "NamedExpr": self._named,
            "Set": self._set,
            "SetComp": self._set_comp,
            "Slice": self._slice,
            "Subscript": self._subscript,
            "Tuple": self._tuple,
            "UnaryOp": self._unary,
        }

    async def evaluate(self, tree: Tree, scope: Scope) -> Any:
        """What an expression gives."""
        kind = tree["t"]
        if kind == "Name":
            return scope.get(tree["id"])
        if kind == "Constant":
            return tree["value"]
        if kind in {"Step", "Workflow", "Known", "Class"}:
            return self._interpreter.outside(tree)
        handler = self._handlers.get(kind)
        if handler is None:
            raise NotInterpretable(f"an expression of kind {kind!r}")
        return await handler(tree, scope)

    async def _maybe(self, tree: Tree | None, scope: Scope) -> Any:
        return None if tree is None else await self.evaluate(tree, scope)

    # --- simple ones --------------------------------------------------------------------------------------------------

    async def _attribute(self, tree: Tree, scope: Scope) -> Any:
        return self._interpreter.world.attribute(await self.evaluate(tree["value"], scope), tree["attr"])

    async def _await(self, tree: Tree, scope: Scope) -> Any:
        return await (await self.evaluate(tree["value"], scope))

    async def _function(self, tree: Tree, scope: Scope) -> Any:
        return await self._interpreter.function(tree, scope)

    async def _global(self, tree: Tree, scope: Scope) -> Any:  # noqa: ARG002 - all have these two
        return await self._interpreter.global_function(tree["name"])

    async def _named(self, tree: Tree, scope: Scope) -> Any:
        value = await self.evaluate(tree["value"], scope)
        await self._interpreter.bind(tree["target"], value, scope)
        return value

    async def _subscript(self, tree: Tree, scope: Scope) -> Any:
        of = await self.evaluate(tree["value"], scope)
        if isinstance(of, type):
            raise NotInterpretable("a part of a class")
        return of[await self.evaluate(tree["slice"], scope)]

    async def _slice(self, tree: Tree, scope: Scope) -> Any:
        return slice(*[await self._maybe(tree.get(part), scope) for part in ("lower", "upper", "step")])

    async def _binary(self, tree: Tree, scope: Scope) -> Any:
        left = await self.evaluate(tree["left"], scope)
        return BINARY[tree["op"]](left, await self.evaluate(tree["right"], scope))

    async def _unary(self, tree: Tree, scope: Scope) -> Any:
        return UNARY[tree["op"]](await self.evaluate(tree["operand"], scope))

    async def _bool(self, tree: Tree, scope: Scope) -> Any:
        value: Any = None
        for part in tree["values"]:
            value = await self.evaluate(part, scope)
            if bool(value) is (tree["op"] == "or"):
                break
        return value

    async def _choice(self, tree: Tree, scope: Scope) -> Any:
        holds = await self.evaluate(tree["test"], scope)
        return await self.evaluate(tree["body" if holds else "orelse"], scope)

    async def _compare(self, tree: Tree, scope: Scope) -> Any:
        left = await self.evaluate(tree["left"], scope)
        answer: Any = True
        for op, part in zip(tree["ops"], tree["comparators"], strict=True):
            right = await self.evaluate(part, scope)
            answer = COMPARING[op](left, right)
            if not answer:
                break
            left = right
        return answer

    async def _joined(self, tree: Tree, scope: Scope) -> str:
        return "".join([str(await self.evaluate(part, scope)) for part in tree.get("values", ())])

    async def _formatted(self, tree: Tree, scope: Scope) -> str:
        value = await self.evaluate(tree["value"], scope)
        convert = _CONVERSIONS.get(tree.get("conversion", 0), _as_it_is)
        spec = await self._maybe(tree.get("format_spec"), scope)
        return format(convert(value), spec or "")

    # --- calls --------------------------------------------------------------------------------------------------------

    async def _call(self, tree: Tree, scope: Scope) -> Any:
        function = await self.evaluate(tree["func"], scope)
        args = await self._items(tree.get("args", []), scope)
        kwargs: dict[str, Any] = {}
        for keyword in tree.get("keywords", ()):
            value = await self.evaluate(keyword["value"], scope)
            for name, item in [(keyword["arg"], value)] if "arg" in keyword else dict(value).items():
                if name in kwargs:
                    raise TypeError(f"got multiple values for keyword argument {name!r}")
                kwargs[name] = item
        return function(*args, **kwargs)

    # --- collections --------------------------------------------------------------------------------------------------

    async def _items(self, trees: list[Tree], scope: Scope) -> list[Any]:
        items: list[Any] = []
        for tree in trees:
            if tree["t"] == "Starred":
                items += await self.evaluate(tree["value"], scope)
            else:
                items.append(await self.evaluate(tree, scope))
        return items

    async def _list(self, tree: Tree, scope: Scope) -> list[Any]:
        return await self._items(tree.get("elts", []), scope)

    async def _tuple(self, tree: Tree, scope: Scope) -> tuple[Any, ...]:
        return tuple(await self._items(tree.get("elts", []), scope))

    async def _set(self, tree: Tree, scope: Scope) -> set[Any]:
        return set(await self._items(tree.get("elts", []), scope))

    async def _dict(self, tree: Tree, scope: Scope) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, part in zip(tree.get("keys", ()), tree.get("values", ()), strict=True):
            if key is None:
                made.update(await self.evaluate(part, scope))
            else:
                name = await self.evaluate(key, scope)
                made[name] = await self.evaluate(part, scope)
        return made

    async def _list_comp(self, tree: Tree, scope: Scope) -> list[Any]:
        made: list[Any] = []

        async def add(inside: Scope) -> None:
            made.append(await self.evaluate(tree["elt"], inside))

        await self._rounds(tree, scope, add)
        return made

    async def _generator(self, tree: Tree, scope: Scope) -> Iterator[Any]:
        clauses = tree["generators"]
        return self._drawn(tree, clauses, await self.evaluate(clauses[0]["iter"], scope), _inside(clauses, scope))

    def _drawn(self, tree: Tree, clauses: list[Tree], over: Any, scope: Scope) -> Iterator[Any]:
        """As it is drawn from, since what is drawn first may count; nothing in it can wait."""
        clause, *others = clauses
        for item in over:
            finish(self._interpreter.bind(clause["target"], item, scope))
            if not all(finish(self.evaluate(test, scope)) for test in clause.get("ifs", ())):
                continue
            if others:
                yield from self._drawn(tree, others, finish(self.evaluate(others[0]["iter"], scope)), scope)
            else:
                yield finish(self.evaluate(tree["elt"], scope))

    async def _set_comp(self, tree: Tree, scope: Scope) -> set[Any]:
        return set(await self._list_comp(tree, scope))

    async def _dict_comp(self, tree: Tree, scope: Scope) -> dict[Any, Any]:
        made: dict[Any, Any] = {}

        async def add(inside: Scope) -> None:
            key = await self.evaluate(tree["key"], inside)
            made[key] = await self.evaluate(tree["value"], inside)

        await self._rounds(tree, scope, add)
        return made

    async def _rounds(self, tree: Tree, scope: Scope, add: _Add) -> None:
        """Each round of a comprehension. No asynchronous generator: the loop would take it for one of the body's."""
        clauses = tree["generators"]
        first = await self.evaluate(clauses[0]["iter"], scope)  # outside, as in Python
        await self._clause(clauses, first, _inside(clauses, scope), add)

    async def _clause(self, clauses: list[Tree], over: Any, scope: Scope, add: _Add) -> None:
        if clauses[0].get("is_async"):
            async for item in over:
                await self._round(clauses, item, scope, add)
        else:
            for item in over:
                await self._round(clauses, item, scope, add)

    async def _round(self, clauses: list[Tree], item: Any, scope: Scope, add: _Add) -> None:
        clause, *others = clauses
        await self._interpreter.bind(clause["target"], item, scope)
        for test in clause.get("ifs", ()):
            if not await self.evaluate(test, scope):
                return
        if others:
            await self._clause(others, await self.evaluate(others[0]["iter"], scope), scope, add)
        else:
            await add(scope)


def _inside(clauses: list[Tree], scope: Scope) -> Scope:
    """The scope of a comprehension."""
    return Scope(scope, frozenset(name for clause in clauses for name in _names_in(clause["target"])))


def _names_in(target: Tree) -> list[str]:
    if target["t"] == "Name":
        return [target["id"]]
    if target["t"] == "Starred":
        return _names_in(target["value"])
    return [name for part in target.get("elts", ()) for name in _names_in(part)]
