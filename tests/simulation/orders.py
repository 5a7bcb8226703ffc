"""All orders of a small script: what random schedules meet too seldom is tried exhaustively.

A script says how things stand at first, and what several processes do then, each in its own order. Every interleaving
of them is run in a world of its own, and calmed down. A move that is not possible when its turn comes is left out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulation.audit import Violation
from tests.simulation.fixes import Fixes
from tests.simulation.network import CLIENT
from tests.simulation.simulation import CALM_ORDER, Simulation

__all__ = [
    "Move",
    "Orders",
    "Script",
    "arrive",
    "do",
    "give_up",
    "happen",
    "lose",
    "lose_answer",
    "try_orders",
    "work_until",
]

Move = Callable[[Simulation], None]


@dataclass(frozen=True)
class Script:
    """Moves that happen first, and processes whose moves are interleaved in all ways."""

    before: Sequence[Move]
    processes: Sequence[Sequence[Move]]


@dataclass
class Orders:
    """What all orders of a script came to."""

    tried: int = 0
    violations: Counter[str] = field(default_factory=Counter)
    example: str = ""
    """The first order that broke a rule, as it was performed."""


def try_orders(script: Script, fixes: Fixes, overlook: frozenset[str] = frozenset()) -> Orders:
    orders = Orders()
    for order in _interleave([list(process) for process in script.processes]):
        simulation = Simulation(fixes, random.Random(0), overlook=overlook)
        orders.tried += 1
        try:
            for move in [*script.before, *order]:
                move(simulation)
            simulation.calm_down()
        except Violation as violation:
            orders.violations[violation.rule] += 1
            orders.example = orders.example or f"{violation}\n" + "\n".join(map(str, simulation.trace))
    return orders


def _interleave(processes: list[list[Move]]) -> Iterator[list[Move]]:
    waiting = [process for process in processes if process]
    if not waiting:
        yield []
    for process in waiting:
        rest = [other[1:] if other is process else other for other in processes]
        for order in _interleave(rest):
            yield [process[0], *order]


# --- moves ------------------------------------------------------------------------------------------------------------


def happen(name: str, *about: object) -> Move:
    """What needs nobody's consent: a misfortune, a tick, a message of the client's."""
    return lambda simulation: simulation.perform((name, *about))


def do(number: int, name: str, *about: object) -> Move:
    """The worker does this, if it can: the first option that begins so."""
    option = (name, *about)

    def move(simulation: Simulation) -> None:
        for found in simulation.workers[number].options():
            if found[: len(option)] == option:
                simulation.perform((name, number, *found[1:]))
                return

    return move


def arrive(name: str, sender: int = CLIENT) -> Move:
    """The oldest request of this name and sender arrives, and its answer too."""
    return _with_copy("deliver", name, sender)


def lose(name: str, sender: int = CLIENT) -> Move:
    return _with_copy("lose", name, sender)


def lose_answer(name: str, sender: int = CLIENT) -> Move:
    return _with_copy("lose_answer", name, sender)


def give_up(name: str, sender: int = CLIENT) -> Move:
    """Its sender stops waiting, and sends it again if it is one to send again."""
    return _with_copy("give_up", name, sender)


def _with_copy(how: str, name: str, sender: int) -> Move:
    def move(simulation: Simulation) -> None:
        for number, copy in enumerate(simulation.scene.network.copies):
            if (copy.request.name, copy.request.sender) == (name, sender):
                simulation.perform((how, number))
                return

    return move


def work_until(number: int, is_reached: Callable[[Simulation], bool]) -> Move:
    """Let one worker do all there is to do, but park, one thing after the other, until things stand so."""

    def move(simulation: Simulation) -> None:
        while not is_reached(simulation):
            if simulation.scene.network.copies:
                simulation.perform(("deliver", 0))
                continue
            options = {option[0]: option for option in simulation.workers[number].options()}
            name = next(name for name in CALM_ORDER if name in options and name != "park")
            simulation.perform((name, number, *options[name][1:]))

    return move
