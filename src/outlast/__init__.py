"""outlast: workflows that outlast the process that started them.

    from outlast import Context, Outlast, current_step

All that authors and callers need is here, errors included. What is not is the library's own affair, and may change.
"""

from outlast import errors
from outlast.app import Outlast
from outlast.authoring.context import Context, RunIdentity
from outlast.authoring.current import StepInfo, current_step
from outlast.authoring.graph.builder import Graph, NodeOptions
from outlast.authoring.graph.refs import ref
from outlast.authoring.graph.workflow import GraphWorkflow
from outlast.authoring.module import Module
from outlast.authoring.options import CallOptions, StepOptions
from outlast.authoring.runs.extension import Extension
from outlast.authoring.step import FailedStep, Step
from outlast.authoring.workflow import Workflow
from outlast.core.durations import Duration
from outlast.core.retry import exponential, fixed
from outlast.core.waits.approval import Decided, Expired, User
from outlast.engine.worker import Worker
from outlast.errors import *  # noqa: F403 - all of them, as errors.__all__ says
from outlast.mirrors import JsonLinesMirror, Mirror, MirrorInfo, SqlMirror
from outlast.payloads import Codec, Compress, Encrypt, Sealed
from outlast.run.handle import Run
from outlast.run.options import StartOptions
from outlast.run.records import (
    AttemptInfo,
    QueueInfo,
    RunInfo,
    RunPage,
    RunSnapshot,
    RunSummary,
    StepSummary,
    TimelineItem,
    VersionInfo,
    WaitInfo,
    WaitPage,
    WorkflowInfo,
    WorkSummary,
)
from outlast.run.sync import SyncClient, SyncRun
from outlast.run.workers import HeldStep, WorkerInfo, WorkerState
from outlast.telemetry.audit import AuditRecord

__all__ = [
    "AttemptInfo",
    "AuditRecord",
    "CallOptions",
    "Codec",
    "Compress",
    "Context",
    "Decided",
    "Duration",
    "Encrypt",
    "Expired",
    "Extension",
    "FailedStep",
    "Graph",
    "GraphWorkflow",
    "HeldStep",
    "JsonLinesMirror",
    "Mirror",
    "MirrorInfo",
    "Module",
    "NodeOptions",
    "Outlast",
    "QueueInfo",
    "Run",
    "RunIdentity",
    "RunInfo",
    "RunPage",
    "RunSnapshot",
    "RunSummary",
    "Sealed",
    "SqlMirror",
    "StartOptions",
    "Step",
    "StepInfo",
    "StepOptions",
    "StepSummary",
    "SyncClient",
    "SyncRun",
    "TimelineItem",
    "User",
    "VersionInfo",
    "WaitInfo",
    "WaitPage",
    "WorkSummary",
    "Worker",
    "WorkerInfo",
    "WorkerState",
    "Workflow",
    "WorkflowInfo",
    "current_step",
    "exponential",
    "fixed",
    "ref",
]
__all__ += errors.__all__
