"""Workflows whose steps the test holds in its hand."""

from __future__ import annotations

import asyncio

from outlast import Context


class Gate:
    """A step that waits until the test lets it go on, and counts its executions."""

    def __init__(self, app, name="work", **options):
        self.is_open = asyncio.Event()
        self.entered = asyncio.Event()
        self.count = 0
        self.step = app.step(name=name, **options)(self._make())

    def _make(self):
        async def work(n: int) -> int:
            self.count += 1
            self.entered.set()
            await self.is_open.wait()
            return n * 2

        return work


def declare_steady(app, gate=None):
    """A workflow of one step."""
    gate = gate or Gate(app)

    @app.workflow(name="steady")
    async def steady(ctx: Context, n: int) -> int:
        return await gate.step(n)

    return gate, steady
