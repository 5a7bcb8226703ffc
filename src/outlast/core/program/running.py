"""Runs a program of the closed language as a body would run. Layer: core.

A program is walked, never compiled. It runs inside the body's loop, in coroutines of its own; awaiting one costs no
turn of the loop, so it asks for the same things in the same order as its source did. What always holds: a program
touches what `access` lets it, and what `World` gives it.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, Protocol

from outlast.core.program.access import NotInterpretable, known, load_class, set_attribute
from outlast.core.program.expressions import Expressions
from outlast.core.program.language import Program, Tree
from outlast.core.program.operators import INPLACE
from outlast.core.program.scopes import Function, Scope

__all__ = ["Interpreter", "World"]


class World(Protocol):
    """What a program reaches outside itself."""

    def step(self, name: str) -> Any:
        """The step of this name. Raises NotInterpretable."""
        ...

    def workflow(self, name: str) -> Any:
        """The workflow of this name. Raises NotInterpretable."""
        ...

    def stop(self, reason: str) -> None:
        """The program cannot go on: nothing that it asks for on its way out, in a `finally`, counts."""
        ...

    def attribute(self, value: Any, name: str) -> Any:
        """`value.name`, for what only the author's side knows: the context, steps, children; else `get_attribute`."""
        ...


class Flow(enum.Enum):
    """How a statement ends, if not by going on."""

    BREAK = enum.auto()
    CONTINUE = enum.auto()


