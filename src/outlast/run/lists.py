"""What there is in a store: runs, open waits, queues; and how long what has ended is kept. Layer: run.

What always holds: a list is read in pages, each one statement, that go on from a row and not from a number: rows that
come and go meanwhile make no row come twice, and hide none.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from outlast.authoring.workflow import Workflow
from outlast.core.durations import Duration, parse_duration
from outlast.run.describing import describe_queues, describe_wait_row, summarize_run
from outlast.run.options import (
    Attributes,
    check_ended,
    check_query,
    check_waits,
    cursor_of,
    wait_cursor_of,
)
from outlast.run.records import QueueInfo, RunPage, WaitPage

if TYPE_CHECKING:
    from outlast.engine.engine import Engine
    from outlast.mirrors.catching_up import CaughtUp
    from outlast.mirrors.mirror import MirrorInfo
    from outlast.run.mirroring import Mirroring
    from outlast.run.telemetry import Telemetry

__all__ = ["Lists"]

PRUNE_AT_ONCE = 500


class Lists:
    """The part of an app that lists."""

    _telemetry: Telemetry
    _mirroring: Mirroring

    def _here(self, call: str) -> Engine:
        """The engine. Raises AppNotOpen."""
        raise NotImplementedError

    async def runs(
        self,
        *,
        workflow: str | Workflow[..., Any] | None = None,
        status: str | Iterable[str] | None = None,
        waiting_on: str | None = None,
        user: str | None = None,
        parent: str | None = None,
        worker: str | None = None,
        created_from: datetime | None = None,
        created_until: datetime | None = None,
        attributes: Attributes | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> RunPage:
        """Runs that fit all filters, newest first; the next page is `app.runs(…, after=page.next)`.

        `waiting_on` may end with `*`; `parent` is a uid; `worker` the id of one that holds them now; `created_until` is
        exclusive; of the `attributes` named, all must be equal. It reads rows: a hot run is `running` there.
        """
        engine = self._here("app.runs()")
        query = check_query(
            workflow=workflow.name if isinstance(workflow, Workflow) else workflow,
            status=status,
            waiting_on=waiting_on,
            user=user,
            parent=parent,
            worker=worker,
            created_from=created_from,
            created_until=created_until,
            attributes=attributes,
            after=after,
            limit=limit,
        )
        rows = await engine.store.list_runs(query)
        page = rows[:limit]
        return RunPage(tuple(map(summarize_run, page)), cursor_of(page[-1]) if len(rows) > limit else None)

    async def prune(self, older_than: Duration, statuses: str | Iterable[str] | None = None) -> int:
        """Delete runs that ended longer ago than this, of these statuses or all; gives how many.

        In batches, each a short transaction of its own: other work goes on between.
        """
        store = self._here("app.prune()").store
        ended, age_us = check_ended(statuses), parse_duration(older_than)
        before, count = await store.now() - age_us, 0
        while deleted := await store.prune(ended, before, PRUNE_AT_ONCE):
            count += deleted
        return count

    async def queues(self) -> list[QueueInfo]:
        """The queues that something stands in or that a live worker serves: what waits, for how long, who serves it.

        It counts all that is due or held: for people and metrics, not for every second."""
        engine = self._here("app.queues()")
        rows, workers = await engine.store.list_queues(), await engine.store.list_workers()
        return describe_queues(rows, workers, engine.queues, await engine.store.now())

    async def waits(
        self,
        *,
        kind: str | None = None,
        name: str | None = None,
        workflow: str | Workflow[..., Any] | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> WaitPage:
        """What runs wait for that somebody can answer, longest first; the next page is `app.waits(…, after=page.next)`.

        `kind` is `signal`, `gate` or `approval`; `name` what the body calls it: of an approval its key, if it has one.
        """
        query = check_waits(
            kind=kind,
            name=name,
            workflow=workflow.name if isinstance(workflow, Workflow) else workflow,
            after=after,
            limit=limit,
        )
        rows = await self._here("app.waits()").store.list_waits(query)
        page = rows[:limit]
        return WaitPage(tuple(map(describe_wait_row, page)), wait_cursor_of(page[-1]) if len(rows) > limit else None)

    async def metrics_text(self) -> str:
        """Metrics of this process and its store, as Prometheus reads them: for a route `/metrics`.

        Counters count from the first call on: a process that nobody asks counts nothing.
        """
        return await self._telemetry.render(self._here("app.metrics_text()"))

    def mirrors(self) -> list[MirrorInfo]:
        """How the mirrors of this process are doing."""
        return self._mirroring.list()

    async def mirror_catch_up(self) -> dict[str, CaughtUp]:
        """Copy to each mirror what it misses of the store's journals; gives what was done, by its name.

        For what was dropped, and what processes that died had put on record. Raises what a mirror or the store raises:
        call it again then, as often as you like.
        """
        return await self._mirroring.catch_up(self._here("app.mirror_catch_up()").store)
