"""Turns of tasks in queues that are shared out, as every backend counts them. Layer: stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from outlast.stores.progress import NewTask

__all__ = ["count_turns"]


def count_turns(tasks: Iterable[NewTask], firsts: Mapping[tuple[str, int, str], int]) -> list[int]:
    """The turn of each task that is queued now: in each group one after the other, from the group's first on.

    `firsts` by queue, priority and group. A task without a group has turn 0."""
    following = dict(firsts)
    turns = []
    for new in tasks:
        turn = 0
        if new.group:
            place = new.queue, new.priority, new.group
            turn = following[place]
            following[place] = turn + 1
        turns.append(turn)
    return turns
