"""Carrying out attempts of steps, in this process. Layer: engine.

An attempt comes here when the entry that records it has landed, with a place reserved. It executes in a lane, in a copy
of the context of the body task that called the step, and ends in exactly one call of the run: succeeded, failed, or
settled after the body had given up. What always holds: user code is entered only while the lease is held
(PROTOCOL F6), and a place is given back exactly once.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import functools
import random
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.authoring.codec import encode
from outlast.authoring.current import StepInfo, entered_step
from outlast.authoring.exceptions import encode_error
from outlast.core.durations import format_duration
from outlast.core.events import StepFailed, StepProgressed, StepSucceeded
from outlast.core.retry import judge_failure
from outlast.engine.attempts.lanes import Lanes
from outlast.engine.tasks.carrier import step_trace_of
from outlast.errors import HeartbeatTimeout, InvalidSetting, StepTimeout
from outlast.telemetry.logs import log_outcome_dropped, log_step_failed

if TYPE_CHECKING:
    from outlast.authoring.call import Call
    from outlast.engine.attempts.threads import ThreadPool
    from outlast.engine.hot import HotRun
    from outlast.engine.hotruns import HotRuns
    from outlast.engine.tasks.carrier import Carried, Carrier
    from outlast.telemetry.tracing import AttemptSpan, Tracing

__all__ = ["Attempt", "Stepper"]

PROGRESS_EVERY_US = 1_000_000


class Attempt:
    """One execution of a step."""

    __slots__ = (
        "alarm", "began_at", "call", "info", "key", "number", "progress_at", "pulse", "run", "span", "stepper",
        "stopped", "task",
    )  # fmt: skip

    def __init__(self, stepper: Stepper, run: Carrier, pending: Carried, number: int) -> None:
        self.stepper = stepper
        self.run = run
        self.key = pending.key
        self.call: Call = pending.call  # type: ignore[assignment]  # authoring's calls are the only ones there are
        self.number = number
        self.task: asyncio.Task[None] | None = None
        """In which it executes; None: it has not begun."""
        self.info: StepInfo | None = None
        self.alarm: asyncio.TimerHandle | None = None
        """Rings when it has taken too long."""
        self.pulse: asyncio.TimerHandle | None = None
        """Rings when it has given no sign of life for too long."""
        self.began_at = 0
        self.stopped = ""
        """Why it was told to stop: `cancelled`, `timeout`, `heartbeat` or `lost`."""
        self.progress_at = 0
        self.span: AttemptSpan | None = None

    def step_info(self) -> StepInfo:
        """What `current_step()` gives, in the step and in what outlives it."""
        if self.info is None:
            started, timeout_us = self.run.started, self.call.settings.timeout_us
            assert started is not None
            self.info = StepInfo(
                run_id=started.id,
                uid=self.run.uid,
                key=self.key,
                attempt=self.number,
                max_attempts=self.call.retries + 1,
                user=started.user,
                traceparent=started.trace if self.span is None else self.span.traceparent,
                deadline=None if timeout_us is None else self.began_at + timeout_us,
                compensating_for=self.call.compensates or None,
                on_heartbeat=functools.partial(self.stepper.heartbeat, self),
            )
            if self.stopped:
                self.info.stop(self.stopped)
        return self.info


class _LeaseOver(BaseException):
    """The lease ran out before the step began."""


class Stepper:
    """All attempts that execute in this worker, at most `concurrency` at once."""

    def __init__(
        self, home: HotRuns, *, concurrency: int, threads: ThreadPool, executors: Mapping[str, Executor]
    ) -> None:
        self._home = home
        self._free = concurrency
        self._threads = threads
        self._executors = executors
        self._line: collections.OrderedDict[tuple[HotRun, str], None] = collections.OrderedDict()
        self._attempts: dict[tuple[Carrier, str], Attempt] = {}
        self._lanes = Lanes(home.loop, self._execute)
        self.is_closed = False
        self.on_free: Callable[[], None] | None = None
        """Told, once, of the next place that nobody in line takes."""
        self.tracing: Tracing | None = None
        self.on_begin: Callable[[StepInfo], None] | None = None
        """Told of each attempt as its function is entered: for tests that count effects."""

    # --- places -------------------------------------------------------------------------------------------------------

    def reserve(self) -> bool:
        """Take a place, if one is free and nobody stands in line."""
        if self._free <= 0 or self._line or self.is_closed:
            return False
        self._free -= 1
        return True

    def release(self) -> None:
        """Give a place back; the next in line gets it."""
        self._free += 1
        while self._line and self._free > 0 and not self.is_closed:
            (run, key), _ = self._line.popitem(last=False)
            self._free -= 1
            if not run.give_place(key):
                self._free += 1
        if self.on_free is not None and self._free > 0:
            told, self.on_free = self.on_free, None
            told()

    def stand_in_line(self, run: HotRun, key: str) -> None:
        """The step waits for a place; `give_place` of its run is called when there is one.

        It stands there once, also when its run is loaded again and does not know that it does."""
        self._line[run, key] = None
        if self._free > 0:
            self._free -= 1
            self.release()

    @property
    def executing(self) -> int:
        """How many attempts execute here, or are about to."""
        return len(self._attempts)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def run(self, run: Carrier, pending: Carried, number: int) -> None:
        """Begin the attempt. Its place was reserved."""
        attempt = Attempt(self, run, pending, number)
        self._attempts[run, pending.key] = attempt
        self._lanes.run(attempt, pending.context.copy())

    def cancel(self, run: Carrier, key: str, why: str = "cancelled") -> None:
        """Tell the attempt to stop, if it executes: an async one at once; a thread sees it and goes on to its end."""
        attempt = self._attempts.get((run, key))
        if attempt is not None and not attempt.stopped:
            self._stop(attempt, why)

    def stop_all(self, why: str) -> list[asyncio.Task[None]]:
        """Tell every attempt to stop; gives their tasks, as `tasks` does."""
        for attempt in list(self._attempts.values()):
            if not attempt.stopped:
                self._stop(attempt, why)
        return self.tasks()

    def tasks(self) -> list[asyncio.Task[None]]:
        """Those in which attempts execute; those that were to begin have begun now, and maybe ended."""
        self.begin()
        return [attempt.task for attempt in self._attempts.values() if attempt.task is not None]

    def begin(self) -> None:
        """Let all attempts that were given begin now, up to its first wait; else they do a turn of the loop later."""
        self._lanes.begin()

    def close(self) -> None:
        """No more attempts are to be expected."""
        self._lanes.close()

    def describe(self) -> str:
        """Names the step whose task is current, for warnings about a blocked event loop."""
        task = asyncio.current_task(self._home.loop)
        for attempt in list(self._attempts.values()):
            if attempt.task is task:
                return f"step {attempt.key!r} of run {attempt.run.uid}"
        return "no step"

    def _stop(self, attempt: Attempt, why: str) -> None:
        attempt.stopped = why
        if attempt.info is not None:
            attempt.info.stop(why)
        if attempt.task is not None and (attempt.call.is_async or why != "cancelled"):
            attempt.task.cancel()

    async def _execute(self, attempt: Attempt, task: asyncio.Task[None]) -> None:
        home, call = self._home, attempt.call
        attempt.task = task
        began_at = attempt.began_at = home.clock.now_us()
        if attempt.stopped:
            self._ended(attempt, began_at, None, asyncio.CancelledError())
            return
        if not home.holds_lease():
            self._done(attempt)
            home.lose_lease()
            return
        settings = call.settings
        raw: bytes | None = None
        failure: BaseException | None = None
        try:
            entered_step(attempt)
            if self.tracing is not None or self.on_begin is not None:
                self._tell_of(attempt)
            is_plain = call.is_async and settings.executor is None and not settings.is_limited
            value = await (call.invoke() if is_plain else self._invoke(attempt))
            raw = call.encode_result(value)
        except KeyboardInterrupt as error:
            if call.is_async:
                self._done(attempt)
                raise
            failure = error  # raised in a thread, where no Ctrl-C ever arrives: the step's own
        except GeneratorExit as error:
            if asyncio.current_task(home.loop) is not attempt.task:  # not the step's: a closed loop's task is collected
                self._done(attempt)
                raise
            failure = error
        except _LeaseOver:
            self._done(attempt)
            home.lose_lease()
            return
        except BaseException as error:  # noqa: BLE001 - whatever a step raises, also SystemExit, is its outcome
            failure = error
        # Not in the `except`: the body is moved in here, and what it raises must not have this error as its context.
        if raw is None or attempt.stopped in {"timeout", "heartbeat"}:
            raw, failure = None, self._cause(attempt, failure)
        self._ended(attempt, began_at, raw, failure)
        failure = None  # its traceback holds this frame

    def _tell_of(self, attempt: Attempt) -> None:
        """Its function is entered now."""
        if self.tracing is not None:
            run = attempt.run
            assert run.started is not None
            within = step_trace_of(run, attempt.key)
            attempt.span = self.tracing.begin_attempt(
                run.started, run.uid, attempt.key, attempt.call.function, attempt.number, within=within
            )
        if self.on_begin is not None:
            self.on_begin(attempt.step_info())

    async def _invoke(self, attempt: Attempt) -> Any:
        """Here, in a thread, or in the executor the step names; within its limits."""
        call, settings = attempt.call, attempt.call.settings
        if settings.is_limited and (call.is_async or settings.executor is not None):  # in a thread: once it is there
            self._start_limits(attempt)
        if settings.executor is not None:
            executor = self._executors.get(settings.executor)
            if executor is None:
                known = ", ".join(sorted(self._executors)) or "none"
                raise InvalidSetting(f"executor of step {call.function!r}", settings.executor, f"one of: {known}")
            function, arguments = call.remote()
            return await self._home.loop.run_in_executor(executor, function, *arguments)
        if call.is_async:
            return await call.invoke()
        value = await self._threads.run(contextvars.copy_context(), functools.partial(self._enter, attempt))
        return await value if asyncio.iscoroutine(value) else value  # a closure such as `lambda: client.get(url)`

    def _enter(self, attempt: Attempt) -> Any:
        """In a thread, which may have come late: the lease is looked at once more, and whether anybody still waits."""
        if attempt.stopped:
            raise asyncio.CancelledError
        if not self._home.holds_lease():
            raise _LeaseOver
        if attempt.call.settings.is_limited:  # they count from here: waiting for a thread is not the step's fault
            self._home.loop.call_soon_threadsafe(self._start_limits, attempt)
        return attempt.call.invoke()

    # --- timeouts and heartbeats --------------------------------------------------------------------------------------

    def _start_limits(self, attempt: Attempt) -> None:
        """From now on it may take so long, and be silent for so long."""
        if self._attempts.get((attempt.run, attempt.key)) is not attempt:
            return  # it was quicker
        attempt.began_at = self._home.clock.now_us()
        timeout_us = attempt.call.settings.timeout_us
        if timeout_us is not None:
            attempt.alarm = self._home.loop.call_later(timeout_us / 1e6, self._expire, attempt, "timeout")
        self._expect_heartbeat(attempt)

    def _expire(self, attempt: Attempt, why: str) -> None:
        if not attempt.stopped:
            self._stop(attempt, why)

    def _expect_heartbeat(self, attempt: Attempt) -> None:
        limit_us = attempt.call.settings.heartbeat_timeout_us
        if limit_us is not None:
            if attempt.pulse is not None:
                attempt.pulse.cancel()
            attempt.pulse = self._home.loop.call_later(limit_us / 1e6, self._expire, attempt, "heartbeat")

    def heartbeat(self, attempt: Attempt, progress: object) -> None:
        """Called by the step, from its task or its thread."""
        raw = None if progress is None else encode(progress)
        try:
            is_here = asyncio.get_running_loop() is self._home.loop
        except RuntimeError:
            is_here = False
        if is_here:
            self._beat(attempt, raw)
        else:
            self._home.loop.call_soon_threadsafe(self._beat, attempt, raw)

    def _beat(self, attempt: Attempt, raw: bytes | None) -> None:
        if self._attempts.get((attempt.run, attempt.key)) is not attempt or attempt.stopped:
            return
        self._expect_heartbeat(attempt)
        now = self._home.clock.now_us()
        if raw is not None and now - attempt.progress_at >= PROGRESS_EVERY_US:
            attempt.progress_at = now
            attempt.run.take(StepProgressed(now, attempt.key, attempt.number, msgspec.Raw(raw)))

    def _cause(self, attempt: Attempt, error: BaseException | None) -> BaseException:
        """What the attempt failed with, seen from outside: a limit that passed is the cause of what it led to."""
        settings = attempt.call.settings
        if attempt.stopped == "timeout" and settings.timeout_us is not None:
            failure: BaseException = StepTimeout(attempt.key, attempt.number, format_duration(settings.timeout_us))
        elif attempt.stopped == "heartbeat" and settings.heartbeat_timeout_us is not None:
            failure = HeartbeatTimeout(attempt.key, attempt.number, format_duration(settings.heartbeat_timeout_us))
        else:
            return error or asyncio.CancelledError()
        failure.__cause__ = None if isinstance(error, asyncio.CancelledError) else error
        return failure

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _ended(self, attempt: Attempt, began_at: int, raw: bytes | None, error: BaseException | None) -> None:
        """Report the outcome, then give the place on."""
        # CRASH: the step has run and nobody knows. The lease lapses, a peer takes the run over, and the step runs again
        # under the same invocation id. [test_killed_at[effect-without-outcome]]
        run = attempt.run
        run.running.discard(attempt.key)
        if attempt.span is not None and attempt.stopped != "lost":
            attempt.span.end(error, "succeeded" if raw is not None else attempt.stopped or "failed")
            attempt.span = None
        if attempt.stopped == "lost" or run.is_dropped:
            if run.end is None:
                log_outcome_dropped(self._home.log, run.started, attempt.key, attempt.number)
            self._done(attempt)
            return
        now = run.now_us()
        if raw is not None:
            event: StepSucceeded | StepFailed = StepSucceeded(
                now, attempt.key, attempt.number, msgspec.Raw(raw), began_at
            )
        else:
            assert error is not None
            event = self._failed(attempt, now, began_at, error)
        self._done(attempt)
        run.take(event)

    def _failed(self, attempt: Attempt, now: int, began_at: int, error: BaseException) -> StepFailed:
        run, call = attempt.run, attempt.call
        retry_at = None
        if attempt.stopped != "cancelled":
            step = run.steps.get(attempt.key)
            used = attempt.number if step is None else step.used
            delay, error = judge_failure(call.settings.policy, used, error, random.random)
            retry_at = None if delay is None else now + delay
        record = encode_error(error)
        if attempt.stopped != "cancelled":  # what its body gave up is no failure
            will_retry = retry_at is not None
            log_step_failed(run.started, attempt.key, attempt.number, record, will_retry=will_retry)
        return StepFailed(now, attempt.key, attempt.number, record, began_at, retry_at)

    def _done(self, attempt: Attempt) -> None:
        if attempt.alarm is not None:
            attempt.alarm.cancel()
        if attempt.pulse is not None:
            attempt.pulse.cancel()
        if self._attempts.get((attempt.run, attempt.key)) is attempt:
            del self._attempts[attempt.run, attempt.key]
        if attempt.span is not None:
            attempt.span.end(None, "dropped")
            attempt.span = None
        attempt.task = attempt.info = None  # both lead back here: it would be garbage that only a collector finds
        self.release()
