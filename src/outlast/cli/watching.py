"""Working one run in this process, watched until it ends, is suspended, or is left. Layer: cli. For `run` and `retry`.

What always holds: however the watching ends, the run is kept, and what this process held of it is handed back; what is
said about it last tells how to go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from outlast.app import Outlast
from outlast.cli.exits import ExitCode, exit_code_of_run
from outlast.cli.output import STYLES, Output, show_duration, show_error, show_value
from outlast.cli.progress import View, make_view
from outlast.cli.stopping import Stopping
from outlast.cli.store_choice import command_line
from outlast.core.durations import parse_duration
from outlast.core.states import RunStatus
from outlast.core.timeline import Kind
from outlast.core.waits.events import WaitKind
from outlast.engine.worker import Worker
from outlast.run import Run, RunInfo, TimelineItem, WaitInfo

__all__ = ["Watch", "no_wait_option", "stop_steps", "work_run"]

no_wait_option = click.option(
    "--no-wait", is_flag=True, help="Leave the run once it waits for somebody to answer (exit 4); it is kept."
)

OTHERS_GRACE = "30s"
"""As a worker's: it is one, for the time the run takes."""
SETTLE_S = 1.0
"""How long a suspension may last before it is taken for one: a worker that comes with the missing code lifts it. And a
wait, before it is said who can end it: the answer may be there already."""
A_MOMENT = timedelta(seconds=5)
"""Nobody answers in less: it is not said how, of a wait that is over by then."""


class _End(enum.Enum):
    """Why the watching ended."""

    ENDED = enum.auto()
    """Or suspended: the run's status says it."""
    WAITS = enum.auto()
    """For somebody, and was not to be waited for."""
    TIMED_OUT = enum.auto()
    INTERRUPTED = enum.auto()


@dataclass
class Watch:
    """What is to be watched, and how."""

    app: Outlast
    output: Output
    begin: Callable[[], Awaitable[Run[Any]]]
    """Starts the run, or finds it, once the app is open."""
    timeout: str | None
    grace: str
    """How long running steps may go on when this process leaves before the run has ended."""
    go_on: Callable[[str], str]
    """The command that goes on with the run of this id."""
    waits: bool = True
    """For people and other programs; else the run is left once nothing but an answer of theirs lets it go on."""


async def work_run(watch: Watch, stopping: Stopping) -> ExitCode:
    """Work the run here. Raises what `begin` raises; and what the store raises."""
    main = asyncio.current_task()
    assert main is not None
    stopping.on_first = main.cancel  # type: ignore[assignment]
    try:
        async with watch.app.worker() as worker:
            stopping.hurry = lambda: stop_steps(worker)
            worker.on_asked = stopping.take_once
            return await _watch(watch, stopping, worker)
    except asyncio.CancelledError:
        if not stopping.is_asked:
            raise
        main.uncancel()
        watch.output.note("Interrupted before the run was started.")
        return ExitCode.INTERRUPTED


async def _watch(watch: Watch, stopping: Stopping, worker: Worker) -> ExitCode:
    main = asyncio.current_task()
    run: Run[Any] | None = None
    end, watcher = _End.ENDED, _Watcher(watch)
    timeout_s = None if watch.timeout is None else parse_duration(watch.timeout) / 1_000_000
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            run = await watch.begin()
            stopping.is_opening = False
            await _tell_holder(watch, run, worker)
            following: Run[Any] | None = run
            while following is not None:
                run = following
                await watcher.follow(run, make_view(watch.output, f"{run.workflow}  {run.id}"))
                if watcher.is_left:
                    end = _End.WAITS
                    break
                following = await _find_next_round(watch.app, run)
    except TimeoutError:
        if not limit.expired():
            raise
        end = _End.TIMED_OUT
    except asyncio.CancelledError:
        if not stopping.is_asked or run is None:
            raise
        assert main is not None
        main.uncancel()
        end = _End.INTERRUPTED
    finally:  # from here on, asking to stop means not to wait: handing back must not be cut short
        stopping.on_first = lambda: stop_steps(worker)
    if run is None:
        watch.output.note(f"The run could not be started within {watch.timeout}.")
        return ExitCode.WAITING
    code = _tell_end(watch, await run.status(), end, watcher.suspension)
    await _leave(watch, worker, watch.grace if end is not _End.ENDED else OTHERS_GRACE)
    return code


