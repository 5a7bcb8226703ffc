"""The yardsticks measure what they say: the same rows, in the same batches, each of them durable."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.floor import measure_floor
from benchmarks.storage import recorded, write_rows, write_same
from outlast.cli.bench import measure_runs

STEPS, RUNS, CONCURRENCY = 3, 6, 4
ROWS = STEPS + 1


def read(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


async def test_the_store_alone_writes_what_the_engine_wrote(tmp_path: Path) -> None:
    """The engine's last batches, committed again, leave the same rows: alone, and with the starts and ends of runs."""
    engine, rows, same = (tmp_path / f"{name}.db" for name in ("engine", "rows", "same"))
    with recorded(f"sqlite:///{engine}", keeps=True) as tape:
        did = await measure_runs(f"sqlite:///{engine}", steps=STEPS, runs=RUNS, concurrency=CONCURRENCY, keep=True)
    batches = tape.last_batches(RUNS * ROWS)
    assert sum(map(len, batches)) == RUNS * ROWS
    assert tape.last_commits(RUNS * ROWS) == len(batches)
    assert 0 <= tape.last_cpu_seconds(RUNS * ROWS) < 60
    assert did.steps_per_second > 0
    uids = ", ".join(f"'{uid}'" for uid in {progress.uid for batch in batches for progress in batch})
    wanted = read(engine, f"select run_uid, seq, events from journal where run_uid in ({uids}) order by 1, 2")
    assert len(wanted) == RUNS * ROWS

    assert (await write_rows(f"sqlite:///{rows}", batches)).per_second > 0
    assert read(rows, "select run_uid, seq - 1, events from journal where seq > 0 order by 1, 2") == wanted
    assert read(rows, "select count(*) from runs where live = 0") == [(0,)]

    assert (await write_same(f"sqlite:///{same}", batches)).per_second > 0
    assert read(same, "select run_uid, seq, events from journal order by 1, 2") == wanted
    assert read(same, "select status, count(*) from runs group by 1") == [("completed", RUNS)]


async def test_a_tape_is_of_one_measurement(tmp_path: Path) -> None:
    """Once it is not recorded any more, a store is as it was."""
    url = f"sqlite:///{tmp_path / 'engine.db'}"
    with recorded(url, keeps=True) as tape:
        pass
    await measure_runs(url, steps=1, runs=1, concurrency=1, keep=True)
    assert tape.last_batches(0) == []
    with pytest.raises(ValueError, match="2 entries"):
        tape.last_batches(2)


async def test_the_floor_does_all_its_steps(tmp_path: Path) -> None:
    """N steps are N+1 rows of the least engine too: warm-up and measurement are all there."""
    path = tmp_path / "floor.db"
    rate = await measure_floor(path, steps=STEPS, runs=RUNS, concurrency=CONCURRENCY)
    assert rate.per_second > 0
    assert rate.cpu_us > 0
    counts = read(path, "select run, count(*), min(seq), max(seq) from journal group by run")
    assert len(counts) == RUNS + CONCURRENCY
    assert {row[1:] for row in counts} == {(ROWS, 0, STEPS)}
