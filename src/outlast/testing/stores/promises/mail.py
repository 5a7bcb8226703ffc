"""Messages: numbered in the order they are committed, once for each id, and never lost."""

from __future__ import annotations

import asyncio

import pytest

from outlast.errors import InboxFull
from outlast.stores.store import INBOX_LIMIT, Inbox, Message, RowChange, Send, Sent, Store, Verdict
from outlast.testing.stores.clocks import MakeStore
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    commit,
    end,
    entry,
    ids_in_inbox,
    inbox_of,
    is_due,
    land,
    message,
    own,
    park,
    queue,
    row_of,
    send_to,
)


async def test_a_message_reads_back_as_it_was_sent(store: Store, worker: str) -> None:
    """A message is read with its number, id, kind, bytes and the time it was stored."""
    await own(store, worker, "r")
    before = await store.now()
    assert await store.send("r", message("evt_9", "signal", b'{"paid":true}')) == Sent("sent", "r", 1)
    [found] = await inbox_of(store, "r")
    assert before <= found.sent_at <= await store.now()
    assert found == Message(1, "evt_9", "signal", b'{"paid":true}', found.sent_at)


# PROTOCOL F19
async def test_messages_are_numbered_without_gaps(store: Store, worker: str) -> None:
    """A message's number is the run's new `mail`, also when earlier ones were read and are gone."""
    await own(store, worker, "r")
    for n in (1, 2, 3):
        assert (await store.send("r", message(f"m{n}"))).no == n
        assert (await row_of(store, "r")).mail == n
    await land(store, worker, entry("r", 1, consumed=(1, 2, 3)))
    assert (await store.send("r", message("m4"))).no == 4
    assert [found.no for found in await inbox_of(store, "r")] == [4]


async def test_many_senders_at_once_lose_nothing(store: Store, worker: str, make_store: MakeStore) -> None:
    """Senders in several processes at once: each message is there, once, under a number of its own."""
    await own(store, worker, "r")
    stores = [store, await make_store(), await make_store()]
    sent = await asyncio.gather(*(stores[n % 3].send("r", message(f"m{n}")) for n in range(60)))
    assert sorted(answer.no for answer in sent) == list(range(1, 61))
    found = await inbox_of(store, "r")
    assert [message.no for message in found] == list(range(1, 61))
    assert {message.id: message.no for message in found} == {f"m{n}": answer.no for n, answer in enumerate(sent)}
    assert (await row_of(store, "r")).mail == 60


async def test_a_message_to_an_owned_run_leaves_the_owner(store: Store, worker: str) -> None:
    """The owner reads its mail; a message does not release the run."""
    await own(store, worker, "r")
    await store.send("r", message())
    row = await row_of(store, "r")
    assert (row.owner, row.epoch, row.wake_at, row.mail) == (worker, 1, None, 1)


async def test_a_message_to_a_run_that_waits_makes_it_due(store: Store, worker: str) -> None:
    """A run nobody owns is due as soon as a message is stored: queued for later, asleep or waiting alike."""
    later = await store.now() + HOUR
    await queue(store, "queued", wake_at=later)
    await own(store, worker, "asleep", "waiting")
    await land(store, worker, park("asleep", wake_at=later), park("waiting"))
    for uid in ("queued", "asleep", "waiting"):
        assert not await is_due(store, uid)
        await store.send(uid, message())
        assert await is_due(store, uid)


# --- once for each id -------------------------------------------------------------------------------------------------


async def test_a_repeated_send_counts_once(store: Store, worker: str) -> None:
    """A message whose id is in the inbox already is answered as a duplicate, with its number, and changes nothing."""
    await own(store, worker, "r")
    await store.send("r", message("m0"))
    await store.send("r", message("m1", payload=b"1"))
    await store.send("r", message("m2"))
    assert await store.send("r", message("m1", payload=b"2")) == Sent("duplicate", "r", 2)
    assert [(found.id, found.payload) for found in await inbox_of(store, "r")] == [
        ("m0", b"1"),
        ("m1", b"1"),
        ("m2", b"1"),
    ]
    assert (await row_of(store, "r")).mail == 3


