"""The deterministic event loop that a workflow's body runs on. Layer: core.

body_loop    BodyLoop: going in and out, tasks, futures, eviction; read this one first
callbacks    the queue of callbacks, time and timers, the budget
refusals     what asyncio could ask for and a body may not have
tasks · timers · generators      the things of one body
switch       from the host's loop into the body's, and back
eviction     dropping a body without effect in the world
plain_bodies bodies that are a plain `def`, in greenlets
patches      what asyncio itself does by memory address
audit        effects behind the loop's back, in dev mode
"""

from __future__ import annotations

from outlast.core.loop.body_loop import BodyLoop, running_body_loop
from outlast.core.loop.callbacks import BUDGET, BodyHandle, Unhandled
from outlast.core.loop.tasks import BodyFuture, BodyTask
from outlast.core.loop.timers import BodyTimer, BodyTimerHandle

__all__ = [
    "BUDGET",
    "BodyFuture",
    "BodyHandle",
    "BodyLoop",
    "BodyTask",
    "BodyTimer",
    "BodyTimerHandle",
    "Unhandled",
    "running_body_loop",
]
