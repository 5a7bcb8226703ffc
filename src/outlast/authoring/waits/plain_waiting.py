"""How a plain `def` body waits: `ctx.wait(charge(order))`, `ctx.gather(…)`. Layer: authoring.

Part of the context. What always holds: what is waited for is the very call that an async body awaits; so nothing but
the spelling differs. A call that is refused is closed, so that Python does not say that nobody awaited it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, overload

from outlast.authoring.runs.parent import Parent
from outlast.core.loop import running_body_loop
from outlast.errors import ExtraMissing, InvalidDefinition, NotInBody

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["Part", "PlainBodies", "PlainWaiting", "load_plain_bodies"]

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

Part: TypeAlias = Awaitable[T] | Callable[[], T]
"""One of several things to be waited for together: a call, or a plain function that waits itself."""

_ELSEWHERE = "A body waits in its own thread, while it runs: let others return what they have, or call it as a step."


class PlainBodies(NamedTuple):
    """What `outlast.core.loop.plain_bodies` gives; that needs an extra."""

    run: Callable[..., Coroutine[Any, Any, Any]]
    wait: Callable[[Awaitable[Any]], Any]


def load_plain_bodies(feature: str) -> PlainBodies:
    """Raises ExtraMissing without `outlast[sync]`."""
    try:
        from outlast.core.loop.plain_bodies import run_plainly, wait_here
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "outlast":
            raise
        raise ExtraMissing(feature, "sync") from error
    return PlainBodies(run_plainly, wait_here)


class PlainWaiting(Parent):
    """The part of a context that only a plain `def` body uses."""

    _plain: PlainBodies | None = None

    def let_wait(self, plain: PlainBodies) -> None:
        """This is the context of a plain body. The workflow says so."""
        self._plain = plain

    def wait(self, awaitable: Awaitable[T], /) -> T:
        """In a plain `def` body: wait for a call, and give its result: `receipt = ctx.wait(charge(order))`.

        It takes whatever an async body awaits: steps, children, sleeps, approvals, `asyncio.wait_for(…)`. Raises what
        the call raises; InvalidDefinition in an `async def`, which has `await`; NotInBody in a thread.
        """
        try:
            return self._plainly("wait()").wait(awaitable)  # type: ignore[no-any-return]
        except (InvalidDefinition, NotInBody):
            _close(awaitable)
            raise

    # As asyncio's own: a list, which mypy and pyright know as a tuple where that tells them more.
    @overload
    def gather(  # pyright: ignore[reportOverlappingOverload]  # see above
        self, first: Part[A], second: Part[B], /
    ) -> tuple[A, B]: ...
    @overload
    def gather(self, first: Part[A], second: Part[B], third: Part[C], /) -> tuple[A, B, C]: ...
    @overload
    def gather(self, first: Part[A], second: Part[B], third: Part[C], fourth: Part[D], /) -> tuple[A, B, C, D]: ...
    @overload
    def gather(self, *parts: Part[T]) -> list[T]: ...
    def gather(self, *parts: Any) -> Any:
        """In a plain `def` body: several calls at once, their results in order. It is `await asyncio.gather(*calls)`.

        A part may also be a plain function without parameters that waits itself: `ctx.gather(lambda: pack(ctx, item),
        …)`. The first error is raised at once, and the other calls go on. Raises as `wait`.
        """
        try:
            plain = self._plainly("gather()")
            calls = [plain.run(part) if not inspect.isawaitable(part) and callable(part) else part for part in parts]
            return plain.wait(asyncio.gather(*calls))
        except (InvalidDefinition, NotInBody):
            for part in parts:
                _close(part)
            raise

    def _plainly(self, call: str) -> PlainBodies:
        loop = running_body_loop()
        if loop is None or loop.machine is not self._machine:
            raise NotInBody(f"ctx.{call}", _ELSEWHERE)
        if self._plain is None:
            raise InvalidDefinition("Only a plain def body can wait like this", f"ctx.{call}", "Write await.")
        return self._plain


def _close(awaitable: object) -> None:
    """One that has not begun never will; what has ended is closed already."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()
