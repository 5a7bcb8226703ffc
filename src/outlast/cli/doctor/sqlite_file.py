"""Checks of an SQLite store's file: read-only, and without the store's own code in the way. Layer: cli."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from outlast.cli.doctor.findings import Finding, Level, note, ok, wrong
from outlast.cli.doctor.processes import find_users
from outlast.stores.sqlite.connection import Settings
from outlast.stores.sqlite.errors import describe_holder
from outlast.stores.sqlite.migrate import APPLICATION_ID, list_migrations

__all__ = ["check_file"]

LEAST_FREE = 256 * 1024 * 1024
"""Bytes on the disk: below it the log may not be able to grow for long."""
LONGEST_LOG = 256 * 1024 * 1024
"""Four times what the writer lets it grow to: somebody reads and does not end."""
CHECK_S = 5.0
"""How long the file's structure is checked at most."""
WAIT_S = 2.0
"""How long to wait for the file to be free: many times what a transaction of ours takes."""
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre"})


def check_file(settings: Settings) -> tuple[list[Finding], bool]:
    """What is to be said of the file, and whether it makes sense to open the store."""
    findings = [*_check_access(settings)]
    if not settings.path.is_file() or not os.access(settings.path, os.R_OK):
        return findings, False
    findings += _check_users(settings)
    content, may_open = _check_content(settings)
    findings += content
    if may_open:
        findings += _check_durability(settings)
        writing = _check_writing(settings)
        findings.append(writing)
        may_open = writing.level is not Level.WRONG
    findings += _check_disk(settings)
    return findings, may_open


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _files(path: Path) -> tuple[Path, ...]:
    """The database, its log, and the log's index."""
    return path, _beside(path, "-wal"), _beside(path, "-shm")


def _connect(settings: Settings, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(settings.path))}?mode={mode}", uri=True, timeout=WAIT_S, isolation_level=None
    )


# --- the file ---------------------------------------------------------------------------------------------------------


def _check_access(settings: Settings) -> Iterator[Finding]:
    path = settings.path
    if not path.exists():
        todo = "Name the right one with --store or $OUTLAST_URL, or make it: outlast migrate."
        yield wrong("file", f"there is no {path}", todo)
    elif not path.is_file():
        yield wrong("file", f"{path} is no file", "Name a file in --store or $OUTLAST_URL.")
    elif not os.access(path, os.R_OK):
        yield wrong("file", f"this user may not read {path}", f"Give it the right to: see ls -l {path}.")
    else:
        fixed = [file for file in (path.parent, *_files(path)) if file.exists() and not os.access(file, os.W_OK)]
        size = sum(file.stat().st_size for file in _files(path) if file.exists())
        if fixed:
            names = ", ".join(map(str, fixed))
            todo = "Let the user of the workers own the file and its folder: the log is made beside it."
            yield wrong("file", f"this user may not write {names}", todo)
        else:
            yield ok("file", f"{path}, {_mega(size)}")


def _check_users(settings: Settings) -> Iterator[Finding]:
    """Others that have it open; one that is stopped may keep everybody from writing."""
    users = find_users(*_files(settings.path))
    for process in users:
        if process.is_stopped:
            yield wrong(
                "processes",
                f"process {process.pid} is stopped and has the file open: {process.command}",
                f"If others wait for it, continue it (kill -CONT {process.pid}) or end it (kill -KILL {process.pid}).",
            )
    running = [process for process in users if not process.is_stopped]
    if running:
        names = "; ".join(f"{process.pid}: {process.command}" for process in running[:10])
        yield ok("processes", f"{len(running)} have the file open: {names}")


def _check_disk(settings: Settings) -> Iterator[Finding]:
    free = shutil.disk_usage(settings.path.parent).free
    if free < LEAST_FREE:
        todo = "Free some, or delete old runs: outlast prune --older-than 30d."
        yield wrong("disk", f"{_mega(free)} are free in {settings.path.parent}", todo)
    else:
        yield ok("disk", f"{_mega(free)} are free")
    log = _beside(settings.path, "-wal")
    if log.exists() and (size := log.stat().st_size) > LONGEST_LOG:
        todo = "A process reads and does not end: see the processes above, and end the one that hangs."
        yield wrong("log", f"the write-ahead log has {_mega(size)}", todo)


