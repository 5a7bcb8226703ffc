"""Runs that are shared out: limits over all workers, and a part for each group (SPEC Q2). Layer: engine.

A run is of a pool when its workflow or queue has a limit or is to be fair. It has a place in it while a worker owns it,
and gives that back when it is parked. What always holds: nothing of such a run is done without a place, save for a
cancel; and a run that rests while others of its pool or queue are due does not keep its place.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from outlast.authoring.sharing import UNSHARED, find_group
from outlast.engine.books import park
from outlast.engine.tasks.queues import DEFAULT
from outlast.errors import StoreError
from outlast.stores.store import URGENT, RunSharing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import msgspec

    from outlast.authoring.module import Module
    from outlast.authoring.sharing import RunLimits
    from outlast.engine.hot import HotRun
    from outlast.engine.hotruns import HotRuns
    from outlast.engine.tasks.queues import QueueSettings
    from outlast.engine.worker import Worker
    from outlast.stores.store import ClaimedRun, WorkerRow

__all__ = ["Lane", "Place", "Pools", "RunShares", "lane_of"]

CLAIM_AT_MOST = 64
"""A claim reads that many runs of that many groups."""
FIRST_PAUSE_S = 0.02
LAST_PAUSE_S = 1.0
"""Between claims that find no place though runs are due: those that have them may be with other workers."""
OF_QUEUE = "#"
"""Begins the name of the pool that is a queue's: names of workflows have none in them."""


class Lane(NamedTuple):
    """Where runs of a pool wait: what is claimed at once."""

    queue: str
    pool: str


def lane_of(claim: ClaimedRun) -> Lane | None:
    """Where the run has its place; None: it is of no pool."""
    return None if claim.pool is None else Lane(claim.queue, claim.pool)


class Place(NamedTuple):
    """Of what pool a run is, and whom it is for."""

    pool: str
    group: str


class RunShares:
    """What is settled of workflows and queues, by the code at hand."""

    def __init__(self, registry: Module, queues: Mapping[str, QueueSettings]) -> None:
        self._registry = registry
        self._queues = queues

    def list_settings(self) -> list[tuple[str, QueueSettings]]:
        """Of all queues of which something was said."""
        return [*self._queues.items()]

    def limits_of(self, workflow: str) -> RunLimits:
        """What was said of a workflow; of one that is not known here, nothing was."""
        known = self._registry.find_workflow(workflow)
        return UNSHARED if known is None else known.limits

    def is_shared(self, queue: str, workflow: str) -> bool:
        """Whether runs of it in this queue are of a pool."""
        return self._queues.get(queue, DEFAULT).is_shared or self.limits_of(workflow).is_shared

    def find_place(
        self, queue: str, workflow: str, *, user: str | None, attributes: bytes | msgspec.Raw
    ) -> Place | None:
        """The place that such a run is to take; None: it is not shared out. A workflow's own fairness comes before that
        of its queue."""
        limits, settings = self.limits_of(workflow), self._queues.get(queue, DEFAULT)
        if not (limits.is_shared or settings.is_shared):
            return None
        fair_by = limits.fair_by or settings.fair_by
        group = find_group(fair_by, user=user, workflow=workflow, attributes=attributes)
        return Place(workflow if limits.is_shared else OF_QUEUE + queue, group)

    def list_lanes(self, queues: Iterable[str]) -> list[Lane]:
        """Where runs may wait that are shared out."""
        names = [name for name in self._registry.functions() if self.limits_of(name).is_shared]
        shared = {queue for queue in queues if self._queues.get(queue, DEFAULT).is_shared}
        lanes = [Lane(queue, name) for queue in queues for name in names]
        return lanes + [Lane(queue, OF_QUEUE + queue) for queue in queues if queue in shared]

    def share_places(self, one: Lane, other: Lane) -> bool:
        """Whether what has a place in one may keep a run of the other from having any."""
        return one.pool == other.pool or (
            one.queue == other.queue and self._queues.get(one.queue, DEFAULT).limit is not None
        )

    def sharing_of(self, lane: Lane) -> RunSharing:
        """How it is claimed from. Without a limit by now, it still is by itself."""
        return RunSharing(lane.pool, self.limits_of(lane.pool).limit, self._queues.get(lane.queue, DEFAULT).limit)


class _Pause:
    """Of one lane: when it is asked again."""

    def __init__(self) -> None:
        self.misses = 0
        self.until = 0.0


