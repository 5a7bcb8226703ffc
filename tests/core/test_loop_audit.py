"""Effects in a body: refused by its loop, and in dev mode also behind its back (SPEC P4)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from outlast.core.loop import BodyLoop
from outlast.errors import EffectInBody
from tests.core.loop_bodies import run_body


async def add_signal_handler() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)


async def run_in_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, print)


async def call_threadsafe() -> None:
    coroutine = asyncio.sleep(0)
    try:
        asyncio.run_coroutine_threadsafe(coroutine, asyncio.get_running_loop())
    finally:
        coroutine.close()


THROUGH_THE_LOOP = {
    "connection": lambda: asyncio.open_connection("127.0.0.1", 9),
    "server": lambda: asyncio.start_server(print, "127.0.0.1", 0),
    "process": lambda: asyncio.create_subprocess_exec("true"),
    "shell": lambda: asyncio.create_subprocess_shell("true"),
    "thread": lambda: asyncio.to_thread(print),
    "executor": run_in_executor,
    "signal": add_signal_handler,
    "threadsafe": call_threadsafe,
}


# SPEC P4
@pytest.mark.parametrize("effect", THROUGH_THE_LOOP.values(), ids=list(THROUGH_THE_LOOP))
@pytest.mark.filterwarnings("ignore:coroutine.*was never awaited")
def test_asyncios_own_effects_are_refused(effect) -> None:
    """I/O, threads, processes and signals raise EffectInBody, which names the method and is no OSError."""

    async def body() -> None:
        with pytest.raises(EffectInBody, match=r"loop\.\w+\(\).*Do this in a step") as caught:
            await effect()
        assert not isinstance(caught.value, OSError)

    run_body(body).result()


def test_a_future_of_a_thread_fails_the_run_instead_of_hanging_it() -> None:
    """Waiting for a thread's future is refused when the thread ends, and the machine is told."""
    loop = BodyLoop(start_us=0)
    future: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def body() -> None:
        await asyncio.wrap_future(future)

    loop.spawn_root(body())
    loop.drain()
    logging.disable()  # concurrent.futures logs what its callback raised
    try:
        thread = threading.Thread(target=future.set_result, args=(None,))
        thread.start()
        thread.join()
    finally:
        logging.disable(logging.NOTSET)
    assert isinstance(loop.foreign_call, EffectInBody)
    loop.evict()
    assert loop.foreign_call is None


def test_a_loop_has_or_refuses_every_method() -> None:
    """No method of AbstractEventLoop ends in asyncio's NotImplementedError, on whatever Python."""
    loop = BodyLoop(start_us=0)
    own = {"call_at", "call_exception_handler", "call_later", "call_soon", "create_future", "create_task", "time"}
    own |= {"default_exception_handler", "get_debug", "get_exception_handler", "get_task_factory", "is_closed"}
    own |= {"is_running"}
    refused = {name for name in dir(asyncio.AbstractEventLoop) if not name.startswith("_")} - own
    assert len(refused) > 35
    for name in refused:
        with pytest.raises(EffectInBody, match=rf"loop\.{name}\(\)"):
            getattr(loop, name)(print)
    assert (loop.get_debug(), loop.is_closed(), loop.is_running()) == (False, False, False)
    assert loop.get_exception_handler() is None
    assert loop.get_task_factory() is None


# --- behind the loop's back -------------------------------------------------------------------------------------------


def read_this() -> str:
    return Path(__file__).read_text(encoding="utf-8")


BEHIND_ITS_BACK = {
    "read": read_this,
    "write": lambda: Path("never-written").write_text("x", encoding="utf-8"),
    "os.open": lambda: os.open("never-written", os.O_CREAT),
    "list": lambda: list(Path().iterdir()),
    "remove": Path("never-written").unlink,
    "rename": lambda: Path("never-written").rename("other"),
    "mkdir": Path("never-made").mkdir,
    "temporary": tempfile.mkdtemp,
    "database": lambda: sqlite3.connect(":memory:"),
    "socket": socket.socket,
    "name": lambda: socket.getaddrinfo("localhost", 80),
    "process": lambda: subprocess.run(["true"], check=False),
    "system": lambda: os.system("true"),
    "kill": lambda: os.kill(os.getpid(), 0),
    "thread": lambda: threading.Thread(target=print).start(),
    "pool": lambda: concurrent.futures.ThreadPoolExecutor(1).submit(print),
}


# SPEC P4
@pytest.mark.parametrize("effect", BEHIND_ITS_BACK.values(), ids=list(BEHIND_ITS_BACK))
def test_in_dev_mode_effects_behind_the_loops_back_are_refused(effect) -> None:
    """Files, sockets, processes and threads raise EffectInBody before anything has happened."""

    async def body() -> None:
        threads = threading.active_count()
        with pytest.raises(EffectInBody, match="Do this in a step"):
            effect()
        assert threading.active_count() == threads

    run_body(body, dev=True).result()
    assert not Path("never-written").exists()
    assert not Path("never-made").exists()


def test_outside_dev_mode_they_are_left_alone() -> None:
    """The hook looks at loops in dev mode only, although it stays once it was installed."""

    async def body() -> bool:
        return bool(read_this())

    BodyLoop(start_us=0, dev=True)
    assert run_body(body).result()


def test_only_the_body_is_watched() -> None:
    """Another thread goes on working while a body drains, and so does the host before and after."""
    go, done = threading.Event(), threading.Event()
    texts: list[str] = []

    def read() -> None:
        go.wait(10)
        texts.append(read_this())
        done.set()

    async def body() -> bool:
        go.set()
        return done.wait(10)

    thread = threading.Thread(target=read)
    thread.start()
    assert run_body(body, dev=True).result()
    thread.join()
    assert len(texts) == 1
    assert read_this() == texts[0]


def test_what_python_does_for_itself_is_allowed(tmp_path, monkeypatch) -> None:
    """An import, a traceback's source lines, a time zone, and a log handler that opens its file late."""
    (tmp_path / "imported_late.py").write_text("VALUE = 17\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    handler = logging.FileHandler(tmp_path / "late.log", delay=True)
    log = logging.getLogger("outlast.test.audit")
    log.addHandler(handler)

    async def body() -> tuple[int, str, str]:
        import imported_late  # type: ignore[import-not-found]

        log.error("written late")
        try:
            raise ValueError("shown")
        except ValueError:
            text = traceback.format_exc()
        return imported_late.VALUE, text, ZoneInfo.no_cache("Europe/Berlin").key

    try:
        value, text, zone = run_body(body, dev=True).result()
    finally:
        log.removeHandler(handler)
        handler.close()
        sys.modules.pop("imported_late", None)
    assert (value, zone) == (17, "Europe/Berlin")
    assert 'raise ValueError("shown")' in text
    assert "written late" in (tmp_path / "late.log").read_text()


def test_eviction_is_watched_too() -> None:
    """A `finally` that touches the world when its body is dropped is refused in dev mode."""
    loop = BodyLoop(start_us=0, dev=True)
    caught: list[BaseException] = []

    async def body() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                BEHIND_ITS_BACK["mkdir"]()
            except BaseException as error:
                caught.append(error)

    loop.spawn_root(body())
    loop.drain()
    loop.evict()
    assert [type(error) for error in caught] == [EffectInBody]
