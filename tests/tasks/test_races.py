"""What crosses on the way between a run's owner, the store and the worker of a queued step: call by call.

Each process has an engine of its own; the calls of a store can be held before they happen, or before they are answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outlast.core.events import (
    RunCancelled,
    RunCompleted,
    RunFailed,
    StepCancelled,
    StepLost,
    StepSettled,
    StepSucceeded,
)
from outlast.engine import worker
from outlast.engine.tasks import taking
from outlast.errors import StoreUnavailable
from outlast.stores.store import ClaimedTask
from tests.crash.rig import Process, has_event, process, until, until_event
from tests.tasks.flows import flows, gates

HOUR_US = 3_600_000_000
SHORT_US = 300_000
DROPPED = "is dropped"


class Pair(NamedTuple):
    """The worker of runs, and the worker of the queue."""

    home: Process
    gpu: Process

    async def start(self, workflow: str, *args: object) -> str:
        found = flows.find_workflow(f"t:{workflow}")
        assert found is not None
        return await self.home.start(found, *args)


@pytest.fixture
async def pair(tmp_path) -> AsyncIterator[Pair]:
    gates.reset()
    async with process(str(tmp_path), flows) as home, process(str(tmp_path), flows, queues=("gpu",)) as gpu:
        yield Pair(home, gpu)


def dropped(caplog: pytest.LogCaptureFixture) -> list[tuple[str | None, int | None]]:
    """Which attempts' outcomes were warned of."""
    records = [vars(record) for record in caplog.records if DROPPED in record.getMessage()]
    assert all(record["levelno"] == logging.WARNING and record["run"] and record["trace"] for record in records)
    return [(record["step"], record["attempt"]) for record in records]


async def outcomes_of(one: Process, uid: str) -> list[tuple[str, str, int]]:
    """How each attempt on record ended."""
    kinds = (StepSucceeded, StepSettled, StepLost)
    return [
        (type(event).__name__, event.key, event.attempt) for event in await one.journal(uid) if isinstance(event, kinds)
    ]


# --- answers that are lost --------------------------------------------------------------------------------------------


async def test_a_completion_whose_answer_is_lost(pair: Pair, caplog):
    """It is sent again and answered with no, though it counted: nobody is warned, and the run has it once."""
    hold = pair.gpu.store.hold("complete_tasks")
    uid = await pair.start("two", 8)
    await hold.reached.wait()
    hold.fail(StoreUnavailable("memory://", "the answer is lost"))
    assert isinstance(await pair.home.end_of(uid), RunCompleted)
    assert dropped(caplog) == []
    assert [key for _, key, _ in await outcomes_of(pair.home, uid)] == ["t:double", "t:halve", "t:local"]


async def test_a_completion_that_never_arrives_is_sent_again(pair: Pair):
    """An error before the store had it changes nothing but the time."""
    pair.gpu.store.failures["complete_tasks"] = [StoreUnavailable("memory://", "not now")] * 2
    uid = await pair.start("two", 8)
    assert isinstance(await pair.home.end_of(uid), RunCompleted)


async def test_a_claim_whose_answer_is_lost(tmp_path):
    """The store has given the task to a worker that does not know: it lapses, and the next attempt is begun."""
    gates.reset()
    async with (
        process(str(tmp_path), flows) as home,
        process(str(tmp_path), flows, queues=("gpu",), task_lease_us=SHORT_US) as gpu,
    ):
        hold = gpu.store.hold("claim_tasks")
        uid = await Pair(home, gpu).start("two", 8)
        await hold.reached.wait()
        hold.fail(StoreUnavailable("memory://", "the answer is lost"))
        assert isinstance(await home.end_of(uid, 20.0), RunCompleted)
        assert ("StepLost", "t:double", 1) in await outcomes_of(home, uid)
        assert [info.attempt for info in gates.infos if info.key == "t:double"] == [2]


# --- leases -----------------------------------------------------------------------------------------------------------


