"""Group commit: what waits is written together, and sent again until it is answered."""

from __future__ import annotations

import logging
from types import SimpleNamespace

from outlast.engine import writer as writer_module
from outlast.engine.writer import MOST_BYTES, MOST_ENTRIES, PORTION, Writer
from outlast.errors import StoreBusy
from outlast.stores.store import LANDED, STALE
from outlast.testing.stores.writing import entry, park, start
from tests.engine.faulty import UNAVAILABLE, uids_of

# --- together ---------------------------------------------------------------------------------------------------------


async def test_a_thousand_parts_at_once_share_one_commit(writing) -> None:
    """What was submitted before the writer had a turn is one batch, and its answers come in the order of submission."""
    parts = [start(f"r{number}") for number in range(MOST_ENTRIES)]
    assert await writing.write(*parts) == [LANDED] * MOST_ENTRIES
    assert [uid for uid, _ in writing.told] == uids_of(parts)
    assert (writing.writer.commits, writing.writer.entries, len(writing.store.sent)) == (1, MOST_ENTRIES, 1)


async def test_what_comes_while_a_commit_is_under_way_shares_the_next(writing) -> None:
    """No timer collects it: the flush at hand does."""
    writing.store.open_gate.clear()
    writing.submit(start("first"))
    await writing.until(lambda: len(writing.store.sent) == 1)
    writing.submit(*(start(f"r{number}") for number in range(50)))
    writing.store.open_gate.set()
    await writing.until(lambda: len(writing.told) == 51)
    assert [len(batch) for batch in writing.store.sent] == [1, 50]


async def test_one_part_alone_is_written_at_once(writing) -> None:
    """A run that is alone pays one commit of latency for each entry."""
    await writing.register("w1")
    await writing.write(start("r"), by="w1")
    for seq in range(1, 5):
        await writing.write(entry("r", seq), by="w1")
    assert writing.store.batches == [["r"]] * 5


