"""Running the blocks of a page, one after another, as a reader would who copies them."""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Self

from tests.docs.pages import ROOT, Block, Command, read_commands

__all__ = ["Reader"]

PATIENCE_S = 40
A_MOMENT_S = 2.0
"""Nobody can type `kill -9` faster."""
INTERRUPTED, KILLED = "^C", "Killed"
# What differs from run to run, and how a page may show it.
_CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"(?<![\w.])<?(?:\d+(?:\.\d+)?(?:ms|s|min|h))+\b"), "DURATION"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"(?<=version )[0-9a-f]{12}"), "VERSION"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12}\b"), "WORKER"),
    (re.compile(r"[ \t]+"), " "),
)


_LATER = re.compile(r"^.* INFO outlast: worker \S+ is gone: 0 of its runs are due again\n", re.MULTILINE)
"""What is seen by those alone who come to a command when the lease of a worker that was killed before has lapsed."""


class Reader:
    """Reads one page in a folder of its own. Blocks of Python share their names; `await` works at the top.

    As a context manager it forgets, at the end, what the page has had this process import: another page and other tests
    have a `shop` too.
    """

    def __init__(self, folder: Path, changes: dict[str, str]) -> None:
        """`changes` are made to every text before it is run: so nobody waits for an hour."""
        self.folder = folder
        self._changes = changes
        self._module = ModuleType("page")
        self._bin = folder / ".bin"
        self._bin.mkdir()
        for name, arguments in (("outlast", "-m outlast"), ("python", ""), ("pytest", "-m pytest -p no:cacheprovider")):
            script = self._bin / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            script.chmod(script.stat().st_mode | stat.S_IXUSR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name, module in list(sys.modules.items()):
            if module is self._module or Path(getattr(module, "__file__", None) or "/").is_relative_to(self.folder):
                del sys.modules[name]

    async def read(self, block: Block) -> None:
        """Do what a reader would do with the block. Raises AssertionError, or whatever its code raises."""
        if "not run" in block.told:
            return
        if "file" in block.told:
            (self.folder / block.told["file"]).write_text(self._changed(block.text))
        elif block.language == "python":
            await self._run_python(block)
        elif block.language == "console":
            for command in read_commands(block):
                await asyncio.to_thread(self._run_command, block, command)

    def _changed(self, text: str) -> str:
        for old, new in self._changes.items():
            text = text.replace(old, new)
        return text

    async def _run_python(self, block: Block) -> None:
        text = self._changed(block.text)
        name = f"<{block}>"  # where a traceback finds its lines, and a workflow the source of its body
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        code = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        here = Path.cwd()
        os.chdir(self.folder)
        sys.modules["page"] = self._module
        sys.path.insert(0, str(self.folder))
        try:
            if code.co_flags & inspect.CO_COROUTINE:
                await eval(code, vars(self._module))
            else:  # where it may use `asyncio.run`
                await asyncio.to_thread(exec, code, vars(self._module))
        finally:
            sys.path.remove(str(self.folder))
            os.chdir(here)

    def _run_command(self, block: Block, command: Command) -> None:
        process = subprocess.Popen(
            ["bash", "-c", command.text], cwd=self.folder, env=self._environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        printed: list[str] = []
        reading = threading.Thread(target=lambda: printed.extend(process.stdout or ()))
        reading.start()
        try:
            before, how, _ = _part(command.shown)
            stopped_at = 0
            if how:
                _wait(lambda: fits(before, "".join(printed)) or process.poll() is not None)
                if how == KILLED and "sleeping" in before.splitlines()[-1]:
                    _wait(self._are_runs_parked)
                elif how == KILLED:
                    time.sleep(A_MOMENT_S)
                stopped_at = len(printed)
                os.killpg(process.pid, signal.SIGKILL if how == KILLED else signal.SIGINT)
            status = process.wait(PATIENCE_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            reading.join()
            if process.stdout is not None:
                process.stdout.close()
        status = status if status >= 0 else 128 - status  # as a shell says it
        output = "".join(printed)
        expected = 137 if how == KILLED else int(block.told.get("exit", 0))
        assert status == expected, f"{block}: {command.text}\nexited {status}:\n{output}"
        self.compare(block, command, output, stopped_at)

    def _are_runs_parked(self) -> bool:
        """Nobody who is killed now is missed: of a run that sleeps, that takes a part of a second."""
        for path in self.folder.glob("*.db"):
            with closing(sqlite3.connect(path)) as database:
                if database.execute("select 1 from runs where owner is not null").fetchone():
                    return False
        return True

    def compare(self, block: Block, command: Command, output: str, stopped_at: int) -> None:
        """Raises AssertionError where the page shows something else than was printed.

        A command that was stopped had printed `stopped_at` lines by then.
        """
        del stopped_at
        before, _, after = _part(command.shown)
        output = _LATER.sub("", output)
        assert fits(before + after, output), f"{block}: {command.text}\nshows\n{output}\nthe page says\n{command.shown}"

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        return kept | {
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "COLUMNS": "120",
            "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "0",  # as commands would have it that start themselves anew, for that
        }


def _part(shown: str) -> tuple[str, str, str]:
    """What is shown before and after the reader's `^C`, or up to the `Killed` of a `kill -9` from elsewhere."""
    for how in (INTERRUPTED, KILLED):
        before, found, after = f"\n{shown}".partition(f"\n{how}\n")
        if found:
            return before.removeprefix("\n") + "\n", how, after
    return shown, "", ""


def _wait(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so() and time.monotonic() < until:
        time.sleep(0.05)


def fits(shown: str, printed: str) -> bool:
    """Whether what the page shows is what was printed: times and ids apart. `…` is anything in a line; alone in its
    line, it is any number of lines.
    """
    if not shown.strip():
        return True
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in plain(shown).splitlines()
    )
    return re.fullmatch(pattern, f"{plain(printed)}\n") is not None


def plain(text: str) -> str:
    """Without what changes from run to run, and how wide columns happen to be."""
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())