# SPEC L4, L6
async def test_a_worker_that_cannot_renew_stops_in_time(tmp_path, caplog):
    """The store answers no renewal: when the lease is over by this machine's clock the step is stopped, whether others
    have it by then or not, and what it came to is dropped."""
    gates.reset()
    async with (
        process(str(tmp_path), flows) as home,
        process(str(tmp_path), flows, queues=("gpu",), task_lease_us=SHORT_US) as gpu,
    ):
        gpu.store.hold("renew_tasks", before=True)
        uid = await Pair(home, gpu).start("hold", ["a"])
        await until(lambda: gates.cancelled["a"] == 1)
        end = await home.end_of(uid, 20.0)
        assert isinstance(end, RunFailed)
        assert end.error.type == "StepLeaseExpired"
        assert ("StepLost", "a", 1) in await outcomes_of(home, uid)
        assert ("a", 1) in dropped(caplog)


# SPEC L6
async def test_a_lost_task_is_stopped_at_its_next_renewal(pair: Pair, caplog):
    """Somebody took it for lost: its worker hears so from the store, stops it, and its outcome counts no more."""
    uid = await pair.start("hold", ["a"])
    await until(lambda: gates.began["a"] == 1)
    for task in pair.gpu.store._tables.held_tasks:
        task.lease_expires_at = 0
    assert await pair.home.store.lapse_tasks() == 1
    pair.gpu.home.tasks.leases.renew_soon(0)
    await until(lambda: gates.cancelled["a"] == 1)
    assert isinstance(await pair.home.end_of(uid), RunFailed)
    await until(lambda: dropped(caplog) == [("a", 1)])


# SPEC S10, PROTOCOL F6
@pytest.mark.parametrize("step", ["double", "halve"])
async def test_a_claim_that_is_answered_too_late_begins_nothing(tmp_path, caplog, step: str):
    """When the lease of the task was over before user code was to be entered, in the loop or in a thread, it is not."""
    gates.reset()
    async with (
        process(str(tmp_path), flows) as home,
        process(str(tmp_path), flows, queues=("gpu",), task_lease_us=SHORT_US) as gpu,
    ):
        hold = gpu.store.hold("claim_tasks")
        uid = await Pair(home, gpu).start("two" if step == "double" else "half", 8)
        await hold.reached.wait()
        await asyncio.sleep(SHORT_US / 1e6)
        assert await home.store.lapse_tasks() == 1
        await until_event(home, uid, StepLost)
        hold.let_go()
        assert isinstance(await home.end_of(uid), RunCompleted)
        assert [info.attempt for info in gates.infos if info.key == f"t:{step}"] == [2]
        assert (f"t:{step}", 1) in dropped(caplog)


# --- cancels ----------------------------------------------------------------------------------------------------------


# SPEC X6, PROTOCOL F25
async def test_an_outcome_that_crosses_the_stop(pair: Pair):
    """The step ends in the world while the entry that gives it up is on its way: it is settled as it ended, and the run
    is cancelled all the same."""
    uid = await pair.start("hold", ["a"])
    await until(lambda: gates.began["a"] == 1)
    giving_up = pair.home.store.hold("commit", has_event(StepCancelled), before=True)
    await pair.home.engine.send(uid, "cancel", b'{"reason":"enough"}')
    await giving_up.reached.wait()
    completing = pair.gpu.store.hold("complete_tasks")
    gates.open.set()
    await completing.reached.wait()
    giving_up.let_go()
    completing.let_go()
    assert isinstance(await pair.home.end_of(uid), RunCancelled)
    assert await pair.home.store.list_tasks(uid) == []


async def test_a_stop_that_crosses_the_outcome(pair: Pair):
    """The step is told to stop and has ended already: its outcome arrives while its task is there, and is settled."""
    uid = await pair.start("drop_one", 2)
    completing = pair.gpu.store.hold("complete_tasks", lambda batch: batch[0].key == "dropped", before=True)
    await completing.reached.wait()
    assert (await pair.home.store.list_tasks(uid))[0].stop
    completing.let_go()
    await until_event(pair.home, uid, StepSettled)
    gates.open.set()
    assert isinstance(await pair.home.end_of(uid), RunCompleted)
    assert ("StepSettled", "dropped", 1) in await outcomes_of(pair.home, uid)


async def test_an_outcome_for_a_run_that_has_ended(pair: Pair):
    """A run that was cancelled by force is over: what its step comes to goes nowhere."""
    uid = await pair.start("hold", ["a"])
    await until(lambda: gates.began["a"] == 1)
    completing = pair.gpu.store.hold("complete_tasks", before=True)
    gates.open.set()
    await completing.reached.wait()
    await pair.home.engine.send(uid, "cancel", b'{"reason":"enough","force":true}')
    assert isinstance(await pair.home.end_of(uid), RunCancelled)
    before = await pair.home.journal(uid)
    completing.let_go()
    await until(lambda: not pair.gpu.store._tables.held_tasks)
    assert await pair.home.journal(uid) == before


