"""A worker process that is there to be killed. Run by the nursery; by hand: `python -m tests.crash.worker_main JSON`.

It works the runs of the world in its folder until SIGTERM, and says what it has come to in files of lines: `told`, what
was acknowledged to its callers; `deaths`, the crash point it died at.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from outlast.engine import worker as worker_module
from outlast.engine.tasks import taking
from outlast.engine.worker import Worker
from outlast.errors import StoreError, StoreUnavailable
from outlast.stores.postgres import PostgresStore
from tests.crash.clock import follow_wall_clock
from tests.crash.flows import QUEUE, make_app
from tests.crash.ledger import AppendFile
from tests.crash.points import POINTS, install
from tests.crash.postgres_points import ON_POSTGRES

__all__ = ["Settings", "insist", "main"]

T = TypeVar("T")


class Settings(msgspec.Struct):
    folder: str
    through: str = ""
    """Another URL of the store: a way to it that can fail."""
    wall_clock: str = ""
    """A file that says by how much this process's is wrong."""
    point: str = ""
    """`name:n`: where to die."""
    lease: float = 2.0
    grace: float = 5.0
    concurrency: int = 200
    queues: tuple[str, ...] = ("default", QUEUE)
    max_hot: int = 1000
    starts: list[tuple[str, list[Any], str]] = []
    """Runs to start: workflow, input, id."""
    cancels: list[str] = []
    retries: list[str] = []
    key: bool = False
    """It has the key of a world whose values are sealed."""
    floor_s: float = 0.0
    """How often it looks into the store that is told of nothing, if not as often as workers do."""
    small_log: bool = False
    """Empty the write-ahead log every few transactions."""


class _Records(logging.Handler):
    """What is warned of, with its fields."""

    def __init__(self, file: AppendFile) -> None:
        super().__init__(logging.WARNING)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        fields = {name: getattr(record, name, None) for name in ("run", "step", "attempt", "trace")}
        said = {"pid": os.getpid(), "text": record.getMessage(), **fields}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and _is_unforeseen(error):
            said["unforeseen"] = repr(error)
        self._file.append(said)


def _is_unforeseen(error: BaseException) -> bool:
    """Neither outlast's own nor what the flows raise: somebody has made a mistake."""
    return type(error).__module__ in {"builtins", "asyncio.exceptions"} and not isinstance(error, RuntimeError)


def main(settings: Settings) -> None:
    """Returns when it was told to stop."""
    folder = Path(settings.folder)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(name)s %(message)s")
    logging.getLogger("outlast").addHandler(_Records(AppendFile(folder / "records")))
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # where it is, for a test that waits in vain
    app = make_app(folder, settings.through, key=settings.key)
    if settings.wall_clock:
        follow_wall_clock(Path(settings.wall_clock))
    if settings.floor_s:
        worker_module.FLOOR_S = taking.LAST_PAUSE_S = settings.floor_s
    if settings.small_log:
        from outlast.stores.sqlite import checkpoint

        checkpoint._DUE_PAGES = 20
    if settings.point:
        points = ON_POSTGRES if isinstance(app._store, PostgresStore) else POINTS
        install(settings.point, AppendFile(folder / "deaths"), points)
    told = AppendFile(folder / "told")
    try:
        asyncio.run(_work(app, settings, told))
    except StoreUnavailable as error:
        told.append({"unable": os.getpid(), "why": str(error)})
        raise


async def _work(app: Any, settings: Settings, told: AppendFile) -> None:
    """Raises what a worker that cannot begin does."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with app.worker(
        lease=settings.lease,
        grace=settings.grace,
        concurrency=settings.concurrency,
        max_hot=settings.max_hot,
        queues=settings.queues,
    ) as worker:
        loop.add_signal_handler(signal.SIGTERM, _take_signal, stop, worker)
        worker.on_asked = stop.set
        told.append({"ready": os.getpid(), "worker": worker.id})
        for name, arguments, id in settings.starts:
            run = await insist(partial(app.start, f"crash:{name}", *arguments, id=id))
            told.append({"started": run.id, "uid": run.uid})
        for id in settings.cancels:
            run = await insist(partial(app.get_run, id))
            told.append({"cancelled": id, "heard": await insist(partial(run.cancel, "enough"))})
        for id in settings.retries:
            await (await insist(partial(app.get_run, id))).retry()
            told.append({"retried": id})
        await stop.wait()
        told.append({"stopping": os.getpid()})
    told.append({"stopped": os.getpid()})


async def insist(ask: Callable[[], Awaitable[T]], every_s: float = 0.1) -> T:
    """Ask until the store answers, as people do who do not know whether they were heard."""
    while True:
        try:
            return await ask()
        except StoreError:
            await asyncio.sleep(every_s)


def _take_signal(stop: asyncio.Event, worker: Worker) -> None:
    """The first asks to stop, the second not to wait for steps."""
    if not stop.is_set():
        stop.set()
    elif worker.home is not None:
        worker.home.stepper.stop_all("lost")


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Settings))
