"""Bodies that need no machine: what the tests of the loop itself share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from outlast.core.loop import BodyLoop, BodyTask


async def pause() -> None:
    await asyncio.sleep(0)


def run_body(body: Callable[[], Coroutine[Any, Any, Any]], *, dev: bool = False) -> BodyTask:
    """A body that needs nobody but its timers, run to its end."""
    loop = BodyLoop(start_us=0, dev=dev)
    root = loop.spawn_root(body())
    loop.drain()
    while not root.done():
        timer = loop.next_timer()
        assert timer is not None, loop.task_stacks()
        assert loop.fire_timer(timer.ordinal)
        loop.drain()
    return root