class Returned:
    """It returned this."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


Signal = Flow | Returned | None


class Interpreter:
    """Runs one program."""

    def __init__(self, program: Program, world: World) -> None:
        self.world = world
        self._functions: Final[Mapping[str, Tree]] = {function.name: function.tree for function in program.functions}
        self._body = program.body
        self._made: dict[str, Function] = {}
        self._expressions = Expressions(self)
        self._statements: Final[Mapping[str, Callable[[Tree, Scope], Coroutine[Any, Any, Signal]]]] = {
            "Assert": self._assert,
            "Assign": self._assign,
            "AsyncFor": self._async_for,
            "AsyncWith": self._with,
            "AugAssign": self._augment,
            "Break": self._break,
            "Continue": self._continue,
            "Define": self._define,
            "Delete": self._delete,
            "Expr": self._expr,
            "For": self._for,
            "If": self._if,
            "Raise": self._raise,
            "Return": self._return,
            "Try": self._try,
            "While": self._while,
            "With": self._with,
        }

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the body."""
        body = await self.function(self._body, Scope(None))
        return await body(*args, **kwargs)

    async def evaluate(self, tree: Tree, scope: Scope) -> Any:
        """What an expression gives."""
        return await self._expressions.evaluate(tree, scope)

    async def function(self, tree: Tree, scope: Scope) -> Function:
        """A function, with its defaults."""
        defaults = [await self.evaluate(default, scope) for default in tree.get("defaults", ())]
        kw_defaults = {
            name: await self.evaluate(default, scope)
            for name, default in zip(tree.get("kwonly", ()), tree.get("kw_defaults", ()), strict=True)
            if default is not None
        }
        return Function(self, tree, scope, defaults, kw_defaults)

    async def global_function(self, name: str) -> Function:
        """One of the program's, made once."""
        made = self._made.get(name)
        if made is None:
            tree = self._functions.get(name)
            if tree is None:
                raise NotInterpretable(f"the function {name!r}, which did not come along")
            made = self._made[name] = await self.function(tree, Scope(None))
        return made

    def outside(self, tree: Tree) -> Any:
        """What a name outside the program stands for."""
        match tree["t"]:
            case "Step":
                return self.world.step(tree["name"])
            case "Workflow":
                return self.world.workflow(tree["name"])
            case "Known":
                return known(tree["path"])
            case _:
                return load_class(tree["module"], tree["name"])

    # --- statements ---------------------------------------------------------------------------------------------------

    async def block(self, statements: list[Tree], scope: Scope) -> Signal:
        """Statements in a row, until one of them ends it."""
        try:
            for statement in statements:
                run = self._statements.get(statement["t"])
                if run is None:
                    raise NotInterpretable(f"a statement of kind {statement['t']!r}")
                signal = await run(statement, scope)
                if signal is not None:
                    return signal
        except NotInterpretable as problem:
            self.world.stop(str(problem))
            raise
        except RecursionError as error:  # walking takes more of the stack than running would
            too_deep = NotInterpretable("calls that are too deep")
            self.world.stop(str(too_deep))
            raise too_deep from error
        return None

    async def _expr(self, tree: Tree, scope: Scope) -> Signal:
        await self.evaluate(tree["value"], scope)
        return None

    async def _assign(self, tree: Tree, scope: Scope) -> Signal:
        value = await self.evaluate(tree["value"], scope)
        for target in tree["targets"]:
            await self.bind(target, value, scope)
        return None

    async def _augment(self, tree: Tree, scope: Scope) -> Signal:
        target = tree["target"]
        if target["t"] == "Subscript":
            owner = await self.evaluate(target["value"], scope)
            index = await self.evaluate(target["slice"], scope)
            owner[index] = INPLACE[tree["op"]](owner[index], await self.evaluate(tree["value"], scope))
            return None
        if target["t"] == "Attribute":
            owner = await self.evaluate(target["value"], scope)
            before = self.world.attribute(owner, target["attr"])
            value = await self.evaluate(tree["value"], scope)
            set_attribute(owner, target["attr"], INPLACE[tree["op"]](before, value))
            return None
        before = await self.evaluate(target, scope)
        await self.bind(target, INPLACE[tree["op"]](before, await self.evaluate(tree["value"], scope)), scope)
        return None

    async def bind(self, target: Tree, value: Any, scope: Scope) -> None:
        """Give a target its value."""
        match target["t"]:
            case "Name":
                scope.set(target["id"], value)
            case "Tuple" | "List":
                await self._unpack(target["elts"], value, scope)
            case "Subscript":
                owner = await self.evaluate(target["value"], scope)
                owner[await self.evaluate(target["slice"], scope)] = value
            case "Attribute":
                set_attribute(await self.evaluate(target["value"], scope), target["attr"], value)
            case kind:
                raise NotInterpretable(f"an assignment to {kind!r}")

    async def _unpack(self, targets: list[Tree], value: Any, scope: Scope) -> None:
        values = list(value)
        star = next((place for place, target in enumerate(targets) if target["t"] == "Starred"), None)
        behind = 0 if star is None else len(targets) - star - 1
        if star is None and len(values) != len(targets):
            if len(values) > len(targets):
                raise ValueError(f"too many values to unpack (expected {len(targets)})")
            raise ValueError(f"not enough values to unpack (expected {len(targets)}, got {len(values)})")
        if star is None:
            star = len(targets)
        elif len(values) < len(targets) - 1:
            raise ValueError(f"not enough values to unpack (expected at least {len(targets) - 1}, got {len(values)})")
        for target, item in zip(targets[:star], values, strict=False):
            await self.bind(target, item, scope)
        if star < len(targets):
            await self.bind(targets[star]["value"], values[star : len(values) - behind], scope)
            for target, item in zip(targets[star + 1 :], values[len(values) - behind :], strict=True):
                await self.bind(target, item, scope)

    async def _delete(self, tree: Tree, scope: Scope) -> Signal:
        for target in tree["targets"]:
            if target["t"] == "Name":
                scope.delete(target["id"])
            elif target["t"] == "Subscript":
                owner = await self.evaluate(target["value"], scope)
                del owner[await self.evaluate(target["slice"], scope)]
            else:
                raise NotInterpretable(f"a deletion of {target['t']!r}")
        return None

    async def _define(self, tree: Tree, scope: Scope) -> Signal:
        scope.set(tree["name"], await self.function(tree["function"], scope))
        return None

    async def _return(self, tree: Tree, scope: Scope) -> Signal:
        return Returned(await self.evaluate(tree["value"], scope) if "value" in tree else None)

    async def _break(self, tree: Tree, scope: Scope) -> Signal:  # noqa: ARG002 - all have these two
        return Flow.BREAK

    async def _continue(self, tree: Tree, scope: Scope) -> Signal:  # noqa: ARG002
        return Flow.CONTINUE

    async def _assert(self, tree: Tree, scope: Scope) -> Signal:
        if not await self.evaluate(tree["test"], scope):
            raise AssertionError(*([await self.evaluate(tree["msg"], scope)] if "msg" in tree else []))
        return None

    async def _raise(self, tree: Tree, scope: Scope) -> Signal:
        if "exc" not in tree:
            raise  # noqa: PLE0704 - what a handler is at, here or in whoever called: Python knows
        error = await self.evaluate(tree["exc"], scope)
        if "cause" in tree:
            raise error from await self.evaluate(tree["cause"], scope)
        raise error

    # --- branches and loops -------------------------------------------------------------------------------------------

    async def _if(self, tree: Tree, scope: Scope) -> Signal:
        holds = await self.evaluate(tree["test"], scope)
        return await self.block(tree["body"] if holds else tree.get("orelse", []), scope)

    async def _loop(self, tree: Tree, scope: Scope, advance: Callable[[], Coroutine[Any, Any, bool]]) -> Signal:
        """Rounds, for as long as there is something to `advance` to."""
        while await advance():
            signal = await self.block(tree["body"], scope)
            if signal is Flow.BREAK:
                return None
            if isinstance(signal, Returned):
                return signal
        return await self.block(tree.get("orelse", []), scope)

    async def _while(self, tree: Tree, scope: Scope) -> Signal:
        async def advance() -> bool:
            return bool(await self.evaluate(tree["test"], scope))

        return await self._loop(tree, scope, advance)

    async def _for(self, tree: Tree, scope: Scope) -> Signal:
        items: Iterator[Any] = iter(await self.evaluate(tree["iter"], scope))

        async def advance() -> bool:
            for item in items:
                await self.bind(tree["target"], item, scope)
                return True
            return False

        return await self._loop(tree, scope, advance)

    async def _async_for(self, tree: Tree, scope: Scope) -> Signal:
        items: AsyncIterator[Any] = aiter(await self.evaluate(tree["iter"], scope))

        async def advance() -> bool:
            async for item in items:
                await self.bind(tree["target"], item, scope)
                return True
            return False

        return await self._loop(tree, scope, advance)

    # --- with, try ----------------------------------------------------------------------------------------------------

    async def _with(self, tree: Tree, scope: Scope) -> Signal:
        return await self._with_items(tree, tree["items"], scope)

    async def _with_items(self, tree: Tree, items: list[Tree], scope: Scope) -> Signal:
        """Enter these, one in the other; inside the last is the body."""
        if not items:
            return await self.block(tree["body"], scope)
        manager = await self.evaluate(items[0]["context_expr"], scope)
        signal: Signal = None  # where what was raised inside was swallowed
        if tree["t"] == "With":
            with manager as value:
                signal = await self._inside(tree, items, value, scope)
        else:
            async with manager as value:
                signal = await self._inside(tree, items, value, scope)
        return signal

    async def _inside(self, tree: Tree, items: list[Tree], value: Any, scope: Scope) -> Signal:
        if "optional_vars" in items[0]:
            await self.bind(items[0]["optional_vars"], value, scope)
        return await self._with_items(tree, items[1:], scope)

    async def _try(self, tree: Tree, scope: Scope) -> Signal:
        signal: Signal = None
        try:
            signal = await self._try_body(tree, scope)
        finally:
            last = await self.block(tree.get("finalbody", []), scope)
            if last is not None:  # a `return` there hides what was raised, as in Python
                return last  # noqa: B012
        return signal

    async def _try_body(self, tree: Tree, scope: Scope) -> Signal:
        try:
            signal = await self.block(tree["body"], scope)
        except NotInterpretable:
            raise
        except BaseException as error:
            for handler in tree.get("handlers", ()):
                if await self._catches(handler, error, scope):
                    return await self._handle(handler, error, scope)
            raise
        if signal is None:
            return await self.block(tree.get("orelse", []), scope)
        return signal

    async def _catches(self, handler: Tree, error: BaseException, scope: Scope) -> bool:
        return "type" not in handler or isinstance(error, await self.evaluate(handler["type"], scope))

    async def _handle(self, handler: Tree, error: BaseException, scope: Scope) -> Signal:
        name = handler.get("name")
        if name is not None:
            scope.set(name, error)
        try:
            return await self.block(handler["body"], scope)
        finally:
            if name is not None:
                scope.forget(name)