async def test_a_batch_is_bounded_in_number_and_in_bytes(writing) -> None:
    """So that a flood makes several transactions of a bounded size, and no part waits for ever."""
    await writing.register("w1")
    await writing.write(*(start(f"r{number}") for number in range(2 * MOST_ENTRIES + 1)), by="w1")
    assert [len(batch) for batch in writing.store.sent] == [MOST_ENTRIES, MOST_ENTRIES, 1]
    writing.store.sent.clear()
    large = b'["' + b"x" * (MOST_BYTES // 2) + b'"]'
    await writing.write(*(entry(f"r{number}", 1, events=large) for number in range(5)), by="w1")
    assert [len(batch) for batch in writing.store.sent] == [2, 2, 1]
    writing.store.sent.clear()
    await writing.write(entry("r0", 2, events=large * 3), entry("r1", 2), by="w1")
    assert [len(batch) for batch in writing.store.sent] == [1, 1]


async def test_what_fails_as_it_begins_does_not_end_the_writer(writing, caplog) -> None:
    """It is said, and the runs of others go on."""

    def fail() -> None:
        raise LookupError("of whoever was told")

    writing.writer.on_told = fail
    for name in ("a", "b"):
        assert await writing.write(start(name)) == [LANDED]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


async def test_what_is_no_entry_is_not_counted_as_one(writing) -> None:
    """`work_until_idle` tells how many entries were written: neither parks nor what was refused are among them."""
    await writing.register("w1")
    await writing.write(start("r", claimed=True), by="w1")
    assert await writing.write(park("r"), entry("gone", 3), by="w1") == [LANDED, STALE]
    assert writing.writer.entries == 1


# --- in portions ------------------------------------------------------------------------------------------------------


async def test_answers_of_a_remote_store_are_told_in_portions(writing) -> None:
    """The runs that were told go on, and what they submit is under way while the others have yet to hear."""
    writing.writer.portion = 10
    sent: list[int] = []
    writing.writer.submit(start("first"), lambda _: writing.submit(start("second")))
    writing.submit(*(start(f"r{number}") for number in range(34)))
    writing.writer.submit(start("last"), lambda _: sent.append(len(writing.store.sent)))
    await writing.until(lambda: sent != [])
    assert sent == [2]
    await writing.until(lambda: len(writing.told) == 35)
    assert [uid for uid, _ in writing.told] == [*(f"r{number}" for number in range(34)), "second"]


async def test_only_a_remote_store_is_told_of_in_portions(writing) -> None:
    """Where this process itself does the store's work, more and smaller commits would be all that came of it."""
    assert (writing.writer.portion, writing.store.is_remote) == (MOST_ENTRIES, False)
    assert Writer(SimpleNamespace(is_remote=True), print, print).portion == PORTION  # type: ignore[arg-type]


async def test_a_commit_is_told_behind_the_one_before(writing) -> None:
    """Also when it is answered while that one is still being told."""
    writing.writer.portion = 1
    writing.submit(*(start(f"a{number}") for number in range(20)))
    await writing.until(lambda: writing.told)
    writing.submit(*(start(f"b{number}") for number in range(20)))
    await writing.until(lambda: len(writing.told) == 40)
    assert [uid[0] for uid, _ in writing.told] == ["a"] * 20 + ["b"] * 20


async def test_closing_waits_until_all_are_told(writing) -> None:
    """A run that has not heard would take what it did for lost."""
    writing.writer.portion = 1
    answers = writing.submit(*(start(f"r{number}") for number in range(50)))
    await writing.until(lambda: answers)
    await writing.writer.close()
    assert answers == [LANDED] * 50


async def test_a_run_that_fails_on_its_answer_keeps_it_from_no_other(writing, caplog) -> None:
    """It is a fault of outlast's, it is logged, and the rest are told, in this portion and the next."""
    writing.writer.portion = 2
    answers = writing.submit(start("a"))

    def fail(_: object) -> None:
        raise RuntimeError("of ours")

    writing.writer.submit(start("b"), fail)
    answers += writing.submit(*(start(f"r{number}") for number in range(5)))
    await writing.until(lambda: len(writing.told) == 6)
    assert ["of ours" in record.exc_text for record in caplog.records] == [True]


# --- again, until it is answered --------------------------------------------------------------------------------------


async def test_the_same_bytes_are_sent_until_the_store_answers(writing, caplog) -> None:
    """The store is away for a while: the batch waits as it is, nobody is told anything, each try is in the log."""
    writing.store.fail(UNAVAILABLE, UNAVAILABLE, StoreBusy("memory://", "somebody writes"))
    assert await writing.write(start("a"), start("b")) == [LANDED, LANDED]
    assert len(writing.store.sent) == 4
    assert {id(part) for batch in writing.store.sent for part in batch} == {id(part) for part in writing.store.sent[0]}
    assert writing.troubles == 3
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3


async def test_what_comes_meanwhile_waits_for_its_turn(writing) -> None:
    """A batch that was sent never grows: whether it landed could not be told then."""
    writing.store.fail(UNAVAILABLE)
    writing.submit(start("a"))
    await writing.until(lambda: len(writing.store.sent) == 1)
    await writing.write(start("b"))
    assert writing.store.batches == [["a"], ["a"], ["b"]]


async def test_a_commit_that_landed_unheard_is_recognised(writing) -> None:
    """The connection died after COMMIT was sent: the same bytes find their own mark, and nothing happens twice."""
    await writing.register("w1")
    await writing.write(start("r"), by="w1")
    writing.store.fail(UNAVAILABLE, landed=True)
    assert await writing.write(entry("r", 1), start("other"), by="w1") == [LANDED, LANDED]
    assert [written.seq for written in await writing.store.read_journal("r")] == [0, 1]
    assert [written.seq for written in await writing.store.read_journal("other")] == [0]


async def test_waits_between_tries_grow_up_to_a_bound(writing, caplog, monkeypatch) -> None:
    """A store that is away is not hammered, and one that comes back is found soon."""
    monkeypatch.setattr(writer_module, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(writer_module, "LAST_RETRY_S", 0.02)
    writing.store.fail(*[UNAVAILABLE] * 4)
    await writing.write(start("r"))
    waits = [record.args[1] for record in caplog.records]
    assert waits == [0.01, 0.02, 0.02, 0.02]


async def test_closing_writes_what_was_submitted(writing) -> None:
    """Also what the store did not take at the first try."""
    writing.store.fail(UNAVAILABLE)
    writing.submit(*(start(f"r{number}") for number in range(10)))
    await writing.writer.close()
    assert [answer for _, answer in writing.told] == [LANDED] * 10
    await writing.writer.close()


async def test_closing_waits_for_a_dead_store_only_for_a_while(writing, monkeypatch, caplog) -> None:
    """A process that is told to stop stops: what is on record is enough to go on from."""
    monkeypatch.setattr(writer_module, "CLOSE_S", 0.005)
    writing.store.open_gate.clear()
    writing.submit(start("a"))
    await writing.until(lambda: len(writing.store.sent) == 1)
    writing.submit(start("b"))
    await writing.writer.close()
    assert "what 2 runs did last is not written" in caplog.text
    assert writing.told == []
