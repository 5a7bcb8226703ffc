"""The protocol under random schedules: crashes, freezes, and requests that come late, twice or never.

`OUTLAST_SCHEDULES` sets how many schedules the long test walks, `OUTLAST_SEED` where all of them begin. A failure names
its seed: `walk(ALL_FIXES, seed)` makes it happen again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.exploring import explore, walk
from tests.simulation.fixes import ALL_FIXES

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("OUTLAST_SEED", "1"))
LONG = int(os.environ.get("OUTLAST_SCHEDULES", "20000"))
PARTS = 4  # so that they can run side by side


# SPEC L1, L4, S10; invariants 1 to 7
@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_breaks_an_invariant(part: int):
    """Whatever crashes, freezes, comes late, twice or never: invariants 1 to 7 and S10 hold, and every run ends."""
    findings = explore(ALL_FIXES, 1000 // PARTS, seed=SEED * PARTS + part)
    assert not findings.failures, str(findings)


def test_no_schedule_of_three_workers_breaks_an_invariant():
    """The same with one more worker: a successor can be superseded itself."""
    findings = explore(ALL_FIXES, 150, seed=SEED, workers=3)
    assert not findings.failures, str(findings)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("workers", [2, 3])
def test_no_schedule_of_very_many_breaks_an_invariant(workers: int):
    """The same, for minutes."""
    findings = explore(ALL_FIXES, LONG, seed=1000 + SEED, workers=workers)
    print(f"\n{findings}\n{dict(findings.met)}")
    assert not findings.failures, str(findings)


def test_schedules_meet_what_they_are_for():
    """The schedules do come to refusals, losses and repeats; a simulation without them would show nothing."""
    met = explore(ALL_FIXES, 250, seed=7).met
    for what in (
        "a run adopted",
        "a worker fenced by the store",
        "an attempt found lost",
        "an entry sent again",
        "a message known to the fold",
        "a step not begun, the lease being over",
        "an outcome counted",
        "an outcome dropped",
    ):
        assert met[what] > 0, f"{what}: not once in 250 schedules, {dict(met)}"


SEEDS = [f"{SEED}/{number}" for number in range(15)]


def test_the_same_seed_gives_the_same_schedule():
    """A schedule can be walked again: the same actions, the same journals; another seed gives another."""
    first = [walk(ALL_FIXES, seed) for seed in SEEDS]
    again = [walk(ALL_FIXES, seed) for seed in SEEDS]
    assert [found.trace for found in first] == [found.trace for found in again]
    assert [found.digest() for found in first] == [found.digest() for found in again]
    assert len({found.digest() for found in first}) == len(SEEDS)


@pytest.mark.process
def test_the_same_seed_gives_the_same_schedule_in_another_process():
    """The schedule of a seed depends on nothing but the seed: not on hashes, addresses, or what ran before."""
    code = (
        "from tests.simulation.exploring import walk\n"
        "from tests.simulation.fixes import ALL_FIXES\n"
        f"print(*(walk(ALL_FIXES, seed).digest() for seed in {SEEDS!r}), sep='\\n')"
    )
    here = [walk(ALL_FIXES, seed).digest() for seed in SEEDS]
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=50
        )
        assert done.stdout.split() == here
