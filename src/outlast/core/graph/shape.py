"""The shape of a graph: who leads to whom, what is a join, what is a cycle. Layer: core.

Nodes are numbered in the order in which they are reached from the entry nodes; sets of nodes are the bits of an int, so
that a question about all ways of a large graph is one operation on a few machine words. What always holds: the shape
follows from the ids and edges alone, so two processes number alike.

- A *join* is a node with several ways in: edges from different nodes, or one of them the start of the run.
- A *cycle* is a largest set of nodes that all lead to each other. Its *head* is the one reached first; what is left
  without the head may have cycles again, within.
- Edges are those of `next`. A handler runs within the visit of the node that failed, so `on_error` leads nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from outlast.core.graph.limits import MOST_NESTED

__all__ = ["Shape", "find_cycle", "iter_bits"]


class Shape:
    """What the walk needs to know of the edges."""

    def __init__(self, entries: Sequence[str], targets: Mapping[str, Sequence[str]]) -> None:
        """`targets`: for each node the nodes that may follow it. All of them, and the entries, have to be keys."""
        self.ids = _number(entries, targets)
        """By number."""
        self.numbers = {name: number for number, name in enumerate(self.ids)}
        self._targets = [[self.numbers[target] for target in dict.fromkeys(targets[name])] for name in self.ids]
        self._sources: list[list[int]] = [[] for _ in self.ids]
        for number, follows in enumerate(self._targets):
            for target in follows:
                self._sources[target].append(number)
        self.entries = tuple(dict.fromkeys(self.numbers[name] for name in entries))
        self.joins = self._find_joins()
        """Bits."""
        self.before = [0] * len(self.ids)
        """For each node: those that can still lead to it within one round of the cycles it is in. For a cycle's head
        that is the whole cycle. Joins wait for these, and since heads alone wait for what is behind them, never for
        each other."""
        self.ancestors = [0] * len(self.ids)
        """For each node: all that some way leads from, however often round."""
        self.is_too_nested = False
        """There are over MOST_NESTED cycles within each other, and `before` is not complete."""
        self._arrange()

    def is_before(self, node: str, later: str) -> bool:
        """Whether some way leads from the one to the other."""
        return bool(self.ancestors[self.numbers[later]] >> self.numbers[node] & 1)

    def iter_unreached(self) -> Iterator[str]:
        """The ids of the nodes that no way leads to from an entry node."""
        found = sum(1 << number for number in self.entries)
        for number, name in enumerate(self.ids):
            if not (found >> number & 1 or self.ancestors[number] & found):
                yield name

    def _find_joins(self) -> int:
        ways = [len(sources) for sources in self._sources]
        for number in self.entries:
            ways[number] += 1
        return sum(1 << number for number, count in enumerate(ways) if count > 1)

    def _arrange(self) -> None:
        """Fill in `before` and `ancestors`, from the outermost cycles to the innermost."""
        level = [0] * len(self.ids)
        """Of each node the latest group that it was in."""
        groups: list[tuple[list[int], int, int]] = [(list(range(len(self.ids))), 0, 0)]
        for count, (group, outer, depth) in enumerate(groups):
            for number in group:
                level[number] = count
            for component, upstream in self._iter_components(group, level, count):
                bits = _bits_of(component)
                is_cycle = len(component) > 1 or component[0] in self._targets[component[0]]
                if depth == 0:
                    for number in component:
                        self.ancestors[number] = upstream | (bits if is_cycle else 0)
                head = min(component)
                self.before[head] = outer | upstream | (bits if is_cycle else 0)
                rest = [number for number in component if number != head]
                if rest and depth >= MOST_NESTED:
                    self.is_too_nested = True
                    return
                if rest:
                    groups.append((rest, outer | upstream, depth + 1))

    def _iter_components(self, group: list[int], level: list[int], count: int) -> Iterator[tuple[list[int], int]]:
        """The components of a group, each with all nodes of the group that lead to it; earlier ones first."""
        before: dict[int, int] = {}
        targets = {number: [target for target in self._targets[number] if level[target] == count] for number in group}
        for component in reversed(_find_components(targets)):
            members = frozenset(component)
            upstream = 0
            for number in component:
                for source in self._sources[number]:
                    if level[source] == count and source not in members:
                        upstream |= before[source]
            reached = upstream | _bits_of(component)
            for number in component:
                before[number] = reached
            yield component, upstream


def _bits_of(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def iter_bits(bits: int) -> Iterator[int]:
    """The numbers in a set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _number(entries: Sequence[str], targets: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The ids in the order in which they are reached; those that nothing reaches come last, by id."""
    found = dict.fromkeys(entries)
    queue = list(found)
    for name in queue:
        for target in targets[name]:
            if target not in found:
                found[target] = None
                queue.append(target)
    for name in sorted(targets):
        found.setdefault(name)
    return tuple(found)


# --- components and cycles, without recursion: a graph may be one long path -------------------------------------------


def _find_components(targets: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """The strongly connected components, each before those that lead to it (Tarjan's algorithm)."""
    tarjan = _Tarjan()
    for root in targets:
        if root not in tarjan.order:
            tarjan.search(root, targets)
    return tarjan.components


class _Tarjan:
    def __init__(self) -> None:
        self.order: dict[int, int] = {}
        self.components: list[list[int]] = []
        self._low: dict[int, int] = {}
        self._stack: list[int] = []
        self._on_stack: set[int] = set()

    def search(self, root: int, targets: Mapping[int, Sequence[int]]) -> None:
        low, order = self._low, self.order
        self._enter(root)
        work = [(root, iter(targets[root]))]
        while work:
            number, waiting = work[-1]
            target = next(waiting, None)
            if target is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[number])
                if low[number] == order[number]:
                    self._leave(number)
            elif target not in order:
                self._enter(target)
                work.append((target, iter(targets[target])))
            elif target in self._on_stack:
                low[number] = min(low[number], order[target])

    def _enter(self, number: int) -> None:
        self.order[number] = self._low[number] = len(self.order)
        self._stack.append(number)
        self._on_stack.add(number)

    def _leave(self, first: int) -> None:
        """The component whose first node this is is complete."""
        component = []
        while first in self._on_stack:
            number = self._stack.pop()
            self._on_stack.discard(number)
            component.append(number)
        self.components.append(component)


def find_cycle(targets: Mapping[str, Sequence[str]]) -> list[str]:
    """The ids of some cycle, in its order; empty if there is none. Targets that are no keys are passed over."""
    done: set[str] = set()
    for root in targets:
        if root in done:
            continue
        path, on_path = [root], {root}
        work = [iter(targets[root])]
        while work:
            target = next(work[-1], None)
            if target is None:
                work.pop()
                last = path.pop()
                on_path.discard(last)
                done.add(last)
            elif target in on_path:
                return path[path.index(target) :]
            elif target not in done and target in targets:
                work.append(iter(targets[target]))
                path.append(target)
                on_path.add(target)
    return []
