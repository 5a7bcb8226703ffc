"""A limit on runs while their workers die: never more in hand than it says, and nothing is left behind (SPEC Q2)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest

from tests.crash.flows import LIMIT
from tests.crash.ledger import Mark
from tests.crash.world import World, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

RUNS = 10
STEPS = 12


def count_at_once(marks: Sequence[Mark], deaths: Mapping[int, int]) -> int:
    """The most runs that were in a step at one moment, by what steps wrote down themselves. `deaths` is when processes
    died, in ns: what they had begun ended then."""
    changes = [(mark.at, mark.what == "before", mark.pid, mark.uid) for mark in marks]
    changes += [(at, False, pid, "") for pid, at in deaths.items()]
    inside: set[tuple[int, str]] = set()
    most = 0
    for _, begins, pid, uid in sorted(changes):
        if begins:
            inside.add((pid, uid))
        else:
            inside -= {each for each in inside if each[0] == pid and uid in (each[1], "")}
        most = max(most, len({uid for _, uid in inside}))
    return most


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_a_limit_holds_when_a_worker_is_killed(world: World) -> None:
    """Two processes work ten runs of which two may be in hand. One that has some is killed: they count until they are
    taken over, and the other goes on to the end."""
    async with world.client() as app:
        workers = {proc.pid: proc for proc in [await world.spawn_ready(lease=3.0) for _ in range(2)]}
        for number in range(RUNS):
            await world.start(app, "limited", STEPS, id=f"l{number}")
        await until(lambda: len(world.ledger.marks()) > 10, "some steps")
        victim = workers.pop(world.ledger.marks()[-1].pid)
        (heir,) = workers.values()
        await victim.killed()
        deaths = {victim.pid: time.time_ns()}
        await world.all_ended(app, 60.0)
        await world.check(app)
        marks = world.ledger.marks()
        assert {mark.pid for mark in marks} >= {victim.pid, heir.pid}
        assert count_at_once(marks, deaths) == LIMIT


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_places_of_a_dead_worker_are_given_back(world: World) -> None:
    """It had all there were; who comes has nothing until its lease has lapsed, and then all of them."""
    async with world.client() as app:
        victim = await world.spawn_ready(lease=3.0)
        for number in range(4):
            await world.start(app, "limited", STEPS, id=f"l{number}")
        await until(lambda: world.ledger.marks(), "the first step")
        await victim.killed()
        heir = await world.spawn_ready(lease=3.0)
        await world.all_ended(app, 60.0)
        await world.check(app)
        deaths = {victim.pid: max(mark.at for mark in world.ledger.marks() if mark.pid == victim.pid) + 1}
        assert count_at_once(world.ledger.marks(), deaths) == LIMIT
        assert heir.status is None


def test_the_count_knows_an_excess() -> None:
    """Three in a step at once are three; one whose process died is none."""
    marks = [Mark(what, uid, "k", "i", 1, pid, at) for what, uid, pid, at in (
        ("before", "a", 1, 1), ("before", "b", 1, 2), ("before", "c", 2, 4), ("after", "c", 2, 5)
    )]  # fmt: skip
    assert count_at_once(marks, {}) == 3
    assert count_at_once(marks, {1: 3}) == 2
