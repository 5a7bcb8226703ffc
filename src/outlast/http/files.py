"""The console's files. Layer: http.

They hold no data: what the console shows it asks the API for. So they are there for everybody, as a page that asks for
a token has to be. What always holds: a file is found by its name in a table that was made beforehand, so that no path
leads out; and scripts and styles come from here alone.
"""

from __future__ import annotations

import hashlib
import html
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import NamedTuple

__all__ = ["CONSOLE", "File", "Files", "console_folder"]

CONSOLE = "console"
INDEX = "index.html"
BASE = b"__BASE__"
"""In the index: where the console is, which only a request knows. For `<base href>`."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
)
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
"""What is served; any other file stays where it is."""


class File(NamedTuple):
    """One file, with what is said of it."""

    data: bytes
    kind: str
    tag: str
    """Its ETag."""


def console_folder() -> Traversable:
    """Where the console's files are, if this release has them."""
    return files("outlast") / "console" / "static"


class Files:
    """All files of a folder, read once."""

    def __init__(self, folder: Traversable) -> None:
        self._files: dict[tuple[str, ...], File] = {}
        if folder.is_dir():
            self._read(folder, ())
        self._folders = {path[0] for path in self._files if len(path) > 1}

    def _read(self, folder: Traversable, place: tuple[str, ...]) -> None:
        for entry in folder.iterdir():
            path = (*place, entry.name)
            if entry.is_dir():
                self._read(entry, path)
            elif (kind := TYPES.get(PurePosixPath(entry.name).suffix)) is not None:
                data = entry.read_bytes()
                self._files[path] = File(data, kind, _tag(data))

    def find(self, path: tuple[str, ...], root: str) -> File | None:
        """The file at `path`; for what looks like no file, the index: where the console is, it knows itself. What comes
        behind a view's name may have dots: ids do."""
        found = self._files.get(path)
        if found is None and not (path and ("." in path[0] or path[0] in self._folders)):
            path = (INDEX,)
            found = self._files.get(path)
        if found is None or path != (INDEX,):
            return found
        data = found.data.replace(BASE, html.escape(f"{root}/{CONSOLE}/").encode())
        return found._replace(data=data, tag=_tag(data))


def _tag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'
