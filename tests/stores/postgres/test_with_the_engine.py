"""The engine on PostgreSQL: runs through an app, what an idle worker costs, what people see in SQL, and a restart."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from outlast import Context, Outlast
from outlast.engine.writer import Writer
from outlast.errors import RunFailed, StoreRefused
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.link import Link
from outlast.stores.postgres.settings import parse_url
from outlast.stores.store import Outcome, Progress, Verdict
from outlast.testing.stores.writing import entry, marks_of, own, start
from tests.docs.pages import ROOT, read_blocks
from tests.postgres_schemas import server_url
from tests.postgres_server import OwnServer, find_binaries
from tests.stores.postgres.sessions import Session, as_role


def make_app(url: str) -> Outlast:
    app = Outlast(url)

    @app.step(name="charge", retries=0)
    async def charge(amount: int) -> str:
        if amount < 0:
            raise ValueError("less than nothing \0")
        return f"receipt for {amount} \0"

    @app.workflow(name="buy")
    async def buy(ctx: Context, amounts: list[int]) -> list[str]:
        receipts = [await charge(amount) for amount in amounts]
        await ctx.sleep(0.02)
        return receipts

    return app


async def test_runs_go_from_start_to_end(url: str, store: PostgresStore):
    """One process starts them, another works them, and the first hears of their ends."""
    client, working = make_app(url), make_app(url)
    async with client, working.worker():
        runs = [await client.start("buy", [n, n + 1], id=f"r{n}") for n in range(20)]
        assert [await run.result(timeout=20) for run in runs][3] == ["receipt for 3 \0", "receipt for 4 \0"]
        failing = await client.start("buy", [-1], id="bad", attributes={"region": "eu"})
        with pytest.raises(RunFailed):
            await failing.result(timeout=20)
        page = await client.runs(attributes={"region": "eu"})
        assert [info.id for info in page.runs] == ["bad"]


async def test_people_can_ask_in_sql(url: str, store: PostgresStore, holder: Session):
    """Views show runs, events and steps, whatever characters are in them."""
    app = make_app(url)
    async with app.worker():
        await (await app.start("buy", [1, 2], id="good", user="ada", attributes={"region": "eu"})).result(timeout=20)
        with pytest.raises(RunFailed):
            await (await app.start("buy", [-1], id="bad")).result(timeout=20)
    [good, bad] = await holder.fetch("select * from runs_v order by id desc")
    assert (good["status"], good["user_id"], json.loads(good["attributes"])) == ("completed", "ada", {"region": "eu"})
    assert good["created_at"] <= good["finished_at"]
    assert json.loads(bad["error"])["type"] == "ValueError"
    steps = await holder.fetch("select id, key, function, status, attempts, result, error from steps_v order by 1, 2")
    assert [(row["id"], row["key"], row["status"], row["attempts"]) for row in steps] == [
        ("bad", "charge", "failed", 1),
        ("good", "charge", "succeeded", 1),
        ("good", "charge#1", "succeeded", 1),
    ]
    assert json.loads(steps[1]["result"]) == "receipt for 1 \ufffd"
    kinds = Counter(row["kind"] for row in await holder.fetch("select kind from events_v where id = 'good'"))
    assert kinds["StepSucceeded"] == 2
    assert kinds["RunCompleted"] == 1


async def test_the_sql_of_the_docs_works(url: str, store: PostgresStore, admin: Session, guest: str):
    """Each statement that the docs show, by the role that they say how to make; and views have the columns listed."""
    page, schema = ROOT / "docs" / "operations.md", parse_url(url).schema
    text = "\n".join(block.text for block in read_blocks(page) if block.language == "sql")
    statements = [each.strip() for each in text.replace("outlast.", f"{schema}.").split(";") if each.strip()]
    grants = [each for each in statements if each.startswith("grant")]
    asked = [each for each in statements if each.startswith("select")]
    assert (len(grants), len(asked)) == (2, 3)
    for grant in grants:
        await admin.execute(grant.replace("analyst", guest).replace("schema outlast", f"schema {schema}"))
    app = make_app(url)
    async with app.worker():
        await (await app.start("buy", [1, 2], id="order-1")).result(timeout=20)
    analyst = await asyncpg.connect(as_role(server_url(), guest))
    try:
        found = [await analyst.fetch(each) for each in asked]
        views = re.findall(r"^\| `(\w+_v)` \| [^|]+ \| (.+) \|$", page.read_text(), re.MULTILINE)
        for view, columns in views:
            rows = await analyst.fetch(f"select * from {schema}.{view}")
            assert [*rows[0].keys()] == re.findall(r"\w+", columns)
    finally:
        await analyst.close()
    assert (len(views), [len(rows) for rows in found]) == (3, [1, 2, 1])
    assert (found[1][0]["key"], found[1][0]["status"]) == ("charge", "succeeded")


# SPEC Q5
@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 2])
async def test_an_idle_worker_asks_little(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch, limit: int | None
):
    """At most two statements a second, everything counted: looks, renewals, sweeps, probes of the listener; also where
    runs are shared out."""
    asked: list[str] = []
    ask = Link._ask

    async def count(link: Link, call: Any, *arguments: Any) -> Any:
        asked.append(str(arguments[0])[:80])
        return await ask(link, call, *arguments)

    monkeypatch.setattr(Link, "_ask", count)
    seconds = 6
    app = make_app(url)

    @app.workflow(name="limited", limit=limit)
    async def limited(_: Context) -> None: ...

    async with app.worker():
        await asyncio.sleep(1.5)  # it has begun: first looks and sweeps are done
        asked.clear()
        await asyncio.sleep(seconds)
        count_then = len(asked)
    assert count_then <= 2 * seconds, Counter(asked)


# PROTOCOL F8
async def test_what_the_server_refuses_hurts_no_other_run(store: PostgresStore, worker: str):
    """A row that no index can take is refused alone: the writer halves the group until it stands by itself."""
    answers: dict[str, object] = {}
    writer = Writer(store, lambda _: None, lambda: None)
    writer.worker_id = worker
    await own(store, worker, "a", "b")
    writer.open()
    too_long = "".join(chr(0x4E00 + n * 7919 % 20000) for n in range(3000))
    parts = [entry("a", 1), start("bad", user=too_long), entry("b", 1)]

    def note(part: Progress) -> Any:
        return lambda answer: answers.update({part.uid: answer})

    for part in parts:
        writer.submit(part, note(part), by=worker)
    async with asyncio.timeout(20):
        while len(answers) < 3:
            await asyncio.sleep(0.01)
    await writer.close()
    assert answers["a"] == answers["b"] == Outcome(Verdict.LANDED)
    refused = answers["bad"]
    assert isinstance(refused, StoreRefused)
    assert refused.run == "bad"
    assert "index row" in refused.detail
    assert len(await marks_of(store, "a")) == 2


@pytest.fixture(scope="module")
def own_server() -> Iterator[OwnServer]:
    """A server that tests may stop, and start again."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed here")
    server = OwnServer(binaries)
    server.start()
    yield server
    server.remove()


# SPEC D3
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restarted", "crashed"])
async def test_workers_outlive_a_restart_of_the_server(own_server: OwnServer, how: signal.Signals):
    """While it is away work is held; when it is back, every worker connects again and all runs end, each step once."""
    app, done = Outlast(f"{own_server.url}?schema={how.name.lower()}"), Counter[int]()

    @app.step(name="act")
    async def act(number: int) -> int:
        done[number] += 1
        await asyncio.sleep(0.002)
        return number

    @app.workflow(name="count")
    async def count(ctx: Context, first: int) -> int:
        return sum([await act(first + n) for n in range(100)])

    async with app.worker():
        runs = [await app.start(count, n * 1000, id=f"r{n}") for n in range(5)]
        async with asyncio.timeout(20):
            while sum(done.values()) < 50:
                await asyncio.sleep(0.005)
        await asyncio.to_thread(own_server.stop, how)
        before = sum(done.values())
        await asyncio.to_thread(own_server.start)
        results = [await run.result(timeout=30) for run in runs]
    assert before < 500, "the server was stopped too late"
    assert results == [sum(range(n * 1000, n * 1000 + 100)) for n in range(5)]
    assert set(done.values()) == {1}
