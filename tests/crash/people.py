"""People who answer runs of `asking` while workers die, and do not know whether they were heard."""

from __future__ import annotations

import asyncio
from typing import Any

from outlast import ApprovalResolved, RunEnded, User, WaitNotFound
from outlast.app import Outlast

__all__ = ["DECISIONS", "answer", "decide"]

DECISIONS: dict[str, tuple[bool, User]] = {"b": (True, User("bob")), "e": (False, User("eve"))}
"""By the key of the attempt."""


async def answer(app: Outlast, id: str, every_s: float = 0.02) -> None:
    """Answer whatever it waits for, again and again, as people do who do not know whether they were heard."""
    run = await app.get_run(id)
    while not (info := await run.status()).finished_at:
        await run.signal("paid", 7, key="evt")
        for wait in info.waits:
            if wait.kind == "gate":
                try:
                    await run.resume(wait.key)
                except (WaitNotFound, RunEnded):
                    pass  # somebody was quicker: an earlier try of ours
            elif wait.kind == "approval":
                await asyncio.gather(*(decide(run, key, 0.2) for key in DECISIONS))
        await asyncio.sleep(every_s)


async def decide(run: Any, key: str, timeout_s: float) -> object:
    """What became of this decision: the verdict, or why there is none."""
    value, user = DECISIONS[key]
    try:
        return await run.approve("ship it?", value, by=user, key=key, timeout=timeout_s)
    except (ApprovalResolved, TimeoutError) as error:
        return error
