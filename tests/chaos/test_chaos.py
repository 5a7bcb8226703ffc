"""A few seconds of what `make chaos` does for minutes (DESIGN §6, §7)."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path

import pytest

from tests.chaos.faults import RATES, Kind, draw_faults
from tests.chaos.storm import Plan, run_storm
from tests.crash.world import Nursery
from tests.postgres_server import OwnServer, find_binaries


def test_a_seed_is_a_storm() -> None:
    """The same seed draws the same faults; ten minutes have what is asked of them, each kind spread over the time."""
    faults = draw_faults(7, 600)
    assert faults == draw_faults(7, 600) != draw_faults(8, 600)
    kinds = [fault.kind for fault in faults]
    assert kinds.count(Kind.KILL) >= 300
    assert kinds.count(Kind.FREEZE) >= 20
    assert kinds.count(Kind.RESTART) >= 10
    assert {*kinds} == {*RATES}
    kills = [fault.at for fault in faults if fault.kind is Kind.KILL]
    assert max(after - before for before, after in itertools.pairwise(kills)) < 4
    assert {fault.kind for fault in draw_faults(7, 6)} == {*RATES}, "a short one has one of each"


# SPEC L10, DESIGN §6
@pytest.mark.process
@pytest.mark.timeout(300)
def test_a_short_storm(tmp_path: Path) -> None:
    """Workers are killed, frozen, drained and cut off, their server restarts, clocks jump: every run ends as it should,
    no result is lost or recorded twice, and every effect stands under the one invocation id of its step."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed here")
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    nursery, server = Nursery(), OwnServer(binaries)
    try:
        server.start()
        plan = Plan(seed, 7.0, workers=4, lease_s=1.5, per_second=6.0, quiet_s=1.0, skips=True)
        verdict = asyncio.run(run_storm(plan, tmp_path, nursery, server))
    finally:
        server.remove()
        nursery.close()
    assert not verdict.problems, "\n".join(verdict.problems)
    assert verdict.faults["kills"] >= 4
    assert verdict.seen["lost attempts"] + verdict.seen["takeovers"] > 0, "it killed workers that had nothing to do"
