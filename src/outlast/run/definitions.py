"""What an app says of its workflows and their versions. Layer: run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from outlast.authoring.workflow import Workflow
from outlast.run.describing import describe_workflow
from outlast.run.records import WorkflowInfo

__all__ = ["Definitions"]


class _App(Protocol):
    def iter_workflows(self) -> Iterator[Workflow[..., Any]]: ...


class Definitions:
    """The part of an app that is about definitions. `Outlast` is made of it."""

    def workflows(self: _App) -> list[WorkflowInfo]:
        """The workflows of this app: version, plan, and the schemas of input and output. It need not be open."""
        return [describe_workflow(workflow) for workflow in self.iter_workflows()]
