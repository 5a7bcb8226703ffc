"""What is stored is what was given: names from hostile hands, bytes of any kind, large and odd (D4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from outlast.errors import StoreRefused
from outlast.stores.store import (
    ClaimedTask,
    Entry,
    Message,
    NewTask,
    NewWait,
    Progress,
    RunQuery,
    Store,
    TaskOutcome,
    WorkerRow,
)
from outlast.testing.stores.writing import (
    HOUR,
    claiming,
    complete,
    entry,
    inbox_of,
    land,
    mark_of,
    message,
    own,
    park,
    queue,
    row_of,
    start,
)

NAMES = {
    "quotes": """it's "quoted" `thrice`""",
    "injection": "Robert'); DROP TABLE runs;--",
    "path": "../../etc/passwd\\..\\C:",
    "hash": "name#1#2",
    "dots": "a.b..c.",
    "wildcards": "100%_sure*[a-z]?",
    "placeholders": "$1 :id ? %s {0} ${x}",
    "emoji": "🦊👨‍👩‍👧‍👦",
    "direction": "\u202eevil\u202c",
    "space": "  padded \t\n",
    "empty-looking": "\u200b",
    "control": "\x01\x1b[31m\x7f",
    "number": "007",
    "word": "null",
    "long": "x" * 512,
    "long-emoji": "🦊" * 128,
}
LOOKALIKES = ["a", "A", "a ", " a", "\u00e9", "e\u0301", "\u212b", "\u00c5", "ﬁ", "fi", "1", "01", "1.0"]

every_name = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())


# SPEC D4
@every_name
async def test_a_runs_names_are_kept(store: Store, worker: str, name: str) -> None:
    """Id, workflow, version, queue, user, trace and what it waits for are read, found and filtered as given."""
    given: dict[str, Any] = {
        "workflow": name,
        "version": name,
        "queue": name,
        "user": name,
        "trace": name,
        "parent": name,
        "root": name,
    }
    await land(store, None, start("r", id=name, **given))
    await queue(store, "s")
    found = await store.find_run(name)
    assert found is not None
    assert {key: getattr(found, key) for key in ("id", *given)} == {"id": name, **given}
    for query in (RunQuery(workflow=name), RunQuery(user=name), RunQuery(parent=name)):
        assert [row.uid for row in await store.list_runs(query)] == ["r"]
    assert [run.uid for run in await store.claim(claiming(worker, queues=(name,)))] == ["r"]
    await land(store, worker, park("r", waiting_on=f"{name}!", unfit=name, wake_at=0))
    assert [row.uid for row in await store.list_runs(RunQuery(waiting_on=f"{name}!"))] == ["r"]
    assert [row.uid for row in await store.list_runs(RunQuery(waiting_on=f"{name}*"))] == ["r"]
    assert await store.claim(claiming(worker, queues=(name,), deploy=name)) == []
    assert len(await store.claim(claiming(worker, queues=(name,)))) == 1


@every_name
async def test_a_workers_names_are_kept(store: Store, name: str) -> None:
    """Id, host, queues, functions and deploy; the worker can do its work under them."""
    await store.register(WorkerRow(name, name, 1, (name, "q"), (name, "f"), name, name), HOUR)
    [found] = await store.list_workers()
    assert (found.id, found.host, found.queues, found.functions) == (name, name, (name, "q"), (name, "f"))
    assert (found.deploy, found.python) == (name, name)
    assert store.renew(name, HOUR) is not None
    await own(store, name, "r")
    assert (await row_of(store, "r")).owner == name
    assert (await store.read_journal("r"))[0].writer == name
    assert await store.retire(name) == 1


@every_name
async def test_a_messages_names_are_kept(store: Store, worker: str, name: str) -> None:
    """Id and kind."""
    await own(store, worker, "r")
    assert (await store.send("r", message(name, name))).verdict == "sent"
    assert (await store.send("r", message(name, name))).verdict == "duplicate"
    [found] = await inbox_of(store, "r")
    assert found == Message(1, name, name, b"1", found.sent_at)


