"""Messages: into a run's inbox, and out of it. Layer: stores (memory).

What always holds: `mail` is the number of the last message that came, a message's number never changes, and a run
nobody owns that gets a message is due.
"""

# ruff: noqa: D102 - a method's promise stands in stores/store.py, once for all backends

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from outlast.errors import InboxFull
from outlast.stores.memory.handle import Handle
from outlast.stores.store import INBOX_LIMIT, REOPENING, STAYING, URGENT, Inbox, Message, Sent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outlast.stores.memory.tables import Run
    from outlast.stores.store import NewMessage, Send

__all__ = ["Mail"]


class Mail(Handle):
    """The store's methods about messages, and how commits and tasks deliver them."""

    async def send(self, to: str, message: NewMessage) -> Sent:
        with self._opened():
            run = self._find_recipient(to, message)
            if run is None:
                return Sent("missing")
            to = run.uid
            known = _find_known(run, message)
            if known is not None:
                return Sent("duplicate", to, known)
            if not self.takes_message(run, message.kind):
                return Sent("ended", to)
            if len(run.inbox) >= INBOX_LIMIT:
                raise InboxFull(run.new.id, len(run.inbox), INBOX_LIMIT)
            self._deliver(run, message)
            return Sent("sent", to, run.mail)

    async def read_inbox(self, uid: str, *, after: int = 0, limit: int = 500) -> Inbox:
        with self._opened() as tables:
            run = tables.runs.get(uid)
            if run is None:
                return Inbox(0, ())
            unread = (message for no, message in run.inbox.items() if no > after)
            page = tuple(itertools.islice(unread, limit))
            return Inbox(run.mail, page, full=next(unread, None) is not None)

    def _send_all(self, sends: Iterable[Send]) -> None:
        """As effects of an entry: what cannot be delivered is skipped."""
        for send in sends:
            run = self._find_recipient(send.to, send.message)
            if run is not None and self.takes_message(run, send.message.kind):
                self._deliver(run, send.message)

    def _find_recipient(self, to: str, message: NewMessage) -> Run | None:
        """The run, or the last round of one that went on."""
        runs = self._tables.runs
        run = runs.get(to)
        while run is not None and run.next is not None and message.kind not in STAYING:
            first = None if run.new.origin is None else runs.get(run.new.origin)
            run = runs.get((first.next if first is not None else None) or run.next)
        return run

    def _move_mail(self, run: Run, follower: Run) -> None:
        """What is unread of a round that ends goes on to the one that follows."""
        follower.mail = run.mail
        moved = {no: message for no, message in run.inbox.items() if message.kind not in STAYING}
        follower.inbox, follower.message_ids = moved, {message.id: no for no, message in moved.items()}
        if moved:
            self._tables.unread[follower.uid] = follower
        self._tables.empty_inbox(run)

    def _deliver(self, run: Run, message: NewMessage) -> None:
        """Put the message into the inbox, unless one of its id is there, or was when the run ended."""
        if _find_known(run, message) is not None:
            return
        tables = self._tables
        now = tables.clock()
        run.mail += 1
        run.unfit.clear()  # whoever comes may look at it
        run.inbox[run.mail] = Message(run.mail, message.id, message.kind, message.payload, now)
        run.message_ids[message.id] = run.mail
        tables.unread[run.uid] = run
        if REOPENING.get(message.kind) is run.status:
            run.live = True
            tables.bring_back(run)
        if run.owner is None and message.kind in URGENT:
            tables.set_pool(run, None)
        if run.owner is None and run.live:
            tables.wake(run, now)
        else:
            tables.hints.tell()

    def _consume(self, run: Run, numbers: Iterable[int]) -> None:
        for no in numbers:
            message = run.inbox.pop(no, None)
            if message is not None:
                del run.message_ids[message.id]
        if not run.inbox:
            self._tables.unread.pop(run.uid, None)


def _find_known(run: Run, message: NewMessage) -> int | None:
    """The number of the message of this id that is in the inbox; or was, when the run ended."""
    known = run.message_ids.get(message.id)
    if known is None and run.kept:
        known = next((no for no, kept in run.kept.items() if kept.id == message.id), None)
    return known
