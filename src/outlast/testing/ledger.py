"""What steps did to the world, as far as an engine knows it: each entry into a step's function. Layer: testing.

What always holds: an effect is noted before the first line of the function runs, on its first attempt or its fifth,
by whichever worker.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from outlast.authoring.current import StepInfo
    from outlast.run.handle import Run

__all__ = ["Effect", "Ledger"]


class Effect(msgspec.Struct, frozen=True):
    """One entry into a step's function."""

    run_id: str
    run_uid: str
    key: str
    attempt: int
    """From 1."""
    invocation_id: str


class Ledger:
    """All effects of one lab, or of several, in the order in which they happened."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def note(self, step: StepInfo) -> None:
        """The function of this attempt is being entered."""
        assert step.run_id is not None and step.uid is not None
        self.effects.append(Effect(step.run_id, step.uid, step.key, step.attempt, step.invocation_id))

    def keys(self, run: Run[Any] | None = None) -> list[str]:
        """Keys of the steps that were entered, in order, once for each attempt; of one run, or of all."""
        return [effect.key for effect in self.effects if run is None or effect.run_uid == run.uid]

    def check(self, when: str = "") -> None:
        """Raises AssertionError if an attempt of a step was entered twice: nobody may ever repeat what is on record."""
        times = Counter((effect.run_id, effect.key, effect.attempt, effect.invocation_id) for effect in self.effects)
        for (run, key, attempt, invocation), count in times.items():
            if count > 1:
                raise AssertionError(
                    f"Attempt {attempt} of step {key!r} of run {run!r} (invocation {invocation}) was carried out"
                    f" {count} times{when}. Report this as a bug of outlast: at most once is its promise."
                )
