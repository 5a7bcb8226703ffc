"""The work tree as the tests of this folder read it: files that git knows or would take, parsed once."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "outlast"
TESTS = ("tests", "src/outlast/testing/stores/promises")
"""Where tests stand."""


@dataclass(frozen=True)
class Module:
    """A Python file, by its path from the root."""

    path: Path
    lines: int
    tree: ast.Module

    def __str__(self) -> str:
        return str(self.path)

    def is_in(self, *folders: str) -> bool:
        """Whether it lies below one of these folders, given from the root."""
        return any(self.path.is_relative_to(folder) for folder in folders)

    def iter_functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions and methods, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def iter_imports(self) -> Iterator[tuple[int, str]]:
        """Line and full name of what is imported, wherever in the file: `from a import b` is `a.b`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((node.lineno, f"{'.' * node.level}{node.module or ''}.{a.name}") for a in node.names)


@functools.cache
def list_files() -> tuple[Path, ...]:
    """Every file in the tree that is committed or would be, from the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(sorted({Path(name) for name in names.split("\0") if name and (ROOT / name).is_file()}))


@functools.cache
def list_modules() -> tuple[Module, ...]:
    """Every Python file among them."""
    found = []
    for path in list_files():
        if path.suffix == ".py":
            text = (ROOT / path).read_text(encoding="utf-8")
            found.append(Module(path, text.count("\n"), ast.parse(text, str(path))))
    return tuple(found)


def list_package() -> tuple[Module, ...]:
    """The modules of outlast itself."""
    return tuple(module for module in list_modules() if module.is_in("src/outlast"))
