"""What is done to workers and their server, and when: drawn from the seed before anything runs."""

from __future__ import annotations

import enum
import random

import msgspec

__all__ = ["RATES", "Fault", "Kind", "draw_faults"]


class Kind(enum.StrEnum):
    """Each is done to whatever happens to be there."""

    KILL = "kill"
    """SIGKILL to a worker."""
    FREEZE = "freeze"
    """SIGSTOP to a worker, SIGCONT when its lease is over."""
    DRAIN = "drain"
    """SIGTERM to a worker; to one in three, twice."""
    RESTART = "restart"
    """The server stops, in good order or as after a crash, and comes back at once, or later than leases last."""
    HANG_UP = "hang up"
    """The server ends half of its sessions."""
    LOSE = "lose"
    """A request on its way to the server, or its answer, is lost with the connection. Only one worker's way is so
    bad; it is spared all else but the next one, and wrong clocks."""
    CUT_OFF = "cut off"
    """That worker cannot reach the server for longer than its lease."""
    WALL_CLOCK = "wall clock"
    """A worker's wall clock jumps, by up to two days either way."""
    SERVER_CLOCK = "server clock"
    """The server's clock jumps, ahead of all leases, or back a little."""


RATES: dict[Kind, float] = {
    Kind.KILL: 33.0,
    Kind.FREEZE: 3.0,
    Kind.DRAIN: 3.0,
    Kind.RESTART: 1.3,
    Kind.HANG_UP: 3.0,
    Kind.LOSE: 24.0,
    Kind.CUT_OFF: 0.6,
    Kind.WALL_CLOCK: 4.0,
    Kind.SERVER_CLOCK: 1.5,
}
"""How often in a minute."""


class Fault(msgspec.Struct, frozen=True, order=True):
    """One of them."""

    at: float
    """Seconds after the beginning."""
    kind: Kind
    chance: tuple[float, float]
    """Two numbers from 0 to 1, for which worker, how long, how far."""


def draw_faults(seed: int, seconds: float) -> list[Fault]:
    """In order. Those of a kind are spread evenly, each somewhere in its share of the time; one of each at least."""
    faults: list[Fault] = []
    for kind, rate in RATES.items():
        draw = random.Random(f"{seed}/{kind}")
        count = max(1, round(rate * seconds / 60))
        for number in range(count):
            at = (number + draw.random()) * seconds / count
            faults.append(Fault(at, kind, (draw.random(), draw.random())))
    return sorted(faults)