# --- owners -----------------------------------------------------------------------------------------------------------


# PROTOCOL F17
async def test_the_runs_owner_changes_while_its_step_executes(tmp_path):
    """A takeover does not touch a queued step that is under way: it is executed once, and its outcome counts."""
    gates.reset()
    name = str(tmp_path)
    async with process(name, flows, queues=("gpu",)) as gpu, process(name, flows) as first:
        uid = await Pair(first, gpu).start("hold", ["a"])
        await until(lambda: gates.began["a"] == 1)
        async with process(name, flows) as second:
            await first.store.lapse(first.worker.id)
            await until(lambda: second.hot(uid) is not None)
            gates.open.set()
            assert isinstance(await second.end_of(uid), RunCompleted)
            assert gates.began["a"] == 1
            assert await outcomes_of(second, uid) == [("StepSucceeded", "a", 1)]


# PROTOCOL F17
async def test_an_attempt_of_which_nothing_is_left(tmp_path):
    """Neither task nor message, as after a store was restored: whoever loads the run takes the attempt for lost."""
    gates.reset()
    name = str(tmp_path)
    async with process(name, flows) as home:
        uid = await Pair(home, home).start("two", 8)
        tables = home.store._tables
        await until(lambda: tables.runs[uid].tasks and tables.runs[uid].owner is None)
        tables.drop_task(tables.runs[uid], "t:double")
        await home.engine.send(uid, "nudge", b"null")
        await until_event(home, uid, StepLost)
        async with process(name, flows, queues=("gpu",)):
            assert isinstance(await home.end_of(uid), RunCompleted)
    assert [info.attempt for info in gates.infos if info.key == "t:double"] == [2]


# PROTOCOL F15
async def test_an_outcome_that_crosses_a_park(tmp_path):
    """The outcome comes while the run is being parked: the run is due at once."""
    gates.reset()
    name = str(tmp_path)
    async with process(name, flows) as home, process(name, flows, queues=("gpu",)) as gpu:
        parking = home.store.hold("commit", lambda batch: any(part.seq < 0 for part in batch), before=True)
        uid = await Pair(home, gpu).start("hold", ["a"])
        await parking.reached.wait()
        gates.open.set()
        await until(lambda: home.store._tables.runs[uid].mail == 1)
        parking.let_go()
        assert isinstance(await home.end_of(uid), RunCompleted)


async def test_who_came_too_late_once_is_not_late_for_what_follows(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A worker whose claim found that others had been quicker pauses; but no longer than there is something due."""
    monkeypatch.setattr(taking, "FIRST_PAUSE_S", 60.0)
    monkeypatch.setattr(taking, "LAST_PAUSE_S", 60.0)
    tasks, pauses = pair.gpu.home.tasks, 0
    begin_pause = tasks._begin_pause

    def count_pause() -> None:
        nonlocal pauses
        pauses += 1
        begin_pause()

    monkeypatch.setattr(tasks, "_begin_pause", count_pause)
    late = pair.gpu.store.hold("claim_tasks", before=True)
    uid = await pair.start("two", 8)
    await late.reached.wait()
    async with process(str(tmp_path), flows, queues=("gpu",)):
        await pair.home.end_of(uid)
        late.let_go()
        await until(lambda: pauses)
    await until(lambda: not tasks._misses)
    await pair.home.end_of(await pair.start("two", 4))


async def test_a_pause_ends_with_a_look(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """What was not to be had is asked for again when the pause is over, though nobody hints at anything."""
    monkeypatch.setattr(worker, "FLOOR_S", 3600.0)
    claims = pair.gpu.store.claim_tasks
    misses = 0

    async def miss_once(*arguments: Any) -> list[ClaimedTask]:
        nonlocal misses
        misses += 1
        return [] if misses == 1 else await claims(*arguments)

    monkeypatch.setattr(pair.gpu.store, "claim_tasks", miss_once)
    uid = await pair.start("two", 8)
    await until(lambda: misses >= 2, 5.0)
    await pair.home.end_of(uid)
