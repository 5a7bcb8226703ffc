"""SQL as it lies in files: statements by name, and migrations by number. Layer: stores.

A file of statements is a row of them, each headed by `-- name: insert_messages` and a comment that says what it is for;
`$(runs.look)` in one stands for the text of another.
A migration is a file `<number>_<name>.sql`. What always holds: a migration that was applied is never edited, save for
its comments; its checksum says so.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from outlast.errors import SchemaTooNew, StoreCorrupt

__all__ = ["Migration", "find_pending", "list_migrations", "read_statements"]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PART = re.compile(r"\$\((\w+)\.(\w+)\)")


def read_statements(package: str, name: str) -> dict[str, tuple[str, str]]:
    """All statements of a package's `sql/<name>.sql`, by name: what each is for, and its text without comments."""
    text = resources.files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    found = {head: _parse(head, body) for head, body in zip(parts[::2], parts[1::2], strict=True)}
    return {
        head: (purpose, _PART.sub(lambda part: _read(package, *part.groups()), sql))
        for head, (purpose, sql) in found.items()
    }


def _read(package: str, name: str, head: str) -> str:
    return read_statements(package, name)[head][1]


def _parse(name: str, body: str) -> tuple[str, str]:
    lines = body.strip().splitlines()
    purpose = " ".join(line.removeprefix("--").strip() for line in lines if line.startswith("--"))
    assert purpose, f"{name} does not say what it is for"
    return purpose, "\n".join(line for line in lines if not line.startswith("--")).strip().removesuffix(";")


@dataclass(frozen=True)
class Migration:
    """One step of a backend's schema."""

    number: int
    name: str
    sql: str

    @property
    def code(self) -> list[str]:
        """Its lines, without comments."""
        lines = (line.partition("--")[0].rstrip() for line in self.sql.splitlines())
        return [line for line in lines if line]

    @property
    def checksum(self) -> str:
        """Of the statements; comments may be mended."""
        return hashlib.sha256("\n".join(self.code).encode()).hexdigest()


@cache
def list_migrations(package: str) -> tuple[Migration, ...]:
    """All that this release knows for a backend, in order. A number may be missing: it was given to none."""
    folder = resources.files(package).joinpath("migrations")
    files = sorted((path for path in folder.iterdir() if path.name.endswith(".sql")), key=lambda path: path.name)
    found = []
    for file in files:
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    assert all(before.number < after.number for before, after in itertools.pairwise(found))
    return tuple(found)


def find_pending(url: str, applied: Sequence[tuple[int, str, str]], known: Sequence[Migration]) -> Sequence[Migration]:
    """What is still to be applied, when these (number, name, checksum) were, in their order.

    Raises `SchemaTooNew`, and `StoreCorrupt` for a migration that is not the one this release knows."""
    if applied and applied[-1][0] > known[-1].number:
        raise SchemaTooNew(url, applied[-1][0], known[-1].number)
    for (number, name, checksum), migration in zip(applied, known, strict=False):
        if (number, checksum) != (migration.number, migration.checksum):
            raise StoreCorrupt(
                url,
                f"migration {number} ({name}) was applied in another wording than this release's: was it edited, "
                "or the store made by a development version?",
            )
    return known[len(applied) :]
