"""One run, from outside: its handle, and the records that show it. Layer: run."""

from __future__ import annotations

from outlast.run.handle import Run
from outlast.run.records import (
    AttemptInfo,
    Milestone,
    QueueInfo,
    RunInfo,
    RunPage,
    RunSnapshot,
    RunSummary,
    StepSummary,
    TimelineItem,
    WaitInfo,
    WaitPage,
    WorkflowInfo,
    WorkSummary,
)
from outlast.run.workers import HeldStep, WorkerInfo, WorkerState

__all__ = [
    "AttemptInfo",
    "HeldStep",
    "Milestone",
    "QueueInfo",
    "Run",
    "RunInfo",
    "RunPage",
    "RunSnapshot",
    "RunSummary",
    "StepSummary",
    "TimelineItem",
    "WaitInfo",
    "WaitPage",
    "WorkSummary",
    "WorkerInfo",
    "WorkerState",
    "WorkflowInfo",
]
