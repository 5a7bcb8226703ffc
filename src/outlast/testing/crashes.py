"""The world stopped at every commit of a run, and taken up again by another worker. Layer: testing.

Each stop has two moments: the commit is lost, or it has landed and nobody was told. What always holds: at every
stop the run ends as it would have ended; no attempt is carried out twice; a step whose success is on record is not
entered again; and nothing in the store is broken that `outlast doctor --verify` would find.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVarTuple, cast

import msgspec

from outlast.core.events import StepSucceeded, decode_events
from outlast.engine.verifying import verify_store
from outlast.errors import RunCancelled, RunFailed
from outlast.stores.memory import MemoryStore
from outlast.stores.store import Store
from outlast.testing.clock import SkippingClock
from outlast.testing.lab import Lab, enter_lab
from outlast.testing.ledger import Ledger
from outlast.testing.mortal import MortalStore

if TYPE_CHECKING:
    from outlast.app import Outlast
    from outlast.run.handle import Run

__all__ = ["Explored", "Place", "explore_crashes", "in_memory"]

Ts = TypeVarTuple("Ts")
Drive = Callable[[Lab, "Run[Any]"], Awaitable[object]]

RUN_ID = "explored"
PATIENCE_S = 30.0
"""Real time for one life."""


class Explored(msgspec.Struct, frozen=True):
    """What `explore_crashes` did."""

    commits: int
    """Of a run that nothing disturbs."""
    stops: int
    """How often the world was stopped. Outcomes that meet share a commit, so it may be less than twice as many."""
    outcome: str
    """How every one of them ended, as text."""


Place = Callable[[SkippingClock], AbstractAsyncContextManager[Callable[[], Store]]]


@asynccontextmanager
async def in_memory(clock: SkippingClock) -> AsyncGenerator[Callable[[], Store]]:
    """An empty store for each stop of the world, in memory; gives what makes handles on it, as processes have them."""
    yield MemoryStore(clock=clock).again


class _World:
    """What outlives a process: the store, the clock, and what was done."""

    def __init__(self, clock: SkippingClock, make_store: Callable[[], Store]) -> None:
        self.clock = clock
        self.make_store = make_store
        self.ledger = Ledger()


async def explore_crashes(
    workflow: Callable[[*Ts], Coroutine[Any, Any, Any]] | str,
    /,
    *input: *Ts,
    app: Outlast,
    drive: Drive | None = None,
    place: Place = in_memory,
) -> Explored:
    """Run the workflow once undisturbed, then once for each of its commits and moments, stopped there and resumed.

    Raises AssertionError, naming the commit, where a promise is broken. `drive(lab, run)` does what others do for the
    run: signals and approvals. It is called again in the second life, as a client would that was not told, so give them
    keys. A result that depends on the time or on chance differs by itself: such a workflow cannot be explored. It may
    have invocation ids in it: which step's, is compared. `place` gives the stores: by default they are in memory.
    """
    start = _Start(app, workflow, input, drive, place)
    async with start.in_world() as world:
        first = MortalStore(world.make_store())
        outcome = await start.live(world, first)
        world.ledger.check(" in a run that nothing disturbed")
    stops = 0
    for number in range(first.commits):
        for landed in (False, True):
            when = f", stopped at commit {number}, which {'landed and nobody was told' if landed else 'was lost'}"
            stops += await start.stop_and_resume(number, landed=landed, expected=outcome, when=when)
    return Explored(first.commits, stops, outcome)


class _Start:
    """One workflow with its input, to be run again and again."""

    def __init__(self, app: Outlast, workflow: Any, input: tuple[Any, ...], drive: Drive | None, place: Place) -> None:
        self._app = app
        self._workflow = workflow
        self._input = input
        self._drive = drive
        self._place = place

    @asynccontextmanager
    async def in_world(self) -> AsyncGenerator[_World]:
        """One with an empty store."""
        clock = SkippingClock()
        async with self._place(clock) as make_store:
            yield _World(clock, make_store)

    async def live(self, world: _World, store: MortalStore) -> str:
        """One life: start the run, or find it, and see it to its end."""
        async with (
            asyncio.timeout(PATIENCE_S),
            enter_lab(self._app, cast(Store, store), world.clock, world.ledger) as lab,
        ):
            return await self._see_through(lab)

    async def _see_through(self, lab: Lab) -> str:
        return _name_invocations(await self._end(lab), lab.ledger)

    async def _end(self, lab: Lab) -> str:
        run = await lab.app.start(self._workflow, *self._input, id=RUN_ID)
        if self._drive is not None:
            await self._drive(lab, run)
        try:
            return f"completed: {await lab.result(run)!r}"
        except RunFailed as error:
            return f"{error.status}: {error.__cause__!r}"
        except RunCancelled as error:
            return f"cancelled: {error}"

    async def stop_and_resume(self, number: int, *, landed: bool, expected: str, when: str) -> bool:
        """One life that ends there, and another that goes on. False: it ended before it came so far."""
        async with self.in_world() as world:
            store = MortalStore(world.make_store(), number, landed=landed)
            async with enter_lab(self._app, cast(Store, store), world.clock, world.ledger) as lab:
                seeing = asyncio.create_task(self._see_through(lab))
                stopping = asyncio.create_task(store.stopped.wait())
                try:
                    async with asyncio.timeout(PATIENCE_S):
                        await asyncio.wait({seeing, stopping}, return_when=asyncio.FIRST_COMPLETED)
                    if not store.stopped.is_set():
                        _compare(await seeing, expected, when)
                        return False
                    await self._resume(world, lab, expected, when)
                finally:
                    seeing.cancel()
                    stopping.cancel()
                    await asyncio.wait({seeing, stopping})
                    store.release()
            world.ledger.check(f"{when}, with its late writes refused")
        return True

    async def _resume(self, world: _World, dead: Lab, expected: str, when: str) -> None:
        assert dead.worker.home is not None
        dead_id = dead.worker.id
        dead.worker.home.abandon_all()  # its steps and bodies stop with it
        await asyncio.sleep(0)
        handle = world.make_store()
        await handle.open()
        try:
            await asyncio.to_thread(handle.renew, dead_id, 0)  # its lease is over now, and no other clock moved for it
            done = await _successes(handle, world.ledger)
            before = len(world.ledger.effects)
            _compare(await self.live(world, MortalStore(world.make_store())), expected, when)
            world.ledger.check(when)
            await _verify(handle, when)
        finally:
            await handle.close()
        for effect in world.ledger.effects[before:]:
            if (effect.run_uid, effect.key) in done:
                raise AssertionError(
                    f"Step {effect.key!r} of run {effect.run_id!r} had succeeded, and was entered again{when}."
                    " Report this as a bug of outlast."
                )


async def _verify(store: Store, when: str) -> None:
    async for problem in verify_store(store):
        raise AssertionError(f"{problem} ({problem.rule}){when}. Report this as a bug of outlast.")


async def _successes(store: Store, ledger: Ledger) -> set[tuple[str, str]]:
    """Steps whose success is on record, of all runs that have done anything."""
    done: set[tuple[str, str]] = set()
    for uid in {effect.run_uid for effect in ledger.effects}:
        for entry in await store.read_journal(uid):
            done |= {(uid, event.key) for event in decode_events(entry.events) if isinstance(event, StepSucceeded)}
    return done


def _name_invocations(outcome: str, ledger: Ledger) -> str:
    """Each world has a run of its own, and so invocation ids of its own: what is the same in all is whose they are."""
    for effect in ledger.effects:
        outcome = outcome.replace(effect.invocation_id, f"<invocation id of {effect.key}>")
    return outcome


def _compare(outcome: str, expected: str, when: str) -> None:
    if outcome != expected:
        raise AssertionError(
            f"The run ended otherwise{when}: {outcome}; undisturbed: {expected}."
            " Look for time, chance or the world read in its body or in its steps."
        )
