"""What an app says of its workflows and their versions. Layer: run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from outlast.authoring.graph.builder import Graph, define_graph
from outlast.authoring.graph.files import read_graph
from outlast.authoring.graph.stored import load_graph
from outlast.authoring.workflow import Workflow
from outlast.core.graph.reading import write_json
from outlast.core.keys import check_name
from outlast.engine.versions.keeping import to_row
from outlast.engine.versions.rehearsing import Rehearsal, rehearse
from outlast.errors import FunctionNotFound, InvalidDefinition
from outlast.payloads import show_definition
from outlast.run.describing import describe_version, describe_workflow
from outlast.run.options import check_version_status
from outlast.run.records import VersionInfo, WorkflowInfo
from outlast.stores.store import VersionStatus

if TYPE_CHECKING:
    from outlast.authoring.module import Module
    from outlast.engine.engine import Engine

__all__ = ["Definitions", "find_startable"]


class _App(Protocol):
    def iter_workflows(self) -> Iterator[Workflow[..., Any]]: ...

    def _here(self, call: str = ...) -> Engine: ...


class Definitions:
    """The part of an app that is about definitions. `Outlast` is made of it."""

    def workflows(self: _App) -> list[WorkflowInfo]:
        """The workflows of this app: version, plan, and the schemas of input and output. It need not be open."""
        return [describe_workflow(workflow) for workflow in self.iter_workflows()]

    async def rehearse(self: _App) -> AsyncGenerator[Rehearsal, None]:
        """Replay the journals of all live runs against this app's code, one after another; nothing is changed.

        For CI, before a deploy: `outlast check MODULE --store URL` does it.
        """
        async with aclosing(rehearse(self._here("app.rehearse()"))) as rehearsals:
            async for rehearsal in rehearsals:
                yield rehearsal

    # --- versions -----------------------------------------------------------------------------------------------------

    async def versions(
        self: _App, workflow: str | None = None, *, status: str | None = None, limit: int = 100
    ) -> list[VersionInfo]:
        """The versions that the store keeps, of a workflow or of all, also of code that is gone; the latest first.

        They come without plans and definitions. `status`: "draft", "active" or "declined".
        """
        store = self._here("app.versions()").store
        name = None if workflow is None else check_name("workflow", workflow)
        rows = await store.list_versions(name, status=check_version_status(status), limit=limit)
        return [describe_version(row) for row in rows]

    async def get_version(self: _App, workflow: str, version: str) -> VersionInfo:
        """One of them, with its plan, and a graph's definition. Raises FunctionNotFound."""
        return await _find(self._here("app.get_version()"), workflow, version)

    async def draft(self: _App, graph: Graph | Mapping[str, Any] | str | Path, /, *, by: str) -> VersionInfo:
        """Store a graph, from data or a file, as a draft: to be looked at, then activated or declined by somebody.

        The same graph again is the same version, and stays what it is. Raises InvalidDefinition for what is no graph.
        """
        engine = self._here("app.draft()")
        given = read_graph(Path(graph)) if isinstance(graph, str | Path) else graph
        definition = define_graph(given)
        workflow = load_graph(definition.name, write_json(definition))
        row = replace(to_row(workflow), status=VersionStatus.DRAFT, created_by=check_name("user", by))
        await engine.store.save_versions([row])
        return await _find(engine, workflow.name, workflow.version)

    async def activate(self: _App, workflow: str, version: str, *, by: str) -> VersionInfo:
        """Let runs of a version be started: `app.start(name, …)` takes the one activated last, of a graph that no code
        declares. Raises FunctionNotFound."""
        return await _decide(self._here("app.activate()"), workflow, version, VersionStatus.ACTIVE, by)

    async def decline(self: _App, workflow: str, version: str, *, by: str) -> VersionInfo:
        """Start no run of a version any more; those in flight go on. Raises FunctionNotFound."""
        return await _decide(self._here("app.decline()"), workflow, version, VersionStatus.DECLINED, by)


async def find_startable(app: Module, engine: Engine, workflow: object) -> Workflow[..., Any]:
    """As declared here, or a graph that is stored and active: a run of any other would find nobody who knows it."""
    if isinstance(workflow, str):
        found = app.find_workflow(workflow) or await engine.versions.find_active_graph(workflow)
        if found is None:
            raise FunctionNotFound(workflow, "workflow")
        return found
    if not isinstance(workflow, Workflow):
        problem = f"A workflow or its name was expected, and this is {type(workflow).__name__}"
        raise InvalidDefinition(problem, repr(workflow), "Decorate it with @app.workflow.")
    if app.find_workflow(workflow.name) is not workflow:
        fix = "Declare it with @app.workflow, or app.include() its module."
        raise InvalidDefinition("The workflow is not one of this app", repr(workflow.name), fix)
    return workflow


async def _find(engine: Engine, workflow: str, version: str) -> VersionInfo:
    row = await engine.store.find_version(check_name("workflow", workflow), check_name("version", version))
    if row is None:
        raise FunctionNotFound(f"{workflow} {version}", "version of a workflow")
    return describe_version(row, show_definition(row, engine.payloads) if row.kind == "graph" else b"")


async def _decide(engine: Engine, workflow: str, version: str, status: VersionStatus, by: str) -> VersionInfo:
    await _find(engine, workflow, version)
    await engine.store.decide_version(workflow, version, status, check_name("user", by))
    engine.versions.forget()
    return await _find(engine, workflow, version)
