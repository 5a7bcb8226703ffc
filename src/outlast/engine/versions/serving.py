"""What a run that was loaded goes on with: the code at hand, or the stored plan of its version. Layer: engine.

The journal is replayed against the code. If it does not fit, and the run is of another version, the run is left to a
live worker of that version; else its stored plan is tried; else it is set aside for a person or a deploy (SPEC V3, V4).
What always holds: nothing is fed to a body whose commands so far were not those on record, and what a run goes on with
is on record before it goes on.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from outlast.authoring.exceptions import encode_error
from outlast.authoring.workflow import RunFacts, Workflow
from outlast.core.events import CancelRequested, Event, RunFailed, RunStarted, VersionTaken
from outlast.core.machine import Body as Runner
from outlast.core.machine import Machine, Unwinder
from outlast.core.replay import Replay
from outlast.engine import books, thinking
from outlast.engine.messages.ended import look_for_ended_children
from outlast.errors import BodyStopped, NonDeterminism, VersionConflict, VersionNotFound

if TYPE_CHECKING:
    from outlast.authoring.module import Module
    from outlast.core.reopening import Reopening
    from outlast.core.unwinding import Undoable
    from outlast.engine.draft import Draft
    from outlast.engine.hot import HotRun
    from outlast.engine.hotruns import HotRuns
    from outlast.engine.versions.keeping import VersionKeeper

__all__ = ["CONFLICT", "CONFLICTS", "Body", "Server", "build_machine", "find_release", "find_version", "python_version"]

TURN: Final = 1000
"""Stimuli after which a long replay gives the host a turn."""
CONFLICT: Final = VersionConflict.code
CONFLICTS: Final = frozenset({CONFLICT, VersionNotFound.code})
"""Codes of runs that another deploy may be able to go on with."""

Events: TypeAlias = "Sequence[Event | Reopening]"
Gone: TypeAlias = "Sequence[tuple[str, int]]"


class Body(Protocol):
    """What a machine runs: a workflow's code, or a stored plan."""

    async def run_body(self, machine: Machine, facts: RunFacts) -> bytes:
        """The coroutine of a run: gives the output as JSON."""
        ...

    async def run_unwind(self, machine: Machine, facts: RunFacts, undoables: list[Undoable]) -> tuple[str, ...]:
        """The coroutine that undoes what the run did."""
        ...