def _mega(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"


# --- what it holds ----------------------------------------------------------------------------------------------------


def _check_content(settings: Settings) -> tuple[list[Finding], bool]:
    try:
        with closing(_connect(settings, "ro")) as connection:
            schema = _check_schema(connection)
            findings = [schema, _check_mode(connection), _check_structure(connection)]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            return [wrong("content", "this is no SQLite database", "Name another in --store or $OUTLAST_URL.")], False
        if isinstance(error, sqlite3.OperationalError):
            todo = "Check that this user may write the folder, where SQLite keeps its log."
            return [wrong("content", f"it cannot be read: {error}", todo)], False
        return [wrong("content", f"it is damaged: {error}", _RESTORE)], False
    # Opening a store migrates it, which is not for a doctor to do.
    return findings, schema.level is Level.OK and all(finding.level is not Level.WRONG for finding in findings)


_RESTORE = "Stop all workers and restore a backup; what can be read still: sqlite3 FILE .recover."


def _check_schema(connection: sqlite3.Connection) -> Finding:
    ((application,),) = connection.execute("pragma application_id").fetchall()
    tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    if application != APPLICATION_ID and tables:
        return wrong("schema", "another program made this file", "Name another in --store or $OUTLAST_URL.")
    known = list_migrations()[-1].number
    if "migrations" not in tables:
        return note("schema", "the file is empty; whoever opens it next makes the tables", "Or: outlast migrate.")
    ((found,),) = connection.execute("select coalesce(max(number), 0) from migrations").fetchall()
    if found > known:
        return wrong("schema", f"it is {found}, this release knows up to {known}", "Upgrade outlast here.")
    if found < known:
        return note("schema", f"it is {found} of {known}; whoever opens it next migrates it", "Or: outlast migrate.")
    return ok("schema", f"{found}, of this release")


def _check_mode(connection: sqlite3.Connection) -> Finding:
    ((mode,),) = connection.execute("pragma journal_mode").fetchall()
    if mode != "wal":
        return note("mode", f"the journal mode is {mode}; whoever opens it next sets it to wal")
    return ok("mode", "wal")


def _check_structure(connection: sqlite3.Connection) -> Finding:
    """SQLite's own quick check, for as long as there is patience."""
    until = time.monotonic() + CHECK_S
    connection.set_progress_handler(lambda: int(time.monotonic() > until), 10_000)
    try:
        ((answer,),) = connection.execute("pragma quick_check(1)").fetchall()
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        return note("structure", f"large: only a part was checked, within {CHECK_S:g} s")
    finally:
        connection.set_progress_handler(None, 0)
    return ok("structure", "sound") if answer == "ok" else wrong("structure", f"damaged: {answer}", _RESTORE)


# --- how it is written ------------------------------------------------------------------------------------------------


def _check_durability(settings: Settings) -> Iterator[Finding]:
    kind = _file_system(settings.path)
    if kind in _NETWORK:
        todo = "Move the file to a local disk, or use PostgreSQL: SQLite's locks do not hold across machines."
        yield wrong("durability", f"the file lies on a network file system, {kind}", todo)
    elif kind in {"tmpfs", "ramfs"}:
        yield note("durability", f"the file lies in memory ({kind}): nothing survives a power cut")
    elif settings.synchronous != "full":
        yield note("durability", "synchronous=normal: a power cut may undo the last moments; the URL says so")
    else:
        yield ok("durability", "synchronous=full: what was acknowledged survives a power cut")


def _file_system(path: Path, read: Callable[[], str] = lambda: Path("/proc/mounts").read_text(encoding="utf-8")) -> str:
    """Its type; empty where it cannot be told."""
    try:
        mounts = [line.split()[1:3] for line in read().splitlines()]
    except OSError:
        return ""
    full = path.resolve()
    found = [(point, kind) for point, kind in mounts if full.is_relative_to(point.encode().decode("unicode_escape"))]
    return max(found, key=lambda mount: len(mount[0]), default=("", ""))[1]


def _check_writing(settings: Settings) -> Finding:
    """Whether a writer gets its turn. Takes the lock for a moment, and changes nothing."""
    try:
        with closing(_connect(settings, "rw")) as connection:
            began = time.monotonic()
            connection.execute("begin immediate")
            connection.execute("rollback")
    except sqlite3.OperationalError as error:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            holder = describe_holder(settings.path)
            todo = "A process that is stopped must be continued or ended; one that works: wait, and look again."
            return wrong("writing", f"for {WAIT_S:g} s nobody else could write; {holder}", todo)
        return wrong("writing", f"it cannot be written: {error}", "Check the permissions of the file and its folder.")
    waited_ms = (time.monotonic() - began) * 1000
    return ok("writing", f"possible, after {waited_ms:.0f} ms")
