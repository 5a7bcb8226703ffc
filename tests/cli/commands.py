"""How the tests of this folder run the command: in a process of its own, as people do, or within the test."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from outlast.cli.main import cli

SRC = Path(__file__).resolve().parents[2] / "src"
PROMPT_S = 20.0
"""How long a command may take that has nothing to wait for, on a busy machine."""

SHOP = """
import asyncio
from dataclasses import dataclass
from collections.abc import Generator
from pathlib import Path
from outlast import Context, Outlast, current_step

app = Outlast("sqlite:///shop.db")

@dataclass
class Order:
    id: str
    amount: int

@app.step(retries=0)
async def charge(order: Order) -> str:
    if order.amount < 0 and not Path("mended").exists():
        raise ValueError("no such amount")
    return f"receipt for {order.id}"

@app.step(retries=2, backoff=0.01)
def pack(item: str) -> str:
    print("packing", item)
    if item == "lamp" and current_step().attempt == 1:
        raise OSError("out of paper")
    return f"parcel of {item}"

@app.step(retries=3)
async def wait_for_file(name: str) -> int:
    Path(name + ".begun").touch()
    while not Path(name).exists():
        await asyncio.sleep(0.02)
    return current_step().attempt

@app.workflow
async def fulfil(ctx: Context, order: Order) -> list[str]:
    receipt = await charge(order)
    parcel = await pack("lamp")
    await ctx.milestone("packed")
    return [receipt, parcel]

@app.workflow(name="shop:greet")
async def greet(ctx: Context, name: str = "world") -> str:
    await ctx.set_state("greeted", name)
    return f"hello {name}"

@app.step(queue="gpu")
async def render(scene: str) -> str:
    return scene

@app.workflow
async def send(ctx: Context) -> str:
    return await render("a house")

@app.workflow
async def nap(ctx: Context, seconds: float) -> None:
    await ctx.sleep(seconds)

@app.workflow
async def patient(ctx: Context, file: str) -> int:
    return await wait_for_file(file)
"""


class Done(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document that it printed, and nothing else."""
        return json.loads(self.out)


def environment(**more: str) -> dict[str, str]:
    """This process's, without what would change how a command behaves; and without a second start, for speed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST", "PYTHON", "FORCE"))}
    return {**kept, "PYTHONPATH": str(SRC), "PYTHONUNBUFFERED": "1", "OUTLAST_NO_REEXEC": "1", **more}


def begin(folder: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    """The command, in a process that is under way."""
    return subprocess.Popen(
        [sys.executable, "-m", "outlast", *words],
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = PROMPT_S) -> Done:
    """Wait for its end; one that does not come is killed, and the test fails."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end within {timeout} s\n{out}\n{err}") from None
    return Done(process.returncode, out, err)


def outlast(folder: Path, *words: str, stdin: str = "", **more: str) -> Done:
    """The command, from its start to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "outlast", *words],
        cwd=folder,
        env=environment(**more),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PROMPT_S,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def as_before() -> Generator[None]:
    """What commands called within leave behind in this process is put back: imports, the path, log levels."""
    path, known = list(sys.path), set(sys.modules)
    levels = {name: logging.getLogger(name).level for name in ("", "outlast")}
    yield
    sys.path[:] = path
    for name in set(sys.modules) - known:
        if not name.startswith(("outlast", "rich", "click", "sqlite3", "asyncio")):
            del sys.modules[name]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def call(*words: str) -> Done:
    """The command, within this process."""
    done = CliRunner().invoke(cli, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)