class Server:
    """Replays runs, for one worker."""

    def __init__(self, home: HotRuns, versions: VersionKeeper) -> None:
        self._home = home
        self._versions = versions
        self._runners: dict[Workflow[..., object], tuple[Runner, Unwinder]] = {}

    def build(self, started: RunStarted, body: Body) -> Machine:
        """A machine for this run. Nothing of its body has run."""
        home = self._home
        if not isinstance(body, Workflow):
            return build_machine(started, body, home.registry, home.log, dev=home.dev)
        known = self._runners.get(body)
        if known is None:  # made once: a run starts quicker, and takes less memory
            known = self._runners[body] = _runners_of(body, home.registry, home.log)
        return Machine(started, known[0], encode_error, unwinder=known[1], dev=home.dev)

    async def serve(
        self,
        run: HotRun,
        workflow: Workflow[..., object],
        taken: VersionTaken,
        events: Events,
        draft: Draft,
        gone: Gone,
    ) -> None:
        """Replay a run, and let it go on, or set it aside. `taken` is what it went on with last, `gone` are attempts on
        queues of which nothing is left."""
        if run.is_dropped:
            return
        replay = await self._replay(run, workflow, events, draft)
        if isinstance(replay, NonDeterminism):
            if taken.version != workflow.version:
                await self._serve_otherwise(run, workflow, taken, events, draft, gone, replay)
            else:
                self._left_journal(run, draft, replay)
        elif replay is not None:
            if taken.version != workflow.version:
                draft.events.append(VersionTaken(run.now_us(), workflow.version, "code", self._home.deploy))
            self._go_on(run, draft, replay, gone)

    async def _serve_otherwise(
        self,
        run: HotRun,
        workflow: Workflow[..., object],
        taken: VersionTaken,
        events: Events,
        draft: Draft,
        gone: Gone,
        difference: NonDeterminism,
    ) -> None:
        """The code at hand does not fit a run of another version."""
        home = self._home
        served = f"{workflow.name}#{taken.version}"
        is_served = any(served in peer.versions and peer.deploy != home.deploy for peer in home.peers)
        if is_served and not run.suspended:  # its own version may have set it aside: that is no way out
            run.leave(draft, home.deploy)
            self._end(run, draft)
            return
        stored = await self._versions.find_stored(workflow, taken.version)
        if run.is_dropped:
            return
        problem = stored.problem
        if stored.body is not None:
            run.evict()
            replay = await self._replay(run, stored.body, events, draft)
            if isinstance(replay, Replay):
                if taken.source != "plan":
                    draft.events.append(VersionTaken(run.now_us(), taken.version, "plan", home.deploy))
                self._go_on(run, draft, replay, gone)
                return
            if replay is None:
                return
            problem = _why_not(run.machine, replay)
        known = stored.is_known
        self._set_aside(run, draft, taken.version, workflow.version, difference, problem, is_known=known)

    # --- replaying ----------------------------------------------------------------------------------------------------

    async def _replay(self, run: HotRun, body: Body, events: Events, draft: Draft) -> Replay | NonDeterminism | None:
        """The replay, or where it parts from the journal. None: the run is not ours any more, or is set aside."""
        assert run.started is not None
        machine = run.machine = self.build(run.started, body)
        try:
            replay = Replay(machine, events)
            while self._feed(run, replay):
                await asyncio.sleep(0)
                if run.is_dropped:
                    return None
        except NonDeterminism as error:
            if machine.missing is None or not isinstance(body, Workflow):
                return error
            # A body that has called what is not known here asks for nothing more. Whoever wrote the journal knows it.
            self._home.lacks_function(run, draft, machine.missing)
            self._end(run, draft)
            return None
        except BodyStopped as error:
            run.suspend(draft, error.code, str(error))
            self._end(run, draft)
            return None
        except (KeyboardInterrupt, MemoryError):
            self._home.abandon(run)
            raise
        return replay

    def _feed(self, run: HotRun, replay: Replay) -> bool:
        watchdog = self._home.watchdog
        watchdog.drain_began(run.uid, None if run.machine is None else run.machine.loop)
        try:
            return replay.advance(TURN)
        finally:
            watchdog.drain_ended()

    def _go_on(self, run: HotRun, draft: Draft, replay: Replay, gone: Gone) -> None:
        """It fits. What it goes on with is on record together with what it asks for next."""
        assert run.machine is not None
        if run.suspended:
            run.resume(draft)
        books.judge_open(run, run.machine, draft, gone)
        run.is_loading = False
        if not run.is_dropped:
            if run.is_retried:
                look_for_ended_children(run)
            run.go_on(draft, replay.finish())

    # --- setting aside ------------------------------------------------------------------------------------------------

    def _end(self, run: HotRun, draft: Draft) -> None:
        run.is_loading = False
        if not run.is_dropped:
            run.go_on(draft, [])

    def _left_journal(self, run: HotRun, draft: Draft, error: NonDeterminism) -> None:
        """The code is of the run's own version, and does not fit: a person must act."""
        code, detail = error.code, _other_python(run).rstrip()
        if detail:
            code, run.unfit = CONFLICT, self._home.deploy  # which names the Python
        if not self._stays_aside(run, draft, code):
            run.suspend(draft, code, str(error), detail)
        self._end(run, draft)

    def _set_aside(
        self,
        run: HotRun,
        draft: Draft,
        recorded: str,
        found: str,
        difference: NonDeterminism,
        problem: str,
        *,
        is_known: bool,
    ) -> None:
        """Nothing here can go on with it: a person or a deploy must act, or it fails, if the app says so."""
        home = self._home
        run.unfit = home.deploy
        code = CONFLICT if is_known else VersionNotFound.code
        reason = (
            f"The code (version {found}) does not fit this run (version {recorded}), {difference.at}. {problem}. "
            f"{_other_python(run)}It goes on when a worker of its version, or of one that fits, comes.\n"
            f"{_side_by_side(recorded, found, difference)}"
        )
        is_cancelled = any(isinstance(event, CancelRequested) for event in run.queue)
        if self._versions.fails_on_conflict and not is_cancelled:
            run.evict()
            thinking.record(run, draft)
            error = VersionConflict(difference.id, recorded, found, reason)
            draft.events.append(RunFailed(encode_error(error)))
        elif not self._stays_aside(run, draft, code):
            run.suspend(draft, code, reason)
        self._end(run, draft)

    def _stays_aside(self, run: HotRun, draft: Draft, code: str) -> bool:
        """It was aside for the same before, and nothing new is to be said."""
        if run.suspended != code or any(isinstance(event, CancelRequested) for event in run.queue):
            return False
        run.evict()
        thinking.record(run, draft)
        return True


def build_machine(started: RunStarted, body: Body, registry: Module, log: logging.Logger, *, dev: bool) -> Machine:
    """A machine for a run. Nothing of its body has run."""
    runner, unwinder = _runners_of(body, registry, log)
    return Machine(started, runner, encode_error, unwinder=unwinder, dev=dev)


def _runners_of(body: Body, registry: Module, log: logging.Logger) -> tuple[Runner, Unwinder]:
    facts = RunFacts(registry=registry, log=log)
    return (
        lambda machine: body.run_body(machine, facts),
        lambda machine, undoables: body.run_unwind(machine, facts, undoables),
    )


def find_version(events: Sequence[Event]) -> VersionTaken:
    """What a run went on with last, as its journal says."""
    started = events[0]
    assert isinstance(started, RunStarted)
    for event in reversed(events):
        if type(event) is VersionTaken:
            return event
    return VersionTaken(started.at, started.version)


def _why_not(machine: Machine | None, difference: NonDeterminism) -> str:
    """Why a stored plan does not fit its own run."""
    if machine is not None and machine.missing is not None:
        return f"Its stored plan needs {machine.missing!r}, which nobody here knows"
    if machine is not None and machine.halted is not None:
        return f"Its stored plan cannot be carried out: {machine.halted}"
    return f"Its stored plan does not fit either, {difference.at}: it asks for {difference.asked}"


def _other_python(run: HotRun) -> str:
    """Said where another Python may be the reason."""
    recorded, here = run.started.python if run.started else "", python_version()
    return "" if recorded == here else f"The run was recorded on Python {recorded}, this is {here}. "


def _side_by_side(recorded: str, found: str, difference: NonDeterminism) -> str:
    journal, code = f"the journal (version {recorded})", f"the code (version {found})"
    width = max(len(journal), len(code))
    return f"{difference.at}\n  {journal:{width}}  {difference.recorded}\n  {code:{width}}  {difference.asked}"


def python_version() -> str:
    """`3.11` and the like."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@functools.cache
def find_release() -> str:
    """Of outlast itself; empty in a work tree that was not installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and nobody's concern but a worker's

    try:
        return version("outlast")
    except PackageNotFoundError:
        return ""