class Pools:
    """What one worker takes from pools, and gives back."""

    def __init__(self, worker: Worker, home: HotRuns, shares: RunShares) -> None:
        self._worker = worker
        self._home = home
        self.shares = shares
        self._known: object = None
        self._lanes: list[Lane] = []
        self._found: list[Lane] = []
        """Lanes in the store that are of interest beside those: see `discover`."""
        self._wanted: set[Lane] = set()
        """Lanes in which runs are due that were given no place: those that have one are not to rest on it."""
        self._pauses: dict[Lane, _Pause] = {}
        self.moving = 0
        """Runs on their way into a pool."""
        self.has_freed = False
        """A place was given back here for which others wait: look at once."""
        self._turn = 0

    # --- what there is to claim ---------------------------------------------------------------------------------------

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """What a look is to tell of."""
        known = (self._home.registry.functions(), self.shares.list_settings())
        if known != self._known:  # asked for at each look
            self._known, self._lanes = known, self.shares.list_lanes(self._worker.settings.queues)
        return (*self._lanes, *self._found) if self._found else tuple(self._lanes)

    async def discover(self, peers: Collection[WorkerRow]) -> None:
        """Look for pools that the code at hand does not speak of: of limits that are no more, or of workflows that no
        live worker knows. They are anybody's. And for those of this worker's runs in queues that it does not serve."""
        queues, known = self._worker.settings.queues, self._home.registry.find_workflow
        mine = set(self.shares.list_lanes(queues))
        self._found = []
        for lane in (Lane(*listed) for listed in await self._home.store.list_pools()):
            if lane.queue not in queues:
                is_wanted = self.shares.limits_of(lane.pool).limit is not None
            else:
                is_left = lane.pool.startswith(OF_QUEUE) or known(lane.pool) is not None
                is_wanted = lane not in mine and (is_left or not any(lane.pool in peer.functions for peer in peers))
            if is_wanted:
                self._found.append(lane)

    def looked(self, due: Collection[tuple[str, str]]) -> None:
        """The worker has looked: in these lanes runs are due."""
        self.has_freed = False
        self._wanted &= {Lane(*lane) for lane in due}

    async def claim(self, due: Collection[tuple[str, str]], *, at_once: bool = False) -> bool:
        """Claim from these lanes; those that had no place lately only with `at_once`. True: it brought something, or
        made runs here give their places up, so there may be more."""
        worker, home, loop = self._worker, self._home, self._home.loop
        lanes = [Lane(*lane) for lane in due]
        self._turn += 1
        first = self._turn % max(len(lanes), 1)
        has_moved = False
        for lane in lanes[first:] + lanes[:first]:
            pause = self._pauses.setdefault(lane, _Pause())
            if lane.queue not in worker.settings.queues:  # for others to claim: what rests here may be in their way
                has_moved = self._yield_places(lane) or has_moved
                continue
            free = min(home.free, CLAIM_AT_MOST)
            if free <= 0 or not worker.is_working:
                break
            if not at_once and loop.time() < pause.until:
                continue
            claiming = worker.claims.claiming(free, (lane.queue,))
            with home.asking():
                claimed = await home.store.claim(claiming, self.shares.sharing_of(lane))
                # CRASH: they have places and nobody works them. The lease lapses, and whoever takes them over has
                # their places. [test_a_limit_holds_when_a_worker_is_killed]
                for claim in claimed:
                    home.claimed(claim, claiming.worker)
            if claimed:
                self._wanted.discard(lane)
                pause.misses, pause.until, has_moved = 0, 0.0, True
            else:
                has_moved = self._miss(lane, pause) or has_moved
        return has_moved

    def _miss(self, lane: Lane, pause: _Pause) -> bool:
        """Runs of the lane are due, and there is no place for them. Whether some here have given theirs up."""
        pause_s = min(FIRST_PAUSE_S * 2**pause.misses, LAST_PAUSE_S)
        pause.misses, pause.until = min(pause.misses + 1, 10), self._home.loop.time() + pause_s
        self._home.loop.call_at(pause.until, self._worker.claims.wake)
        return self._yield_places(lane)

    def _yield_places(self, lane: Lane) -> bool:
        """Runs here that rest give up the places that others want. Whether there were any."""
        self._wanted.add(lane)
        resting = [run for run in self._home.runs_at_rest() if self.must_yield(run) and run.may_park()]
        for run in resting:
            park(run, run.next_due_us())
        return bool(resting)

    # --- places that are given back -----------------------------------------------------------------------------------

    def must_yield(self, run: HotRun) -> bool:
        """Whether others are due for want of a place, and the one of this run would do."""
        mine = run.lane
        return mine is not None and any(self.shares.share_places(mine, other) for other in self._wanted)

    def freed(self, lane: Lane) -> None:
        """A run that had a place has left: who waits may have it now."""
        for other, pause in self._pauses.items():
            if self.shares.share_places(lane, other):
                pause.misses, pause.until = 0, 0.0
                self.has_freed = self.has_freed or other in self._wanted

    # --- runs that were of no pool ------------------------------------------------------------------------------------

    def given(self, claim: ClaimedRun, worker_id: str, *, adopted: int = -1) -> None:
        """This worker was given a run: load it; or, if it was started before its limit was known, put it into its pool,
        from which it takes its turn. `adopted` as for `HotRuns.claimed`."""
        is_here = self._home.find(claim.uid) is not None
        if claim.pool is None and not is_here and self.shares.is_shared(claim.queue, claim.workflow):
            self._home.on_their_way.add(claim.uid)
            self.moving += 1
            with ExitStack() as asked:
                asked.enter_context(self._home.asking())  # from now on: meanwhile it may be adopted, and given up
                self._home.loader.spawn(self._put_in(claim, worker_id, adopted, asked.pop_all()))
        else:
            self._home.claimed(claim, worker_id, adopted=adopted)

    async def _put_in(self, claim: ClaimedRun, worker_id: str, adopted: int, asked: ExitStack) -> None:
        home = self._home
        try:
            with asked:
                row, inbox = await home.store.find_uid(claim.uid), await home.store.read_inbox(claim.uid)
                if row is None or worker_id != home.worker_id:
                    return
                place = self.shares.find_place(row.queue, row.workflow, user=row.user, attributes=row.attributes)
                if place is None or any(message.kind in URGENT for message in inbox.messages):
                    home.claimed(claim, worker_id, adopted=adopted)
                else:
                    await home.store.pool_run(worker_id, claim, *place)
        except StoreError as error:
            home.log.warning("run %s could not be put into its pool: %s", claim.uid, error)  # reconcile finds it
        finally:
            home.on_their_way.discard(claim.uid)
            self.moving -= 1
            self._worker.claims.wake()
