"""`outlast bench`: a figure beside its limit, and nothing left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from outlast.cli.bench import measure_runs, measure_store
from tests.cli.commands import call


async def test_the_measuring_core_counts_whole_steps(tmp_path: Path) -> None:
    """Runs and rows are counted once each, and what was measured is deleted."""
    url = f"sqlite:///{tmp_path / 'bench.db'}"
    did = await measure_runs(url, steps=3, runs=10, concurrency=4)
    assert (did.runs, did.steps, did.concurrency) == (10, 3, 4)
    assert did.steps_per_second == pytest.approx(30 / did.seconds)
    assert did.runs_per_second == pytest.approx(10 / did.seconds)
    assert did.step_latency > 0
    took = await measure_store(url, batch=16, seconds=0.05)
    assert took.rows_per_second > took.commits_per_second > 0
    left = await asyncio.to_thread(call, "runs", "--json", "--store", url)
    assert left.document["runs"] == []


def test_the_command_says_figure_and_limit(shop: Path) -> None:
    """Steps a second, what one run alone takes, what the store takes, and the machine; a given store is left empty."""
    done = call("bench", "--steps", "2", "--runs", "20", "--concurrency", "8", "--store", "sqlite:///b.db", "--json")
    assert done.code == 0, done.err
    assert done.document["engine"]["steps_per_second"] > 0
    assert done.document["store"]["rows_per_second"] > 0
    assert call("runs", "--store", "sqlite:///b.db").out == "There are no runs yet.\n"
