"""Variables and functions of a running program. Layer: core."""

# ruff: noqa: SLF001 - scopes look into each other

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.core.program.language import Tree
    from outlast.core.program.running import Interpreter

__all__ = ["Function", "Scope", "finish"]


class Scope:
    """The variables of one call; of a comprehension, its own beside those around it."""

    __slots__ = ("_names", "_outer", "_values")

    def __init__(self, outer: Scope | None, names: frozenset[str] | None = None) -> None:
        """`names`: of a comprehension, those that are its own; all others are set outside."""
        self._outer = outer
        self._names = names
        self._values: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """Raises UnboundLocalError."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._values:
                return scope._values[name]
            scope = scope._outer
        raise UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")

    def set(self, name: str, value: Any) -> None:
        """Give a variable its value."""
        if self._names is not None and name not in self._names and self._outer is not None:
            self._outer.set(name, value)
        else:
            self._values[name] = value

    def delete(self, name: str) -> None:
        """Raises UnboundLocalError."""
        if name not in self._values:
            raise UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")
        del self._values[name]

    def forget(self, name: str) -> None:
        """Delete it, if it is there."""
        self._values.pop(name, None)


class Function:
    """A function of the program: called as any other, also by what Python's own functions are given it for."""

    def __init__(
        self,
        interpreter: Interpreter,
        tree: Tree,
        scope: Scope,
        defaults: list[Any],
        kw_defaults: dict[str, Any],
    ) -> None:
        self._interpreter = interpreter
        self._tree = tree
        self._scope = scope
        self._defaults = defaults
        self._kw_defaults = kw_defaults
        self.__name__ = "function"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A coroutine, of an `async def`; else what it returns. Raises TypeError for arguments that do not fit."""
        scope = Scope(self._scope)
        self._bind(scope, args, kwargs)
        running = self._run(scope)
        return running if self._tree.get("is_async") else finish(running)

    async def _run(self, scope: Scope) -> Any:
        signal = await self._interpreter.block(self._tree["body"], scope)
        return getattr(signal, "value", None)

    def _bind(self, scope: Scope, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        names = self._tree["args"]
        given = dict(zip(names, args, strict=False))
        rest = args[len(names) :]
        extra: dict[str, Any] = {}
        kwonly = self._tree.get("kwonly", ())
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"got multiple values for argument {name!r}")
            (given if name in names or name in kwonly else extra)[name] = value
        defaults = dict(zip(names[len(names) - len(self._defaults) :], self._defaults, strict=True))
        for name in (*names, *kwonly):
            if name not in given:
                known = defaults if name in defaults else self._kw_defaults
                if name not in known:
                    raise TypeError(f"missing the argument {name!r}")
                given[name] = known[name]
        if (rest and "vararg" not in self._tree) or (extra and "kwarg" not in self._tree):
            raise TypeError(f"takes {len(names)} arguments, and got {len(args) + len(kwargs)}")
        for name, value in given.items():
            scope.set(name, value)
        if "vararg" in self._tree:
            scope.set(self._tree["vararg"], rest)
        if "kwarg" in self._tree:
            scope.set(self._tree["kwarg"], extra)


def finish(running: Coroutine[Any, Any, Any]) -> Any:
    """Run to its end what awaits nothing."""
    try:
        running.send(None)
    except StopIteration as stop:
        return stop.value
    running.close()
    raise RuntimeError("what is no async function of a stored plan cannot wait")
