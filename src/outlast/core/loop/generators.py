"""The async generators of a body: held until they are done, and closed by its loop alone. Layer: core.

What always holds: no generator that a body began is finished by the collector, whose time is not the body's. One that
was left early (`break` in an `async for`) stays open until the body ends, and is closed then.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

__all__ = ["BodyGenerators"]

Generator = AsyncGenerator[Any, Any]


class BodyGenerators:
    """Those of one body, oldest first."""

    __slots__ = ("_held", "_most")

    def __init__(self) -> None:
        self._held: list[Generator] = []
        self._most = 16

    def hold(self, generator: Generator) -> None:
        """Take in one that is about to run for the first time."""
        self._held.append(generator)
        if len(self._held) > self._most:
            self._held = self.list_open()
            self._most = max(16, 2 * len(self._held))

    def list_open(self) -> list[Generator]:
        """Those that have begun and not ended."""
        return [generator for generator in self._held if getattr(generator, "ag_frame", None) is not None]

    async def close(self, report: Callable[[str, BaseException], None]) -> None:
        """Close all that are open, one by one, and those their endings open. What one raises goes to `report`."""
        while generators := self.list_open():
            tried = set(map(id, generators))
            for generator in generators:
                try:
                    await generator.aclose()
                except Exception as error:  # noqa: BLE001 - the others are closed all the same, as asyncio does
                    report(f"Closing {generator!r} failed", error)
            self._held = [generator for generator in self._held if id(generator) not in tried]

    def clear(self) -> None:
        """Let go of all."""
        self._held.clear()
