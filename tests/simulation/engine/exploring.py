"""Many schedules of the engine, and what they come to."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from outlast.core.events import decode_events
from tests.simulation.engine.simulation import LIMITED, ROUNDS, Simulation

__all__ = ["Findings", "Walk", "explore", "kept_seeds", "seeds_of", "walk"]

KEPT = Path(__file__).with_name("kept.txt")
COLLECT_EVERY = 50
"""Schedules. In between nothing is collected, so that no collector says when something happens."""


@dataclass
class Walk:
    """One schedule, and what came of it. `walk` with the same seed makes it happen again."""

    seed: str
    problems: list[str]
    digest: str
    """Of all that happened: equal for equal walks."""
    met: Counter[str]
    entries: int

    def __str__(self) -> str:
        return f"seed {self.seed!r}: " + "\n  ".join(self.problems)


@dataclass
class Findings:
    """What many schedules came to."""

    schedules: int = 0
    entries: int = 0
    seconds: float = 0.0
    met: Counter[str] = field(default_factory=Counter)
    failures: list[Walk] = field(default_factory=list)

    def __str__(self) -> str:
        pace = self.schedules / max(self.seconds, 1e-9) * 60
        told = [f"{self.schedules} schedules, {self.entries} entries, {self.seconds:.0f} s ({pace:.0f} a minute)"]
        told += [f"  {what}: {count}" for what, count in sorted(self.met.items())]
        return "\n".join([*told, *map(str, self.failures[:10])])


def walk(seed: str) -> Walk:
    """One schedule; the same for the same seed."""
    simulation = Simulation(seed)
    problems = simulation.run()
    met = simulation.met + simulation.faults.met
    entries = sum(len(run.journal) for run in simulation.watch.store.runs.values())
    for run in simulation.watch.store.runs.values():
        met[f"ended: {run.status}"] += 1
        met["had a place"] += run.pool is not None
        met["went on"] += run.new.continues is not None
        met["went on with mail"] += len(decode_events(run.journal[0].events)) > 1 and run.new.continues is not None
    return Walk(seed, problems, simulation.watch.digest(), met, entries)


def seeds_of(seed: object, schedules: int, first: int = 0) -> Iterable[str]:
    """Names of schedules that follow from one seed; in every fourth few runs may be in hand at once."""
    return (f"{seed}/{number}{ROUNDS if number % 4 else LIMITED}" for number in range(first, first + schedules))


def kept_seeds() -> list[str]:
    """Those that failed once."""
    lines = KEPT.read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


def explore(
    seeds: Iterable[str],
    *,
    most_failures: int = 10,
    seconds: float = float("inf"),
    on_failure: Callable[[Walk], object] = lambda _: None,
) -> Findings:
    """Walk them all, or until so many failed, the time is up, or somebody interrupts it."""
    findings, began = Findings(), time.monotonic()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for seed in seeds:
            found = walk(seed)
            findings.schedules += 1
            findings.entries += found.entries
            findings.met += found.met
            findings.seconds = time.monotonic() - began
            if found.problems:
                findings.failures.append(found)
                on_failure(found)
            if len(findings.failures) >= most_failures or findings.seconds > seconds:
                break
            if findings.schedules % COLLECT_EVERY == 0:
                gc.collect()
    except KeyboardInterrupt:
        pass  # what was found so far is told
    finally:
        gc.enable()
        gc.unfreeze()
    return findings
