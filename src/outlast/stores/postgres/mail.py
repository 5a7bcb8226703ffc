"""Messages: into a run's inbox, and out of it. Layer: stores (postgres).

What always holds: a run's row is locked before its inbox is written to, and a message's number is the value that its
send raises `mail` to: numbers follow the order of commits without a gap. A run nobody owns that gets a message is due.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from outlast.errors import InboxFull, StoreRefused
from outlast.stores.delivery import Recipient, list_repeatable, plan_delivery, redirect
from outlast.stores.postgres.errors import breaks_constraint
from outlast.stores.postgres.runs import leave_pools
from outlast.stores.postgres.statements import columns, load_statements
from outlast.stores.store import INBOX_LIMIT, REOPENING, STAYING, URGENT, Inbox, Message, Send, Sent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from outlast.stores.postgres.link import Link, Record
    from outlast.stores.store import NewMessage

__all__ = ["bring_back", "deliver", "follow", "move_mail", "read_inboxes", "send"]

_sql = load_statements("mail")
_runs = load_statements("runs")


async def send(link: Link, to: str, message: NewMessage) -> Sent:
    """The store's `send`: one statement, unless the run or its inbox is such that a second look is needed."""
    row = None
    if message.kind not in REOPENING and message.kind not in URGENT:
        try:
            row = await link.find(
                _sql["send"], uid=to, id=message.id, kind=message.kind, payload=message.payload, room=INBOX_LIMIT
            )
        except StoreRefused as error:
            if not breaks_constraint(error):  # the same message, sent a moment ago by somebody else
                raise
    if row is not None:
        return Sent("sent", to, row[0])
    [onward] = await follow(link, [Send(to, message)])
    if onward.to != to:
        return await send(link, onward.to, message)
    async with link.transaction():
        rows = await link.fetch(_runs["lock"], uids=[to])
        recipients = {uid: Recipient(live, status, mail, name) for uid, live, status, mail, name, *_ in rows}
        unread = await link.find(_sql["count_unread"], uid=to, limit=INBOX_LIMIT)
        is_full = unread is not None and unread[0] >= INBOX_LIMIT
        if not any(last is not None for *_, last in rows) or message.kind in STAYING:
            [sent] = await deliver(link, recipients, [Send(to, message)], is_full=is_full)
            return sent
    return await send(link, to, message)  # it went on in between


async def follow(link: Link, sends: Sequence[Send]) -> list[Send]:
    """The sends as they are to go, as far as is known now: a run may go on at any time that its row is not locked."""
    while True:
        uids = [*{each.to for each in sends if each.message.kind not in STAYING}]
        went_on = await link.fetch(_sql["find_last"], uids=uids) if uids else []
        if not went_on:
            return [*sends]
        sends = redirect(sends, {str(row[0]): str(row[1]) for row in went_on})


async def move_mail(link: Link, rounds: Sequence[tuple[str, str]]) -> None:
    """What is unread of rounds that end goes on to those that follow; before the rows say that they ended."""
    await link.run(_sql["move_mail"], staying=sorted(STAYING), **columns("uid next", rounds))


async def bring_back(link: Link, uids: Sequence[str]) -> None:
    """These runs are live again, and so is what was kept of their inboxes."""
    await link.run(_sql["bring_back"], uids=uids)


async def deliver(
    link: Link, recipients: Mapping[str, Recipient], sends: Sequence[Send], *, is_full: bool = False
) -> list[Sent]:
    """Put messages into inboxes of runs whose rows are locked; what became of each. Those that cannot be delivered are
    skipped. Raises `InboxFull` for one that would be delivered though `is_full`."""

    def refuse(_uid: str, name: str, _mail: int) -> None:
        raise InboxFull(name, INBOX_LIMIT, INBOX_LIMIT)

    pairs = [(each.to, each.message.id) for each in sends if each.to in recipients]
    known = await link.fetch(_sql["fetch_known"], **columns("uid id", pairs)) if pairs else []
    if repeatable := list_repeatable(sends, recipients):
        known = [*known, *await link.fetch(_sql["fetch_kept"], **columns("uid id", repeatable))]
    delivery = plan_delivery(
        sends, recipients, {(uid, message_id): no for uid, message_id, no in known}, refuse if is_full else None
    )
    if delivery.messages:
        await link.run(_sql["raise_mail"], **columns("uid count reopens", delivery.raised))
        if reopened := [uid for uid, _, is_reopened in delivery.raised if is_reopened]:
            await bring_back(link, reopened)
        await link.run(_sql["insert_messages"], **columns("uid no id kind payload", delivery.messages))
        urgent = [to for to, _, _, kind, _ in delivery.messages if kind in URGENT]
        if urgent:
            await leave_pools(link, urgent)
    return delivery.answers


async def read_inboxes(link: Link, wanted: Sequence[tuple[str, int, int]]) -> list[Inbox]:
    """The store's `read_inbox`, of several runs, each behind a number and so many: one statement, so one snapshot."""
    values = columns("uid after limit", [(uid, after, limit + 1) for uid, after, limit in wanted])
    rows: list[list[Record]] = [[] for _ in wanted]
    for row in await link.fetch(_sql["read_inboxes"], **values):
        rows[row[0] - 1].append(row)
    return [_to_inbox(each, limit) for each, (_, _, limit) in zip(rows, wanted, strict=True)]


def _to_inbox(rows: Sequence[Record], limit: int) -> Inbox:
    if not rows:
        return Inbox(0, ())
    messages = sorted((Message(*row[2:]) for row in rows if row[2] is not None), key=attrgetter("no"))
    return Inbox(rows[0][1], tuple(messages[:limit]), full=len(messages) > limit)
