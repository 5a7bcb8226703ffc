"""What no store takes, whoever sends it. Layer: stores.

What always holds: it is refused before it is in company, so a group of entries never fails for the text of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors import StoreRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from outlast.stores.progress import Effects, Progress
    from outlast.stores.records import VersionStatus

__all__ = ["check_batch", "check_decision", "check_text"]


def check_text(url: str, uid: str, values: Iterable[str | None]) -> None:
    """A NUL would end a text early for much that reads it; half of a surrogate pair has no encoding.

    Raises `StoreRefused`, naming the run."""
    texts = [value for value in values if value]
    together = "".join(texts)
    if together.isascii() and "\0" not in together:
        return
    for value in texts:
        if "\0" in value:
            raise StoreRefused(url, uid, f"a text with a NUL character: {value[:80]!r}")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise StoreRefused(url, uid, f"a text with half of a surrogate pair: {value[:80]!r}") from error


def check_batch(url: str, worker: str | None, batch: Sequence[Progress]) -> None:
    """Refuse what no store can take, before it is in company.

    Raises `StoreRefused`; `ValueError` for a client that writes what only an owner may."""
    for progress in batch:
        effects = progress.effects
        if worker is None and (effects is None or (effects.start is None and effects.unowned is None)):
            raise ValueError(f"a client may only start a run or write with `unowned`: run {progress.uid}")
        if effects is not None:
            check_text(url, progress.uid, _iter_texts(progress.uid, effects))


def check_decision(status: VersionStatus) -> None:
    """Raises `ValueError` for what is no decision about a version."""
    if status == "draft":
        raise ValueError("a version that was decided on becomes no draft again")


def _iter_texts(uid: str, effects: Effects) -> Iterator[str | None]:
    """Everything of these effects that is stored as text."""
    yield uid
    if effects.start is not None:
        new = effects.start
        yield from (new.id, new.workflow, new.version, new.queue, new.parent, new.root, new.origin, new.user, new.trace)
    for send in effects.sends:
        yield from (send.to, send.message.id, send.message.kind)
    for child in effects.children:
        if child.effects is not None:
            yield from _iter_texts(child.uid, child.effects)
    for task in effects.tasks:
        yield from (task.key, task.queue, task.function)
    for wait in effects.waits_opened:
        yield from (wait.key, wait.kind, wait.name)
    if effects.row is not None:
        yield from (effects.row.waiting_on, effects.row.unfit)
