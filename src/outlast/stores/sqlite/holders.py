"""Who holds a SQLite file against everybody else: for the message of `StoreBusy`. Layer: stores (sqlite).

Linux lists its file locks. The writer of a WAL database holds byte 120 of the file `-shm`.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["describe_holder"]

_WRITE_LOCK_BYTE = 120
_FROZEN = {"T": ", which is stopped", "t": ", which is stopped by a debugger", "D": ", which waits for its disk"}


def describe_holder(path: Path) -> str:
    """Which process is writing, as far as can be known from here."""
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
