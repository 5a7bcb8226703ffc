"""The clocks of the stores under test, which the contract moves. Layer: testing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from outlast.stores.store import Store

__all__ = ["SECOND", "Clock", "MakeStore", "MovedClock"]

SECOND = 1_000_000  # µs
MakeStore: TypeAlias = Callable[[], Awaitable[Store]]
"""Makes another opened handle on the data of the test."""


class Clock(Protocol):
    """The time of the stores under test."""

    lease_us: int
    """A lease that a test can wait out with `advance`."""

    def __call__(self) -> int:
        """µs since the Unix epoch."""
        ...

    async def advance(self, store: Store, us: int) -> None:
        """Return when the store's clock is at least this much later."""
        ...


class MovedClock:
    """For stores that take a clock: time passes when the test says so."""

    lease_us = 10 * SECOND

    def __init__(self) -> None:
        self.now_us = 1_700_000_000 * SECOND

    def __call__(self) -> int:
        """What time the test has it be."""
        return self.now_us

    async def advance(self, store: Store, us: int) -> None:
        """It is so much later."""
        self.now_us += us
