"""A process that decides approvals the moment it is told to: `python -m tests.waits.peer URL USER true|false`.

It reads ids of runs from standard input, and says of each what became of its decision.
"""

from __future__ import annotations

import asyncio
import sys

from outlast import ApprovalResolved, Outlast, User


async def decide(url: str, user: str, value: bool) -> None:
    async with Outlast(url) as app:
        print("ready", flush=True)
        while id := (await asyncio.to_thread(sys.stdin.readline)).strip():
            run = await app.get_run(id)
            try:
                decided = await run.approve("ship it?", {"ok": value}, by=User(user), timeout=20)
                told = f"accepted {decided.by.id}"
            except ApprovalResolved as error:
                told = f"resolved {error.outcome}"
            print(told, flush=True)


if __name__ == "__main__":
    asyncio.run(decide(sys.argv[1], sys.argv[2], sys.argv[3] == "true"))
