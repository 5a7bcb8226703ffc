"""A few worker processes, each replaced when it is gone, and what becomes of them."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.crash.clock import SharedClock
from tests.crash.postgres_points import ON_POSTGRES
from tests.crash.world import Proc, World

__all__ = ["Fleet", "Slot"]

LOOK_S = 0.05
LEAVES_WITHIN_S = 40.0
"""A worker that was told to stop; its grace and its lease are far shorter, but the server may be away."""


class Slot:
    """A place for a worker, with a wall clock of its own."""

    def __init__(self, clock: SharedClock, settings: dict[str, Any], *, is_spared: bool) -> None:
        self.clock = clock
        self.is_spared = is_spared
        """Only its clock and its way to the server fail. What it forgets no death of its own brings to light again, as
        it does for those that die every few seconds: a run that it owns and does not know is lost for good."""
        self.settings = settings
        self.proc: Proc | None = None
        self.may_freeze = False
        """It carries a crash point at which it stops itself."""
        self.is_frozen = False
        self.was_killed = False
        self.told_at: float | None = None
        """When it was told to stop."""


class Fleet:
    """`tally` counts what happened to workers; `problems` is what should not have."""

    def __init__(self, world: World, seed: int, *, size: int, lease_s: float, through: str) -> None:
        self.tally: Counter[str] = Counter()
        self.problems: list[str] = []
        self.are_armed = True
        """New workers may carry a crash point, at which they die by themselves, or freeze."""
        self._world = world
        self._lease_s = lease_s
        self._draw = random.Random(f"{seed}/fleet")
        self._spawned = 0
        self._slots = [self._make_slot(number, through) for number in range(size)]

    def _make_slot(self, number: int, through: str) -> Slot:
        path = self._world.folder / f"wall-clock-{number}"
        settings = {"wall_clock": str(path), "through": "" if number else through}
        return Slot(SharedClock(path), settings, is_spared=number == 0)

    # --- their lives --------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """For ever: see who is gone and why, and put another in its place."""
        while True:
            for slot in self._slots:
                self._look(slot)
            await asyncio.sleep(LOOK_S)

    def _look(self, slot: Slot) -> None:
        if slot.proc is not None:
            status = slot.proc.status
            if status is None:
                if slot.may_freeze and not slot.is_frozen and slot.proc.is_frozen:
                    slot.may_freeze, slot.is_frozen = False, True
                    self._thaw_later(slot, slot.proc)
                if slot.told_at is not None and time.monotonic() > slot.told_at + LEAVES_WITHIN_S:
                    self.problems.append(f"worker process {slot.proc.pid} was told to stop, and did not")
                    slot.proc.send(signal.SIGKILL)
                    slot.told_at = None
                return
            self._bury(slot, slot.proc, status)
        slot.is_frozen, slot.was_killed, slot.told_at = False, False, None
        slot.proc = self._spawn(slot)

    def _thaw_later(self, slot: Slot, proc: Proc) -> None:
        """When its lease is over."""

        def thaw() -> None:
            if slot.proc is proc:
                proc.send(signal.SIGCONT)
                slot.is_frozen = False
                self.tally["freezes at crash points"] += 1

        asyncio.get_running_loop().call_later(self._lease_s * 1.3, thaw)

    def _bury(self, slot: Slot, proc: Proc, status: int) -> None:
        if status == -signal.SIGKILL and slot.was_killed:
            self.tally["kills"] += 1
        elif status == -signal.SIGKILL and self._died_at_a_point(proc.pid):
            self.tally["deaths at crash points"] += 1
        elif slot.told_at is not None and status in {0, -signal.SIGTERM}:  # the latter: before it could listen
            self.tally["drains"] += 1
        elif status == 1 and self._was_unable(proc.pid):
            self.tally["workers that could not begin"] += 1
        else:
            self.problems.append(f"worker process {proc.pid} ended by itself: {status}")

    def _died_at_a_point(self, pid: int) -> bool:
        return any(line["pid"] == pid for line in self._world.lines("deaths"))

    def _was_unable(self, pid: int) -> bool:
        """It did not reach the server, or not in time, and has said so: whoever looks after workers starts another."""
        return pid in self._world.told("unable") and pid not in self._world.told("ready")

    def _spawn(self, slot: Slot) -> Proc:
        """Workers differ: in memory, in places, in what they start, and in where they die or freeze by themselves."""
        draw, number = self._draw, self._spawned
        self._spawned += 1
        point = f"{draw.choice([*ON_POSTGRES])}:{draw.choice((1, 2, 4, 8, 16))}" if draw.random() < 0.4 else ""
        if slot.is_spared or not self.are_armed:
            point = ""
        slot.may_freeze = bool(point) and draw.random() < 0.3
        point += ":stop" * slot.may_freeze
        start = draw.choice((("chain", [4]), ("fan", [3]), ("queued", [3]), ("family", [1])))
        return self._world.spawn(
            **slot.settings,
            point=point,
            lease=self._lease_s,
            grace=draw.choice((0.5, 3.0)),
            concurrency=draw.choice((4, 20, 200)),
            max_hot=draw.choice((0, 5, 1000, 1000)),
            starts=[(*start, f"w{number}")],
        )

    # --- what is done to them -----------------------------------------------------------------------------------------

    async def kill(self, chance: float) -> None:
        """One, whatever it is doing."""
        self._kill(await self._find(chance))

    def kill_all(self) -> None:
        """All at once, but for the one that is spared."""
        for slot in self._slots:
            if not slot.is_spared:
                self._kill(slot)

    def _kill(self, slot: Slot) -> None:
        if slot.proc is not None:
            slot.was_killed = True
            slot.proc.send(signal.SIGKILL)

    def is_busy(self) -> bool:
        """One that can be killed is in the midst of a step."""
        pids = {mark.pid for mark in self._world.ledger.unfinished()}
        return any(slot.proc.pid in pids for slot in self._slots if slot.proc is not None and not slot.is_spared)

    async def freeze(self, chance: float, seconds: float) -> None:
        """One, for so long, unless it is killed meanwhile."""
        slot = await self._find(chance)
        proc = slot.proc
        assert proc is not None
        slot.is_frozen = True
        proc.send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        if slot.proc is proc:
            proc.send(signal.SIGCONT)
            slot.is_frozen = False
            self.tally["freezes past the lease"] += seconds > self._lease_s

    async def drain(self, chance: float, *, twice: bool) -> None:
        """Tell one to stop."""
        slot = await self._find(chance)
        proc = slot.proc
        assert proc is not None
        slot.told_at = time.monotonic()
        proc.send(signal.SIGTERM)
        if twice:
            await asyncio.sleep(0.2)
            if slot.proc is proc:
                proc.send(signal.SIGTERM)

    def move_wall_clock(self, chance: float, seconds: float) -> None:
        """Of one."""
        self._slots[int(chance * len(self._slots))].clock.add(seconds)
        self.tally["jumps of a worker's clock"] += 1

    async def _find(self, chance: float) -> Slot:
        """One that is up and was not told anything yet."""
        while not (able := [*self._iter_able()]):
            await asyncio.sleep(LOOK_S)
        return able[int(chance * len(able))]

    def _iter_able(self) -> Iterator[Slot]:
        for slot in self._slots:
            is_up = slot.proc is not None and not slot.is_frozen and not slot.was_killed and slot.told_at is None
            if is_up and not slot.is_spared:
                yield slot
