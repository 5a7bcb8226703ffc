"""`Outlast`: the app, as authors and callers hold it. Layer: app. It wires, and decides nothing.

An app is a `Module` without a name: steps and workflows are declared on it, or included. Opened, it has an engine, and
starts and steers runs; with a worker it works them too. What always holds: an open app belongs to the event loop that
opened it, and what it is asked for is checked before anything is stored (SPEC R2).
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Iterable, MutableMapping
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, TypeVarTuple, Unpack, overload

from outlast.authoring.module import Module
from outlast.authoring.runs.extension import Extension
from outlast.core.durations import Duration, parse_duration
from outlast.core.keys import check_name
from outlast.core.loop.refusals import is_in_loop, refuse_in_body
from outlast.engine.engine import Engine
from outlast.engine.tasks.queues import QueueSettings
from outlast.engine.worker import Worker, WorkerSettings
from outlast.errors import (
    AppNotOpen,
    ExtraMissing,
    InvalidSetting,
    RunNotFound,
)
from outlast.payloads import Codec, Payloads
from outlast.run.definitions import Definitions, find_startable
from outlast.run.describing import describe_work
from outlast.run.handle import Run
from outlast.run.lists import Lists
from outlast.run.mirroring import Mirroring
from outlast.run.options import (
    StartOptions,
    check_on_conflict,
    check_queue,
    check_start,
    check_worker,
)
from outlast.run.records import WorkSummary
from outlast.run.sync import SyncClient
from outlast.run.telemetry import Telemetry
from outlast.run.workers import Workers
from outlast.stores.open import open_store
from outlast.telemetry.audit import Audit, AuditSink
from outlast.telemetry.logs import ENGINE
from outlast.telemetry.observer import Observers

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from outlast.http.access import AuthHook
    from outlast.mirrors import Mirror
    from outlast.stores.store import Store

__all__ = ["AsgiApp", "Outlast"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

AsgiScope: TypeAlias = MutableMapping[str, Any]
AsgiApp: TypeAlias = Callable[
    [AsgiScope, Callable[[], Awaitable[AsgiScope]], Callable[[AsgiScope], Awaitable[None]]], Awaitable[None]
]
"""What any ASGI server serves, and any ASGI app can mount."""

DEFAULT_URL = "sqlite:///outlast.db"
YES = frozenset({"1", "true", "yes", "on"})
MAX_HOT = 10_000


class Outlast(Lists, Workers, Module, Definitions):
    """One app, on one store. See the module's docstring; `async with app:` opens it."""

    def __init__(
        self,
        url: str | None = None,
        *,
        dev: bool | None = None,
        codecs: Iterable[Codec] = (),
        audit: AuditSink | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        mirrors: Iterable[Mirror] = (),
        on_version_conflict: str = "suspend",
        extensions: Iterable[Extension[Any]] = (),
    ) -> None:
        """`url`: `sqlite:///path`, `memory://` or `memory://name`; default $OUTLAST_URL, else sqlite:///outlast.db.

        `dev` (default $OUTLAST_DEV) makes bodies raise on what must not be done in them, also behind the loop's back.
        `codecs`: what values go through on their way into the store, in this order: `[Compress(), Encrypt(keys)]`.
        `audit` is told of every attempt to decide an approval, in the event loop; it may be async. By default such
        attempts are lines of the logger `outlast.audit`. The providers are OpenTelemetry's, by default those that are
        set up for the process. `mirrors` are given a copy of each entry of a journal that this process puts on record.
        `on_version_conflict`: what becomes of a run that neither code nor stored plan fits, "suspend" or "fail".
        `extensions` add to the context of runs, and wrap their bodies.
        """
        super().__init__("")
        self._extend(extensions)
        self._audit = Audit(audit)
        self.url = url if url is not None else os.environ.get("OUTLAST_URL") or DEFAULT_URL
        self.dev = dev if dev is not None else os.environ.get("OUTLAST_DEV", "").lower() in YES
        self._executors: dict[str, Executor] = {}
        self._queues: dict[str, QueueSettings] = {}
        self._store = open_store(self.url)
        self._observers = Observers()
        self.codecs = tuple(codecs)
        self._fails_on_conflict = check_on_conflict(on_version_conflict) == "fail"
        self._payloads = Payloads(self.codecs)
        self._mirroring = Mirroring(self._observers, mirrors)
        self._telemetry = Telemetry(self._observers, tracer_provider, meter_provider, self._mirroring.list)
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._users = 0
        self._closed = asyncio.Event()

    def executor(self, name: str, executor: Executor) -> None:
        """Steps with `executor=name` run in it: a process pool, a cluster. It is the caller's to shut down."""
        check_name("executor", name)
        if not isinstance(executor, Executor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidSetting(f"executor {name!r}", executor, "a concurrent.futures.Executor")
        self._executors[name] = executor

    def queue(
        self, name: str, *, limit: int | None = None, fair_by: str | None = None, lease: Duration = "60s"
    ) -> None:
        """Say how the steps and runs of this queue are treated by the workers of this app. Call it where those are
        declared.

        `limit`: so many steps may execute at once, on all workers together, and so many runs may be in hand. `fair_by`:
        `"user"`, `"workflow"`, or an attribute of runs such as `"attributes.tenant"`; when steps or runs wait, a place
        goes to whom fewest are executed for, so that one who queues thousands keeps nobody else waiting. `lease`: when
        the worker of a step says nothing for so long, the step is taken for lost, and tried again.
        """
        settings = check_queue(limit=limit, fair_by=fair_by, lease=lease)
        self._queues[check_name("queue", name)] = settings

    def on_store(self, store: Store) -> Outlast:
        """The same functions and settings as an app of its own, on this store: for `outlast.testing`."""
        twin = copy.copy(self)
        twin._store, twin._engine, twin._loop, twin._users = store, None, None, 0  # noqa: SLF001 - a copy of our own
        twin._observers, twin._closed = Observers(), asyncio.Event()  # noqa: SLF001 - the same
        return twin

    # --- opening ------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _open(self) -> Engine:
        """The first opens the store, the others share it; who comes while the last one closes it waits."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop.is_closed():
            self._engine, self._loop, self._users = None, None, 0  # its loop ended without closing it
        while self._engine is not None and self._users == 0 and self._loop is loop:
            await self._closed.wait()
        if self._engine is None:
            self._engine, self._loop, self._closed = self._make_engine(), loop, asyncio.Event()
        engine = self._here("async with app")
        self._users += 1
        try:
            await engine.open()
        except BaseException:
            self._users -= 1
            self._forget_unused()
            raise
        if self._users == 1:
            self._mirroring.open()
            self._telemetry.open(engine)
        return engine

    async def _close(self) -> None:
        engine = self._here("closing it")
        self._users -= 1
        try:
            await engine.close()
            if self._users == 0:
                await self._mirroring.close()
                await self._telemetry.close()
        finally:
            self._forget_unused()

    def _make_engine(self) -> Engine:
        return Engine(
            self._store, self, dev=self.dev, executors=self._executors, log=ENGINE, observers=self._observers,
            payloads=self._payloads, queues=self._queues, audit=self._audit,
            tracing=self._telemetry.find_tracing(), fails_on_conflict=self._fails_on_conflict,
        )  # fmt: skip

    def _forget_unused(self) -> None:
        if self._users == 0:
            self._engine = self._loop = None
            self._closed.set()

    def _here(self, call: str = "this call") -> Engine:
        """The engine. Raises AppNotOpen, also in any other loop than the one that opened it."""
        if self._engine is None:
            raise AppNotOpen(call)
        if asyncio.get_running_loop() is not self._loop:
            refuse_in_body(call)
            problem = "The app is open in another event loop"
            raise AppNotOpen(call, problem, "Call from the loop that opened it, or make an app for this one.")
        return self._engine

    # --- starting and finding runs ------------------------------------------------------------------------------------

    @overload
    async def start(
        self, workflow: Callable[[*Ts], Coroutine[Any, Any, R]], /, *args: *Ts, **options: Unpack[StartOptions]
    ) -> Run[R]: ...
    @overload
    async def start(self, workflow: str, /, *args: object, **options: Unpack[StartOptions]) -> Run[Any]: ...
    async def start(
        self, workflow: Callable[[*Ts], Coroutine[Any, Any, Any]] | str, /, *args: *Ts, **options: Unpack[StartOptions]
    ) -> Run[Any]:
        """Start a run of a workflow, or of the workflow of this name, with this input; see `StartOptions`.

        Once it returns, the run will happen. Raises InvalidInput, naming the field; FunctionNotFound;
        VersionNotActive; RunExists; and RunConflict for an id whose run has another workflow or input.
        """
        engine = self._here("app.start()")
        known = await find_startable(self, engine, workflow)
        start = check_start(**options)
        uid, name = await engine.start(known, known.encode_input(args, {}), start)
        return Run(self._here, uid, name, known.name, known)

    async def get_run(self, id: str, /) -> Run[Any]:
        """The run that holds this id. Raises RunNotFound."""
        row = await self._here("app.get_run()").store.find_run(check_name("run id", id))
        if row is None:
            raise RunNotFound(id)
        return Run(self._here, row.uid, row.id, row.workflow, self.find_workflow(row.workflow))

    # --- working ------------------------------------------------------------------------------------------------------

    def worker(
        self,
        *,
        concurrency: int = 200,
        queues: Iterable[str] = ("default",),
        max_hot: int | None = None,
        lease: Duration = "10s",
        grace: Duration = "30s",
        threads: int = 32,
    ) -> AbstractAsyncContextManager[Worker]:
        """`async with app.worker():` works runs until it is left, and opens the app. Many processes may do so.

        `concurrency`: steps executing at once, plain functions in `threads` threads. `max_hot`: runs kept in memory, by
        default 10,000, and with `dev` 0: that replays after every event, and finds what a body must not do. `lease`:
        when it dies, others wait that long. `grace`: how long running steps may go on when it is told to stop.
        """
        return self._working(
            check_worker(
                concurrency=concurrency,
                queues=queues,
                max_hot=self._max_hot(max_hot),
                lease=lease,
                grace=grace,
                threads=threads,
            )
        )

    def _max_hot(self, asked: int | None) -> int:
        if asked is not None:
            return asked
        return 0 if self.dev else MAX_HOT

    @asynccontextmanager
    async def _working(self, settings: WorkerSettings) -> AsyncGenerator[Worker, None]:
        async with self, self._alone().make_worker(settings) as worker:
            yield worker

    def _alone(self) -> Engine:
        engine = self._here("a worker")
        if engine.worker is not None:
            raise AppNotOpen("a second worker", "This app has a worker already", "Raise its concurrency instead.")
        return engine

    async def work_until_idle(
        self,
        timeout: Duration | None = 60,
        *,
        concurrency: int = 200,
        queues: Iterable[str] = ("default",),
        grace: Duration = "5s",
    ) -> WorkSummary:
        """Take over what dead workers left, work what is due, hand the rest back: for hosts without a long life.

        Returns when nothing is due and nothing moves, or after `timeout`; steps still running get `grace` then.
        """
        settings = check_worker(
            concurrency=concurrency, queues=queues, max_hot=self._max_hot(None), lease="10s", grace=grace, threads=32
        )
        timeout_s = None if timeout is None else parse_duration(timeout) / 1_000_000
        async with self:
            return describe_work(await self._alone().work_until_idle(timeout_s, settings))

    def sync(self) -> SyncClient:
        """The app for code without an event loop: `with app.sync() as client: client.start(fulfil, order).result()`.

        It is opened in a thread of its own, so it must not be open in an event loop; it starts and steers runs that
        workers elsewhere work.
        """
        return SyncClient(self)

    @overload
    def run_sync(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, R]],
        /,
        *args: *Ts,
        id: str | None = None,
        timeout: Duration | None = None,
    ) -> R: ...
    @overload
    def run_sync(
        self, workflow: str, /, *args: object, id: str | None = None, timeout: Duration | None = None
    ) -> Any: ...
    def run_sync(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, Any]] | str,
        /,
        *args: *Ts,
        id: str | None = None,
        timeout: Duration | None = None,
    ) -> Any:
        """Start a run, work it here, and give its result: for scripts and code without an event loop.

        Raises what `Run.result` raises; after TimeoutError the run is left as it stands, for the next worker.
        """
        if not is_in_loop():  # outside of any `except`: what the body raises must not seem to come of that
            return asyncio.run(self._run_once(workflow, args, id, timeout))
        refuse_in_body("app.run_sync()")
        problem = "There is an event loop here, and run_sync would block it"
        raise AppNotOpen("app.run_sync()", problem, "Await app.start() and run.result() instead.")

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    def asgi(
        self,
        *,
        token: str | None = None,
        auth: AuthHook | None = None,
        no_auth: bool = False,
        hosts: Collection[str] | None = None,
        origins: Collection[str] = (),
        largest_body: int = 4 * 1024 * 1024,
        heartbeat: Duration = "15s",
    ) -> AsgiApp:
        """The HTTP API and the console, to be served, or mounted in any ASGI app.

        Nothing is open by default, so one of three has to be said: a `token` that all share; an `auth` hook, which gets
        the request and gives a `User` or None; or `no_auth=True`. `hosts`: the names it answers to, without ports, by
        default any; with `no_auth`, those nobody can register. `origins`: other sites whose pages may act here.
        `largest_body` is in bytes; streams show a sign of life every `heartbeat`. Served by itself it opens the app;
        mounted, the host has to. Raises InvalidSetting, InvalidDuration; ExtraMissing without `outlast[server]`.
        """
        try:
            from outlast.http.asgi import make_asgi
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "outlast":
                raise
            raise ExtraMissing("The HTTP API", "server") from error
        return make_asgi(
            self,
            token=token,
            auth=auth,
            no_auth=no_auth,
            hosts=hosts,
            origins=origins,
            largest_body=largest_body,
            heartbeat=heartbeat,
        )

    async def _run_once(self, workflow: Any, args: tuple[Any, ...], id: str | None, timeout: Duration | None) -> Any:
        async with self.worker():
            run: Run[Any] = await self.start(workflow, *args, id=id)
            return await run.result(timeout)
