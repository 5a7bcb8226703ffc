"""What a run costs in entries and commits (DESIGN: think before the commit, act after; group commit)."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from outlast import Context, Outlast, RunFailed
from outlast.core.events import decode_events
from tests.engine.faulty import FaultyStore

STEPS = 7


class Shop:
    """An app on a store that counts, and workflows of steps that do nothing."""

    def __init__(self) -> None:
        self.store = FaultyStore()
        self.app = Outlast("memory://")
        self.app._store = self.store

        @self.app.step(name="work", retries=0)
        async def work(number: int) -> int:
            return number

        @self.app.workflow(name="one-by-one")
        async def one_by_one(ctx: Context, steps: int) -> int:
            for number in range(steps):
                await work(number)
            return steps

        @self.app.workflow(name="side-by-side")
        async def side_by_side(ctx: Context, steps: int) -> int:
            return len(await asyncio.gather(*(work(number) for number in range(steps))))

        @self.app.workflow(name="dreaming")
        async def dreaming(ctx: Context, marks: int) -> None:
            for number in range(marks):
                await ctx.set_state("at", number)
                await ctx.milestone(f"m{number}")
                async with asyncio.timeout(60):
                    await work(number)

        self.work, self.one_by_one, self.side_by_side, self.dreaming = work, one_by_one, side_by_side, dreaming

    def entries(self, uid: str) -> list[list[str]]:
        """What was written of the run: of each entry, what its events are called."""
        parts = [progress for batch in self.store.sent for progress in batch if progress.uid == uid]
        return [[type(event).__name__ for event in decode_events(part.events)] for part in parts if part.seq >= 0]

    @property
    def commits(self) -> int:
        """Commits that carried an entry: parks are none."""
        return sum(any(progress.seq >= 0 for progress in batch) for batch in self.store.sent)


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_a_starter_that_works_the_run_itself_writes_one_entry_a_step_and_one_more(shop) -> None:
    """The start and the first step's are one entry, each outcome and what the body asks for next another."""
    async with shop.app.worker():
        run = await shop.app.start(shop.one_by_one, STEPS)
        assert await run.result(timeout=20) == STEPS
    entries = shop.entries(run.uid)
    assert entries[0] == ["RunStarted", "StepStarted"]
    assert entries[1:-1] == [["StepSucceeded", "StepStarted"]] * (STEPS - 1)
    assert entries[-1] == ["StepSucceeded", "RunCompleted"]
    assert (len(entries), shop.commits) == (STEPS + 1, STEPS + 1)


async def test_a_run_that_was_started_elsewhere_costs_one_entry_more(shop) -> None:
    """The start's own: nobody could think ahead there."""
    async with shop.app:
        run = await shop.app.start(shop.one_by_one, STEPS)
        async with shop.app.worker():
            assert await run.result(timeout=20) == STEPS
    entries = shop.entries(run.uid)
    assert entries[:2] == [["RunStarted"], ["StepStarted"]]
    assert (len(entries), shop.commits) == (STEPS + 2, STEPS + 2)


async def test_steps_in_between_touch_the_journal_alone(shop) -> None:
    """The run's row is written when it starts and ends, never for each step: rows are dear, the journal is cheap."""
    async with shop.app.worker():
        run = await shop.app.start(shop.one_by_one, STEPS)
        await run.result(timeout=20)
    parts = [progress for batch in shop.store.sent for progress in batch if progress.uid == run.uid]
    assert [progress.effects is None for progress in parts] == [False, *[True] * (STEPS - 1), False]


async def test_marks_states_and_timeouts_cost_no_entry_of_their_own(shop) -> None:
    """They ride in the entry at hand; a timeout around a fast step writes nothing at all."""
    async with shop.app.worker():
        run = await shop.app.start(shop.dreaming, STEPS)
        await run.result(timeout=20)
    entries = shop.entries(run.uid)
    assert len(entries) == STEPS + 1
    assert set(itertools.chain(*entries)) == {
        "RunStarted", "StateSet", "MilestoneReached", "StepStarted", "StepSucceeded", "RunCompleted"
    }  # fmt: skip


async def test_outcomes_that_come_together_share_an_entry(shop) -> None:
    """At most one entry of a run is under way; what arrives meanwhile joins the next."""
    async with shop.app.worker():
        run = await shop.app.start(shop.side_by_side, 100)
        assert await run.result(timeout=20) == 100
    assert len(shop.entries(run.uid)) <= 5


async def test_a_thousand_runs_share_their_commits(shop) -> None:
    """One run alone pays one commit of latency for each entry; a thousand pay them together."""
    async with shop.app.worker(concurrency=1000):
        runs = await asyncio.gather(*(shop.app.start(shop.one_by_one, 3) for _ in range(1000)))
        await asyncio.gather(*(run.result(timeout=20) for run in runs))
    entries = sum(progress.seq >= 0 for batch in shop.store.sent for progress in batch)
    assert entries == 4000
    assert shop.commits <= 8


async def test_an_entry_that_the_store_refuses_sets_its_own_run_aside(shop) -> None:
    """The others of its batch go on; the culprit is suspended as STORE_REFUSED, and goes on when that is mended."""

    @shop.app.step(name="speak", retries=0)
    async def speak(text: str) -> str:
        await said.wait()
        return text * 2

    @shop.app.workflow(name="speaking")
    async def speaking(ctx: Context, text: str) -> str:
        return await speak(text)

    said = asyncio.Event()
    shop.store.poison = b"ODDODD"
    async with shop.app.worker():
        runs = [await shop.app.start(speaking, text) for text in ("a", "ODD", "b", "c")]
        said.set()
        odd = runs.pop(1)
        assert [await run.result(timeout=20) for run in runs] == ["aa", "bb", "cc"]
        async with asyncio.timeout(20):
            while (info := await odd.status()).status != "suspended":
                await asyncio.sleep(0.001)
        assert info.waiting_on == "STORE_REFUSED"
        shop.store.poison = b""
        await odd.resume("STORE_REFUSED")
        with pytest.raises(RunFailed, match="Its worker was lost"):
            await odd.result(timeout=20)
        await odd.retry()
        assert await odd.result(timeout=20) == "ODDODD"
