"""Entries by who does not own the run: `retry`, under the row's lock, and the doors out of an end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from outlast.core.states import RunStatus
from outlast.stores.store import KEPT, Message, Progress, RowChange, Send, Sent, Store, Verdict
from outlast.testing.stores.clocks import MakeStore
from outlast.testing.stores.writing import (
    claim,
    commit,
    end,
    entry,
    ids_in_inbox,
    inbox_of,
    is_due,
    land,
    mark_of,
    marks_of,
    message,
    own,
    park,
    queue,
    row_of,
    send_to,
    start,
    task,
    wait,
)

LANDED, STALE, REFUSED = Verdict.LANDED, Verdict.STALE, Verdict.REFUSED
FAILED, QUEUED = RunStatus.FAILED, RunStatus.QUEUED


def retry(uid: str, seq: int, mark: int | None = None) -> Progress:
    """As `run.retry()` writes it."""
    return entry(uid, seq, mark=mark, unowned=FAILED, row=RowChange(status=QUEUED, reopened=True))


async def fail(store: Store, worker: str, uid: str) -> None:
    """A run that has failed, at position 1."""
    await own(store, worker, uid)
    await land(store, worker, entry(uid, 1, row=RowChange(status=FAILED, ended=True, error=b'{"type":"X"}')))


# SPEC R10; PROTOCOL F29
async def test_a_failed_run_is_reopened(store: Store, worker: str) -> None:
    """A retry makes a failed run live, queued and due in one commit, without finish time and error."""
    await fail(store, worker, "r")
    assert (await row_of(store, "r")).error == b'{"type":"X"}'
    await land(store, None, retry("r", 2))
    row = await row_of(store, "r")
    assert (row.status, row.live, row.finished_at, row.error) == (QUEUED, True, None, None)
    assert await is_due(store, "r")
    assert await claim(store, worker) == ["r"]
    assert (await row_of(store, "r")).status is RunStatus.RUNNING


async def test_a_run_that_somebody_owns_is_not_reopened(store: Store, worker: str) -> None:
    """While a run has an owner nobody else writes to its journal."""
    await own(store, worker, "r")
    owned = entry("r", 1, unowned=RunStatus.RUNNING, row=RowChange(status=QUEUED))
    assert await commit(store, None, owned) == [REFUSED]
    assert await marks_of(store, "r") == [mark_of(0)]
    assert (await row_of(store, "r")).status is RunStatus.RUNNING


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.CANCELLED])
async def test_a_run_of_another_status_is_not_reopened(store: Store, worker: str, status: RunStatus) -> None:
    """A retry lands on a run that is still as its writer saw it: failed."""
    await own(store, worker, "r")
    await land(store, worker, end("r", status=status))
    before = await row_of(store, "r")
    assert await commit(store, None, retry("r", 2)) == [REFUSED]
    assert await row_of(store, "r") == before
    assert len(await store.read_journal("r")) == 2


async def test_a_retry_with_a_stale_picture_does_not_land(store: Store, worker: str) -> None:
    """Status alone does not do: the mark before it must be the one its writer read."""
    await fail(store, worker, "r")
    stale = Progress("r", 2, mark=5, prev=6, events=b"[]", effects=retry("r", 2).effects)
    assert await commit(store, None, stale) == [STALE]
    assert (await row_of(store, "r")).status is FAILED


async def test_of_two_retries_at_once_one_lands(store: Store, worker: str, make_store: MakeStore) -> None:
    """Two people who retry a run at once reopen it once."""
    await fail(store, worker, "r")
    elsewhere = await make_store()
    outcomes = await asyncio.gather(
        commit(store, None, retry("r", 2, mark=11)), commit(elsewhere, None, retry("r", 2, mark=12))
    )
    assert sorted(verdict is LANDED for [verdict] in outcomes) == [False, True]
    assert len(await store.read_journal("r")) == 3


async def test_a_repeated_retry_is_recognised(store: Store, worker: str) -> None:
    """The same retry sent again is answered as landed, also when the run is owned or has failed anew since."""
    await fail(store, worker, "r")
    await land(store, None, retry("r", 2))
    assert await commit(store, None, retry("r", 2)) == [LANDED]
    await claim(store, worker)
    assert await commit(store, None, retry("r", 2)) == [LANDED]
    await land(store, worker, end("r", 3, status=FAILED))
    assert await commit(store, None, retry("r", 2)) == [LANDED]
    assert (await row_of(store, "r")).status is FAILED
    assert len(await store.read_journal("r")) == 4


async def test_a_retry_of_a_run_that_is_gone_does_not_land(store: Store) -> None:
    """A retry that crosses a delete finds nothing."""
    [verdict] = await commit(store, None, retry("gone", 2))
    assert verdict in {STALE, REFUSED}
    assert await store.read_journal("gone") == []


# --- the other door: a completed child is told to undo itself ---------------------------------------------------------


# SPEC X5; PROTOCOL F28
async def test_a_completed_run_takes_the_call_to_unwind(store: Store, worker: str) -> None:
    """The message `unwind` makes a completed run live and due; whoever claims it writes the reopening."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    assert (await store.send("r", message("u", "unwind"))).verdict == "sent"
    row = await row_of(store, "r")
    assert (row.live, row.status) == (True, RunStatus.COMPLETED)
    assert await is_due(store, "r")
    assert await claim(store, worker) == ["r"]
    reopening = RowChange(status=RunStatus.COMPENSATING, reopened=True)
    await land(store, worker, entry("r", 2, consumed=(1,), row=reopening))
    row = await row_of(store, "r")
    assert (row.status, row.owner, row.finished_at, row.wake_at) == (RunStatus.COMPENSATING, worker, None, None)
    await land(store, worker, end("r", 3, status=RunStatus.COMPENSATED))
    assert not (await row_of(store, "r")).live


