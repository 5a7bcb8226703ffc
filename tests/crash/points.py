"""Crash points: named places between two durable effects, at which a worker process can be told to die.

The product has no hooks for this. A point wraps one function of the engine or the store in the worker's own process and
kills it with SIGKILL on the n-th passing, before or behind that function: nothing is flushed, no `finally` runs.

A process can be frozen there instead. One frozen inside a write holds the file, and with it everybody, until it thaws;
so a point on one thread waits until no other is inside a write. Only a point inside the write itself freezes it there.
"""

from __future__ import annotations

import functools
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import outlast.engine.books
import outlast.engine.mail
import outlast.engine.messages.children
import outlast.engine.tasks.outcomes
import outlast.stores.sqlite.connection
import outlast.stores.sqlite.effects
import outlast.stores.sqlite.migrate
import outlast.stores.sqlite.store
import outlast.stores.sqlite.workers
from outlast.authoring.call import Call
from outlast.core.events import (
    OUTCOMES,
    RunCompensated,
    RunCompleted,
    StepStarted,
    StepSucceeded,
    TimerFired,
    UnwindStarted,
)
from outlast.core.machine import Machine
from outlast.core.replay import Replay
from outlast.engine.attempts.stepper import Stepper
from outlast.engine.draft import Draft
from outlast.engine.engine import Engine
from outlast.engine.hot import HotRun
from outlast.engine.hotruns import HotRuns
from outlast.engine.loading import Loader
from outlast.engine.starting import Starter
from outlast.engine.tasks.held import HeldTask
from outlast.engine.tasks.taking import TaskTaker
from outlast.engine.versions.keeping import VersionKeeper
from outlast.engine.worker import Worker
from outlast.engine.writer import Writer
from outlast.stores.sqlite import SqliteStore
from tests.crash.homes import connect_plainly
from tests.crash.ledger import AppendFile

__all__ = ["POINTS", "Point", "install"]


class Point(NamedTuple):
    """Where: before or behind a function, when its arguments fit."""

    owner: Any
    function: str
    behind: bool = False
    fits: Callable[..., bool] = lambda *_, **__: True
    needs: str = ""
    """What has to happen for it to be passed, if steps that go well are not enough: see test_points.py."""


def _has(*kinds: type) -> Callable[..., bool]:
    """A draft with such an event."""
    return lambda _, draft, *__: any(isinstance(event, kinds) for event in draft.events)


def _undoes(_: object, draft: Draft, *__: object) -> bool:
    """A draft that begins to undo a step."""
    return any(isinstance(event, StepStarted) and event.compensates for event in draft.events)


def _goes_on(_: object, draft: Draft, *__: object) -> bool:
    """A draft that ends a round."""
    return any(isinstance(event, RunCompleted) and event.next for event in draft.events)


def _sql(*beginnings: str) -> Callable[..., bool]:
    return lambda _, sql, *__: sql.lstrip().startswith(beginnings)


def _carries(events: bool) -> Callable[..., bool]:
    return lambda _, __, batch: any(bool(part.events) is events for part in batch)


class _Connection(sqlite3.Connection):
    """Every connection of a worker that is to die, so that the moments around COMMIT have a name.

    Its thread has `writing` while it executes a statement, and from BEGIN to the end of the transaction: whoever else
    gets it knows that this process holds no lock of the file's."""

    writing = threading.RLock()
    _is_open = False

    def execute(self, *args: Any) -> sqlite3.Cursor:
        if not self._is_open:
            self.writing.acquire()
        try:
            return super().execute(*args)
        finally:
            self._is_open = self.in_transaction
            if not self._is_open:
                self.writing.release()

    def close(self) -> None:
        super().close()
        if self._is_open:
            self._is_open = False
            self.writing.release()


