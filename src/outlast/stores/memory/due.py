"""What is due, first things first. Layer: stores (memory).

One heap of instants for each queue and priority. What always holds: an item is in the index at most once, under the
ticket it bears. Entries are not searched for when an item moves or is dropped: it bears another ticket from then on,
and its old entry goes when it comes up, or when most of its heap is such dead wood.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

__all__ = ["DueIndex", "Dueable"]


class Dueable(Protocol):
    """A run or a task: something that is due at an instant."""

    queue: str
    priority: int
    ticket: int
    """Of its entry in the index; 0: it is not in it."""


T = TypeVar("T", bound=Dueable)


class _Heap(Generic[T]):
    """The items of one queue and priority, by (instant, ticket)."""

    __slots__ = ("alive", "entries")

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, T]] = []
        self.alive = 0

    def push(self, at: int, item: T) -> None:
        """Add the item under the ticket it bears."""
        heapq.heappush(self.entries, (at, item.ticket, item))

    def top(self) -> tuple[int, int, T] | None:
        """The first entry that counts; dead ones before it are gone then."""
        entries = self.entries
        while entries:
            if entries[0][2].ticket == entries[0][1]:
                return entries[0]
            heapq.heappop(entries)
        return None

    def living(self) -> Iterator[tuple[int, int, T]]:
        """The entries that count, in no order."""
        return (entry for entry in self.entries if entry[2].ticket == entry[1])

    def compact(self) -> None:
        """Drop the dead entries, once they are most of all."""
        if len(self.entries) > 2 * self.alive + 64:
            self.entries = list(self.living())
            heapq.heapify(self.entries)


class DueIndex(Generic[T]):
    """Items by queue, priority and the instant they are due."""

    __slots__ = ("_heaps", "_tickets")

    def __init__(self) -> None:
        self._heaps: dict[tuple[str, int], _Heap[T]] = {}
        self._tickets = 0

    def put(self, item: T, at: int) -> None:
        """Have the item come up at this instant, and not when it was to come up before."""
        self.drop(item)
        heap = self._heaps.get((item.queue, item.priority))
        if heap is None:
            heap = self._heaps[item.queue, item.priority] = _Heap()
        self._tickets += 1
        item.ticket = self._tickets
        heap.alive += 1
        heap.push(at, item)
        heap.compact()

    def drop(self, item: T) -> None:
        """Take the item out. One that is not in: nothing happens."""
        if item.ticket:
            item.ticket = 0
            self._heaps[item.queue, item.priority].alive -= 1

    def take(
        self,
        queues: Iterable[str],
        now: int,
        limit: int,
        fits: Callable[[T], bool],
        *,
        oldest_first: bool = False,
    ) -> list[T]:
        """Take out up to `limit` due items that fit: by priority, then the longest due; or by the latter alone."""
        taken: list[T] = []
        for heaps in self._rounds(queues, oldest_first=oldest_first):
            self._take_from(heaps, now, limit, fits, taken)
        return taken

    def next_at(self, queues: Iterable[str], fits: Callable[[T], bool]) -> int | None:
        """When the first item that fits is due, past or future."""
        instants: list[int] = []
        for heaps in self._rounds(queues, oldest_first=True):
            for heap in heaps:
                top = heap.top()
                if top is not None and fits(top[2]):
                    instants.append(top[0])
                elif top is not None:
                    instants.extend(at for at, _, item in heap.living() if fits(item))
        return min(instants, default=None)

    def _rounds(self, queues: Iterable[str], *, oldest_first: bool) -> list[list[_Heap[T]]]:
        """The heaps to choose among, level by level, or all at once."""
        wanted = set(queues)
        levels: dict[int, list[_Heap[T]]] = {}
        for (queue, priority), heap in self._heaps.items():
            if queue in wanted:
                levels.setdefault(0 if oldest_first else priority, []).append(heap)
        return [levels[level] for level in sorted(levels)]

    @staticmethod
    def _take_from(heaps: list[_Heap[T]], now: int, limit: int, fits: Callable[[T], bool], taken: list[T]) -> None:
        aside: list[tuple[_Heap[T], tuple[int, int, T]]] = []
        while len(taken) < limit:
            tops = [(top, heap) for heap in heaps if (top := heap.top()) is not None and top[0] <= now]
            if not tops:
                break
            entry, heap = min(tops, key=lambda choice: choice[0][:2])
            heapq.heappop(heap.entries)
            if fits(entry[2]):
                entry[2].ticket = 0
                heap.alive -= 1
                taken.append(entry[2])
            else:
                aside.append((heap, entry))
        for heap, entry in aside:
            heapq.heappush(heap.entries, entry)
