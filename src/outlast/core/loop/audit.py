"""Effects a body has behind its loop's back, caught in dev mode and in tests: files, sockets, processes, threads.

Layer: core. The loop refuses asyncio's own I/O; this sees what Python itself does, through an audit hook. What always
holds: only a thread that drains a body of a dev-mode loop is looked at, and nothing is done about what others do. An
audit hook stays for the life of its process and costs a little at every event, hence the mode (SPEC P4).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Protocol

from outlast.errors import EffectInBody

__all__ = ["watch"]

_EFFECTS: Final = frozenset(
    {
        # files
        *("open", "os.chflags", "os.chmod", "os.chown", "os.link", "os.listdir", "os.lockf", "os.mkdir", "os.remove"),
        *("os.rename", "os.rmdir", "os.scandir", "os.setxattr", "os.symlink", "os.truncate", "os.utime"),
        *("shutil.chown", "shutil.copyfile", "shutil.copytree", "shutil.make_archive", "shutil.move", "shutil.rmtree"),
        *("shutil.unpack_archive", "sqlite3.connect", "tempfile.mkdtemp", "tempfile.mkstemp"),
        # sockets
        *("socket.__new__", "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyaddr"),
        *("socket.gethostbyname", "socket.getnameinfo", "socket.sendmsg", "socket.sendto", "urllib.Request"),
        # processes and signals
        *("os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.posix_spawn", "os.spawn", "os.startfile"),
        *("os.system", "pty.spawn", "signal.pthread_kill", "subprocess.Popen", "webbrowser.open"),
        # threads
        *("_thread.start_new_thread", "_thread.start_joinable_thread"),
    }
)

_ALLOWED: Final = frozenset(
    {
        # An import runs once in a process, not once in a replay.
        *("_frozen_importlib", "_frozen_importlib_external", "importlib._bootstrap", "importlib._bootstrap_external"),
        "zipimport",
        # Showing a traceback reads the source.
        "linecache",
        # A handler may open its file late. What it writes is for people, and no body reads it.
        *("logging", "logging.handlers"),
        # Objects of the host whose turn to be collected came just now.
        "weakref",
        # A person looks at the body.
        *("bdb", "pdb"),
    }
)

_BODY_BEGINS: Final = frozenset(
    {"outlast.core.loop.callbacks", "outlast.core.loop.eviction", "outlast.core.loop.plain_bodies"}
)


class WatchedLoop(Protocol):
    """What this module wants to know of a loop."""

    dev: bool


_running: list[Callable[[], WatchedLoop | None]] = []


def watch(running_body_loop: Callable[[], WatchedLoop | None]) -> None:
    """From now on an effect raises `EffectInBody` where the running loop is a body's in dev mode."""
    if _running:
        return
    _running.append(running_body_loop)
    sys.addaudithook(_hook)
    if sys.version_info < (3, 12):  # which begins to audit threads
        for name, attribute in (("_thread", "start_new_thread"), ("threading", "_start_new_thread")):
            module = sys.modules[name]
            setattr(module, attribute, _audited(getattr(module, attribute)))


def _audited(start_new_thread: Callable[..., int]) -> Callable[..., int]:
    def start(*args: Any) -> int:
        _hook("_thread.start_new_thread", args)
        return start_new_thread(*args)

    return start


def _hook(event: str, args: tuple[object, ...]) -> None:
    if event not in _EFFECTS:
        return
    loop = _running[0]()
    if loop is None or not loop.dev:
        return
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - there is no public way
    if _is_allowed(frame) or _reads_time_zone(event, args):
        return
    raise EffectInBody(f"{event}({', '.join(_shorten(arg) for arg in args[:2])})")


def _is_allowed(frame: FrameType | None) -> bool:
    """Whether Python does it for itself: somewhere in the calls that led here is one of the modules that may."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name in _ALLOWED:
            return True
        if name in _BODY_BEGINS:
            return False  # above are the engine and the host, whatever they are about
        frame = frame.f_back
    return False


def _reads_time_zone(event: str, args: tuple[object, ...]) -> bool:
    """`ZoneInfo("Europe/Berlin")` reads a file of the system, from C and so without a frame of its own."""
    if event != "open" or len(args) < 2:
        return False
    path, mode = args[:2]
    return isinstance(path, str) and "zoneinfo" in path and mode in {"r", "rb"}


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
