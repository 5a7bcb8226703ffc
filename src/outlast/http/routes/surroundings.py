"""Routes about what runs run on: workers, queues, the server itself. Layer: http."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from outlast.http.reach import engine_of
from outlast.http.route import Call, Nothing, Text
from outlast.http.shapes import DrainAnswer, HeldSteps, Standing
from outlast.run.records import QueueInfo
from outlast.run.workers import HeldStep, WorkerInfo

__all__ = [
    "drain_worker",
    "find_version",
    "get_health",
    "get_metrics",
    "get_readiness",
    "list_held_steps",
    "list_queues",
    "list_workers",
]


async def list_workers(call: Call[Nothing, Nothing]) -> list[WorkerInfo]:
    """The workers of the store: how each stands, how much it holds, when it was last heard of. For admins.

    Those alive, and the dead that nobody has taken over from yet. The runs that one holds: `GET /runs?worker=ID`.
    """
    return await call.app.workers()


async def list_held_steps(call: Call[HeldSteps, Nothing]) -> list[HeldStep]:
    """The queued steps that a worker carries out now, the first ones taken first. For admins."""
    return await call.app.held_steps(call.path["id"], limit=call.query.limit)


async def drain_worker(call: Call[Nothing, Nothing]) -> DrainAnswer:
    """Ask a worker to drain, as a SIGTERM to its process would. For admins.

    It claims no more, gives its steps their grace, hands the rest back, and ends. It hears of it with its next
    heartbeat. Asked twice is asked once.
    """
    return DrainAnswer(id=call.path["id"], drain_asked_at=await call.app.drain(call.path["id"]))


async def list_queues(call: Call[Nothing, Nothing]) -> list[QueueInfo]:
    """The queues that something stands in or that a live worker serves. For admins."""
    return await call.app.queues()


async def get_metrics(call: Call[Nothing, Nothing]) -> Text:
    """Metrics of this process and its store, as Prometheus reads them. For admins, and for the scope `metrics`.

    Counters count from the first time that anybody asks.
    """
    return Text(await call.app.metrics_text(), "text/plain; version=0.0.4; charset=utf-8")


async def get_health(call: Call[Nothing, Nothing]) -> Standing:  # noqa: ARG001 - it asks nothing
    """Whether this server answers at all. Needs nobody signed in."""
    return Standing(is_ready=True, version=find_version())


async def get_readiness(call: Call[Nothing, Nothing]) -> Standing:
    """Whether the store answers; 503 if not. Needs nobody signed in."""
    await engine_of(call.app).store.now()
    return Standing(is_ready=True, version=find_version())


def find_version() -> str:
    """Of outlast."""
    try:
        return installed_version("outlast")
    except PackageNotFoundError:  # a work tree that was not installed
        return ""
