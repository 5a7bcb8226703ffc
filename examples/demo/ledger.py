"""What really happened, written down outside the store: one line when a step's work begins, and one when it has ended.

A line is one `write` to a file opened for appending: it is whole, and there even if its process is killed right after.
The engine knows nothing of it; `proof.py` compares the two.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outlast import current_step


@contextmanager
def noted(about: str = "") -> Iterator[None]:
    """Note this execution of the current step, if $DEMO_LEDGER says where."""
    write("began", about)
    yield
    write("ended", about)  # not if it raised: then there was no effect


def write(what: str, about: str) -> None:
    path = os.environ.get("DEMO_LEDGER")
    if not path:
        return
    step = current_step()
    line = {
        "what": what,
        "step": step.key,
        "invocation": step.invocation_id,
        "attempt": step.attempt,
        "pid": os.getpid(),
        "about": about,
    }
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


def read(path: Path) -> list[dict[str, str | int]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
