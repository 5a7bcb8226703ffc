"""Processes that are frozen past their lease, and thawed when others have taken over (SPEC L4, PROTOCOL F6)."""

from __future__ import annotations

import signal
import time

import pytest

from outlast.app import Outlast
from tests.crash.world import Proc, World, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]

LEASE_S = 1.0
LOST = "lost its lease"
DROPPED = "is dropped"


async def _freeze(world: World, point: str, workflow: str, *arguments: object) -> Proc:
    """A worker with one run, frozen at this point of its life, until its lease has run out by every clock."""
    zombie = world.spawn(point=f"{point}:stop", starts=[(workflow, list(arguments), "r")], lease=LEASE_S)
    await zombie.frozen()
    frozen_at = time.monotonic()
    await until(lambda: time.monotonic() > frozen_at + LEASE_S, "the end of the lease")
    return zombie


async def _take_over(world: World, app: Outlast, id: str = "r") -> Proc:
    """Another worker works the run to its end."""
    heir = await world.spawn_ready(lease=1e6)
    run = await app.get_run(id)
    await run.result(timeout=30)
    return heir


async def _thaw(world: World, app: Outlast, zombie: Proc, heir: Proc) -> None:
    """It finds out, and comes back under another id: it works what comes next, and all is as it should be."""
    zombie.send(signal.SIGCONT)
    await until(lambda: world.warnings(zombie.pid, LOST), "the zombie finds out")
    await heir.killed()
    await world.start(app, "chain", 2, id="next")
    row = await app._store.find_run("next")
    assert row is not None
    await until(lambda: len(world.marks(row.uid)) == 2, "the zombie works again")
    assert {mark.pid for mark in world.marks(row.uid)} == {zombie.pid}
    await world.all_ended(app)
    lost = [warning["text"] for warning in world.warnings(zombie.pid, LOST)]
    assert len(lost) == len({*lost}), "an incarnation says so once; on a busy machine the next may lose its own"
    await world.check(app)


# SPEC S10
async def test_frozen_before_a_step_that_must_not_happen_twice(world: World) -> None:
    """An at-most-once step that others have recorded as interrupted is not begun by the worker that was frozen just
    before it."""  # SPEC L4
    async with world.client() as app:
        zombie = await _freeze(world, "told-and-not-acted:1", "guarded", 0.01)
        heir = await _take_over(world, app)
        run = await app.get_run("r")
        assert await run.result() == ["interrupted", "after!"]
        await _thaw(world, app, zombie, heir)
        assert [mark.key for mark in world.marks(run.uid)] == ["crash:act"]


async def test_frozen_with_an_outcome_in_hand(world: World) -> None:
    """What a step came to while its worker was frozen is dropped, with one warning that says whose it was; the run has
    the outcome of the attempt that followed."""  # SPEC L4, L5
    async with world.client() as app:
        zombie = await _freeze(world, "effect-without-outcome:1", "chain", 1)
        heir = await _take_over(world, app)
        await _thaw(world, app, zombie, heir)
        run = await app.get_run("r")
        (warning,) = world.warnings(zombie.pid, DROPPED)
        assert (warning["run"], warning["step"], warning["attempt"]) == ("r", "crash:act", 1)
        assert warning["trace"]
        assert [(mark.attempt, mark.pid) for mark in world.marks(run.uid)] == [(1, zombie.pid), (2, heir.pid)]
        assert str((await run.status()).status) == "completed"


async def test_frozen_with_an_entry_ready_to_be_written(world: World) -> None:
    """An entry that a frozen worker had ready is refused when it thaws, wherever the run has come to meanwhile."""
    async with world.client() as app:  # SPEC L4, invariant 6
        zombie = await _freeze(world, "before-commit:2", "chain", 2)
        heir = await _take_over(world, app)
        run = await app.get_run("r")
        before = await run.timeline()
        await _thaw(world, app, zombie, heir)
        assert await run.timeline() == before
        (warning,) = world.warnings(zombie.pid, DROPPED)
        assert (warning["run"], warning["step"], warning["attempt"]) == ("r", "crash:act", 1)


async def test_frozen_and_nobody_noticed(world: World) -> None:
    """A worker that slept past its lease, alone in the world, gives its runs up and takes them back itself."""
    async with world.client() as app:
        zombie = await _freeze(world, "told-and-not-acted:2", "chain", 3)
        zombie.send(signal.SIGCONT)
        await world.all_ended(app)
        await world.check(app)
        assert zombie.status is None


async def test_frozen_inside_a_write(world: World) -> None:
    """A worker frozen inside a transaction holds the file, and with it everybody, until it is killed; then others go on
    as if the transaction had never been."""
    async with world.client() as app:
        await world.start(app, "chain", 3, id="r")
        zombie = world.spawn(point="in-transaction:2:stop")
        await zombie.frozen()
        world.clock.add(60)
        heir = world.spawn(lease=1e6)
        await zombie.killed()
        await until(lambda: heir.pid in world.told("ready"), "the heir gets the file")
        await world.all_ended(app)
        await world.check(app)
