"""Workers of a graph's run killed by SIGKILL."""

from __future__ import annotations

import signal

import pytest

from tests.crash.world import World

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

START = ("graph", [[f"g{number}" for number in range(8)]], "r0")
POINTS = ("effect-without-outcome:2", "told-and-not-acted:3", "committed-and-not-told:2", "effect-without-outcome:3")


async def test_a_graph_is_finished_by_whoever_comes_next(world: World) -> None:
    """Four workers die in the middle of it, one after the other; the fifth brings it to the end it was to have."""
    async with world.client() as app:  # SPEC L10
        await world.start(app, *START[:2], id=START[2])
        for point in POINTS:
            assert await world.spawn(point=point).gone() == -signal.SIGKILL, world.log()
            await world.bury(app)
        await world.spawn_ready(lease=1e6)
        await world.all_ended(app)
        await world.check(app)
