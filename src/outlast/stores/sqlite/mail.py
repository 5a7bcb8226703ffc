"""Messages: into a run's inbox, and out of it. Layer: stores (sqlite).

What always holds: a message's number is the value that its send raised `mail` to, so numbers follow the order of
commits without a gap; and a run nobody owns that gets a message is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from outlast.errors import InboxFull
from outlast.stores.delivery import Recipient, list_repeatable, plan_delivery, redirect
from outlast.stores.sqlite.pools import leave_pools
from outlast.stores.sqlite.statements import load_statements
from outlast.stores.store import INBOX_LIMIT, STAYING, URGENT, Inbox, Message, Send, Sent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from outlast.stores.sqlite.transaction import Transaction
    from outlast.stores.store import NewMessage

__all__ = ["consume", "deliver", "move_mail", "read_inbox", "send"]

_sql = load_statements("mail")
_STAYING = msgspec.json.encode(sorted(STAYING)).decode()


def send(tx: Transaction, to: str, message: NewMessage) -> Sent:
    """The store's `send`: as `deliver`, but a full inbox is an error."""
    [sent] = deliver(tx, [Send(to, message)], limit=INBOX_LIMIT)
    return sent


def deliver(tx: Transaction, sends: Sequence[Send], *, limit: int | None = None) -> list[Sent]:
    """Put messages into inboxes; what became of each. Those that cannot be delivered are skipped.

    Raises `InboxFull` for a recipient with `limit` messages unread. Without: what runs and tasks send is never
    refused, for it would be lost."""
    while True:
        uids = dict.fromkeys(each.to for each in sends)
        found = tx.fetch_rows(_sql["fetch_recipients"], [(uid,) for uid in uids])
        went_on = {uid: last for uid, *_, last in found if last is not None}
        if not went_on or (redirected := redirect(sends, went_on)) == sends:
            break
        sends = redirected
    recipients = {uid: Recipient(bool(live), status, mail, name) for uid, live, status, mail, name, _ in found}
    pairs = [(each.to, each.message.id) for each in sends if each.to in recipients]
    rows = tx.fetch_rows(_sql["fetch_known"], pairs) if pairs else []
    if repeatable := list_repeatable(sends, recipients):
        rows = [*rows, *tx.fetch_rows(_sql["fetch_kept"], repeatable)]
    delivery = plan_delivery(
        sends,
        recipients,
        {(to, message_id): no for to, message_id, no in rows},
        None if limit is None else lambda to, name, mail: _check_room(tx, to, name, mail, limit),
    )
    if delivery.messages:
        tx.run_rows(_sql["raise_mail"], delivery.raised, (tx.now,))
        tx.run_rows(_sql["insert_messages"], delivery.messages, (tx.now,))
        urgent = [to for to, _, _, kind, _ in delivery.messages if kind in URGENT]
        if urgent:
            leave_pools(tx, urgent)
    return delivery.answers


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


def move_mail(tx: Transaction, rounds: Sequence[tuple[str, str]]) -> None:
    """What is unread of rounds that end goes on to those that follow; before the rows say that they ended."""
    tx.run_rows(_sql["move_mail"], rounds, (_STAYING,))
    tx.run_rows(_sql["count_on"], rounds)


def read_inbox(tx: Transaction, uid: str, after: int, limit: int) -> Inbox:
    """The store's `read_inbox`: one statement, so one snapshot."""
    rows = tx.fetch(_sql["read_inbox"], {"uid": uid, "after": after, "limit": limit + 1})
    if not rows:
        return Inbox(0, ())
    messages = tuple(Message(*row[1:]) for row in rows[:limit] if row[1] is not None)
    return Inbox(rows[0][0], messages, full=len(rows) > limit)