async def test_a_repeat_does_not_wake_a_run_that_has_seen_the_message(store: Store, worker: str) -> None:
    """A duplicate makes nothing due."""
    await own(store, worker, "r")
    await store.send("r", message())
    await land(store, worker, park("r", seen=1))
    assert (await store.send("r", message())).verdict == "duplicate"
    assert not await is_due(store, "r")


async def test_ids_are_each_runs_own(store: Store, worker: str) -> None:
    """The same id in another run's inbox is another message."""
    await own(store, worker, "a", "b")
    assert (await store.send("a", message())).verdict == "sent"
    assert (await store.send("b", message())).verdict == "sent"


# PROTOCOL F18
async def test_the_inbox_forgets_what_was_read(store: Store, worker: str) -> None:
    """Once consumed, an id is for the fold to know: a late repeat is stored anew, under a new number."""
    await own(store, worker, "r")
    await store.send("r", message())
    await land(store, worker, entry("r", 1, consumed=(1,)))
    assert await store.send("r", message()) == Sent("sent", "r", 2)


# --- who takes none ---------------------------------------------------------------------------------------------------


async def test_a_message_to_no_run_is_missing(store: Store) -> None:
    """The sender is told that there is no such run."""
    assert (await store.send("gone", message())).verdict == "missing"
    assert await store.read_inbox("gone") == Inbox(0, ())


# SPEC L7
async def test_a_message_to_an_ended_run_is_refused(store: Store, worker: str) -> None:
    """The sender is told that the run has ended; nothing is stored, nothing is due."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    before = await row_of(store, "r")
    assert (await store.send("r", message())).verdict == "ended"
    assert await inbox_of(store, "r") == []
    assert await row_of(store, "r") == before


# PROTOCOL F23
async def test_a_full_inbox_refuses_more(store: Store, worker: str) -> None:
    """Past 10,000 unread messages a sender is refused; a repeat is still recognised, and room comes again."""
    await own(store, worker, "a", "r")
    await land(store, worker, entry("a", 1, sends=tuple(send_to("r", f"m{n}") for n in range(INBOX_LIMIT))))
    with pytest.raises(InboxFull) as caught:
        await store.send("r", message("one more"))
    assert (caught.value.waiting, caught.value.limit, caught.value.id) == (INBOX_LIMIT, INBOX_LIMIT, "id of r")
    assert (await store.send("r", message("m7"))).verdict == "duplicate"
    assert (await row_of(store, "r")).mail == INBOX_LIMIT
    await land(store, worker, entry("r", 1, consumed=tuple(range(1, 501))))
    assert (await store.send("r", message("one more"))).no == INBOX_LIMIT + 1


async def test_what_a_run_sends_is_never_refused(store: Store, worker: str) -> None:
    """A full inbox does not fail the sender's entry: a child's end must arrive."""
    await own(store, worker, "a", "r")
    await land(store, worker, entry("a", 1, sends=tuple(send_to("r", f"m{n}") for n in range(INBOX_LIMIT))))
    await land(store, worker, entry("a", 2, sends=(send_to("r", "end"),)))
    assert (await row_of(store, "r")).mail == INBOX_LIMIT + 1


# --- reading ----------------------------------------------------------------------------------------------------------


# PROTOCOL F15, F23
async def test_the_inbox_is_read_in_pages(store: Store, worker: str) -> None:
    """Pages come in order and say whether there is more; `mail` is the same snapshot's."""
    await own(store, worker, "r")
    for n in range(1, 6):
        await store.send("r", message(f"m{n}"))
    page = await store.read_inbox("r", limit=2)
    assert ([found.no for found in page.messages], page.full, page.mail) == ([1, 2], True, 5)
    page = await store.read_inbox("r", after=2, limit=2)
    assert ([found.no for found in page.messages], page.full, page.mail) == ([3, 4], True, 5)
    page = await store.read_inbox("r", after=4, limit=2)
    assert ([found.no for found in page.messages], page.full, page.mail) == ([5], False, 5)
    assert await store.read_inbox("r", after=5) == Inbox(5, ())
    page = await store.read_inbox("r", after=3, limit=2)
    assert ([found.no for found in page.messages], page.full) == ([4, 5], False)


