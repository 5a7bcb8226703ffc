"""Many schedules, and what they come to."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.audit import Violation
from tests.simulation.fixes import Fixes
from tests.simulation.hot import Option
from tests.simulation.network import immediately
from tests.simulation.simulation import Simulation

__all__ = ["Findings", "Walk", "explore", "walk"]

LENGTHS = (30, 60, 120, 180)  # actions of a schedule before the calm


@dataclass
class Walk:
    """One schedule and what came of it. `walk` with the same seed makes it happen again."""

    seed: str
    trace: list[Option]
    journals: list[bytes]
    met: Counter[str]
    violation: Violation | None

    def digest(self) -> str:
        """Of all that happened: equal for equal walks."""
        return hashlib.sha256(repr((self.trace, self.journals, str(self.violation))).encode()).hexdigest()

    def __str__(self) -> str:
        last = "\n  ".join(map(str, self.trace[-25:]))
        return f"{self.violation}\n  seed {self.seed!r}, after {len(self.trace)} actions; the last of them:\n  {last}"


@dataclass
class Findings:
    """What many schedules came to."""

    schedules: int = 0
    met: Counter[str] = field(default_factory=Counter)
    failures: list[Walk] = field(default_factory=list)

    def by_rule(self) -> Counter[str]:
        return Counter(failure.violation.rule for failure in self.failures if failure.violation is not None)

    def __str__(self) -> str:
        """How many violations of each rule there are, and the shortest schedules that end in one."""
        shortest = sorted(self.failures, key=lambda failure: len(failure.trace))[:3]
        return "\n".join([f"{self.schedules} schedules: {dict(self.by_rule())}", *map(str, shortest)])


def explore(fixes: Fixes, schedules: int, *, seed: int, workers: int = 2, until: str | None = None) -> Findings:
    """Walk schedules with seeds that follow from one: all of them, or until one breaks a rule that begins so."""
    findings = Findings()
    for number in range(schedules):
        found = walk(fixes, f"{seed}/{number}", workers)
        findings.schedules += 1
        findings.met += found.met
        if found.violation is not None:
            findings.failures.append(found)
            if until is not None and found.violation.rule.startswith(until):
                break
    return findings


def walk(fixes: Fixes, seed: str, workers: int = 2) -> Walk:
    """One schedule; the same for the same seed."""
    rng = random.Random(seed)
    simulation = Simulation(fixes, rng, workers)
    violation = None
    try:
        simulation.run(rng.choice(LENGTHS))
    except Violation as raised:
        violation = raised
    store = simulation.scene.store
    journals = [
        entry.events for uid in simulation.scene.glance.uids() for entry in immediately(store.read_journal(uid))
    ]
    return Walk(seed, simulation.trace, journals, simulation.scene.met, violation)