async def test_an_unwind_is_sent_in_the_parents_entry(store: Store, worker: str, other: str) -> None:
    """A parent's unwind reaches its completed child as an effect of the parent's entry."""
    await own(store, worker, "p", "c")
    await land(store, worker, end("c"))
    await land(store, worker, entry("p", 1, sends=(Send("c", message("u", "unwind")),)))
    assert await ids_in_inbox(store, "c") == ["u"]
    assert await claim(store, other) == ["c"]


# SPEC R10
async def test_a_failed_run_takes_the_call_to_go_on(store: Store, worker: str) -> None:
    """The message `retry`, which a parent sends with its own, makes a failed run live and due, and no other."""
    await own(store, worker, "r", "done")
    await land(store, worker, end("r", status=FAILED), end("done"))
    assert (await store.send("r", message("u", "retry"))).verdict == "sent"
    assert (await store.send("done", message("u", "retry"))).verdict == "ended"
    row = await row_of(store, "r")
    assert (row.live, row.status) == (True, FAILED)
    assert await claim(store, worker) == ["r"]
    reopening = RowChange(status=RunStatus.RUNNING, reopened=True)
    await land(store, worker, entry("r", 2, consumed=(1,), row=reopening))
    row = await row_of(store, "r")
    assert (row.status, row.owner, row.finished_at) == (RunStatus.RUNNING, worker, None)


# SPEC R10
async def test_a_cancelled_run_is_revived(store: Store, worker: str) -> None:
    """The message `revive` makes a cancelled run live and due, and no other."""
    await own(store, worker, "r", "failed")
    await land(store, worker, end("r", status=RunStatus.CANCELLED), end("failed", status=FAILED))
    assert (await store.send("r", message("u", "revive"))).verdict == "sent"
    assert (await store.send("failed", message("u", "revive"))).verdict == "ended"
    assert (await row_of(store, "r")).live
    assert await claim(store, worker) == ["r"]


