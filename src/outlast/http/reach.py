"""How the API reaches runs: by id, for who may see them. Layer: http.

What always holds: one statement finds a run and its owner; who may not see it gets the same answer as for a run that is
not there; and outputs are plain JSON, so that a changed annotation cannot hide them.
"""

# ruff: noqa: SLF001 - the app's engine is this package's own affair

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.core.keys import check_name
from outlast.errors import InvalidSetting, RunConflict, RunNotFound
from outlast.http.paths import quote_segment
from outlast.run.describing import leave_encoded
from outlast.run.handle import Run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from outlast.app import Outlast
    from outlast.engine.engine import Engine
    from outlast.http.route import Call
    from outlast.run.records import AttemptInfo, TimelineItem
    from outlast.stores.store import RunRow

__all__ = [
    "check_visible",
    "engine_of",
    "find_row",
    "find_run",
    "handle_of",
    "iter_items",
    "list_attempts",
    "list_items",
    "run_path",
]


def engine_of(app: Outlast) -> Engine:
    """The open app's. Raises AppNotOpen."""
    return app._here("the HTTP API")


def handle_of(app: Outlast, row: RunRow) -> Run[Any]:
    """A handle that gives outputs as plain JSON."""
    return Run(app._here, row.uid, row.id, row.workflow, None)


async def find_run(call: Call[Any, Any]) -> tuple[Run[Any], RunRow]:
    """The run in the call's path. Raises RunNotFound, also for who may not see it; InvalidName."""
    row = await find_row(call)
    if not call.caller.may_see(row.user):
        raise RunNotFound(call.path["id"])
    return handle_of(call.app, row), row


async def find_row(call: Call[Any, Any]) -> RunRow:
    """The row of the run in the call's path, whoever asks. Raises RunNotFound; InvalidName."""
    name, uid = check_name("run id", call.path["id"]), call.query.uid
    store = engine_of(call.app).store
    row = await store.find_run(name) if uid is None else await store.find_uid(check_name("uid", uid))
    if row is None:
        raise RunNotFound(name)
    if uid is not None and name not in {"-", row.id}:
        raise InvalidSetting("uid", uid, f"a run called {name!r}, or '-' in the path")
    return row


async def list_attempts(run: Run[Any], key: str | None, part: slice) -> list[AttemptInfo]:
    """Part of the history, or of one step's; to be encoded, with values as the journal has them."""
    return await run._list_attempts(key, part, leave_encoded)


async def list_items(run: Run[Any], after: int, limit: int) -> list[TimelineItem]:
    """Part of the timeline, likewise."""
    return await run._list_items(after, limit, leave_encoded)


def iter_items(run: Run[Any], after: int) -> AsyncGenerator[TimelineItem, None]:
    """The timeline as it grows, likewise."""
    return run._iter_items(after, leave_encoded)


async def check_visible(call: Call[Any, Any], name: str | None) -> None:
    """Raises RunConflict for an id that is somebody else's run: that much whoever wants the id has to know of it."""
    row = None if name is None else await engine_of(call.app).store.find_run(check_name("run id", name))
    if row is not None and not call.caller.may_see(row.user):
        raise RunConflict(row.id, "owner")


def run_path(id: str, uid: str) -> str:
    """Where the run is; clients would resolve an id that is all dots, so such a run is named by its uid."""
    return f"/api/v1/runs/-?uid={uid}" if id in {".", ".."} else f"/api/v1/runs/{quote_segment(id)}"