POINTS: dict[str, Point] = {
    # A start: the row and entry 0, and the answer to whoever asked.
    "before-start": Point(Engine, "start"),
    "version-kept": Point(VersionKeeper, "keep", behind=True),
    "started-and-not-told": Point(Starter, "_try_start", behind=True),
    # A commit, from the engine down to the file and back.
    "thought-and-not-submitted": Point(HotRun, "submit"),
    "end-not-submitted": Point(HotRun, "submit", fits=_has(*OUTCOMES)),
    "outcome-not-submitted": Point(HotRun, "submit", fits=_has(StepSucceeded)),
    "timer-not-submitted": Point(HotRun, "submit", fits=_has(TimerFired)),
    "before-commit": Point(SqliteStore, "commit", fits=_carries(events=True)),
    "before-write": Point(_Connection, "execute", fits=_sql("insert into journal")),
    "in-transaction": Point(_Connection, "execute", fits=_sql("commit")),
    "in-transaction-begun": Point(_Connection, "execute", behind=True, fits=_sql("begin immediate")),
    "transaction-done": Point(_Connection, "execute", behind=True, fits=_sql("commit")),
    "after-write": Point(_Connection, "execute", behind=True, fits=_sql("insert into journal")),
    "committed-and-not-told": Point(SqliteStore, "commit", behind=True, fits=_carries(events=True)),
    "told-and-not-acted": Point(Draft, "act"),
    "acted": Point(Draft, "act", behind=True),
    "ended-and-not-told": Point(HotRuns, "ended"),
    # A step.
    "before-step": Point(Stepper, "_execute"),
    "before-user-code": Point(Call, "invoke"),
    "effect-without-outcome": Point(Stepper, "_ended"),
    "result-encoded": Point(Call, "encode_result", behind=True),
    "failed-attempt": Point(Stepper, "_failed", behind=True),
    "retry-due": Point(HotRun, "want_place"),
    "place-given": Point(HotRun, "give_place", needs="crowd"),
    # A queued step.
    "task-before-claim": Point(SqliteStore, "claim_tasks"),
    "task-claimed-and-not-begun": Point(SqliteStore, "claim_tasks", behind=True),
    "task-not-given-back": Point(SqliteStore, "release_tasks", needs="key"),
    "task-given-back-and-not-told": Point(SqliteStore, "release_tasks", behind=True, needs="key"),
    "task-begun": Point(TaskTaker, "_begin", behind=True),
    "task-without-outcome": Point(HeldTask, "_report"),
    "task-before-completion": Point(SqliteStore, "complete_tasks"),
    "task-completed-and-not-told": Point(SqliteStore, "complete_tasks", behind=True),
    "task-outcome-judged": Point(outlast.engine.tasks.outcomes, "judge", behind=True),
    "task-renewed": Point(SqliteStore, "renew_tasks", behind=True),
    "tasks-lapsed": Point(SqliteStore, "lapse_tasks", behind=True),
    # A body.
    "in-body": Point(Machine, "feed"),
    "behind-body": Point(Machine, "feed", behind=True),
    "alarm": Point(HotRun, "_ring"),
    # Claims, loads, takeovers.
    "before-claim": Point(SqliteStore, "claim", needs="due"),
    "claimed-and-not-told": Point(SqliteStore, "claim", behind=True, needs="due"),
    "before-load": Point(Loader, "_bring_back", needs="due"),
    "journal-read": Point(Loader, "_read", behind=True, needs="due"),
    "before-takeover-note": Point(Loader, "_note_takeover", needs="dead"),
    "after-takeover-note": Point(Loader, "_note_takeover", behind=True, needs="dead"),
    "before-replay": Point(Replay, "advance", needs="dead"),
    "behind-replay": Point(Replay, "advance", behind=True, needs="dead"),
    "lost-and-not-submitted": Point(outlast.engine.books, "judge_open", behind=True, needs="dead"),
    "loaded": Point(HotRun, "go_on", behind=True, needs="dead"),
    "before-reap": Point(SqliteStore, "reap", needs="dead"),
    "marked-dead-and-not-reaped": Point(outlast.stores.sqlite.workers, "_release", needs="dead"),
    "between-two-reaps": Point(SqliteStore, "reap", behind=True, needs="dead"),
    "put-back": Point(Loader, "put_back", needs="suspects"),
    # Parks.
    "before-park": Point(HotRuns, "park", needs="park"),
    "park-sent": Point(HotRuns, "park", behind=True, needs="park"),
    "before-park-commit": Point(SqliteStore, "commit", fits=_carries(events=False), needs="park"),
    "parked-and-not-told": Point(HotRuns, "_park_answered", needs="park"),
    "evicting": Point(HotRun, "evict", needs="park"),
    "evicted": Point(HotRun, "evict", behind=True, needs="park"),
    "load-again": Point(HotRuns, "load_again", needs="paranoid"),
    # The lease.
    "before-register": Point(SqliteStore, "register"),
    "registered": Point(SqliteStore, "register", behind=True),
    "before-renewal": Point(SqliteStore, "renew", needs="time"),
    "renewed": Point(SqliteStore, "renew", behind=True, needs="time"),
    "fenced": Point(HotRuns, "abandon_all", needs="fence"),
    "fenced-and-dropped": Point(HotRuns, "abandon_all", behind=True, needs="fence"),
    "coming-back": Point(SqliteStore, "retire", behind=True, needs="fence"),
    # Going in good order.
    "before-drain": Point(Worker, "drain", needs="term"),
    "handing-back": Point(HotRuns, "hand_back", needs="term"),
    "handed-back": Point(HotRuns, "hand_back", behind=True, needs="term"),
    "retiring": Point(outlast.stores.sqlite.workers, "hand_back", behind=True, needs="term"),
    "retired": Point(SqliteStore, "retire", behind=True, needs="term"),
    "closing": Point(Writer, "close", needs="term"),
    # What people ask for.
    "before-send": Point(SqliteStore, "send", needs="cancel"),
    "sent-and-not-told": Point(SqliteStore, "send", behind=True, needs="cancel"),
    "mail-read": Point(outlast.engine.mail, "take_mail", behind=True, needs="cancel"),
    "before-retry": Point(Engine, "retry", needs="retry"),
    "reopened-and-not-told": Point(Engine, "retry", behind=True, needs="retry"),
    # Families: runs that start, wait for and undo other runs.
    "before-child": Point(Draft, "begin_run", needs="family"),
    "child-drafted": Point(Draft, "begin_run", behind=True, needs="family"),
    "parent-not-told": Point(outlast.engine.messages.children, "tell_parent", needs="family"),
    "child-heard-of": Point(outlast.engine.messages.children, "settle_end", behind=True, needs="family"),
    "unwind-not-submitted": Point(HotRun, "submit", fits=_has(UnwindStarted), needs="family"),
    "undoing-not-submitted": Point(HotRun, "submit", fits=_undoes, needs="family"),
    "child-reopened": Point(Draft, "reopen", behind=True, needs="family"),
    "undone-not-submitted": Point(HotRun, "submit", fits=_has(RunCompensated), needs="family"),
    "family-commit": Point(SqliteStore, "commit", behind=True, fits=_carries(events=True), needs="family"),
    # Rounds: runs that end by going on as a fresh one.
    "round-not-submitted": Point(HotRun, "submit", fits=_goes_on, needs="rounds"),
    "mail-moved": Point(outlast.stores.sqlite.effects, "move_mail", behind=True, needs="rounds"),
    "rounds-commit": Point(SqliteStore, "commit", behind=True, fits=_carries(events=True), needs="rounds"),
    # The file itself.
    "migrating": Point(outlast.stores.sqlite.migrate, "migrate", behind=True),
    "checkpointed": Point(_Connection, "execute", behind=True, fits=_sql("pragma wal_checkpoint"), needs="log"),
}


