"""Workflows that are a plain `def` (SPEC R11): all that an async body does, on each store, hot and from the record."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time

import pytest

from outlast import (
    Context,
    Decided,
    ExtraMissing,
    InvalidDefinition,
    Module,
    NotInBody,
    Outlast,
    RunCancelled,
    RunFailed,
    Step,
    User,
    current_step,
)
from outlast.engine import hotruns
from outlast.engine.watchdog import Watchdog
from tests import postgres_schemas
from tests.waits.place import parked

PATIENCE_S = 20
TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("TENANT", default="nobody")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def app(request, tmp_path):
    urls = {"memory": f"memory://{tmp_path}", "sqlite": f"sqlite:///{tmp_path}/plain.db"}
    app = Outlast(urls.get(request.param) or postgres_schemas.new_url())
    app.include(make_shop())
    return app


@pytest.fixture
def memory_app(tmp_path):
    app = Outlast(f"memory://{tmp_path}")
    app.include(make_shop())
    return app


def make_shop() -> Module:
    shop = Module("shop")

    @shop.step(name="charge", retries=0)
    async def charge(amount: int) -> str:
        return f"receipt {amount} for {TENANT.get()}"

    @charge.compensation(name="refund")
    def refund(amount: int, receipt: str) -> None:
        current_step().heartbeat(f"{amount}")

    @shop.step(name="pack", retries=1, backoff=0)
    def pack(item: str) -> str:
        if item == "glass" and current_step().attempt == 1:
            raise RuntimeError("slipped")
        return f"[{item}]"

    @shop.step(name="refuse", retries=0)
    def refuse() -> None:
        raise ValueError("sold out")

    @shop.workflow(name="wrap")
    def wrap(ctx: Context, item: str) -> str:
        return ctx.wait(pack(item)).upper()

    @shop.workflow(name="fulfil")
    def fulfil(ctx: Context, items: list[str]) -> dict[str, object]:
        """Everything a body does, by turns."""
        TENANT.set("acme")
        receipt = ctx.wait(charge(30))
        first, second, child = ctx.gather(pack("glass"), lambda: ctx.wait(pack("a")) + ctx.wait(pack("b")), wrap("hat"))
        mapped = ctx.wait(ctx.map(pack, items, limit=2))
        ctx.wait(ctx.sleep(0.01))
        ctx.wait(ctx.set_state("packed", len(mapped)))
        with pytest.raises(TimeoutError):
            ctx.wait(asyncio.wait_for(ctx.suspend("never"), 0.01))
        handle = ctx.wait(ctx.start(wrap, "scarf"))
        try:
            ctx.wait(refuse())
        except ValueError as error:
            complaint = str(error)
        paid = ctx.wait(ctx.wait_for("paid", int))
        answer: Decided[bool] = ctx.wait(ctx.approval("ship it?", bool))
        return {
            "receipt": receipt,
            "packed": [first, second, child, *mapped, ctx.wait(handle.result())],
            "complaint": complaint,
            "paid": paid,
            "by": answer.by.id,
            "named": ctx.wait(ctx.call("pack", {"item": "bow"}, returns=str)),
            "done": ctx.wait(ctx.do("count", lambda: len(items))),
            "tenant": TENANT.get(),
        }

    declare_ends(shop, charge, pack, refuse)
    return shop


def declare_ends(shop: Module, charge: Step[[int], str], pack: Step[[str], str], refuse: Step[[], None]) -> None:
    """Bodies that do not come to a good end."""

    @shop.workflow(name="fails")
    def fails(ctx: Context) -> None:
        ctx.wait(charge(10))
        ctx.compensate(pack, "undone")
        ctx.wait(refuse())

    @shop.workflow(name="tidies")
    def tidies(ctx: Context) -> None:
        try:
            ctx.wait(ctx.wait_for("never"))
        finally:
            ctx.wait(pack("tidy"))


WHOLE = {
    "receipt": "receipt 30 for acme",
    "packed": ["[glass]", "[a][b]", "[HAT]", "[x]", "[y]", "[z]", "[SCARF]"],
    "complaint": "sold out",
    "paid": 7,
    "by": "bob",
    "named": "[bow]",
    "done": 3,
    "tenant": "acme",
}


# SPEC R11
@pytest.mark.parametrize("max_hot", [10_000, 0])
async def test_a_plain_body_does_all_that_an_async_one_does(app: Outlast, max_hot):
    """Also when it is dropped and replayed after each event; and no thread is held while it waits."""
    async with app.worker(max_hot=max_hot):
        threads = threading.active_count()
        run = await app.start("shop:fulfil", ["x", "y", "z"], id="A-17")
        await run.signal("paid", 7)
        await run.approve("ship it?", True, by=User("bob"), timeout=PATIENCE_S)
        assert await run.result(timeout=PATIENCE_S) == WHOLE
        assert (await run.status()).state == {"packed": 3}
        assert threading.active_count() <= threads + 32, "the pool of steps, and nothing else"


async def test_a_failure_is_undone_and_a_cancel_cleaned_up_after(app: Outlast):
    """As with any body: in reverse, under their own keys; the clean-up may wait for steps."""
    async with app.worker():
        run = await app.start("shop:fails")
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout=PATIENCE_S)
        assert isinstance(caught.value.__cause__, ValueError)
        status = await run.status()
        assert status.status == "compensated"
        undone = [step.key for step in status.steps if step.key.startswith("compensate:")]
        assert undone == ["compensate:undo:shop:pack", "compensate:shop:charge"]
        run = await app.start("shop:tidies")
        assert await run.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            await run.result(timeout=PATIENCE_S)
        assert [(step.key, step.status) for step in (await run.status()).steps] == [("shop:pack", "succeeded")]


async def test_many_that_wait_cost_no_thread_and_are_parked(memory_app: Outlast, monkeypatch):
    """A thousand plain bodies that wait for a signal: one row each once they rest; each wakes and ends."""
    monkeypatch.setattr(hotruns, "PARK_AFTER_US", 0)

    @memory_app.workflow(name="waits")
    def waits(ctx: Context) -> int:
        return ctx.wait(ctx.wait_for("go", int))

    async with memory_app.worker():
        threads = threading.active_count()
        runs = [await memory_app.start(waits, id=f"w{number}") for number in range(1000)]
        await parked(memory_app, runs[-1])
        assert threading.active_count() == threads
        for number, run in enumerate(runs[:20]):
            await run.signal("go", number)
        assert [await run.result(timeout=PATIENCE_S) for run in runs[:20]] == list(range(20))


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_waiting_in_an_async_def_is_refused(memory_app: Outlast):
    """It has `await`; the call it was to wait for is closed, so that Python does not complain of it as well."""

    @memory_app.workflow(name="mistaken")
    async def mistaken(ctx: Context) -> list[str]:
        said: list[str] = []
        for call in (lambda: ctx.wait(ctx.sleep(1)), lambda: ctx.gather(ctx.sleep(1), ctx.sleep(2))):
            try:
                call()
            except InvalidDefinition as error:
                said.append(str(error))
        return said

    async with memory_app.worker():
        run = await memory_app.start(mistaken)
        assert await run.result(timeout=PATIENCE_S) == [
            "Only a plain def body can wait like this: ctx.wait(). Write await.",
            "Only a plain def body can wait like this: ctx.gather(). Write await.",
        ]


async def test_waiting_in_a_thread_is_refused() -> None:
    """A step that is called there is not recorded, and does not run."""
    app = Outlast("memory://", dev=False)  # in dev mode the thread is refused, before it can wait
    ran: list[str] = []

    @app.step(name="effect")
    async def effect() -> None:
        ran.append("effect")

    @app.workflow(name="threads")
    def threads(ctx: Context) -> str:
        said: list[str] = []

        def work() -> None:
            try:
                ctx.wait(effect())
            except NotInBody as error:
                said.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return said[0]

    async with app.worker():
        run = await app.start(threads)
        said = await run.result(timeout=PATIENCE_S)
    assert said.startswith("Only a workflow's body can do this: ctx.wait(). A body waits in its own thread")
    assert ran == []


async def test_a_body_that_blocks_is_stopped_and_hurts_no_other(memory_app: Outlast, monkeypatch):
    """The watchdog finds the body in its greenlet, tells where it is, and stops it there. # SPEC P6"""
    defaults = Watchdog.__init__.__kwdefaults__ or {}
    monkeypatch.setattr(Watchdog.__init__, "__kwdefaults__", defaults | {"blocked_us": 100_000})

    @memory_app.workflow(name="blocks")
    def blocks(ctx: Context) -> None:
        ctx.wait(ctx.sleep(0))
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            pass

    async with memory_app.worker():
        run = await memory_app.start(blocks)
        async with asyncio.timeout(PATIENCE_S):
            while (status := await run.status()).status != "suspended":
                await asyncio.sleep(0.01)
        assert status.waiting_on is not None
        assert "BODY_BLOCKED" in str(status.waiting_on)
        assert await (await memory_app.start("shop:wrap", "hat")).result(timeout=PATIENCE_S) == "[HAT]"


def test_without_greenlet_a_plain_def_says_what_to_install(monkeypatch):
    """Where it is declared, not when it runs. Nothing else needs it."""
    monkeypatch.setitem(sys.modules, "greenlet", None)
    monkeypatch.delitem(sys.modules, "outlast.core.loop.plain_bodies", raising=False)

    def plain(ctx: Context) -> None: ...

    with pytest.raises(ExtraMissing, match=r"A plain def as the workflow 'p' needs .*outlast\[sync\]"):
        Module("").workflow(name="p")(plain)


def test_run_sync_runs_a_plain_body(tmp_path):
    """A script need not know of asyncio at all."""
    app = Outlast(f"sqlite:///{tmp_path}/plain.db")

    @app.step(name="double")
    def double(n: int) -> int:
        return n * 2

    @app.workflow(name="sums")
    def sums(ctx: Context, n: int) -> int:
        return sum(ctx.gather(*(double(k) for k in range(n))))

    assert app.run_sync(sums, 5) == 20
