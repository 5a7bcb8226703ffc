"""How quickly `outlast serve` answers about a long run, and from long lists: what a console waits for.

A run of 5,000 steps that has ended, and 10,000 other runs (`benchmarks/filling.py`), in one store; `outlast serve` in a
process of its own, and one client on one connection, which asks for the same again and again. The target is 200 ms for
the median of each answer; the longest stands beside it.
"""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from benchmarks.children import Parent, Plan, say
from benchmarks.figures import Figure, Report, Table, spread
from benchmarks.filling import fill
from benchmarks.machine import ROOT
from benchmarks.places import describe_store, new_store
from outlast.app import Outlast
from outlast.authoring.context import Context

__all__ = ["measure"]

STEPS, RUNS, TIMES = 5_000, 10_000, 30
MOST_MS = 200.0
PAGE = 100
ID = "long"
MODULE = """
from outlast import Outlast

app = Outlast()
"""


class Asked(msgspec.Struct):
    """One kind of answer."""

    size: int
    taken_ms: list[float]


def measure(plan: Plan, _parent: Parent) -> Report:
    """Fill, serve, ask."""
    steps, runs, times = (60, 200, 3) if plan.quick else (STEPS, RUNS, TIMES)
    settings = {
        "run": f"{steps:,} steps, ended",
        "list": f"{runs:,} runs",
        "asked": f"{times} times each, on one connection",
        "store": describe_store(plan),
    }
    report = Report("http", settings, {}, [])
    with new_store(plan) as url:
        say(f"a run of {steps:,} steps is worked, {runs:,} others are filled in")
        events = asyncio.run(_work(url, steps))
        asyncio.run(fill(url, runs, say))
        with _serving(url, Path(plan.folder)) as server:
            taken = {name: _ask(server, path, times) for name, path in list_paths(steps, events, runs).items()}
    _tell(report, taken)
    return report


def list_paths(steps: int, events: int, runs: int) -> dict[str, str]:
    """What is asked, by what it is."""
    run = f"runs/{ID}"
    return {
        "run, with all its steps": run,
        "history: a page of its middle": f"{run}/history?after={steps // 2}&limit={PAGE}",
        "history of one step": f"{run}/history?key={quote(f'step#{steps // 2}')}",
        "timeline: the first piece a console reads": f"{run}/timeline?limit=300",
        "timeline: a page of its middle": f"{run}/timeline?after={events // 2}&limit={PAGE}",
        "timeline: its second piece, all at once": f"{run}/timeline?after=299&limit=10000",
        "state in its middle": f"{run}/state?seq={events // 2}",
        "result": f"{run}/result",
        "list: its first page": f"runs?limit={PAGE}",
        "list: failed ones": f"runs?limit={PAGE}&status=failed",
        "list: of a workflow": f"runs?limit={PAGE}&workflow={quote('workflow 1')}",
        f"list: {min(runs, 1000):,} at once": f"runs?limit={min(runs, 1000)}",
    }


async def _work(url: str, steps: int) -> int:
    """Work the run to its end; gives how many events it has."""
    app = Outlast(url)

    @app.step(name="step")
    async def step(number: int) -> dict[str, Any]:
        return {"number": number, "receipt": f"receipt {number}"}

    @app.workflow(name="long")
    async def long(ctx: Context, steps: int) -> int:  # noqa: ARG001 - a body has a context
        for number in range(steps):
            await step(number)
        return steps

    async with app.worker():
        run = await app.start(long, steps, id=ID)
        await run.result()
        return len(await run.timeline())


@contextmanager
def _serving(url: str, folder: Path) -> Generator[str, None, None]:
    """`outlast serve`, and where it can be reached."""
    (folder / "served.py").write_text(MODULE)
    command = ["serve", "served.py", "--store", url, "--no-auth", "--port", "0", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "outlast", *command],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield msgspec.json.decode(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.communicate(timeout=30)
        (folder / "served.py").unlink()


def _ask(server: str, path: str, times: int) -> Asked:
    """Once to warm up, then so many times."""
    address = urlsplit(server)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    asked = Asked(0, [])
    try:
        for _ in range(times + 1):
            began = time.perf_counter()
            connection.request("GET", f"/api/v1/{path}")
            answer = connection.getresponse()
            body = answer.read()
            asked.taken_ms.append(1000 * (time.perf_counter() - began))
            if answer.status != 200:
                raise RuntimeError(f"GET {path} answered {answer.status}: {body[:300]!r}")
            asked.size = len(body)
    finally:
        connection.close()
    del asked.taken_ms[0]
    return asked


def _tell(report: Report, taken: dict[str, Asked]) -> None:
    rows = []
    for name, asked in taken.items():
        figure = spread(asked.taken_ms, "ms", target=MOST_MS)
        longest = Figure(figure.high, figure.high, figure.high, 1, "ms")
        report.figures |= {f"{name}/p50": figure, f"{name}/max": longest}
        rows.append([name, f"{asked.size / 1000:,.1f}", str(figure), str(longest), figure.verdict])
    columns = ["answer", "kB", "p50, ms", "longest, ms", "target"]
    notes = ["From the request's first byte to the answer's last, on this machine's loopback."]
    report.tables.append(Table("HTTP answers", columns, rows, notes))
