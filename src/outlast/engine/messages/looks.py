"""Finding out what no message will tell a run. Layer: engine.

What always holds: the run stays in memory until that is done, for once it is parked only a message would wake it; and
if its worker dies meanwhile, whoever takes it over looks again, as part of the load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from outlast.errors import StoreError
from outlast.telemetry.logs import fields

if TYPE_CHECKING:
    from outlast.engine.hot import HotRun

__all__ = ["look"]

RETRY_S = 1.0
"""After a fault of the store."""


def look(run: HotRun, find: Callable[[], Awaitable[None]], what: str) -> None:
    """Have this found out in the background, and again while the store has faults. `find` gives the run what it finds;
    `what` it looks for is for the log."""
    run.looks += 1
    run.home.loader.spawn(_look_until_done(run, find, what))


async def _look_until_done(run: HotRun, find: Callable[[], Awaitable[None]], what: str) -> None:
    try:
        while not run.is_dropped:
            try:
                await find()
                break
            except StoreError as error:
                text = "%s of run %s could not be looked for: %s"
                run.home.log.warning(text, what, run.name, error, extra=fields(run.started))
            await asyncio.sleep(RETRY_S)
    finally:
        run.looks -= 1
    if run.is_quiet and not run.is_dropped:
        run.home.rests(run)
