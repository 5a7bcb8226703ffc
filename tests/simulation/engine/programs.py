"""Programs by chance: what the runs of a schedule do."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.simulation.engine.bodies import Op, Program

__all__ = ["list_waits", "make_program"]


class Maker:
    """Makes programs; each step in them has a tag of its own."""

    def __init__(self, rng: random.Random, *, has_rounds: bool = False) -> None:
        self._rng = rng
        self._has_rounds = has_rounds
        self._count = 0

    def program(self, length: int, depth: int) -> Program:
        return [self.op(depth) for _ in range(length)]

    def run(self, length: int, depth: int) -> Program:
        """Of a whole run: it may go on as a next round."""
        program = self.program(length, depth)
        if self._has_rounds and self._rng.random() < 0.35:
            following = self.next(depth)
            program.append(
                self._rng.choice([["all", self.op(0), following], ["finally", following, self.step()]])
                if self._rng.random() < 0.3
                else following
            )
        return program

    def next(self, depth: int) -> Op:
        return ["next", self.run(self._rng.choice([1, 2, 4]), depth)]

    def op(self, depth: int) -> Op:
        """At depth 0, one that has no others in it."""
        rng = self._rng
        if depth and rng.random() < 0.4:
            return rng.choice(self._nesting())(depth - 1)
        (make,) = rng.choices(list(SIMPLE), weights=list(SIMPLE.values()))
        return make(self)

    def _nesting(self) -> list[Callable[[int], Op]]:
        return [
            self._side_by_side, self._side_by_side, self._within, self._try, self._finally, self._child, self._child,
            self._left, self._race,
        ]  # fmt: skip

    def tag(self) -> str:
        self._count += 1
        return f"t{self._count}"

    # --- with no others in them ---------------------------------------------------------------------------------------

    def step(self) -> Op:
        return ["step", self._rng.choice(["act", "act", "act_in_thread", "act_and_tell", "book"]), self.tag()]

    def flaky(self) -> Op:
        return ["step", "flaky", self.tag(), self._rng.randint(1, 3)]

    def slow(self) -> Op:
        name = self._rng.choice(["slow", "slow", "limited"])
        op = ["step", name, self.tag(), self._rng.choice([0.2, 0.4, 1.5, 3.0])]
        return ["try", op] if name == "limited" else op

    def once(self) -> Op:
        return ["try", ["step", "once", self.tag()]]

    def fragile(self) -> Op:
        op = ["step", "fragile", self.tag()]
        return ["try", op] if self._rng.random() < 0.7 else op

    def queued(self) -> Op:
        op = ["queued", self._rng.choice(["act", "act_in_thread", "act_and_tell", "book", "once"]), self.tag()]
        return ["try", op] if op[1] == "once" else op

    def newer(self) -> Op:
        return ["newer", self.tag()]

    def sleep(self) -> Op:
        return [self._rng.choice(["sleep", "plain sleep"]), self._rng.choice([0.01, 0.2, 0.9, 1.5, 4.0])]

    def signal(self) -> Op:
        return ["signal", self.tag(), self._rng.choice([None, None, 0.5, 3.0])]

    def approval(self) -> Op:
        return ["approval", self.tag(), self._rng.choice([None, None, 0.5, 3.0])]

    def gate(self) -> Op:
        return ["gate", self.tag()]

    def map(self) -> Op:
        return ["map", self.tag(), self._rng.randint(2, 5)]

    def note(self) -> Op:
        return ["note", self.tag(), self._rng.randint(0, 9)]

    def undo(self) -> Op:
        return ["undo", self.tag()]

    def fail(self) -> Op:
        return ["fail", self.tag()]

    # --- with others in them ------------------------------------------------------------------------------------------

    def _side_by_side(self, depth: int) -> Op:
        return [self._rng.choice(["all", "group"]), *self.program(self._rng.randint(2, 3), depth)]

    def _race(self, depth: int) -> Op:
        return ["race", *self.program(2, depth)]

    def _within(self, depth: int) -> Op:
        return ["within", self._rng.choice([0.05, 0.5, 2.0]), self.op(depth)]

    def _try(self, depth: int) -> Op:
        return ["try", self.op(depth)]

    def _finally(self, depth: int) -> Op:
        return ["finally", self.op(depth), self.step()]

    def _child(self, depth: int) -> Op:
        return ["child", self.run(self._rng.randint(1, 3), depth)]

    def _left(self, depth: int) -> Op:
        return ["left", self.run(self._rng.randint(1, 3), depth), self._rng.choice([0.01, 0.5, 2.0])]


SIMPLE: dict[Callable[[Maker], Op], int] = {
    Maker.step: 12, Maker.flaky: 3, Maker.slow: 3, Maker.once: 2, Maker.fragile: 1, Maker.queued: 4, Maker.newer: 1,
    Maker.sleep: 4, Maker.signal: 3, Maker.approval: 2, Maker.gate: 1, Maker.map: 2, Maker.note: 2, Maker.undo: 1,
    Maker.fail: 1,
}  # fmt: skip


def make_program(rng: random.Random, *, has_rounds: bool = False) -> Program:
    """A short one, or a longer one; or one that goes on in rounds."""
    return Maker(rng, has_rounds=has_rounds).run(rng.choice([1, 2, 3, 5, 8, 12]), rng.choice([0, 1, 2, 2, 3]))


def list_waits(program: Program) -> list[tuple[str, str]]:
    """What the run itself waits for people with, in any of its rounds: signals and approvals, each waited for once."""
    found: list[tuple[str, str]] = []
    for op in program:
        name, *rest = op
        if name in {"signal", "approval"}:
            found.append((name, rest[0]))
        elif name == "next":
            found += list_waits(rest[0])
        elif name not in {"child", "left"}:
            found += list_waits([part for part in rest if isinstance(part, list)])
    return found
