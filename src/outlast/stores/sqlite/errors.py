"""From SQLite's errors to outlast's: what happened, to which file, what to do. Layer: stores (sqlite).

What always holds: none of the driver's exceptions leaves the store.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from outlast.stores.sqlite.connection import Settings

__all__ = ["NOT_STORABLE", "describe_holder", "is_busy", "to_store_error"]

NOT_STORABLE = (
    OverflowError,
    UnicodeEncodeError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""What SQLite or its driver raises for a value that no retry can store."""

_WRITE_LOCK_BYTE = 120
"""Of the file `-shm`: who holds it is writing."""

_FROZEN = {"T": ", which is stopped", "t": ", which is stopped by a debugger", "D": ", which waits for its disk"}


def is_busy(error: sqlite3.Error) -> bool:
    """Another connection is at the file; waiting helps.

    PROTOCOL is what a connection gets that lost the race for a place among the readers of the log too often."""
    return _primary_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}


def to_store_error(error: Exception, settings: Settings) -> Exception:
    """The error to raise instead, with this one as its cause; what is not the driver's stays as it is."""
    if isinstance(error, NOT_STORABLE):
        instead: StoreError = StoreRefused(settings.url, "", f"{type(error).__name__}: {error}")
    elif isinstance(error, sqlite3.Error):
        instead = _translate(error, settings)
    else:
        return error
    instead.__cause__ = error
    return instead


def _translate(error: sqlite3.Error, settings: Settings) -> StoreError:
    url, path = settings.url, settings.path
    match _primary_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return StoreBusy(url, f"another process holds {path}")
        case sqlite3.SQLITE_FULL:
            return StoreFull(url, f"{path} cannot grow ({_free_space(settings)})")
        case sqlite3.SQLITE_NOTADB:
            return StoreCorrupt(url, f"{path} is not an SQLite database; if the path is wrong, correct the URL")
        case sqlite3.SQLITE_CORRUPT:
            return StoreCorrupt(url, f"{path}: {error}")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return _diagnose_access(settings, error)
        case sqlite3.SQLITE_ERROR if "no such" in str(error) or "has no column" in str(error):
            return StoreCorrupt(url, f"{path} lacks what its migrations made: {error}")
        case sqlite3.SQLITE_IOERR:
            return StoreUnavailable(url, f"reading or writing {path} failed: {_describe(error)}")
        case _:
            return StoreUnavailable(url, f"{path}: {_describe(error)}")


def _primary_code(error: sqlite3.Error) -> int | None:
    """Without the extension in its upper bits. None: the error is the driver's own."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _describe(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", None)
    return f"{error} ({name})" if name else f"{type(error).__name__}: {error}"


def _diagnose_access(settings: Settings, error: sqlite3.Error) -> StoreError:
    """SQLite says only that it cannot; look why."""
    url, path = settings.url, settings.path
    folder = path.parent
    if path.is_dir():
        return StoreUnavailable(url, f"{path} is a folder; name a file in it")
    if not folder.exists():
        return StoreUnavailable(url, f"the folder {folder} does not exist; create it")
    if not folder.is_dir():
        return StoreUnavailable(url, f"{folder} is not a folder")
    if not _may(folder, os.X_OK):
        return StoreUnavailable(url, f"this user may not enter the folder {folder}")
    if path.exists() and not _may(path, os.R_OK):
        return StoreUnavailable(url, f"this user may not read {path}")
    if path.exists() and not _may(path, os.W_OK):
        return StoreReadOnly(url, f"this user may not write {path}")
    if not _may(folder, os.W_OK):
        return StoreReadOnly(url, f"this user may not create files in the folder {folder}, and the log lies there")
    for beside in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        if beside.exists() and not _may(beside, os.W_OK):
            return StoreReadOnly(url, f"this user may not write {beside}")
    if _primary_code(error) == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(url, f"{path}: {_describe(error)}")
    return StoreUnavailable(url, f"{path} cannot be opened: {_describe(error)}")


def _may(path: os.PathLike[str], mode: int) -> bool:
    """As the user this process acts as, where the system can tell."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _free_space(settings: Settings) -> str:
    try:
        disk = os.statvfs(settings.path.parent)
    except (AttributeError, OSError):  # not on every system; or the folder is gone
        return "the disk is full"
    return f"{disk.f_bavail * disk.f_frsize // 1_000_000} MB are free in its folder"


def describe_holder(path: Path) -> str:
    """Who holds the file against everybody else, as far as can be known from here: Linux lists its file locks."""
    shared = path.with_name(path.name + "-shm")
    try:
        pid = _find_holder(shared.stat().st_ino) if sys.platform == "linux" else None
    except OSError:
        pid = None
    if pid is None:
        return f"find it with: fuser {path}"
    return f"it is process {pid}{_describe_process(pid)}"


def _find_holder(inode: int) -> int | None:
    """The process with a write lock on the byte, from lines like `1: POSIX ADVISORY WRITE 4711 fd:00:1234 120 120`."""
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        fields = line.split()
        if len(fields) != 8 or fields[3] != "WRITE" or fields[5].rpartition(":")[2] != str(inode):
            continue
        first, last = int(fields[6]), fields[7]
        if first <= _WRITE_LOCK_BYTE and (last == "EOF" or int(last) >= _WRITE_LOCK_BYTE):
            return int(fields[4])
    return None


def _describe_process(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # gone, or of another container
        return ""
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return f" ({name}){_FROZEN.get(rest.split()[0], '')}"