async def _find_next_round(app: Outlast, run: Run[Any]) -> Run[Any] | None:
    """The run as it went on, if it did (`ctx.continue_as_new`)."""
    return None if (await run.status()).continued_as is None else await app.get_run(run.id)


async def _tell_holder(watch: Watch, run: Run[Any], worker: Worker) -> None:
    """Say why nothing moves for a while, when the process that held the run was killed and its lease goes on."""
    row = await watch.app._store.find_uid(run.uid)  # noqa: SLF001 - whose a run is, is no business of programs
    if row is None or row.owner in {None, worker.id}:
        return
    for holder in await watch.app.workers():
        if holder.id == row.owner and holder.is_alive:
            left = max(holder.expires_at - datetime.now(UTC), timedelta(0))
            watch.output.note(
                f"Run {run.id} is held by worker {holder.id} ({holder.host}, pid {holder.pid}). "
                f"If that is dead, it is taken over when its lease lapses, in {show_duration(left)}."
            )


async def _leave(watch: Watch, worker: Worker, grace: str) -> None:
    """Hand back what is held. This worker may have taken other runs that were due: their steps are not cut off, unless
    the user wants to leave.
    """
    executing = worker.home.stepper.executing if worker.home is not None else 0
    if executing:
        steps = "1 step" if executing == 1 else f"{executing} steps"
        watch.output.note(f"Letting {steps} go on for up to {grace}; Ctrl-C stops now.")
    await worker.drain(parse_duration(grace) / 1_000_000)


def stop_steps(worker: Worker) -> None:
    """Give up the steps that execute here, so that a drain under way need not wait for them."""
    if worker.home is not None:
        worker.home.stepper.stop_all("lost")


