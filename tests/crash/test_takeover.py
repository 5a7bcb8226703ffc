"""Worker processes that die beside others, and others that take over."""

from __future__ import annotations

import pytest

from tests.crash.flows import MIX
from tests.crash.world import World

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


async def test_a_worker_finishes_what_it_is_given(world: World) -> None:
    """Without any kill, all is as it should be: what the other tests compare with."""
    async with world.client() as app:
        for number, (workflow, arguments) in enumerate(MIX):
            await world.start(app, workflow, *arguments, id=f"r{number}")
        await world.spawn_ready()
        await world.all_ended(app)
        await world.check(app)
