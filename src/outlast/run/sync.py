"""An app and its runs for code without an event loop: a web view, a script, a test (SPEC R11). Layer: run.

The app lives in a thread with a loop of its own; each call is carried out there, and the caller waits for it. What
always holds: a client may be used from several threads at once; it never blocks an event loop, for it refuses to be
called from one; and a caller that is interrupted gives its call up.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, TypeVarTuple, Unpack, overload

from outlast.core.loop.refusals import RefusingLoop
from outlast.errors import AppNotOpen, EffectInBody

if TYPE_CHECKING:
    from outlast.core.durations import Duration
    from outlast.core.waits.approval import Decided, User
    from outlast.run.handle import Run
    from outlast.run.options import StartOptions
    from outlast.run.records import AttemptInfo, RunInfo, TimelineItem

__all__ = ["SyncClient", "SyncRun"]

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class App(Protocol):
    """What a client needs of an app."""

    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, *_: object) -> None: ...
    async def start(self, workflow: Any, /, *args: Any, **options: Unpack[StartOptions]) -> Run[Any]: ...
    async def get_run(self, id: str, /) -> Run[Any]: ...


class SyncClient:
    """`with app.sync() as client:` opens the app in a thread; see the module's docstring."""

    def __init__(self, app: App) -> None:
        """Made by `app.sync()`."""
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._calls: set[concurrent.futures.Future[Any]] = set()
        """Those under way."""

    def __enter__(self) -> Self:
        _refuse_in_loop("app.sync()")
        if self._loop is not None:
            raise AppNotOpen("app.sync()", "This client is open already", "Make another one with app.sync().")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="outlast-sync", daemon=True)
        self._thread.start()
        try:
            self.call(self._app.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for future in list(self._calls):  # of other threads, which would wait for ever on a loop that stands still
                future.cancel()
            self.call(self._app.__aexit__(None, None, None))
        finally:
            self._stop()

    def _stop(self) -> None:
        loop, thread, self._loop = self._loop, self._thread, None
        assert loop is not None
        assert thread is not None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for future in list(self._calls):  # begun at the last moment
            future.cancel()
        loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine of the app or of one of its runs gives: `client.call(app.runs(status="failed"))`.

        Raises what it raises; AppNotOpen in an event loop, and after the client was closed.
        """
        loop = self._loop
        try:
            _refuse_in_loop("a call of a client")
            if loop is None:
                raise AppNotOpen("a call of a client", fix="Use it inside `with app.sync() as client:`.")
        except BaseException:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise AppNotOpen("a call of a client", "The client was closed meanwhile") from None
        except BaseException:
            future.cancel()  # of no effect on what has ended
            raise

    @overload
    def start(
        self, workflow: Callable[[*Ts], Coroutine[Any, Any, R]], /, *args: *Ts, **options: Unpack[StartOptions]
    ) -> SyncRun[R]: ...
    @overload
    def start(self, workflow: str, /, *args: object, **options: Unpack[StartOptions]) -> SyncRun[Any]: ...
    def start(
        self, workflow: Callable[[*Ts], Coroutine[Any, Any, Any]] | str, /, *args: *Ts, **options: Unpack[StartOptions]
    ) -> SyncRun[Any]:
        """As `app.start`."""
        return SyncRun(self, self.call(self._app.start(workflow, *args, **options)))

    def get_run(self, id: str, /) -> SyncRun[Any]:
        """As `app.get_run`."""
        return SyncRun(self, self.call(self._app.get_run(id)))


class SyncRun(Generic[R]):
    """A `Run` whose calls wait. What is not here: `client.call(run.handle.fork(…))`."""

    def __init__(self, client: SyncClient, handle: Run[R]) -> None:
        """Made by a client."""
        self._client = client
        self.handle = handle
        """The run as an event loop has it."""
        self.id = handle.id
        self.uid = handle.uid

    def __repr__(self) -> str:
        return f"<SyncRun {self.id!r} of {self.handle.workflow!r}>"

    def result(self, timeout: Duration | None = None) -> R:
        """As `Run.result`."""
        return self._client.call(self.handle.result(timeout))

    def status(self) -> RunInfo:
        """As `Run.status`."""
        return self._client.call(self.handle.status())

    def history(self) -> list[AttemptInfo]:
        """As `Run.history`."""
        return self._client.call(self.handle.history())

    def timeline(self, *, after: int = -1, limit: int | None = None) -> list[TimelineItem]:
        """As `Run.timeline`."""
        return self._client.call(self.handle.timeline(after=after, limit=limit))

    def cancel(self, reason: str = "no reason given", *, force: bool = False) -> bool:
        """As `Run.cancel`."""
        return self._client.call(self.handle.cancel(reason, force=force))

    def resume(self, reason: str | None = None) -> None:
        """As `Run.resume`."""
        self._client.call(self.handle.resume(reason))

    def signal(self, name: str, value: object = None, *, key: str | None = None) -> None:
        """As `Run.signal`."""
        self._client.call(self.handle.signal(name, value, key=key))

    def approve(
        self, reason: str, value: object, *, by: User, timeout: Duration = 30, key: str | None = None
    ) -> Decided[Any]:
        """As `Run.approve`."""
        return self._client.call(self.handle.approve(reason, value, by=by, timeout=timeout, key=key))

    def retry(self) -> None:
        """As `Run.retry`."""
        self._client.call(self.handle.retry())

    def delete(self) -> None:
        """As `Run.delete`."""
        self._client.call(self.handle.delete())


def _refuse_in_loop(call: str) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if isinstance(loop, RefusingLoop):
        raise EffectInBody(call)
    raise AppNotOpen(call, "There is an event loop here, and this would block it", "Await the app's own methods.")
