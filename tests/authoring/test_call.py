"""Calls: what the engine carries out, here and in other processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest

from outlast.authoring.call import Call
from outlast.authoring.current import StepInfo, entered_step
from outlast.authoring.step import Step
from outlast.core.keys import invocation_id
from outlast.core.retry import is_retryable
from outlast.errors import InvalidInput, ResultInvalid, StepFailed
from tests.authoring import shop


def make_call(step: Step[..., Any], *args: Any, **kwargs: Any) -> Call:
    data, explicit = step.function.arguments.encode_call(args, kwargs)
    return Call(step.function, step.name, step.settings, data, explicit)


@pytest.fixture(params=["threads", pytest.param("processes", marks=pytest.mark.process)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "threads":
        chosen: Executor = ThreadPoolExecutor(1)
    else:
        chosen = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    with chosen:
        yield chosen


def run_in(executor: Executor, call: Call, info: StepInfo | None = None) -> bytes:
    """As the engine does it: ask the call within the step's context, then submit."""
    context = copy_context()
    if info is not None:
        context.run(entered_step, info)
    function, arguments = context.run(call.remote)
    return call.encode_result(executor.submit(function, *arguments).result(timeout=50))


def test_an_executor_runs_steps_of_modules(executor: Executor) -> None:
    """`executor=` takes any `concurrent.futures.Executor`; values and errors come through one that pickles."""
    # SPEC S6
    assert b'"result":9' in run_in(executor, make_call(shop.square, shop.Job(3)))
    assert run_in(executor, make_call(shop.renamed, 3)) == b"4"
    info = StepInfo(run_id="run-1", uid="uid-1", key="whoami#1", attempt=2, max_attempts=6)
    answer = run_in(executor, make_call(shop.whoami), info)
    assert answer == b'["run-1","whoami#1",2,"%s"]' % invocation_id("uid-1", "whoami#1").encode()
    with pytest.raises(ResultInvalid, match="no number"):
        run_in(executor, make_call(shop.lie))
    with pytest.raises(ValueError, match="plain"):
        run_in(executor, make_call(shop.break_down, "plain"))
    assert run_in(executor, make_call(shop.renamed, 4)) == b"5"


def test_an_error_that_cannot_be_pickled_does_not_break_the_pool(executor: Executor) -> None:
    """It comes through as a StepFailed that says the same, and is as final; the next step runs as if nothing was."""
    info = StepInfo(run_id="run-1", uid="uid-1", key="shop:break_down#1", attempt=3)
    with pytest.raises(StepFailed) as caught:
        run_in(executor, make_call(shop.break_down, "unpicklable"), info)
    assert caught.value.type == "tests.authoring.shop.Unpicklable"
    assert caught.value.message == "7: because"
    assert (caught.value.step, caught.value.attempts) == ("shop:break_down#1", 3)
    assert "raise Unpicklable" in caught.value.traceback
    assert not is_retryable(caught.value)
    assert run_in(executor, make_call(shop.renamed, 4)) == b"5"


def test_each_attempt_decodes_its_own_arguments() -> None:
    """Two attempts of one call share nothing that one of them could change for the other."""
    seen: list[shop.Job] = []

    @shop.shop.step(name="spoil")
    def spoil(job: shop.Job) -> int:
        seen.append(job)
        job.n += 1
        return job.n

    call = make_call(spoil, shop.Job(1))
    assert [call.invoke(), call.invoke()] == [2, 2]
    assert seen[0] is not seen[1]


def test_arguments_that_do_not_fit_the_function_any_more_are_said_so() -> None:
    """A parameter whose type changed since the call was recorded fails the step, naming the field."""
    call = make_call(shop.square, shop.Job(1))
    call.arguments = b'{"job":{"n":"one"}}'
    with pytest.raises(InvalidInput, match=r"job\.n"):
        call.invoke()