@pytest.mark.parametrize("status", [FAILED, RunStatus.CANCELLED, RunStatus.COMPENSATED])
async def test_only_a_completed_run_is_told_to_unwind(store: Store, worker: str, status: RunStatus) -> None:
    """Other ends absorb: there is nothing to undo."""
    await own(store, worker, "r")
    await land(store, worker, end("r", status=status))
    assert (await store.send("r", message("u", "unwind"))).verdict == "ended"
    assert not (await row_of(store, "r")).live


async def test_a_client_does_not_write_to_runs_that_are_owned_by_others(store: Store, worker: str) -> None:
    """A client owns nothing: it starts runs, and writes where nobody owns. All else is a mistake of the caller."""
    await queue(store, "r")
    with pytest.raises(ValueError, match="client"):
        await store.commit(None, [entry("r", 1)])
    with pytest.raises(ValueError, match="client"):
        await store.commit(None, [park("r")])
    assert len(await store.read_journal("r")) == 1


# --- what people sent outlives an end that can be taken back ----------------------------------------------------------

KINDS = ("signal", "child", "decision", "task", "lost", "resume", "cancel", "retry", "revive", "of a newer release")


async def send_all(store: Store, uid: str, kinds: Sequence[str] = KINDS) -> list[Message]:
    """One message of each kind, which is its id too; gives the run's inbox."""
    for kind in kinds:
        assert (await store.send(uid, message(kind, kind))).verdict == "sent"
    return await inbox_of(store, uid)


async def reopen(store: Store, uid: str, seq: int, status: RunStatus) -> list[Message]:
    """Make an ended run live, as nobody's; gives its inbox."""
    await land(store, None, entry(uid, seq, unowned=status, row=RowChange(status=QUEUED, reopened=True)))
    return await inbox_of(store, uid)


@pytest.mark.parametrize("has_more", [False, True], ids=["mail alone", "a task and a wait"])
async def test_what_people_sent_is_there_again_when_a_failed_run_is(
    store: Store, worker: str, *, has_more: bool
) -> None:
    """Signals, decisions and gates to open that a run had not read when it failed are in no inbox while it has ended,
    and in its inbox again, as they were, once it is retried. What others are told by goes with the end."""
    await own(store, worker, "r")
    if has_more:
        await land(store, worker, entry("r", 1, tasks=(task(),), waits_opened=(wait(),)))
    sent = await send_all(store, "r")
    await land(store, worker, end("r", 1 + has_more, FAILED))
    assert await inbox_of(store, "r") == []
    assert (await store.send("r", message("late"))).verdict == "ended"
    found = await reopen(store, "r", 2 + has_more, FAILED)
    assert found == [message for message in sent if message.kind in KEPT]
    assert [message.kind for message in found] == ["signal", "decision", "resume"]
    assert await store.list_waits() == []
    assert (await store.send("r", message("later"))).no == len(KINDS) + 1
    assert await ids_in_inbox(store, "r") == ["signal", "decision", "resume", "later"]


@pytest.mark.parametrize("is_child", [False, True], ids=["root", "child"])
@pytest.mark.parametrize(
    "status",
    [
        RunStatus.COMPLETED,
        FAILED,
        RunStatus.CANCELLED,
        RunStatus.COMPENSATED,
        RunStatus.COMPENSATION_FAILED,
    ],
)
async def test_only_an_end_that_can_be_taken_back_keeps_anything(
    store: Store, worker: str, status: RunStatus, *, is_child: bool
) -> None:
    """Those are a failure, and the cancel of a child, which a retry of its parent revives. Else the inbox is swept."""
    await land(store, worker, start("r", claimed=True, parent="p" if is_child else None))
    sent = await send_all(store, "r", ("signal", "child"))
    await land(store, worker, end("r", status=status))
    keeps = status is FAILED or (status is RunStatus.CANCELLED and is_child)
    assert await reopen(store, "r", 2, status) == (sent[:1] if keeps else [])


