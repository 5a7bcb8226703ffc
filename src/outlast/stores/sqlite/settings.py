"""Where a SQLite store is and how it is set, from its URL. Layer: stores (sqlite)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from outlast.errors import InvalidSetting

__all__ = ["Settings", "parse_url"]

_SCHEME = "sqlite://"
_SHAPE = "sqlite:///relative/path.db or sqlite:////absolute/path.db"


@dataclass(frozen=True)
class Settings:
    """What the query of the URL may say, and its defaults."""

    url: str
    path: Path
    """Absolute: a process that changes its folder keeps its store."""
    synchronous: str = "full"
    """`full`: what a commit has answered survives a power cut. `normal`: it survives the death of every process, but a
    power cut may undo the last moments (never tear them); commits are several times as fast."""
    readers: int = 1
    """Threads that read. One answers tens of thousands of small reads a second; two keep a worker's loads from waiting
    behind a console's lists."""
    busy_us: int = 30_000_000
    """How long to wait for another process that holds the file, before `StoreBusy`."""


def parse_url(url: str) -> Settings:
    """Settings from `sqlite:///shop.db?synchronous=normal`. Raises `InvalidSetting`."""
    rest = url.removeprefix(_SCHEME)
    location, _, query = rest.partition("?")
    if not url.startswith(_SCHEME) or not location.startswith("/"):
        raise InvalidSetting("store URL", url, f"{_SHAPE} (three slashes before a path, a fourth if it is absolute)")
    name = unquote(location[1:])
    if name == ":memory:":
        raise InvalidSetting("store URL", url, "memory:// for a store in memory, which workers and clients share")
    if not name or "\0" in name:
        raise InvalidSetting("store URL", url, _SHAPE)
    return Settings(url, Path(name).absolute(), **_parse_options(query))  # type: ignore[arg-type]


def _parse_options(query: str) -> dict[str, object]:
    options: dict[str, object] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "synchronous":
            options[name] = _choose(name, value, ("full", "normal"))
        elif name == "readers":
            options[name] = int(_choose(name, value, ("1", "2", "3", "4")))
        elif name == "busy_timeout":
            options["busy_us"] = _parse_seconds(name, value)
        else:
            raise InvalidSetting(
                "option of the store URL", name, "synchronous=full|normal, readers=1..4 or busy_timeout=SECONDS"
            )
    return options


def _choose(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value.lower() not in allowed:
        raise InvalidSetting(f"{name} of the store URL", value, " or ".join(allowed))
    return value.lower()


def _parse_seconds(name: str, value: str) -> int:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise InvalidSetting(f"{name} of the store URL", value, "seconds, from 0 to 3600")
    return int(seconds * 1_000_000)
