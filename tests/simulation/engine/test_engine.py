"""The engine under random schedules: real workers, machines, writers and sweepers, on one store, with faults.

`make simulate` walks many more. A failure names its seed: `walk(seed)` in `exploring.py` makes it happen again, and a
line in `kept.txt` makes it be walked for ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.engine.exploring import explore, kept_seeds, seeds_of, walk

ROOT = Path(__file__).resolve().parents[3]
SEED = int(os.environ.get("OUTLAST_SEED", "1"))
PARTS = 4
PER_PART = 500


# SPEC L1, L4, S10; invariants 1 to 10
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_breaks_an_invariant(part: int):
    """Whatever dies, freezes, is deployed, comes late or fails and has landed: each run comes to its end, as it may."""
    findings = explore(seeds_of(f"{SEED}.{part}", PER_PART))
    print(findings)
    assert not findings.failures, str(findings)


def test_no_schedule_that_ever_failed_fails_again():
    """What was found once is looked at for ever."""
    findings = explore(kept_seeds())
    assert findings.schedules > 0
    assert not findings.failures, str(findings)


def test_schedules_meet_what_they_are_for():
    """The schedules do come to faults, deaths and ends of each kind; a simulation without them would show nothing."""
    met = explore(seeds_of("meets", 60)).met
    for what in (
        "lost", "untold", "full", "slow", "hints_lost", "hints_late", "hints_doubled", "killed", "killed in a commit",
        "frozen", "blocked", "deployed", "clock set", "cut off", "ended: completed", "ended: cancelled",
        "ended: compensated", "went on", "went on with mail", "had a place",
    ):  # fmt: skip
        assert met[what] > 0, f"{what}: not once in 60 schedules, {dict(met)}"


SEEDS = list(seeds_of("same", 6))


@pytest.mark.process
def test_the_same_seed_gives_the_same_schedule_in_any_process():
    """A schedule depends on nothing but its seed: not on hashes, addresses, or what ran before."""
    code = (
        "from tests.simulation.engine.exploring import walk\n"
        f"print(*(walk(seed).digest for seed in {SEEDS!r}), sep='\\n')"
    )
    here = [walk(seed).digest for seed in SEEDS]
    assert len(set(here)) == len(SEEDS)
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=50
        )
        assert done.stdout.split() == here
