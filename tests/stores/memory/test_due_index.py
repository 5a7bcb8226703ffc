"""The index of what is due, against a plain list that is sorted each time."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from outlast.stores.memory.due import DueIndex


@dataclass(eq=False)
class Item:
    name: int
    queue: str
    priority: int
    at: int | None = None
    ticket: int = 0
    fits: bool = True


QUEUES = ("a", "b")
places = st.tuples(st.sampled_from(QUEUES), st.integers(0, 2), st.booleans())
moves = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 9), st.integers(0, 20)),
    st.tuples(st.just("drop"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("take"), st.integers(0, 4), st.integers(0, 20)),
    st.tuples(st.just("take oldest"), st.integers(0, 4), st.integers(0, 20)),
)


@given(st.lists(places, min_size=10, max_size=10), st.lists(moves, max_size=60), st.sets(st.sampled_from(QUEUES)))
def test_the_index_is_a_sorted_list(places: list[tuple[str, int, bool]], moves: list[tuple[str, int, int]], queues):
    """Whatever is put, moved, dropped and taken: what comes is due, fits, and comes by priority, then by age."""
    index: DueIndex[Item] = DueIndex()
    items = [Item(n, queue, priority, fits=fits) for n, (queue, priority, fits) in enumerate(places)]
    for move, number, at in moves:
        if move == "put":
            index.put(items[number], at)
            items[number].at = at
        elif move == "drop":
            index.drop(items[number])
            items[number].at = None
        else:
            oldest = move == "take oldest"
            due = [
                item for item in items if item.at is not None and item.at <= at and item.queue in queues and item.fits
            ]
            expected = sorted((0 if oldest else item.priority, item.at or 0) for item in due)[:number]
            taken = index.take(queues, at, number, lambda item: item.fits, oldest_first=oldest)
            assert [(0 if oldest else item.priority, item.at) for item in taken] == expected
            for item in taken:
                item.at = None
        waiting = [item.at for item in items if item.at is not None and item.queue in queues and item.fits]
        assert index.next_at(queues, lambda item: item.fits) == min(waiting, default=None)


def test_an_item_that_moves_often_leaves_nothing_behind():
    """A run that is woken again and again does not fill the index with its old places."""
    index: DueIndex[Item] = DueIndex()
    item = Item(0, "a", 5)
    for at in range(10_000):
        index.put(item, 1_000_000 - at)
    [heap] = index._heaps.values()
    assert len(heap.entries) < 200
    assert index.take(["a"], 2_000_000, 10, lambda _: True) == [item]
