"""The walk over a graph: which node comes next. Layer: core. It decides, and calls nothing.

A visit that ends sends a *token* along each edge that is taken. A node with one way in is visited for each token. A
*join* is visited once for all tokens that can still come in this round: it waits while a visit that is under way, or a
join that waits itself, can lead to it. Branches that were not taken send nothing, so nobody waits for them. The head of
a cycle is a join too: it waits until its whole cycle is at rest, and so one round is over before the next begins.

What always holds: each token is answered by exactly one visit, tokens that meet at a join by one together; a walk with
no visit under way is over (no token is left behind); and which visits there are depends on the branches taken, not on
what was quicker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from outlast.core.graph.shape import Shape, iter_bits

__all__ = ["Exhausted", "Walk"]


class Exhausted(Exception):
    """A node was to be visited more often than it may be."""

    def __init__(self, node: str, limit: int) -> None:
        super().__init__(node, limit)
        self.node = node
        self.limit = limit


class Walk:
    """One run's walk. `limits` says of each node how often it may be visited; of those not named, no limit."""

    def __init__(self, shape: Shape, limits: Mapping[str, int]) -> None:
        self._shape = shape
        self._limits = limits
        self._running = [0] * len(shape.ids)
        """How many visits of each node are under way."""
        self._active = 0
        """Bits of the nodes with any."""
        self._waiting = 0
        """Bits of the joins that hold a token."""
        self._visits: dict[str, int] = {}

    @property
    def is_over(self) -> bool:
        """Nothing is under way, and nothing will be."""
        return not self._active

    def begin(self, entries: Iterable[str]) -> list[str]:
        """The nodes to visit first. Raises Exhausted."""
        return self._send(entries)

    def end(self, node: str, targets: Iterable[str]) -> list[str]:
        """A visit of this node has ended, and goes on at these. Gives the nodes to visit now. Raises Exhausted."""
        number = self._shape.numbers[node]
        self._running[number] -= 1
        if not self._running[number]:
            self._active &= ~(1 << number)
        return self._send(targets)

    def _send(self, targets: Iterable[str]) -> list[str]:
        visits: list[str] = []
        for name in dict.fromkeys(targets):
            number = self._shape.numbers[name]
            if self._shape.joins >> number & 1:
                self._waiting |= 1 << number
            else:
                self._visit(number, visits)
        for number in iter_bits(self._waiting):
            if self._may_go(number):
                self._waiting &= ~(1 << number)
                self._visit(number, visits)
        return visits

    def _may_go(self, number: int) -> bool:
        others = self._waiting & ~(1 << number)
        return not self._shape.before[number] & (self._active | others)

    def _visit(self, number: int, visits: list[str]) -> None:
        name = self._shape.ids[number]
        count = self._visits[name] = self._visits.get(name, 0) + 1
        if count > self._limits.get(name, count):
            raise Exhausted(name, self._limits[name])
        self._running[number] += 1
        self._active |= 1 << number
        visits.append(name)
