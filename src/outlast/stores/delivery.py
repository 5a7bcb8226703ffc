"""Which messages are put into which inboxes, under which numbers. Layer: stores.

For backends that read the recipients first, under their lock. What always holds: a message's number is the value that
its send raises `mail` to, so numbers follow the order of commits without a gap; and a message whose id waits in the
inbox already is not put there twice.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from outlast.stores.progress import Send
from outlast.stores.records import REOPENING, STAYING, Sent

__all__ = ["Delivery", "Recipient", "list_repeatable", "plan_delivery", "redirect"]


class Recipient(NamedTuple):
    """A run that is sent to, as its row is under the lock."""

    live: bool
    status: str
    mail: int
    name: str
    """Its user's name for it."""


class Delivery(NamedTuple):
    """What is to be written, and what to answer for each send, in order."""

    answers: list[Sent]
    messages: list[tuple[str, int, str, str, bytes]]
    """uid, number, id, kind and payload."""
    raised: list[tuple[str, int, bool]]
    """For each recipient: how many messages it gets, and whether they make it live again."""


def redirect(sends: Sequence[Send], last: Mapping[str, str]) -> list[Send]:
    """The sends as they are to go: to the last round of a run, where the round that is named went on. `last` is that
    round, by the uids of those before."""
    return [each if each.message.kind in STAYING else Send(last.get(each.to, each.to), each.message) for each in sends]


def list_repeatable(sends: Sequence[Send], recipients: Mapping[str, Recipient]) -> list[tuple[str, str]]:
    """Those to ended recipients, which may have kept one of the same id, by uid and message id."""
    ended = {uid for uid, recipient in recipients.items() if not recipient.live}
    return [(each.to, each.message.id) for each in sends if each.to in ended] if ended else []


def plan_delivery(
    sends: Sequence[Send],
    recipients: Mapping[str, Recipient],
    known: Mapping[tuple[str, str], int],
    check_room: Callable[[str, str, int], None] | None = None,
) -> Delivery:
    """Of these sends. `known` are the numbers of messages that wait already, or are kept, by uid and message id; a
    recipient that is not there has no entry. `check_room` is called with uid, name and mail of a recipient before it is
    given another message, and may raise."""
    last = {uid: recipient.mail for uid, recipient in recipients.items()}
    numbers = dict(known)
    reopened: set[str] = set()
    answers: list[Sent] = []
    messages: list[tuple[str, int, str, str, bytes]] = []
    for to, message in ((each.to, each.message) for each in sends):
        recipient = recipients.get(to)
        if recipient is None:
            answers.append(Sent("missing"))
            continue
        reopens = REOPENING.get(message.kind) == recipient.status
        if (no := numbers.get((to, message.id))) is not None:
            answers.append(Sent("duplicate", to, no))
        elif not (recipient.live or to in reopened or reopens):
            answers.append(Sent("ended", to))
        else:
            if check_room is not None:
                check_room(to, recipient.name, last[to])
            if reopens:
                reopened.add(to)
            no = last[to] = numbers[to, message.id] = last[to] + 1
            messages.append((to, no, message.id, message.kind, message.payload))
            answers.append(Sent("sent", to, no))
    counts = collections.Counter(row[0] for row in messages)
    return Delivery(answers, messages, [(uid, count, uid in reopened) for uid, count in counts.items()])