@pytest.mark.parametrize("is_effect", [False, True], ids=["from outside", "as an effect"])
@pytest.mark.parametrize(("kind", "status"), [("retry", FAILED), ("revive", RunStatus.CANCELLED)])
async def test_a_message_that_reopens_a_run_brings_back_what_it_kept(
    store: Store, worker: str, other: str, kind: str, status: RunStatus, *, is_effect: bool
) -> None:
    """It stands behind that: its number is the last."""
    await own(store, worker, "p")
    await land(store, worker, start("c", claimed=True, parent="p"))
    await send_all(store, "c", ("signal", "decision"))
    await land(store, worker, end("c", status=status))
    if is_effect:
        await land(store, worker, entry("p", 1, sends=(Send("c", message("again", kind)),)))
    else:
        assert await store.send("c", message("again", kind)) == Sent("sent", "c", 3)
    assert [(found.no, found.id) for found in await inbox_of(store, "c")] == [
        (1, "signal"),
        (2, "decision"),
        (3, "again"),
    ]
    assert await claim(store, other) == ["c"]
    await land(store, other, entry("c", 2, consumed=(3,), row=RowChange(status=RunStatus.RUNNING, reopened=True)))
    assert await ids_in_inbox(store, "c") == ["signal", "decision"]


async def test_what_is_kept_is_known_when_it_is_sent_again(store: Store, worker: str) -> None:
    """Whoever lost the answer is told the same: it is stored. What is not, is refused; nothing of it wakes the run."""
    await own(store, worker, "r", "a")
    await send_all(store, "r", ("signal", "cancel", "decision"))
    await land(store, worker, end("r", status=FAILED))
    before = await row_of(store, "r")
    assert await store.send("r", message("decision", "decision")) == Sent("duplicate", "r", 3)
    assert (await store.send("r", message("cancel", "cancel"))).verdict == "ended"
    assert (await store.send("r", message("other"))).verdict == "ended"
    await land(store, worker, entry("a", 1, sends=(send_to("r", "signal"), send_to("r", "another"))))
    assert await row_of(store, "r") == before
    await reopen(store, "r", 2, FAILED)
    assert await ids_in_inbox(store, "r") == ["signal", "decision"]
    assert await store.send("r", message("decision", "decision")) == Sent("duplicate", "r", 3)


async def test_what_was_read_before_a_failure_is_not_there_again(store: Store, worker: str) -> None:
    """It is in the journal; and what the last entry consumed is, too."""
    await own(store, worker, "r")
    for n in range(1, 5):
        await store.send("r", message(f"m{n}"))
    await land(store, worker, entry("r", 1, consumed=(1,)))
    await land(store, worker, end("r", 2, FAILED, consumed=(3,)))
    await reopen(store, "r", 3, FAILED)
    assert await ids_in_inbox(store, "r") == ["m2", "m4"]


async def test_a_run_that_fails_again_keeps_all_of_it(store: Store, worker: str) -> None:
    """However often it fails, unread mail stays, in the order in which it came."""
    await own(store, worker, "r")
    for n in range(3):
        await store.send("r", message(f"m{n}"))
        await land(store, worker, end("r", 1 + 2 * n, FAILED))
        await reopen(store, "r", 2 + 2 * n, FAILED)
        assert await ids_in_inbox(store, "r") == [f"m{before}" for before in range(n + 1)]
        assert await claim(store, worker) == ["r"]


