"""A step called outside a run: a plain call of its function, so that steps can be tested and reused. Layer: authoring.

What always holds: nothing is recorded and nothing retried; and the clean-up of a body that was dropped instead of
evicted runs no step at all (LOOP §3's second wall).
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.events import _get_running_loop  # pyright: ignore[reportPrivateUsage]
from typing import Any, Final

from outlast.authoring.current import StepInfo, detached_step, find_current_step, reset_step, set_step
from outlast.authoring.function import Function
from outlast.telemetry.logs import STEPS, Fields

__all__ = ["call_plainly"]

_MOST_PAIRS: Final = 1000
_known_pairs: set[tuple[str, str]] = set()


async def call_plainly(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the function as a worker does: an `async def` here, a plain one in a thread. `current_step()` is detached."""
    if _is_ending():
        raise GeneratorExit
    outer = find_current_step()
    if outer is not None:
        _note_nested(outer, function)
    token = set_step(detached_step(function.name, outer))
    try:
        if function.is_async:
            return await function.fn(*args, **kwargs)
        if _get_running_loop() is None:  # driven by another library, or by hand
            return function.fn(*args, **kwargs)
        return await asyncio.to_thread(function.fn, *args, **kwargs)
    finally:
        reset_step(token)


def _is_ending() -> bool:
    """Whether a GeneratorExit is being handled somewhere up the stack: then a coroutine is closed, not run.

    A body that the collector found runs its `finally` outside its loop. A step there would have its effect for real.
    """
    error = sys.exc_info()[1]
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, GeneratorExit):
            return True
        seen.add(id(error))
        error = error.__context__
    return False


def _note_nested(outer: StepInfo, function: Function) -> None:
    """Say once for each pair that the inner step is not one here."""
    pair = outer.key.partition("#")[0], function.name
    if pair in _known_pairs or len(_known_pairs) >= _MOST_PAIRS:
        return
    _known_pairs.add(pair)
    text = "step %s was called within step %s: it runs as a plain function there, without record or retries"
    extra = Fields(run=outer.run_id, step=outer.key, attempt=outer.attempt, trace=outer.traceparent)
    STEPS.warning(text, pair[1], pair[0], extra=extra)
