"""The metrics and traces of one app: when there are any, and where their numbers come from. Layer: run.

Nothing is counted and no span is made until somebody wants to know: the user has set up OpenTelemetry, or asks for
`app.metrics_text()`. What always holds: neither can fail the app; what the store cannot tell just now is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from outlast.core.states import RunStatus
from outlast.errors import StoreError
from outlast.telemetry.logs import unfailing
from outlast.telemetry.metrics import Metrics
from outlast.telemetry.otel import find_meter_provider, find_tracer_provider
from outlast.telemetry.pipeline import Pipeline

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from outlast.engine.engine import Engine
    from outlast.mirrors.mirror import MirrorInfo
    from outlast.stores.store import QueueRow
    from outlast.telemetry.observer import Observers
    from outlast.telemetry.tracing import Tracing

__all__ = ["Telemetry"]

REFRESH_S = 15.0
"""How often gauges are looked at for OpenTelemetry, whose readers cannot wait for a store."""
CLOSE_S = 5.0
"""How long closing waits for exporters."""
ACTIVE = (RunStatus.RUNNING, RunStatus.COMPENSATING)

_log = unfailing("outlast.telemetry")


class Telemetry:
    """One for each app, opened with its engine. See the module's docstring."""

    def __init__(
        self,
        observers: Observers,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        list_mirrors: Callable[[], list[MirrorInfo]] = list,
    ) -> None:
        """The providers: by default those that are set up for the process when the app is opened."""
        self._observers = observers
        self.tracer_provider = tracer_provider
        self.meter_provider = meter_provider
        self._list_mirrors = list_mirrors
        self._pipeline: Pipeline | None = None
        self._metrics: Metrics | None = None
        self._is_metered = False
        self._tracing: Tracing | None = None
        self._refreshing: asyncio.Task[None] | None = None

    # --- opening ------------------------------------------------------------------------------------------------------

    def find_tracing(self) -> Tracing | None:
        """For the engine that is about to be made."""
        provider = self.tracer_provider or find_tracer_provider()
        if self._tracing is None and provider is not None:
            from outlast.telemetry.otel.tracing import OtelTracing  # needs the package

            pipeline = self._observe()
            tracing = OtelTracing(provider, pipeline.later)
            pipeline.subscribe(tracing)
            self._tracing = tracing
        return self._tracing

    def open(self, engine: Engine) -> None:
        """The engine is open."""
        provider = self.meter_provider or find_meter_provider()
        if provider is not None and not self._is_metered:
            from outlast.telemetry.otel.metering import connect  # needs the package

            connect(self.metrics(), provider)
            self._is_metered = True
        if self._is_metered:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh_for_ever(engine))

    async def close(self) -> None:
        """The engine is closed: let what has landed be counted and exported, for a while."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
            self._refreshing = None
        if self._pipeline is not None and not await asyncio.to_thread(self._pipeline.close, CLOSE_S):
            _log.warning("exporters have not taken all spans and metrics within %.0f s", CLOSE_S)

    def metrics(self) -> Metrics:
        """The app's metrics; they count from when this was first asked for."""
        if self._metrics is None:
            self._metrics = Metrics()
            self._observe().subscribe(self._metrics)
        return self._metrics

    def _observe(self) -> Pipeline:
        if self._pipeline is None:
            self._pipeline = Pipeline()
            self._observers.add(self._pipeline)
        return self._pipeline

    # --- gauges -------------------------------------------------------------------------------------------------------

    async def render(self, engine: Engine) -> str:
        """All metrics, as Prometheus reads them."""
        metrics = self.metrics()
        await self.refresh(engine)
        return metrics.registry.render()

    async def refresh(self, engine: Engine) -> None:
        """Set the gauges to what engine and store say now."""
        metrics = self.metrics()
        self._measure_process(metrics, engine)
        try:
            counts, queues = await engine.store.count_runs(), await engine.store.list_queues()
            workers, now = await engine.store.list_workers(), await engine.store.now()
        except StoreError as error:
            _log.warning("metrics of the store cannot be had: %s", error)
            for gauge in (metrics.runs, metrics.parked, metrics.workers, metrics.queue_depth, metrics.queue_lag):
                gauge.replace({})
            return
        metrics.runs.replace({(str(status),): count for status, count in counts.items()})
        held = sum(row.held for row in queues if row.function is None)
        metrics.parked.set(max(sum(counts.get(status, 0) for status in ACTIVE) - held, 0))
        alive = sum(row.dead_at is None and row.expires_at > now for row in workers)
        metrics.workers.replace({("alive",): alive, ("dead",): len(workers) - alive})
        _measure_queues(metrics, queues, now)

    def _measure_process(self, metrics: Metrics, engine: Engine) -> None:
        worker = engine.worker
        home = None if worker is None else worker.home
        metrics.unwritten.set(engine.writer.unwritten)
        for mirror in self._list_mirrors():
            metrics.mirrored.set(mirror.written, mirror.name)
            metrics.mirror_dropped.set(mirror.dropped, mirror.name)
            metrics.mirror_failures.set(mirror.failures, mirror.name)
            metrics.mirror_waiting.set(mirror.waiting, mirror.name)
        if self._pipeline is not None:
            metrics.dropped.set(self._pipeline.backlog.dropped)
        if worker is None or home is None:
            return
        metrics.hot.set(len(home))
        metrics.resting.set(home.resting)
        metrics.executing.set(home.stepper.executing)
        metrics.lease_age.set(worker.lease_age_us / 1e6)

    async def _refresh_for_ever(self, engine: Engine) -> None:
        while True:
            with contextlib.suppress(Exception):
                await self.refresh(engine)
            await asyncio.sleep(REFRESH_S)


def _measure_queues(metrics: Metrics, queues: list[QueueRow], now: int) -> None:
    names = {(row.queue, row.function or ""): row for row in queues}
    metrics.queue_depth.replace({name: row.waiting for name, row in names.items()})
    metrics.queue_held.replace({name: row.held for name, row in names.items()})
    lags: dict[tuple[str, ...], float] = {
        name: max(now - row.oldest_at, 0) / 1e6 for name, row in names.items() if row.oldest_at is not None
    }
    metrics.queue_lag.replace(lags)