async def test_runs_that_fail_in_company_each_keep_their_own(store: Store, worker: str) -> None:
    """In one commit with others that complete, and with what is sent to them in it."""
    await own(store, worker, "done", "failed", "bare", "sent", "sender")
    for uid in ("done", "failed", "sent"):
        await send_all(store, uid, ("signal",))
    await land(
        store, worker,
        entry("sender", 1, sends=(send_to("sent", "at the last moment"), send_to("done", "at the last moment"))),
        end("done"), end("failed", status=FAILED), end("bare", status=FAILED), end("sent", status=FAILED),
    )  # fmt: skip
    assert [message.id for message in await reopen(store, "failed", 2, FAILED)] == ["signal"]
    assert await reopen(store, "bare", 2, FAILED) == []
    assert [message.id for message in await reopen(store, "sent", 2, FAILED)] == ["signal", "at the last moment"]
    assert await reopen(store, "done", 2, RunStatus.COMPLETED) == []


async def test_senders_that_cross_a_failure_are_answered_truly(
    store: Store, worker: str, make_store: MakeStore
) -> None:
    """Of those who race it, what was "sent" is there once the run is retried, under its number; what was "ended" is
    not. Nothing is acknowledged and gone."""
    elsewhere = await make_store()
    for round in range(5):
        uid = f"r{round}"
        await own(store, worker, uid)
        crossing = [elsewhere.send(uid, message(f"m{n}")) for n in range(10)]
        first, _, last = await asyncio.gather(
            asyncio.gather(*crossing[:5]), land(store, worker, end(uid, status=FAILED)), asyncio.gather(*crossing[5:])
        )
        answers = dict(enumerate([*first, *last]))
        assert {answer.verdict for answer in answers.values()} <= {"sent", "ended"}
        found = await reopen(store, uid, 2, FAILED)
        taken = sorted((answer.no, f"m{n}") for n, answer in answers.items() if answer.verdict == "sent")
        assert [(message.no, message.id) for message in found] == taken


async def test_senders_that_cross_a_retry_are_answered_truly(store: Store, worker: str, make_store: MakeStore) -> None:
    """What is sent as a failed run becomes live again is behind what was kept, or refused."""
    elsewhere = await make_store()
    for round in range(5):
        uid = f"r{round}"
        await own(store, worker, uid)
        await store.send(uid, message("first"))
        await land(store, worker, end(uid, status=FAILED))
        crossing = [elsewhere.send(uid, message(f"m{n}")) for n in range(6)]
        answers, _ = await asyncio.gather(asyncio.gather(*crossing), land(store, None, retry(uid, 2)))
        taken = sorted((answer.no, f"m{n}") for n, answer in enumerate(answers) if answer.verdict == "sent")
        assert [(message.no, message.id) for message in await inbox_of(store, uid)] == [(1, "first"), *taken]
        assert await is_due(store, uid)


@pytest.mark.parametrize("way", ["delete", "prune"])
async def test_what_was_kept_goes_with_its_run(store: Store, worker: str, way: str) -> None:
    """A run that is deleted leaves nothing behind, not for one that should get its uid either."""
    await own(store, worker, "r")
    await send_all(store, "r", ("signal",))
    await land(store, worker, end("r", status=FAILED))
    if way == "delete":
        assert await store.delete_run("r")
    else:
        assert await store.prune([FAILED], await store.now() + 1) == 1
    assert (await store.send("r", message("signal"))).verdict == "missing"
    await own(store, worker, "r")
    await land(store, worker, end("r", mark=7, status=FAILED))
    await land(store, None, entry("r", 2, prev=7, unowned=FAILED, row=RowChange(status=QUEUED, reopened=True)))
    assert await inbox_of(store, "r") == []


async def test_a_run_that_gives_its_id_up_keeps_its_mail_for_itself(store: Store, worker: str) -> None:
    """Who starts in the place of a failed run gets nothing of what was sent to that."""
    await own(store, worker, "old")
    await send_all(store, "old", ("signal",))
    await land(store, worker, end("old", status=FAILED))
    await land(store, None, start("new", id="id of old", replaces="old"))
    assert await inbox_of(store, "new") == []
    assert [message.id for message in await reopen(store, "old", 2, FAILED)] == ["signal"]
