"""What an app counts and measures (SPEC O6), as text for Prometheus and through OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from outlast import AppNotOpen, Context, NonRetryable, Outlast, RunFailed, StoreUnavailable


def make_app(url: str = "memory://", **settings: Any) -> Outlast:
    app = Outlast(url, **settings)

    @app.step(name="charge", retries=1, backoff=0)
    async def charge(amount: int) -> int:
        if amount < 0:
            raise NonRetryable("no such amount")
        return amount

    @app.workflow(name="pay")
    async def pay(ctx: Context, amount: int) -> int:
        if amount == 0:
            await ctx.sleep(3600)
        return await charge(amount)

    return app


async def read(app: Outlast) -> dict[tuple[str, str], float]:
    """Samples by name and the values of their labels, joined."""
    families = text_string_to_metric_families(await app.metrics_text())
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


async def until(app: Outlast, name: str, labels: str, number: float) -> dict[tuple[str, str], float]:
    """Counting lags behind a little."""
    async with asyncio.timeout(20):
        while (found := await read(app)).get((name, labels)) != number:
            await asyncio.sleep(0.01)
    return found


# SPEC O6
async def test_what_a_worker_does_is_counted(tmp_path) -> None:
    """Runs by workflow and status, attempts by function and how they ended, commits with their size and latency."""
    app = make_app(f"sqlite:///{tmp_path}/x.db")
    async with app.worker():
        await app.metrics_text()
        for amount in (1, 2, -1):
            run = await app.start("pay", amount)
            if amount < 0:
                with pytest.raises(RunFailed):
                    await run.result(timeout=20)
            else:
                await run.result(timeout=20)
        found = await until(app, "outlast_runs_ended_total", "pay,failed", 1)
    assert found["outlast_runs_started_total", "pay"] == 3
    assert found["outlast_runs_ended_total", "pay,completed"] == 2
    assert found["outlast_step_seconds_count", "charge,succeeded"] == 2
    assert found["outlast_step_seconds_count", "charge,failed"] == 1
    assert found["outlast_commit_entries_sum", ""] >= 6
    assert 0 < found["outlast_commit_seconds_sum", ""] < 20
    assert found["outlast_lease_age_seconds", ""] < 10
    assert found["outlast_workers", "alive"] == 1


# SPEC O6
async def test_runs_queues_and_parks_are_measured() -> None:
    """What the store holds now: runs by status, what waits in which queue and for how long, what is parked."""
    app = make_app()
    async with app:
        await app.start("pay", 1, queue="slow")
        await app.start("pay", 1, queue="slow")
        await app.start("pay", 0)
        found = await read(app)
        assert found["outlast_runs", "queued"] == 3
        assert found["outlast_queue_depth", "slow,"] == 2
        assert found["outlast_queue_lag_seconds", "slow,"] >= 0
        assert ("outlast_hot_runs", "") not in found or found["outlast_hot_runs", ""] == 0
        async with app.worker():
            found = await until(app, "outlast_hot_runs", "", 1)
            assert found["outlast_runs", "running"] == 1
            assert found["outlast_parked_runs", ""] == 0
            assert found["outlast_queue_held", "default,"] == 1
            found = await until(app, "outlast_parked_runs", "", 1)
            assert found["outlast_hot_runs", ""] == 0


# SPEC O6
async def test_a_store_that_is_away_leaves_the_rest(monkeypatch, caplog) -> None:
    """What this process knows of itself is told all the same; what it does not know is left out, not stale."""
    app = make_app()
    async with app.worker():
        await app.start("pay", 0)
        assert ("outlast_runs", "running") in await read(app)

        async def refuse() -> None:
            raise StoreUnavailable("memory://", "the line is cut")

        monkeypatch.setattr(app._store, "count_runs", refuse)
        found = await read(app)
        assert ("outlast_runs", "running") not in found
        assert ("outlast_hot_runs", "") in found
    assert "the line is cut" in caplog.text


async def test_metrics_are_of_an_open_app() -> None:
    """There is nothing to measure before, and nobody who counts until somebody asks."""
    app = make_app()
    with pytest.raises(AppNotOpen):
        await app.metrics_text()
    async with app.worker():
        await (await app.start("pay", 1)).result(timeout=20)
        assert not app._observers
        assert ("outlast_runs_started_total", "pay") not in await read(app)
        await (await app.start("pay", 1)).result(timeout=20)
        await until(app, "outlast_runs_started_total", "pay", 1)


# SPEC O5 O6
async def test_opentelemetry_is_told_the_same_numbers() -> None:
    """Counters and histograms as they grow, gauges when its reader asks, in whatever thread."""
    reader = InMemoryMetricReader()
    app = make_app(meter_provider=MeterProvider([reader]))
    async with app.worker():
        await (await app.start("pay", 1)).result(timeout=20)
        await until(app, "outlast_runs_ended_total", "pay,completed", 1)
        data: Any = await asyncio.to_thread(reader.get_metrics_data)
    metrics = {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    (started,) = metrics["outlast.runs.started"].data.data_points
    assert (started.value, dict(started.attributes)) == (1, {"workflow": "pay"})
    (step,) = metrics["outlast.step.duration"].data.data_points
    assert (step.count, dict(step.attributes)) == (1, {"function": "charge", "status": "succeeded"})
    assert metrics["outlast.step.duration"].unit == "s"
    assert {point.value for point in metrics["outlast.workers"].data.data_points} == {1, 0}
