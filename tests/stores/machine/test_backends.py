"""Every store answers as the one in memory does, whatever is asked of it in whatever order.

`OUTLAST_EXAMPLES` sets how many walks the long form takes at most, `OUTLAST_SECONDS` for how long it begins new ones.
How much it walked it says (`pytest -s`).
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.settings import parse_url
from outlast.stores.sqlite import SqliteStore
from outlast.stores.store import Store
from tests import postgres_schemas
from tests.stores.machine.pair import Pair, Time
from tests.stores.machine.world import StoreMachine

LONG = int(os.environ.get("OUTLAST_EXAMPLES", "2000"))
SECONDS = float(os.environ.get("OUTLAST_SECONDS", "inf"))
AT_ONCE = 50
"""Walks of the long form between two looks at the time."""
EXAMPLES = {"sqlite": 30, "postgres": 6}


class ServerTime(Time):
    """A server's clock, that stands still where it was set."""

    def __init__(self, url: str) -> None:
        self._settings = parse_url(url)
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def set(self, now: int) -> None:
        if self._connection is None:
            self._connection = await asyncpg.connect(self._settings.dsn)
        await self._connection.execute(f'update "{self._settings.schema}".moved set us = {now}, stands = true')

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


def _sqlite_pairs(folder: Path) -> Callable[[], Pair]:
    numbers = itertools.count()

    def make(clock: Callable[[], int]) -> Store:
        return SqliteStore(f"sqlite:///{folder}/{next(numbers)}.db?synchronous=normal", clock)

    return lambda: Pair(make, Time())


def _postgres_pairs() -> Callable[[], Pair]:
    url = postgres_schemas.shared_url()

    def make() -> Pair:
        postgres_schemas.run_apart(postgres_schemas.empty_schema())
        return Pair(lambda _clock: PostgresStore(url), ServerTime(url))

    return make


class _Walked:
    """How much was walked."""

    def __init__(self) -> None:
        self.walks = 0
        self.calls = 0

    def run(self, backend: str, folder: Path, examples: int, steps: int) -> None:
        """That many walks, unless one shows a difference."""
        walked = self

        class Machine(StoreMachine):
            make_pair = staticmethod(_sqlite_pairs(folder) if backend == "sqlite" else _postgres_pairs())

            def teardown(self) -> None:
                try:
                    super().teardown()
                finally:
                    walked.walks += 1
                    walked.calls += len(self.pair.log)

        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                print_blob=True,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
                phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            ),
        )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", EXAMPLES)
def test_a_store_answers_as_the_model(backend: str, tmp_path: Path) -> None:
    """Start, claim, end, signal, approve, cancel; time, deaths, thaws, sweeps, deploys; and each call twice."""
    walked = _Walked()
    walked.run(backend, tmp_path, EXAMPLES[backend], 40)
    assert walked.calls > walked.walks >= EXAMPLES[backend]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", EXAMPLES)
def test_a_store_answers_as_the_model_for_long(backend: str, tmp_path: Path) -> None:
    """The same, for minutes."""
    most, began, walked = (LONG if backend == "sqlite" else LONG // 4), time.monotonic(), _Walked()
    try:
        while walked.walks < most and time.monotonic() - began < SECONDS:
            folder = tmp_path / str(walked.walks)
            folder.mkdir()
            walked.run(backend, folder, AT_ONCE if math.isfinite(SECONDS) else most, 80)
            shutil.rmtree(folder)
    finally:
        seconds = time.monotonic() - began
        print(f"\n{backend}: {walked.walks:,} walks, {walked.calls:,} calls of each store, {seconds:,.0f} s")
