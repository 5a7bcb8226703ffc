"""What the writer makes of a refusal: one bad entry hurts no other run, and a lost lease ends all that it covered."""

from __future__ import annotations

from outlast.engine.writer import Answer
from outlast.errors import Fenced, StoreFull, StoreRefused
from outlast.stores.store import LANDED
from outlast.testing.stores.writing import entry, start
from tests.engine.faulty import UNAVAILABLE, uids_of

# --- one bad entry ----------------------------------------------------------------------------------------------------


async def test_halving_finds_the_one_entry_that_the_store_refuses(writing) -> None:
    """It alone is told so; all others of its batch land, and nothing lands twice."""
    writing.store.refused = {"r37"}
    parts = [start(f"r{number}") for number in range(100)]
    answers = dict(zip(uids_of(parts), await writing.write(*parts), strict=True))
    refusal = answers.pop("r37")
    assert isinstance(refusal, StoreRefused)
    assert refusal.run == "r37"
    assert set(answers.values()) == {LANDED}
    assert len(writing.store.sent) <= 2 * 7 + 1, "a hundred are halved seven times"
    assert writing.writer.entries == 99


async def test_several_bad_entries_are_each_found(writing) -> None:
    """However they lie in the batch."""
    writing.store.refused = {"r0", "r1", "r8", "r15"}
    parts = [start(f"r{number}") for number in range(16)]
    await writing.write(*parts)
    refused = {uid for uid, answer in writing.told if isinstance(answer, StoreRefused)}
    assert refused == writing.store.refused
    assert sum(answer is LANDED for _, answer in writing.told) == 12


async def test_a_bug_in_a_store_is_nobody_elses_end(writing, caplog) -> None:
    """An error that no store may raise is taken for a refusal, said aloud, and the writer goes on."""
    writing.store.fail(ZeroDivisionError("oops"))
    (answer,) = await writing.write(start("a"))
    assert isinstance(answer, StoreRefused)
    assert "ZeroDivisionError" in str(answer)
    assert "outlast failed to write 1 entries" in caplog.text
    assert await writing.write(start("b")) == [LANDED]


async def test_a_listener_that_fails_costs_the_others_nothing(writing, caplog) -> None:
    """Each run of a batch hears what became of its part."""

    def fail(_answer: Answer) -> None:
        raise RuntimeError("a bug of ours")

    writing.writer.submit(start("a"), fail)
    assert await writing.write(start("b")) == [LANDED]
    assert "a bug of ours" in caplog.text


async def test_a_full_store_tells_starts_at_once_and_keeps_what_runs_did(writing) -> None:
    """Who starts a run learns of it, and may decide; what a step came to is written when there is room."""
    await writing.register("w1")
    await writing.write(start("r"), by="w1")
    full = StoreFull("memory://", "the disk has no room")
    writing.store.fail(full, full)
    assert await writing.write(start("new"), entry("r", 1), by="w1") == [full, LANDED]
    assert await writing.store.find_uid("new") is None


# --- the fence --------------------------------------------------------------------------------------------------------


async def test_a_fenced_worker_is_told_and_all_its_parts_come_to_nothing(writing) -> None:
    """`None` says that nothing is known, and that the run is not this worker's any more."""
    await writing.register("w1")
    await writing.write(start("a", claimed=True), start("b", claimed=True), by="w1")
    await writing.store.retire("w1")
    assert await writing.write(entry("a", 1), entry("b", 1), by="w1") == [None, None]
    assert writing.fenced == ["w1"]
    assert len(await writing.store.read_journal("a")) == 1


async def test_what_one_incarnation_submitted_is_never_written_under_another_id(writing) -> None:
    """The worker came back under a new id while its old entries waited: they are dropped, not smuggled in."""
    await writing.register("w1")
    await writing.write(start("old", claimed=True), by="w1")
    await writing.register("w2")
    assert await writing.write(entry("old", 1), start("new", claimed=True), by="w1") == [None, None]
    assert await writing.write(start("fresh", claimed=True), by="w2") == [LANDED]
    assert writing.store.batches == [["old"], ["fresh"]]


async def test_a_batch_that_is_tried_again_ends_with_its_incarnation(writing) -> None:
    """Fenced while the store was away: the old batch is given up, and the next one is sent under the new id."""
    await writing.register("w1")
    writing.store.fail(*[UNAVAILABLE] * 1000)
    writing.submit(start("old", claimed=True), by="w1")
    await writing.until(lambda: len(writing.store.sent) == 2)
    writing.writer.worker_id = None
    await writing.until(lambda: writing.told == [("old", None)])
    writing.store._faults.clear()
    await writing.register("w2")
    assert await writing.write(start("new", claimed=True), by="w2") == [LANDED]
    assert await writing.store.find_uid("old") is None


async def test_starts_of_a_client_share_the_batch_of_a_worker(writing) -> None:
    """A start for anybody is written by whoever writes, under a worker's id or none."""
    assert await writing.write(start("before")) == [LANDED]
    await writing.register("w1")
    writing.submit(start("claimed", claimed=True), by="w1")
    await writing.write(start("for anybody"))
    assert writing.store.batches == [["before"], ["claimed", "for anybody"]]
    row = await writing.store.find_uid("for anybody")
    assert row is not None
    assert row.owner is None


async def test_a_fence_between_two_halves_stops_the_second(writing) -> None:
    """A batch that is halved for a refusal asks again whose it is before each half."""
    await writing.register("w1")
    writing.store.refused = {"r0"}

    def leave(answer: Answer) -> None:
        writing.told.append(("r0", answer))
        writing.writer.worker_id = None

    writing.writer.submit(start("r0", claimed=True), leave, by="w1")
    await writing.write(start("r1", claimed=True), start("r2", claimed=True), start("r3", claimed=True), by="w1")
    assert isinstance(writing.told[0][1], StoreRefused)
    assert [answer for uid, answer in writing.told if uid != "r0"] == [None] * 3


async def test_being_fenced_is_no_trouble_of_the_store(writing) -> None:
    """It is an answer, not an error to try again after."""
    await writing.register("w1")
    writing.store.fail(Fenced("w1"))
    assert await writing.write(start("a", claimed=True), by="w1") == [None]
    assert (writing.troubles, len(writing.store.sent)) == (0, 1)
