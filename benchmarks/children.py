"""A function in a fresh interpreter: what is measured there meets no heap, no cache and no thread of what came before.

The parent gives the function one value, and hears values from it, each a line of JSON; a line back means "go on". What
the function returns is the last of them. Its standard output is the parent's standard error.
"""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar, get_type_hints

import msgspec

from benchmarks.machine import ROOT

__all__ = ["Child", "ChildFailed", "Parent", "Plan", "call", "say"]

T = TypeVar("T")


class Plan(msgspec.Struct, frozen=True):
    """What every subject is told."""

    folder: str
    """Where its files may be; it is deleted afterwards."""
    quick: bool = False
    """A smoke test: every part runs, none long enough for its figures to mean anything."""
    postgres: str = ""
    """The database to measure on; empty: files of SQLite (`benchmarks/places.py`)."""


class ChildFailed(Exception):
    """It ended, or was ended for taking too long, before it said what was asked."""


class Parent:
    """As the function in the child sees it."""

    def __init__(self, output: int) -> None:
        self._output = output

    def tell(self, value: object) -> None:
        """Say this to the parent."""
        os.write(self._output, msgspec.json.encode(value) + b"\n")

    def wait(self) -> None:
        """Until the parent says to go on, or is gone. It blocks: in an event loop, `asyncio.to_thread(parent.wait)`."""
        sys.stdin.readline()


class Child:
    """As the parent sees it. Leaving the context ends the process, if it has not ended."""

    def __init__(self, function: Callable[[Any, Parent], object], argument: msgspec.Struct, *, limit_s: float) -> None:
        """Start it. After `limit_s` it is killed."""
        self._name = f"{function.__module__}:{function.__name__}"
        paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.children", self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        self._limit_s = limit_s
        self._alarm = threading.Timer(limit_s, self._process.kill)
        self._alarm.daemon = True
        self._alarm.start()
        self._write(msgspec.json.encode(argument))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._alarm.cancel()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        if self._process.poll() is None:
            try:
                self._process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def hear(self, kind: type[T]) -> T:
        """The next value it says. Raises `ChildFailed`."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            status = self._process.wait()
            raise ChildFailed(f"{self._name} ended with status {status} (its limit was {self._limit_s:g} s)")
        return msgspec.json.decode(line, type=kind)

    def go_on(self) -> None:
        """End its `wait`."""
        self._write(b"")

    def kill(self) -> None:
        """End it as a crash would: at once, without a word."""
        self._process.kill()

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone: who listens next hears of it


def call(
    function: Callable[[Any, Parent], object], argument: msgspec.Struct, kind: type[T], *, limit_s: float = 120.0
) -> T:
    """What the function returns, from a process of its own."""
    with Child(function, argument, limit_s=limit_s) as child:
        return child.hear(kind)


def say(text: str) -> None:
    """What is going on, for who watches: on standard error, beside the report."""
    print(f"  … {text}", file=sys.stderr, flush=True)


class _FirstLine(logging.Formatter):
    """A warning belongs to what was measured; the stack it may have would bury the rest."""

    def format(self, record: logging.LogRecord) -> str:
        return f"  ! {record.getMessage().splitlines()[0]}"


def main(name: str) -> None:
    """The child's side."""
    handler = logging.StreamHandler()
    handler.setFormatter(_FirstLine())
    logging.getLogger().addHandler(handler)
    output = os.dup(1)
    os.dup2(2, 1)
    module, _, function_name = name.partition(":")
    function = getattr(importlib.import_module(module), function_name)
    kinds = list(get_type_hints(function).values())
    parent = Parent(output)
    parent.tell(function(msgspec.json.decode(sys.stdin.readline(), type=kinds[0]), parent))


if __name__ == "__main__":
    main(sys.argv[1])
