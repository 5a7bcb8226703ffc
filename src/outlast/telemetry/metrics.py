"""What an app counts and measures (SPEC O6). Layer: telemetry.

Counters and histograms grow with what this process has recorded; gauges are set when somebody looks, from what the
engine and the store say then. What always holds: the names here are a contract, with dashboards that nobody on the team
has seen; one is only ever added.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast.core.events import Event, RunStarted, RunSuspended, RunTakenOver
from outlast.telemetry.observer import Commit
from outlast.telemetry.registry import SIZES, Counter, Gauge, Histogram, Registry
from outlast.telemetry.spans import Span

__all__ = ["Metrics"]


class Metrics:
    """The metrics of one app."""

    def __init__(self) -> None:
        self.registry = Registry()
        add = self.registry.add
        self.started = add(Counter("outlast_runs_started_total", "Runs this process has begun.", ["workflow"]))
        self.ended = add(
            Counter("outlast_runs_ended_total", "Runs that ended in this process.", ["workflow", "status"])
        )
        self.suspended = add(Counter("outlast_runs_suspended_total", "Runs set aside by this process.", ["code"]))
        self.taken_over = add(Counter("outlast_takeovers_total", "Runs taken over from workers that were gone."))
        self.step_seconds = add(
            Histogram("outlast_step_seconds", "How long attempts of steps took.", ["function", "status"])
        )
        self.commit_seconds = add(Histogram("outlast_commit_seconds", "How long the store took for one commit."))
        self.commit_entries = add(
            Histogram("outlast_commit_entries", "Entries of journals in one commit.", bounds=SIZES)
        )
        self.runs = add(Gauge("outlast_runs", "Runs of the store that have not ended.", ["status"]))
        self.parked = add(Gauge("outlast_parked_runs", "Runs of the store that go on later, and take no memory."))
        self.hot = add(Gauge("outlast_hot_runs", "Runs in the memory of this worker."))
        self.resting = add(Gauge("outlast_hot_runs_at_rest", "Those of them that have nothing to do at the moment."))
        self.executing = add(Gauge("outlast_executing_steps", "Attempts of steps that execute in this process."))
        self.unwritten = add(Gauge("outlast_unwritten_entries", "Entries that wait for the store."))
        self.lease_age = add(Gauge("outlast_lease_age_seconds", "Since this worker last renewed its lease."))
        self.workers = add(
            Gauge("outlast_workers", "Workers of the store, alive or dead and not taken over.", ["state"])
        )
        queue = ["queue", "function"]
        self.queue_depth = add(Gauge("outlast_queue_depth", "What is due, and waits for a worker.", queue))
        self.queue_held = add(Gauge("outlast_queue_held", "What workers hold.", queue))
        self.queue_lag = add(Gauge("outlast_queue_lag_seconds", "How long the oldest has been due.", queue))
        self.dropped = add(Gauge("outlast_telemetry_dropped", "Commits that metrics and traces have missed."))
        mirror = ["mirror"]
        self.mirrored = add(Gauge("outlast_mirror_written", "Entries written to a mirror.", mirror))
        self.mirror_dropped = add(Gauge("outlast_mirror_dropped", "Entries that a mirror has missed.", mirror))
        self.mirror_failures = add(Gauge("outlast_mirror_failures", "Writes to a mirror that failed.", mirror))
        self.mirror_waiting = add(Gauge("outlast_mirror_waiting", "Entries that wait for a mirror.", mirror))

    def take_commit(self, commit: Commit) -> None:
        """One transaction has landed."""
        self.commit_seconds.observe(commit.took_us / 1e6)
        self.commit_entries.observe(len(commit.entries))

    def take_entry(self, events: Sequence[Event], spans: Sequence[Span]) -> None:
        """One entry of it: what happened, and what is over."""
        for event in events:
            if isinstance(event, RunStarted):
                self.started.add(1, event.workflow)
            elif isinstance(event, RunSuspended):
                self.suspended.add(1, event.code)
            elif isinstance(event, RunTakenOver):
                self.taken_over.add(1)
        for span in spans:
            if span.kind == "attempt":
                self.step_seconds.observe((span.ended_at - span.began_at) / 1e6, span.name, span.status)
            elif span.kind == "run":
                self.ended.add(1, span.run.workflow, span.status)
