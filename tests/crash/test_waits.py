"""Workers that die while their run waits for people, and people who answer all the while (SPEC W2, W3, W4, L10)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

import pytest

from outlast import Decided, RunEnded, RunNotFailed
from outlast.app import Outlast
from tests.crash.people import DECISIONS, answer, decide
from tests.crash.world import Proc, World, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

AGES = 1e6
"""Seconds. A lease that no jump of the clock ends."""
POINTS = (
    "before-commit",
    "in-transaction",
    "committed-and-not-told",
    "thought-and-not-submitted",
    "mail-read",
    "before-park-commit",
    "parked-and-not-told",
    "behind-replay",
)
QUICK = ("committed-and-not-told", 1)
"""What is tried on PostgreSQL too each time; the others there are for long tests."""


async def _answer_until_ended(world: World, app: Outlast) -> None:
    try:
        await answer(app, "a")
    except RunEnded:
        pass
    await world.all_ended(app)
    run = await app.get_run("a")
    verdicts = await asyncio.gather(*(decide(run, key, 5) for key in DECISIONS))
    assert sorted(type(verdict).__name__ for verdict in verdicts) == ["ApprovalResolved", "Decided"], verdicts
    (won,) = [verdict for verdict in verdicts if isinstance(verdict, Decided)]
    output = await run.result(timeout=20)
    assert output == ["before!", 7, won.value, won.by.id, "after!"]
    await world.check(app)


async def _kill_and_answer(world: World, point: str) -> bool:
    """Whether the worker came to die there."""
    async with world.client() as app:
        await world.start(app, "asking", id="a")
        victim = world.spawn(point=point, max_hot=0 if "park" in point or "replay" in point else 1000)
        answering = asyncio.create_task(_answer_until_ended(world, app))
        has_died = await _dies(victim, answering)
        if has_died:
            world.clock.add(60)
            heir = await world.spawn_ready(lease=AGES)
            await answering
            await heir.killed()
        else:
            await answering
            await victim.killed()
        return has_died


async def _dies(victim: Proc, answering: asyncio.Task[None]) -> bool:
    await until(lambda: victim.status is not None or answering.done(), "its death, or the end of its run")
    return victim.status == -signal.SIGKILL


@pytest.mark.parametrize("point", [f"{name}:{count}" for name in POINTS for count in (1, 4)])
async def test_killed_while_people_answer(world: World, point: str) -> None:
    """Each answer counts once, of two decisions one is accepted, and the run goes on to its end."""
    assert await _kill_and_answer(world, point) or point.endswith(":4")


@pytest.mark.parametrize("backend", ["postgres"])
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(f"{name}:{count}", marks=() if (name, count) == QUICK else pytest.mark.soak)
        for name in POINTS
        for count in (1, 4)
    ],
)
async def test_killed_on_postgres_while_people_answer(world: World, point: str) -> None:
    """The same where the store is a server."""
    await test_killed_while_people_answer(world, point)


# --- signals while runs fail ------------------------------------------------------------------------------------------

STUMBLING = [f"s{number}" for number in range(8)]
SIGNALS = 20
STUMBLES = {("in-transaction", 6), ("committed-and-not-told", 9)}
"""What is tried each time."""


async def _send_in_order(world: World, app: Outlast, id: str) -> None:
    """Each once: a signal that was acknowledged is never sent again; one that was refused, when the run is retried."""
    run = await app.get_run(id)
    for number in range(SIGNALS):
        while True:
            try:
                await run.signal("paid", number, key=f"evt_{number}")
                break
            except RunEnded:
                await until((world.folder / "mended-leg").exists, "the leg to be mended")
                await asyncio.sleep(0.01)


async def _retry_all(world: World, app: Outlast) -> None:
    """When all have failed; and whenever one fails again, since the step was lost with its worker."""
    async with asyncio.timeout(90):
        while {row.status for row in (await world.rows(app)).values()} != {"failed"}:
            await asyncio.sleep(0.01)
        (world.folder / "mended-leg").touch()
        while failed := [id for id, row in (await world.rows(app)).items() if row.status != "completed"]:
            for id in failed:
                with contextlib.suppress(RunNotFailed):
                    await (await app.get_run(id)).retry()
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    ("name", "count"),
    [
        pytest.param(name, count, marks=() if (name, count) in STUMBLES else pytest.mark.soak)
        for name in ("before-commit", "in-transaction", "committed-and-not-told", "mail-read")
        for count in (1, 3, 6, 9, 14)
    ],
)
async def test_killed_as_runs_fail_while_they_are_sent_signals(world: World, name: str, count: int) -> None:
    """Whatever was acknowledged before a run failed, and be it in the instant that it did, the run has when it is
    retried: each once, and in the order in which they were sent. The others were refused."""
    async with world.client() as app:
        for id in STUMBLING:
            await world.start(app, "stumbling", SIGNALS, id=id)
        victim = world.spawn(point=f"{name}:{count}")
        sending = [asyncio.create_task(_send_in_order(world, app, id)) for id in STUMBLING]
        retrying = asyncio.create_task(_retry_all(world, app))
        if await _dies(victim, retrying):
            world.clock.add(60)
        heir = await world.spawn_ready(lease=AGES)
        await asyncio.gather(retrying, *sending)
        await world.all_ended(app)
        for id in STUMBLING:
            assert await (await app.get_run(id)).result(timeout=5) == list(range(SIGNALS)), id
        await world.check(app)
        await heir.killed()
        if victim.status is None:
            await victim.killed()


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", POINTS)
async def test_killed_at_each_turn_while_people_answer(worlds: Callable[[], World], name: str) -> None:
    """However often it has passed there before."""
    for count in range(1, 20):
        if not await _kill_and_answer(worlds(), f"{name}:{count}"):
            return
