"""Messages: into a run's inbox, and out of it. Layer: stores (sqlite).

What always holds: a message's number is the value that its send raised `mail` to, so numbers follow the order of
commits without a gap; and a run nobody owns that gets a message is due.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from outlast.errors import InboxFull
from outlast.stores.sqlite.statements import load_statements
from outlast.stores.store import INBOX_LIMIT, REOPENING, Inbox, Message, Send, Sent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from outlast.stores.sqlite.transaction import Transaction
    from outlast.stores.store import NewMessage

__all__ = ["consume", "deliver", "read_inbox", "send"]

_sql = load_statements("mail")


def send(tx: Transaction, to: str, message: NewMessage) -> Sent:
    """The store's `send`: as `deliver`, but a full inbox is an error."""
    [sent] = deliver(tx, [Send(to, message)], limit=INBOX_LIMIT)
    return sent


def deliver(tx: Transaction, sends: Sequence[Send], *, limit: int | None = None) -> list[Sent]:
    """Put messages into inboxes; what became of each. Those that cannot be delivered are skipped.

    Raises `InboxFull` for a recipient with `limit` messages unread. Without: what runs and tasks send is never
    refused, for it would be lost."""
    uids = dict.fromkeys(each.to for each in sends)
    recipients = {row[0]: row[1:] for row in tx.fetch_rows(_sql["fetch_recipients"], [(uid,) for uid in uids])}
    pairs = [(each.to, each.message.id) for each in sends if each.to in recipients]
    rows = tx.fetch_rows(_sql["fetch_known"], pairs) if pairs else []
    known = {(to, message_id): no for to, message_id, no in rows}
    last = {uid: mail for uid, (_, _, mail, _) in recipients.items()}
    reopened: set[str] = set()
    answers: list[Sent] = []
    delivered = []
    for each in sends:
        to, message = each.to, each.message
        if to not in recipients:
            answers.append(Sent("missing"))
            continue
        live, status, _, name = recipients[to]
        reopens = REOPENING.get(message.kind) == status
        if not (live or to in reopened or reopens):
            answers.append(Sent("ended", to))
        elif (no := known.get((to, message.id))) is not None:
            answers.append(Sent("duplicate", to, no))
        else:
            if limit is not None:
                _check_room(tx, to, name, last[to], limit)
            if reopens:
                reopened.add(to)
            no = last[to] = known[to, message.id] = last[to] + 1
            delivered.append((to, no, message.id, message.kind, message.payload))
            answers.append(Sent("sent", to, no))
    if delivered:
        counts = collections.Counter(row[0] for row in delivered)
        tx.run_rows(_sql["raise_mail"], [(uid, n, uid in reopened) for uid, n in counts.items()], (tx.now,))
        tx.run_rows(_sql["insert_messages"], delivered, (tx.now,))
    return answers


def _check_room(tx: Transaction, uid: str, name: str, mail: int, limit: int) -> None:
    """Numbers tell at once that most inboxes are far from full; only near the limit is it worth counting."""
    ((oldest,),) = tx.fetch(_sql["oldest_unread"], (uid,))
    if oldest is None or mail - oldest + 1 < limit:
        return
    ((unread,),) = tx.fetch(_sql["count_unread"], (uid, limit))
    if unread >= limit:
        raise InboxFull(name, unread, limit)


def consume(tx: Transaction, numbers: Iterable[tuple[str, int]]) -> None:
    """Delete messages by run and number; those that are gone are no error."""
    tx.run_rows(_sql["delete_messages"], list(numbers))


def read_inbox(tx: Transaction, uid: str, after: int, limit: int) -> Inbox:
    """The store's `read_inbox`: one statement, so one snapshot."""
    rows = tx.fetch(_sql["read_inbox"], {"uid": uid, "after": after, "limit": limit + 1})
    if not rows:
        return Inbox(0, ())
    messages = tuple(Message(*row[1:]) for row in rows[:limit] if row[1] is not None)
    return Inbox(rows[0][0], messages, full=len(rows) > limit)
