"""Plain `def` bodies: each runs in a greenlet; where it waits, its task's coroutine awaits in its stead. Layer: core.

Needs the extra `outlast[sync]`. No thread is held, and nothing else of the loop knows of it: to the machine such a body
is a coroutine like any other. What always holds: a plain body waits only by handing an awaitable to the coroutine that
drives it. So what is true of a coroutine's awaits, cancelling, eviction and replay, is true of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, TypeVar, cast, final

from greenlet import getcurrent, greenlet

from outlast.core.loop.body_loop import running_body_loop
from outlast.core.loop.eviction import keep_for_ever
from outlast.core.loop.refusals import DRIVEN_BY_HAND
from outlast.errors import EffectInBody, InvalidDefinition

__all__ = ["run_plainly", "wait_here"]

T = TypeVar("T")

_TRIES: Final = 8
"""How often a body may answer its end with one more wait."""


@final
class _PlainBody(greenlet):
    """One function that may wait. Its parent is the greenlet of the loop."""


async def run_plainly(fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call `fn`, which may wait with `wait_here`; gives what it returns, raises what it raises.

    A cancel, and the GeneratorExit of an eviction, reach `fn` where it waits. It sees the context variables of the task
    that runs this, and what it sets is seen there: both have one context.
    """
    plain_body = _PlainBody(_begin)  # `tasks.format_stacks` knows it by this name
    plain_body.gr_context = getcurrent().gr_context
    awaitable = plain_body.switch(fn, args, kwargs)
    dropped = 0
    while not plain_body.dead:
        try:
            outcome = await awaitable
        except BaseException as error:  # noqa: BLE001 - all of it is for `fn`
            dropped += isinstance(error, GeneratorExit)
            if dropped > _TRIES:
                _give_up(plain_body)
            awaitable = plain_body.throw(error)
        else:
            awaitable = plain_body.switch(outcome)
            del outcome  # which may be large, and the next wait long
    return cast(T, awaitable)


def wait_here(awaitable: Awaitable[T]) -> T:
    """What the awaitable gives, waited for in a plain body. Raises what it raises; InvalidDefinition in an async def.

    The caller has seen to it that this thread runs the body's loop.
    """
    plain_body = getcurrent()
    if type(plain_body) is not _PlainBody or plain_body.parent is None:
        raise InvalidDefinition(
            "Only a plain def body can wait like this", "ctx.wait() in an async def", "Write await."
        )
    return cast(T, plain_body.parent.switch(awaitable))


def _give_up(plain_body: _PlainBody) -> NoReturn:
    """It swallows its end and waits again. Freed, a greenlet that has not ended is ended once more, so it is kept."""
    keep_for_ever(plain_body)
    loop = running_body_loop()
    if loop is not None:
        loop.stuck += 1
    raise RuntimeError("plain body ignored GeneratorExit")


def _begin(fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """The outermost frame of a plain body: a greenlet's stack ends here."""
    try:
        return fn(*args, **kwargs)
    except RuntimeError as error:
        # It says what cannot be done, and not what can: an author of plain functions need not know of loops.
        if str(error) != "asyncio.run() cannot be called from a running event loop":
            raise
        raise EffectInBody("asyncio.run()", DRIVEN_BY_HAND) from error
