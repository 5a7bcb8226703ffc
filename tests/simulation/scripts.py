"""A script for each hole that the rules close: small, directed at it, and tried in all orders.

Worker 0 is the one things happen to, worker 1 its peer.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.audit import SUPERSEDED
from tests.simulation.orders import Move, Script, arrive, do, give_up, happen, lose, lose_answer, work_until
from tests.simulation.program import CHILD, PARENT
from tests.simulation.simulation import Simulation

__all__ = ["HOLES", "Hole"]

STUCK = "3 a run is stuck"


@dataclass(frozen=True)
class Hole:
    """What goes wrong without a rule."""

    fix: str
    """The rule."""
    violates: str
    """What is violated in some order without it, and in none with it."""
    script: Script
    also_off: tuple[str, ...] = ()
    """Rules that stop the same hole earlier, or heal it later: without them it is seen that this one stops it too."""
    overlook: frozenset[str] = frozenset()
    """Violations that follow from `also_off` alone."""


# --- moves in a row ---------------------------------------------------------------------------------------------------


def claims(number: int) -> list[Move]:
    """A worker takes the parent and reads it, in as many moves as that takes."""
    return [do(number, "claim"), arrive("claim", number), do(number, "load", PARENT)]


def commits(number: int, uid: str = PARENT) -> list[Move]:
    return [do(number, "submit", uid), arrive("commit", number)]


def dies(number: int, reaper: int) -> list[Move]:
    """A worker's lease lapses, it does not notice, and its peer does."""
    return [happen("stall", number), do(reaper, "reap")]


def _waits_for_the_signal(simulation: Simulation) -> bool:
    hot = simulation.workers[0].hot.get(PARENT)
    return hot is not None and hot.picture.child_ended and hot.is_idle()


def _runs_the_childs_step(simulation: Simulation) -> bool:
    hot = simulation.workers[0].hot.get(CHILD)
    return hot is not None and bool(hot.running)


def _runs_the_queued_step(simulation: Simulation) -> bool:
    return any(task.has_run for task in simulation.workers[0].held.values())


SIGNAL = [happen("signal"), arrive("signal")]
CANCEL = [happen("cancel"), arrive("cancel")]
STEP_IN_FLIGHT = [*claims(0), do(0, "submit", PARENT)]
"""The entry that starts the first step is under way."""
WAITING = [work_until(0, _waits_for_the_signal)]


# --- the holes --------------------------------------------------------------------------------------------------------

HOLES = {
    "a zombie's entry crosses the reap and its successor (F1)": Hole(
        "worker_fence",
        SUPERSEDED,
        Script(STEP_IN_FLIGHT, [[arrive("commit", 0)], dies(0, 1), [*claims(1), *commits(1)]]),
    ),
    "a claim arrives when its worker was reaped (F3)": Hole(
        "worker_fence",
        STUCK,
        Script([do(0, "claim")], [[arrive("claim", 0)], dies(0, 1)]),
    ),
    "of two entries in flight the second arrives first (F2)": Hole(
        "predecessor",
        "1 a journal has a gap",
        Script(
            [*STEP_IN_FLIGHT, *SIGNAL, do(0, "poll", PARENT), do(0, "submit", PARENT)],
            [[lose("commit", 0)], [arrive("commit", 0), arrive("commit", 0)]],
        ),
        also_off=("one_flight",),
    ),
    "of two entries in flight the first ends the run (F2)": Hole(
        "one_flight",
        "7 an entry stands behind the end",
        Script(
            [*claims(0), *CANCEL],
            [
                [*[do(0, "poll"), do(0, "submit")] * 2, *[arrive("commit", 0)] * 2],
                SIGNAL,
            ],
        ),
    ),
    "a new owner's entry is refused, a zombie took its place (F1)": Hole(
        "reread",
        STUCK,
        Script(STEP_IN_FLIGHT, [[arrive("commit", 0)], dies(0, 1), [*claims(1), *commits(1)]]),
        also_off=("worker_fence", "reconcile"),
        overlook=frozenset({SUPERSEDED}),
    ),
    "the answer to a claim is lost (F4)": Hole(
        "reconcile",
        STUCK,
        Script([do(0, "claim")], [[lose_answer("claim", 0)], [happen("tick")]]),
    ),
    "a fenced worker comes back under its old id (F5)": Hole(
        "fresh_id",
        SUPERSEDED,
        Script(
            STEP_IN_FLIGHT, [[happen("stall", 0), do(0, "fence"), arrive("commit", 0)], [do(1, "reap"), *claims(1)]]
        ),
    ),
    "a worker is frozen between its commit and the step (F6)": Hole(
        "lease_at_act",
        "S10 an attempt starts after it was recorded as lost",
        Script(STEP_IN_FLIGHT, [[arrive("commit", 0), do(0, "act")], [*dies(0, 1), *claims(1), *commits(1)]]),
    ),
    "a message comes between the inbox, `mail` and the park (F15)": Hole(
        "seen_first",
        STUCK,
        Script(WAITING, [[do(0, "poll"), do(0, "see_mail"), do(0, "park"), arrive("park", 0)], SIGNAL]),
    ),
    "a park comes late, the same worker has the run anew (F16)": Hole(
        "park_fenced",
        SUPERSEDED,
        Script(
            [*WAITING, happen("signal")],
            [
                [do(0, "park"), do(0, "reconcile"), do(0, "load")],
                [arrive("park", 0)],
                [arrive("signal"), do(1, "claim"), arrive("claim", 1)],
            ],
        ),
    ),
    "a run is parked while its step runs here (F17)": Hole(
        "park_idle",
        STUCK,
        Script(
            [work_until(0, _runs_the_childs_step), do(0, "poll", CHILD)],
            [[do(0, "park", CHILD), arrive("park", 0)], [do(0, "finish", CHILD), *commits(0, CHILD)]],
        ),
    ),
    "a client's second copy comes when the first was read (F18)": Hole(
        "dedup_fold",
        "4 a message is read twice",
        Script(
            [*claims(0), happen("signal"), give_up("signal")],
            [[arrive("signal"), arrive("signal")], [do(0, "poll"), *commits(0), do(0, "poll"), *commits(0)]],
        ),
    ),
    "a message comes while the last entry is under way (F20)": Hole(
        "final_sweep",
        "3 messages are left that nobody will answer",
        Script([*claims(0), *CANCEL, do(0, "poll", PARENT)], [commits(0), SIGNAL]),
    ),
    "an attempt taken for lost reports, the next one is queued (F26)": Hole(
        "outcome_fenced",
        STUCK,
        Script(
            [*SIGNAL, work_until(0, _runs_the_queued_step), do(0, "park", PARENT), arrive("park", 0)],
            [
                [do(0, "finish_task"), arrive("complete task", 0)],
                [*dies(0, 1), do(1, "lapse_tasks"), *claims(1), do(1, "poll"), *commits(1)],
            ],
        ),
    ),
}
