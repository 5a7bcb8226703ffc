"""The PostgreSQL server that tests use: one that is given, one that runs here, or one of their own.

`OUTLAST_TEST_POSTGRES` is a URL of a database in which schemas may be made; else a server on the default socket or port
is looked for; else one is started from installed binaries, in a temporary folder, and stopped at the end. Whoever looks
first tells the processes that it starts by the same variable, so that a run of the tests has one server.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg

__all__ = ["Server", "find_running", "find_server", "start_server"]

VARIABLE = "OUTLAST_TEST_POSTGRES"
_HOW = "OUTLAST_TEST_POSTGRES_HOW"
_SOCKETS = ("/var/run/postgresql", "/tmp")
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Server:
    """Where it is, and how it was found."""

    url: str
    how: str


def find_server() -> Server | None:
    """The one that is given, else one that runs here, else one that is started now and stopped when this process ends.
    None: there is none, and nothing to start one from."""
    found = find_running()
    if found is None and (binaries := find_binaries()) is not None:
        found = start_server(binaries)
    if found is not None:
        os.environ[VARIABLE], os.environ[_HOW] = found.url, found.how
    return found


def find_running() -> Server | None:
    """The one that is given or runs here."""
    given = os.environ.get(VARIABLE)
    if given:
        return Server(given, os.environ.get(_HOW, f"given by {VARIABLE}"))
    for url in _iter_places():
        version = asyncio.run(_ask_version(url))
        if version is not None:
            return Server(url, f"{version}, running here")
    return None


def _iter_places() -> Iterator[str]:
    user = os.environ.get("PGUSER", "postgres")
    for folder in _SOCKETS:
        if Path(folder, ".s.PGSQL.5432").exists():
            yield f"postgresql://{user}@/postgres?host={folder}"
    yield f"postgresql://{user}@127.0.0.1:5432/postgres"


async def _ask_version(url: str) -> str | None:
    try:
        connection = await asyncpg.connect(url, timeout=_PATIENCE_S)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        return None
    try:
        return str(await connection.fetchval("select current_setting('server_version')"))
    finally:
        await connection.close()


# --- a server of our own ----------------------------------------------------------------------------------------------


def find_binaries() -> Path | None:
    """The folder with initdb and postgres of the newest version that is installed."""
    folders = sorted(
        (path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdecimal()),
        key=lambda path: int(path.parent.name),
    )
    on_path = shutil.which("initdb")
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    elif (configured := shutil.which("pg_config")) is not None:
        folders.append(Path(subprocess.check_output([configured, "--bindir"], text=True).strip()))
    return next(
        (each for each in reversed(folders) if (each / "initdb").exists() and (each / "postgres").exists()), None
    )


def start_server(binaries: Path) -> Server:
    """One in a temporary folder, as another user when we are root, which initdb refuses. It is stopped, and the folder
    deleted, when this process ends."""
    process = OwnServer(binaries)
    atexit.register(process.remove)
    process.start()
    return Server(process.url, f"started from {binaries}")


class OwnServer:
    """A server that a test may stop, kill and start again."""

    def __init__(self, binaries: Path) -> None:
        self.folder = folder = Path(tempfile.mkdtemp(prefix="outlast-postgres-"))
        self.port = _free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._binaries = binaries
        self._user = _other_user()
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        self._run("initdb", "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        """Return when it answers."""
        command = [str(self._binaries / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
        command += ["-k", str(self.folder), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self._as_other())  # type: ignore[call-overload]
        log.close()
        while asyncio.run(_ask_version(self.url)) is None:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text(errors="replace"))

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: at once, in good order; SIGQUIT: as after a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def remove(self) -> None:
        """Stop it, and leave nothing behind."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._binaries / name), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **self._as_other())  # type: ignore[call-overload]

    def _as_other(self) -> dict[str, object]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _other_user() -> pwd.struct_passwd | None:
    """Whom the server runs as, when we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
