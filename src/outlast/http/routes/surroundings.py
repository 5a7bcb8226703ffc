"""Routes about what runs run on: workflows, workers, the server itself, and who asks. Layer: http."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from outlast.errors import FunctionNotFound
from outlast.http.reach import engine_of
from outlast.http.route import Call, Nothing, Text
from outlast.http.shapes import Standing, VersionFilters
from outlast.run.describing import describe_workflow
from outlast.run.records import QueueInfo, VersionInfo, WorkerInfo, WorkflowInfo

__all__ = [
    "find_version",
    "get_health",
    "get_metrics",
    "get_readiness",
    "get_version",
    "get_workflow",
    "list_queues",
    "list_versions",
    "list_workers",
    "list_workflows",
]


async def list_workflows(call: Call[Nothing, Nothing]) -> list[WorkflowInfo]:
    """The workflows that this server knows, with their plans and the schemas of their input and output."""
    return call.app.workflows()


async def get_workflow(call: Call[Nothing, Nothing]) -> WorkflowInfo:
    """One workflow that this server knows."""
    name = call.path["name"]
    workflow = call.app.find_workflow(name)
    if workflow is None:
        raise FunctionNotFound(name[:200], "workflow")
    return describe_workflow(workflow)


async def list_versions(call: Call[VersionFilters, Nothing]) -> list[VersionInfo]:
    """The versions of a workflow that the store keeps, also of code that is gone; those stored or decided last first.

    Without their plans. A workflow that nobody has ever worked has none.
    """
    return await call.app.versions(call.path["name"], limit=call.query.limit)


async def get_version(call: Call[Nothing, Nothing]) -> VersionInfo:
    """One version of a workflow, with its plan, and a graph's definition."""
    return await call.app.get_version(call.path["name"], call.path["version"])


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