@every_name
async def test_a_tasks_names_are_kept(store: Store, worker: str, name: str) -> None:
    """Key, queue and function; its outcome finds the way."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(NewTask(name, 1, name, name, b"1", 0),)))
    claimed = await store.claim_tasks(claiming(worker, queues=(name,)), [name], HOUR)
    assert claimed == [ClaimedTask("r", name, 1, name, name, b"1", b"{}")]
    assert await store.renew_tasks(worker, [("r", name, 1, b"%")], HOUR) == []
    assert await store.lost_attempts("r", [(name, 1), (name, 2)]) == [(name, 2)]
    assert await complete(store, worker, TaskOutcome("r", name, 1, b"2"))
    assert [found.id for found in await inbox_of(store, "r")] == [f"{name}#1"]


@every_name
async def test_a_waits_names_are_kept(store: Store, worker: str, name: str) -> None:
    """Key, kind and name; it is closed by its key."""
    await own(store, worker, "r")
    opened = NewWait(name, name, name, 1)
    await land(store, worker, entry("r", 1, waits_opened=(opened,)))
    assert [row.wait for row in await store.list_waits()] == [opened]
    await land(store, worker, entry("r", 2, waits_closed=(name,)))
    assert await store.list_waits() == []


# SPEC D4
async def test_names_that_look_alike_are_different(store: Store, worker: str) -> None:
    """No case folding, no normalisation, no trimming, no numbers: ids are compared code point by code point."""
    for n, name in enumerate(LOOKALIKES):
        await land(store, worker, start(f"r{n}", id=name, claimed=True))
    for n, name in enumerate(LOOKALIKES):
        found = await store.find_run(name)
        assert found is not None
        assert (found.uid, found.id) == (f"r{n}", name)
    for name in LOOKALIKES:
        assert (await store.send("r0", message(name))).verdict == "sent"
    assert [found.id for found in await inbox_of(store, "r0")] == LOOKALIKES


# PROTOCOL F8
@pytest.mark.parametrize("name", ["a\0b", "\0", "lone \ud800 surrogate"], ids=["nul", "only-nul", "surrogate"])
async def test_text_that_a_store_cannot_take_is_refused_whole(store: Store, worker: str, name: str) -> None:
    """Text that some databases cannot store is kept exactly, or refused with nothing landed; never mangled."""
    await own(store, worker, "s")
    try:
        await store.commit(worker, [entry("s", 1), start("r", id=name)])
    except StoreRefused:
        assert await store.find_uid("r") is None
        assert len(await store.read_journal("s")) == 1
        await land(store, worker, entry("s", 1), start("r"))  # the rest is unhurt, and so is the store
    else:
        assert (await row_of(store, "r")).id == name
        assert len(await store.read_journal("s")) == 2


# --- bytes ------------------------------------------------------------------------------------------------------------

PAYLOADS = {
    "empty": b"",
    "json": b'{"a":"\\u0000"}',
    "every-byte": bytes(range(256)),
    "not-utf8": b"\xff\xfe\x00\xd8",
    "nul": b"\0" * 64,
    "2MiB": bytes(range(256)) * (2 * 1024 * 1024 // 256),
}


# SPEC D2
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
async def test_bytes_are_kept(store: Store, worker: str, payload: bytes) -> None:
    """Entries, messages, arguments and outcomes are opaque: a codec may compress or encrypt them."""
    await own(store, worker, "r", "s")
    task = NewTask("k", 1, "default", "f", payload, 0, details=payload)
    opened = NewWait("w", "approval", "w", 1, policy=payload)
    await land(store, worker, entry("r", 1, events=payload, tasks=(task,), waits_opened=(opened,)))
    assert (await store.read_journal("r"))[1] == Entry(1, 0, worker, mark_of(1), payload)
    assert (await store.list_waits())[0].wait.policy == payload
    [claimed] = await store.claim_tasks(claiming(worker), ["f"], HOUR)
    assert (claimed.arguments, claimed.details) == (payload, payload)
    await complete(store, worker, TaskOutcome("r", "k", 1, payload))
    await store.send("r", message("m", payload=payload))
    assert [found.payload for found in await inbox_of(store, "r")] == [payload, payload]


async def test_numbers_are_kept(store: Store, worker: str) -> None:
    """Marks of 63 bits, and instants from the epoch's first to beyond the year 9999."""
    await own(store, worker, "r")
    far = 300_000_000_000_000_000
    for seq, (at, mark) in enumerate([(0, 1), (far, 2**63 - 1), (1, 2**62)], 1):
        before = (await store.read_journal("r"))[-1].mark
        await land(store, worker, Progress("r", seq, at=at, mark=mark, prev=before, events=b"[]"))
    found = await store.read_journal("r", after=0)
    assert [(each.at, each.mark) for each in found] == [(0, 1), (far, 2**63 - 1), (1, 2**62)]
    await queue(store, "s", wake_at=far, deadline=far)
    row = await row_of(store, "s")
    assert (row.wake_at, row.deadline) == (far, far)


async def test_attributes_are_kept(store: Store) -> None:
    """A JSON object of the user's, whatever is in it, means the same when it is read."""
    given = {"it's": ["🦊", 1.5, None, True, {"deep": [[[]]]}], "": "", "n": 2**53}
    await queue(store, "r", attributes=msgspec.json.encode(given))
    assert msgspec.json.decode((await row_of(store, "r")).attributes) == given
