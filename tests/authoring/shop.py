"""Steps and errors at the top of a module, where another process finds them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from outlast.authoring.current import current_step
from outlast.authoring.module import Module

shop = Module("shop")


class Unpicklable(Exception):
    """As many authors write them: what pickle calls its class with is not what the class takes."""

    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.retryable = False


@dataclass
class Job:
    n: int


@shop.step
def square(job: Job) -> dict[str, int]:
    return {"result": job.n**2, "pid": os.getpid()}


@shop.step
async def whoami() -> list[Any]:
    step = current_step()
    step.heartbeat("still here")
    return [step.run_id, step.key, step.attempt, step.invocation_id]


@shop.step
def break_down(kind: str) -> None:
    if kind == "unpicklable":
        raise Unpicklable(7, why="because")
    raise ValueError(kind)


@shop.step
def lie() -> int:
    return "no number"  # type: ignore[return-value]


def plain(n: int) -> int:
    return n + 1


renamed = shop.step(name="plus one")(plain)