class _Watcher:
    """Follows a run's events."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.suspension: TimelineItem | None = None
        self.is_left = False
        """The run waits for somebody, and nobody here waits for that."""
        self._may_rest = asyncio.Event()
        """It may be that the run does not go on by itself."""
        self._is_suspended = False
        self._has_waited = False
        self._told: set[str] = set()
        """Waits of which was said how they are answered."""

    async def follow(self, run: Run[Any], view: View) -> None:
        """Until the run has ended, stays suspended, or is not to be waited for."""
        with view.showing():
            reader = asyncio.create_task(self._read(run, view))
            try:
                while not reader.done():
                    await self._until_it_may_rest(reader)
                    if not reader.done():
                        await asyncio.wait({reader}, timeout=SETTLE_S)
                    if self._may_rest.is_set() and self._is_over(await run.status()):
                        return
            finally:
                reader.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reader

    def _is_over(self, info: RunInfo) -> bool:
        """Whether to watch no longer. Says of what waits for somebody how it is answered, once."""
        if self._is_suspended:
            return info.status is RunStatus.SUSPENDED
        self._may_rest.clear()  # until something else happens
        if not _waits_for_somebody(info):
            return False
        self.is_left = not self._watch.waits
        soon = datetime.now(UTC) + A_MOMENT
        lasting = [wait for wait in info.waits if wait.until is None or wait.until > soon]
        new = [wait for wait in lasting if wait.key not in self._told]
        if new and not self.is_left:
            self._told.update(wait.key for wait in new)
            self._watch.output.note(f"Run {info.id} waits for somebody: {info.waiting_on}")
            for wait in new:
                self._watch.output.note(f"  Answer it: {_answer(info.id, wait, self._watch.app.url)}")
        return self.is_left

    async def _until_it_may_rest(self, reader: asyncio.Task[None]) -> None:
        rests = asyncio.create_task(self._may_rest.wait())
        try:
            await asyncio.wait({reader, rests}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            rests.cancel()

    async def _read(self, run: Run[Any], view: View) -> None:
        async for item in run.events():
            view.take(item)
            if item.step is None and item.kind is Kind.SUSPENDED:
                self.suspension = item
                self._is_suspended = True
            elif item.step is None and item.kind in {Kind.RESUMED, Kind.CANCEL_REQUESTED}:
                self._is_suspended = False
            self._has_waited = self._has_waited or item.kind is Kind.WAITING
            if self._is_suspended or self._has_waited:  # else it is not asked how it stands: that reads its journal
                self._may_rest.set()


def _waits_for_somebody(info: RunInfo) -> bool:
    """No step of it goes on, and somebody can answer."""
    return info.waiting_on.partition(" ")[0] in {wait.kind for wait in info.waits}


def _answer(run_id: str, wait: WaitInfo, url: str) -> str:
    """The command that answers."""
    if wait.kind is WaitKind.GATE:
        return command_line("resume", run_id, "--reason", wait.key, url=url)
    if wait.kind is WaitKind.SIGNAL:
        return command_line("signal", run_id, wait.name, "--value", "JSON", url=url)
    return command_line("approve", run_id, wait.key, "--value", "JSON", "--by", "USER", url=url)


# --- the last word ----------------------------------------------------------------------------------------------------


def _tell_end(watch: Watch, info: RunInfo, end: _End, suspension: TimelineItem | None) -> ExitCode:
    output, url = watch.output, watch.app.url
    output.emit(info)
    if end is _End.ENDED or info.status in {RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED}:
        _tell_status(output, info, url, suspension)
        return exit_code_of_run(info)
    waits = f", waiting on {info.waiting_on}" if info.waiting_on else ""
    if end is _End.WAITS:
        output.note(f"Not waited for: run {info.id} is {info.status}{waits}. It is kept.")
        for wait in info.waits:
            output.note(f"  Answer it: {_answer(info.id, wait, url)}")
    elif end is _End.TIMED_OUT:
        output.note(f"Run {info.id} has not ended within {watch.timeout}: it is {info.status}{waits}. It is kept.")
    else:
        output.note(f"Interrupted: run {info.id} is {info.status}{waits}. It is kept.")
    output.note(f"  Go on with it: {watch.go_on(info.id)}")
    return ExitCode.INTERRUPTED if end is _End.INTERRUPTED else ExitCode.WAITING


def _tell_status(output: Output, info: RunInfo, url: str, suspension: TimelineItem | None) -> None:
    took = info.finished_at - info.started_at if info.finished_at and info.started_at else None
    tail = f" in {show_duration(max(took, timedelta(0)))}" if took is not None else ""
    output.say(f"Run {info.id} is {info.status}{tail}", style=STYLES.get(info.status))
    match info.status:
        case RunStatus.COMPLETED:
            if not output.as_json:
                output.say(show_value(info.output))
        case RunStatus.SUSPENDED:
            _tell_suspension(output, info, url, suspension)
        case RunStatus.CANCELLED:
            if info.error is not None:
                output.note(show_error(info.error))
        case _ if info.error is not None:
            output.note(info.error.traceback.rstrip() or show_error(info.error))
            output.note(f"  See all attempts: {command_line('show', info.id, url=url)}")
            if info.status is RunStatus.FAILED:
                output.note(f"  Go on from the failure: {command_line('retry', info.id, url=url)}")
        case _:
            pass


def _tell_suspension(output: Output, info: RunInfo, url: str, suspension: TimelineItem | None) -> None:
    detail = suspension.detail if suspension is not None else ""
    output.note(f"{info.waiting_on}: {detail}" if detail else info.waiting_on)
    output.note(f"  Put it right, then: {command_line('resume', info.id, url=url)}")
