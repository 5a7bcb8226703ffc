"""Run extensions: what others add to the context, and put around bodies (SPEC N2). Layer: authoring.

The engine names none of them: it runs a body, and whatever is around it runs in the same place. What always holds: an
extension runs on the body's loop and reaches the world through steps alone, as the body does; so what it adds is on
record, and comes out the same on every replay.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from outlast.errors import ExtensionMissing, InvalidDefinition

if TYPE_CHECKING:
    from outlast.authoring.context import Context
    from outlast.authoring.module import Module
    from outlast.core.machine import Machine

__all__ = ["Body", "Extension", "check_extensions", "extend_run", "find_added", "run_extended"]

T = TypeVar("T")

Body: TypeAlias = Callable[[], Awaitable[Any]]
"""What an extension is put around: the body, or the next extension around it. It gives the output."""


class Extension(Generic[T]):
    """Derive from it, and give one to the app: `Outlast(url, extensions=[Actors({"ada": client})])`.

    One object serves all runs of its process: what is one run's own belongs into what `extend` gives. What it does in a
    body, the body does: time, chance and the world are to be had from the context and from steps alone.
    """

    module: Module | None = None
    """Steps and workflows that it brings with it: they are included in the app."""

    def extend(self, ctx: Context, /) -> T:
        """What this run's `ctx.use(…)` gives for this extension. Called once, before the body begins."""
        raise NotImplementedError(f"{type(self).__name__} adds nothing to the context")

    async def wrap(self, ctx: Context, body: Body, /) -> Any:
        """Run the body: what is done before and after `await body()` is part of it, steps included.

        Gives the run's output. The first extension of an app is the outermost. An unwind is not wrapped.
        """
        del ctx
        return await body()


def check_extensions(extensions: Iterable[object]) -> tuple[Extension[Any], ...]:
    """Those of an app. Raises InvalidDefinition for what is none, and for two of one class."""
    found: list[Extension[Any]] = []
    for extension in extensions:
        if not isinstance(extension, Extension):
            problem = f"An extension was expected, and this is {type(extension).__name__}"
            raise InvalidDefinition(problem, repr(extension)[:200], "Give objects of classes derived from Extension.")
        if type(extension) in map(type, found):
            problem = f"There are two extensions of the class {type(extension).__name__}"
            raise InvalidDefinition(problem, "extensions=", "ctx.use() finds them by their class: give one of each.")
        found.append(extension)
    return tuple(found)


def extend_run(extension: Extension[Any], ctx: Context, added: dict[type[Extension[Any]], Any]) -> None:
    """Note what the extension adds to this run, if it adds anything."""
    if type(extension).extend is not Extension.extend:
        added[type(extension)] = extension.extend(ctx)


async def run_extended(ctx: Context, extensions: tuple[Extension[Any], ...], body: Body) -> Any:
    """The body, within all of them."""
    for extension in reversed(extensions):
        body = functools.partial(extension.wrap, ctx, body)
    return await body()


def find_added(machine: Machine, added: dict[type[Extension[Any]], Any], wanted: type[Extension[T]]) -> T:
    """What the extension of this class, or of one derived from it, has added to the run.

    Raises ExtensionMissing, whatever the body makes of exceptions: the run is suspended, and nothing of what its body
    asked for in this turn is recorded.
    """
    for kind, value in added.items():
        if issubclass(kind, wanted):
            found: T = value
            return found
    error = ExtensionMissing(wanted.__name__, machine.started.id)
    machine.loop.interrupt(error)
    raise error
