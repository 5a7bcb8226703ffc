"""Attempts of queued steps are counted and judged as those of steps that execute with their runs (SPEC S2)."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.errors import RunFailed
from tests.tasks.flows import gates
from tests.tasks.world import Elsewhere, World, attempts_of

CASES: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "the default": ("failing", "plain", {}, 6),
    "no retry": ("failing", "plain", {"retries": 0}, 1),
    "some": ("failing", "plain", {"retries": 2}, 3),
    "one that cannot be made again": ("failing", "sealed", {"retries": 2}, 3),
    "final": ("failing", "final", {}, 1),
    "one that says when": ("failing", "hinting", {"retries": 1, "backoff": 60}, 2),
    "a step that is cancelled from within": ("failing", "cancel", {}, 1),
    "retried on that class alone": ("failing_but_sealed", "sealed", {}, 4),
    "not retried on others": ("failing_but_sealed", "plain", {}, 1),
    "retried on that class, fewer times": ("failing_but_sealed", "sealed", {"retries": 1}, 2),
    "given up on by a predicate": ("failing_but_open", "sealed", {}, 1),
    "not given up on": ("failing_but_open", "plain", {}, 4),
}


# SPEC S2, S3, S4
@pytest.mark.parametrize("url", ["memory"], indirect=True)
@pytest.mark.parametrize("case", CASES)
async def test_as_many_attempts_on_a_queue_as_with_the_run(home: Elsewhere, gpu: Elsewhere, case: str):
    """The same step, the same error, the same options: the same number of executions, and the same error in the end."""
    step, error, options, count = CASES[case]
    answers = []
    for queue in (None, "gpu"):
        run = await home.start("try_one", step, [error], {"queue": queue, **options})
        answers.append(await run.result(20))
        assert gates.began.pop(error) == count
        history = await attempts_of(run, f"t:{step}")
        assert [attempt.attempt for attempt in history] == list(range(1, count + 1))
        assert {attempt.worker for attempt in history} == {(gpu if queue else home).worker.id}
        assert all(attempt.error is not None and attempt.error.type for attempt in history)
    assert answers[0] == answers[1]


# SPEC R10, PROTOCOL F26
async def test_numbers_of_attempts_go_on_over_a_retry(home: Elsewhere, gpu: Elsewhere):
    """A failed run that is told to go on queues its step anew, under a number that was never used."""
    run = await home.start("fail_one")
    with pytest.raises(RunFailed):
        await run.result(20)
    assert gates.began["mendable"] == 2
    gates.open.set()
    await run.retry()
    assert await run.result(20) == "mended"
    assert [attempt.attempt for attempt in await attempts_of(run, "t:mendable")] == [1, 2, 3]


# SPEC P7
@pytest.mark.parametrize("url", ["memory", "sqlite"], indirect=True)
@pytest.mark.parametrize("max_hot", [0, 1])
async def test_evicted_runs_take_outcomes(world: World, gpu: Elsewhere, max_hot: int):
    """A run whose body was dropped, replayed after every event or parked for others, has its queued steps' outcomes."""
    async with world.working("default", max_hot=max_hot) as home:
        runs = [await home.start("two", x) for x in (2, 4, 6)]
        failing = await home.start("try_one", "failing", ["plain"], {"queue": "gpu", "retries": 2})
        assert [await run.result(20) for run in runs] == [[4, 1, 3], [8, 2, 5], [12, 3, 7]]
        assert await failing.result(20) == "Plain: no"
        assert gates.began["plain"] == 3
