"""The journals and stores that releases left here, a folder for each.

python tests/journals/kept.py      makes those of the release at hand; the others are never touched
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from outlast import Outlast, RunCancelled, RunFailed, User  # noqa: E402
from outlast.run.transfer import export_run  # noqa: E402
from outlast.stores.open import open_store  # noqa: E402
from outlast.stores.postgres.settings import parse_url  # noqa: E402
from outlast.testing import Lab, running  # noqa: E402
from tests import postgres_schemas  # noqa: E402
from tests.journals import bodies  # noqa: E402
from tests.plans.kept import load  # noqa: E402
from tests.postgres_server import find_binaries  # noqa: E402

__all__ = ["EXAMPLES", "HERE", "RELEASES", "SCHEMA", "find_app"]

RELEASE = "0.1"
SCHEMA = "its_schema"
"""Stands for the name of the schema in what is kept of a PostgreSQL store."""
RELEASES = sorted(path.name for path in HERE.iterdir() if path.is_dir() and path.name[0].isdigit())
ANN = User("ann")

EXAMPLES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "fulfil": ("order.py", ("A-17", ["book", "lamp"])),
    "newsletter": ("newsletter.py", ({"feeds": ["news", "sport", "broken"], "longest": 60},)),
    "nightly": ("nightly.py", ("2026-07-01", "backups", ["shop.db"])),
    "daily_sales": ("demo/sales.py", ("2026-07-01", "inbox", "out")),
}


def find_app(workflow: str) -> Outlast:
    """The app that has this workflow."""
    found = EXAMPLES.get(workflow)
    app: Outlast = load(ROOT / "examples" / found[0]) if found else bodies.app
    return app


# --- journals ---------------------------------------------------------------------------------------------------------


async def _end(lab: Lab, run: Any) -> None:
    with contextlib.suppress(RunFailed, RunCancelled):
        await lab.result(run)


async def _answer(lab: Lab, run: Any) -> None:
    assert await lab.until_waiting(run)
    await run.signal("paid", 30, key="bank")
    assert await lab.until_waiting(run)
    await run.approve("ship it?", True, by=ANN)
    assert await lab.until_waiting(run)
    await run.resume("look at it")
    await _end(lab, run)


async def _cancel(lab: Lab, run: Any) -> None:
    await lab.pass_time("1d")
    await run.cancel("enough")
    await _end(lab, run)


async def _retry(lab: Lab, run: Any) -> None:
    bodies.broken.add("second")
    await _end(lab, run)
    bodies.broken.clear()
    await run.retry()
    await _end(lab, run)
    await _end(lab, await run.fork(at="mendable#2", id="forked"))


async def _rest(lab: Lab, run: Any) -> None:
    await lab.settle()


RUNS: dict[str, tuple[str, tuple[Any, ...], Callable[[Lab, Any], Awaitable[None]]]] = {
    "parallel": ("parallel", ([1, 2, 3],), _end),
    "failing": ("failing", (), _end),
    "answered": ("outside", (), _answer),
    "compensated": ("saga", (), _end),
    "family": ("family", (), _end),
    "deterministic": ("deterministic", (bodies.Line("a book", bodies.Decimal("9.90")),), _end),
    "queued": ("queued", (), _end),
    "cancelled": ("cleaning", (), _cancel),
    "retried": ("retried", (), _retry),
    "sleeping": ("deterministic", (bodies.Line("a lamp", bodies.Decimal("19.90")),), _rest),
    "waiting": ("outside", (), _rest),
}
"""By id: workflow, input, and what is done for it."""


async def _write_journals(folder: Path) -> None:
    for app, runs in [(bodies.app, RUNS)] + [
        (load(ROOT / "examples" / file), {f"example-{name}": (name, input, _end)})
        for name, (file, input) in EXAMPLES.items()
    ]:
        async with running(app) as lab:
            for id, (workflow, input, drive) in runs.items():
                await drive(lab, await lab.app.start(workflow, *input, id=id))
            engine = lab.worker.engine
            for summary in (await lab.app.runs(limit=500)).runs:
                row = await engine.get_row(summary.uid)
                lines = list(await export_run(engine, row))
                name = row.id if row.parent is None else f"child-{row.status}-{row.uid[:8]}"
                (folder / f"{name}.jsonl").write_bytes(b"".join(lines))


# --- stores -----------------------------------------------------------------------------------------------------------


async def write_store(url: str) -> None:
    """A store with runs that have ended, that wait, and one that nobody has seen; and nobody at work."""
    twin = bodies.app.on_store(open_store(url))
    async with twin.worker(lease="10s"):
        for id, workflow, input in (("ended", "parallel", ([1, 2],)), ("compensated", "saga", ())):
            run: Any = await twin.start(workflow, *input, id=id)
            with contextlib.suppress(RunFailed):
                await run.result(timeout=60)
        for id, workflow, input in (
            ("waiting", "outside", ()),
            ("sleeping", "cleaning", ()),
            ("tasked", "queued", ()),
            ("family", "family", ()),
        ):
            await twin.start(workflow, *input, id=id)
            async with asyncio.timeout(60):
                while (await twin._store.find_run(id)).owner is not None:  # type: ignore[union-attr]
                    await asyncio.sleep(0.02)
    async with twin:
        await twin.start("parallel", [4], id="unseen")


async def _write_sqlite(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "store.db"
        await write_store(f"sqlite:///{path}")
        with closing(sqlite3.connect(path)) as connection:
            [(application,)] = connection.execute("pragma application_id").fetchall()
            dump = [f"pragma application_id = {application};", *connection.iterdump()]
    (folder / "sqlite.sql").write_text("\n".join(dump) + "\n", encoding="utf-8")


async def _write_postgres(folder: Path) -> None:
    url = postgres_schemas.new_url()
    await write_store(url)
    settings, binaries = parse_url(url), find_binaries()
    assert binaries is not None
    command = [str(binaries / "pg_dump"), "--no-owner", "--no-privileges", "--inserts", f"--schema={settings.schema}"]
    done = await asyncio.to_thread(subprocess.run, [*command, settings.dsn], check=True, capture_output=True, text=True)
    lines = [
        line
        for line in done.stdout.splitlines()
        if not line.startswith(("\\", "--", "SET ", "SELECT pg_catalog.set_config"))
    ]
    text = "\n".join(line for line in lines if line).replace(settings.schema, SCHEMA)
    (folder / "postgres.sql").write_text(f"{text}\n", encoding="utf-8")
    await asyncio.to_thread(postgres_schemas.drop_schemas)


def _forget_this_machine(path: Path) -> None:
    """Tracebacks say where their files lay."""
    text = path.read_text(encoding="utf-8")
    for here, there in ((str(ROOT), "/srv/outlast"), (sys.base_prefix, "/usr"), (sys.prefix, "/srv/venv")):
        text = text.replace(here, there)
        text = text.replace(here.encode().hex(), there.encode().hex())  # bytes in SQL
        text = text.replace(here.encode().hex().upper(), there.encode().hex().upper())
    path.write_text(text, encoding="utf-8")


def main() -> None:
    """Of the release at hand."""
    folder = HERE / RELEASE
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        Path("inbox").mkdir()
        Path("inbox", "broken.csv").write_text("nothing of the kind\n", encoding="utf-8")
        with closing(sqlite3.connect("shop.db")) as connection:
            connection.execute("create table orders (id text)")
        asyncio.run(_write_journals(folder))
    asyncio.run(_write_sqlite(folder))
    asyncio.run(_write_postgres(folder))
    for path in folder.iterdir():
        _forget_this_machine(path)
    print(*sorted(path.name for path in folder.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