async def test_mail_is_known_when_the_inbox_is_empty(store: Store, worker: str) -> None:
    """A run that has read everything still sees how much came: its park names it."""
    await own(store, worker, "r")
    await store.send("r", message())
    await land(store, worker, entry("r", 1, consumed=(1,)))
    assert await store.read_inbox("r") == Inbox(1, ())


# --- as effects of an entry -------------------------------------------------------------------------------------------


async def test_a_run_sends_to_others_in_its_entry(store: Store, worker: str) -> None:
    """What an entry sends is in the recipients' inboxes when it landed, in the order it names, and wakes who waits."""
    await own(store, worker, "a", "b", "c")
    await land(store, worker, park("c", wake_at=await store.now() + HOUR))
    await land(
        store, worker, entry("a", 1, sends=(send_to("b", "x"), send_to("c", "y"), send_to("b", "w"), send_to("b", "z")))
    )
    assert [(found.no, found.id) for found in await inbox_of(store, "b")] == [(1, "x"), (2, "w"), (3, "z")]
    assert await ids_in_inbox(store, "c") == ["y"]
    assert (await row_of(store, "b")).mail == 3
    assert await is_due(store, "c")


# PROTOCOL F24
async def test_sends_of_a_batch_to_one_run_all_arrive(store: Store, worker: str) -> None:
    """A thousand children that end in one commit all reach their parent, each under its number."""
    uids = [f"c{n}" for n in range(1000)]
    await own(store, worker, "p", *uids)
    await land(store, worker, *(end(uid, sends=(send_to("p", f"{uid}#1", "child"),)) for uid in uids))
    found = await inbox_of(store, "p")
    assert [message.no for message in found] == list(range(1, 1001))
    assert {message.id for message in found} == {f"{uid}#1" for uid in uids}
    assert (await row_of(store, "p")).mail == 1000


# PROTOCOL F9
async def test_a_run_that_moves_is_sent_to_in_the_same_batch(store: Store, worker: str) -> None:
    """A run's own changes and what others send it in the same commit both happen."""
    await own(store, worker, "a", "b")
    waiting = entry("b", 1, row=RowChange(waiting_on="signal"))
    await land(store, worker, entry("a", 1, sends=(send_to("b"), send_to("a", "self"))), waiting)
    row = await row_of(store, "b")
    assert (row.mail, row.waiting_on) == (1, "signal")
    assert await ids_in_inbox(store, "a") == ["self"]


# PROTOCOL F27
async def test_recipients_that_are_gone_or_ended_are_skipped(store: Store, worker: str) -> None:
    """A send that cannot be delivered never fails the sender's entry, and is not kept for later."""
    await own(store, worker, "a", "ended", "b")
    await land(store, worker, end("ended"))
    await land(store, worker, entry("a", 1, sends=(send_to("gone"), send_to("ended"), send_to("b"))))
    assert await ids_in_inbox(store, "b") == ["m1"]
    assert await inbox_of(store, "ended") == []
    await queue(store, "gone")
    assert await inbox_of(store, "gone") == []


async def test_a_run_sends_an_id_once(store: Store, worker: str) -> None:
    """A message whose id is in the recipient's inbox already is skipped, be it from outside or from the same entry."""
    await own(store, worker, "a", "b")
    await store.send("b", message("x", payload=b"first"))
    await land(store, worker, entry("a", 1, sends=(Send("b", message("x")), send_to("b", "y"), send_to("b", "y"))))
    assert await ids_in_inbox(store, "b") == ["x", "y"]
    assert (await row_of(store, "b")).mail == 2


async def test_a_stale_entry_sends_nothing(store: Store, worker: str, other: str) -> None:
    """Without its entry a send does not happen, and nobody is woken."""
    await own(store, worker, "a", "b")
    await land(store, worker, park("b"))
    assert await commit(store, other, entry("a", 1, prev=0, sends=(send_to("b"),))) == [Verdict.STALE]
    assert (await row_of(store, "b")).mail == 0
    assert await claim(store, other) == []
