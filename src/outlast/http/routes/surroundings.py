"""Routes about what runs run on: workers, queues, the server itself. Layer: http."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from outlast.http.reach import engine_of
from outlast.http.route import Call, Nothing, Text
from outlast.http.shapes import Standing
from outlast.run.records import QueueInfo, WorkerInfo

__all__ = [
    "find_version",
    "get_health",
    "get_metrics",
    "get_readiness",
    "list_queues",
    "list_workers",
]


async def list_workers(call: Call[Nothing, Nothing]) -> list[WorkerInfo]:
    """The workers of the store: those alive, and the dead that nobody has taken over from yet. For admins."""
    return await call.app.workers()


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
