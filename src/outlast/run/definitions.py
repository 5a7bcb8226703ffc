"""What an app says of its workflows and their versions. Layer: run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from outlast.authoring.workflow import Workflow
from outlast.engine.versions.rehearsing import Rehearsal, rehearse
from outlast.run.describing import describe_workflow
from outlast.run.records import WorkflowInfo

if TYPE_CHECKING:
    from outlast.engine.engine import Engine

__all__ = ["Definitions"]


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
