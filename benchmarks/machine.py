"""On what was measured: the machine, its versions, the disk below the files, and what else it did.

A figure without these says nothing: durable commits on a disk that forgets are quick, and so is a machine that idles.
"""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

__all__ = ["ROOT", "Machine", "describe_machine", "has_uvloop", "list_loops", "resident_bytes", "wait_until"]

ROOT = Path(__file__).resolve().parent.parent


class Machine(msgspec.Struct, frozen=True):
    """Of one run of the program."""

    system: str
    processor: str
    cores: int
    python: str
    sqlite: str
    packages: dict[str, str]
    file_system: str
    """Below the files that were written."""
    revision: str
    """Of outlast, with `+` for changes that were not committed."""

    def __str__(self) -> str:
        packages = ", ".join(f"{name} {number}" for name, number in self.packages.items())
        return (
            f"{self.system}, {self.processor}, {self.cores} cores; {self.file_system}; Python {self.python}, "
            f"SQLite {self.sqlite}, {packages}; outlast {self.revision}"
        )


def describe_machine(folder: Path) -> Machine:
    """This one, with the disk that this folder is on."""
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        packages={name: found for name in ("msgspec", "uvloop") if (found := _version(name))},
        file_system=_file_system(folder),
        revision=_revision(),
    )


def has_uvloop() -> bool:
    """Whether it is installed: the engine is measured on it as well."""
    return bool(_version("uvloop"))


def list_loops(*, quick: bool = False) -> list[str]:
    """Event loops that the engine is measured on: asyncio's own alone, for a quick look."""
    return ["asyncio", "uvloop"] if has_uvloop() and not quick else ["asyncio"]


def resident_bytes() -> int:
    """What this process has in memory now; where the system does not tell, the most it ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


async def wait_until(holds: Callable[[], bool], every_s: float = 0.02) -> None:
    """Look until it is so. For what has no event to wait on, since only a benchmark asks for it."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(every_s)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown processor")


def _file_system(folder: Path) -> str:
    """Its type: `tmpfs` would make every commit free."""
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown file system"
    mounts = [line.split()[1:3] for line in lines]
    above = [(where, kind) for where, kind in mounts if folder.resolve().is_relative_to(where)]
    return max(above, key=lambda mount: len(mount[0]))[1] if above else "unknown file system"


def _revision() -> str:
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=10"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return _version("outlast") or "of unknown revision"
    return done.stdout.strip()