def install(spec: str, deaths: AppendFile, points: Mapping[str, Point] = POINTS) -> None:
    """`name:n`: this process dies at the n-th passing of that point; `name:n:stop`: it is frozen there instead, until
    somebody thaws it. It says so in `deaths` with its last breath."""
    name, count, what = [*spec.split(":"), "kill"][:3]
    point = points[name]
    if points is POINTS and (point.owner is _Connection or what == "stop"):
        sqlite3.connect = functools.partial(connect_plainly, factory=_Connection)  # type: ignore[assignment]
    left = int(count)

    def passed() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            deaths.append({"point": name, "pid": os.getpid()})
            if what == "stop":
                with _Connection.writing:
                    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    inner = getattr(point.owner, point.function)
    if name == "between-two-reaps":
        inner.__kwdefaults__["limit"] = 1
    wrapped = _wrap_async(inner, point, passed) if _is_async(inner) else _wrap(inner, point, passed)
    setattr(point.owner, point.function, wrapped)
    for module in (outlast.stores.sqlite.store, outlast.stores.sqlite.connection):
        if getattr(module, point.function, None) is inner:
            setattr(module, point.function, wrapped)


def _is_async(function: Any) -> bool:
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & 0x80)


def _wrap(inner: Any, point: Point, passed: Callable[[], None]) -> Any:
    @functools.wraps(inner)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        fits = point.fits(*args, **kwargs)
        if fits and not point.behind:
            passed()
        value = inner(*args, **kwargs)
        if fits and point.behind:
            passed()
        return value

    return wrapper


def _wrap_async(inner: Any, point: Point, passed: Callable[[], None]) -> Any:
    @functools.wraps(inner)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        fits = point.fits(*args, **kwargs)
        if fits and not point.behind:
            passed()
        value = await inner(*args, **kwargs)
        if fits and point.behind:
            passed()
        return value

    return wrapper
