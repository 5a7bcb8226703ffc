"""Runs whose values are packed and encrypted (SPEC D2): they run as ever, and without the key nothing is lost."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from outlast import (
    Codec,
    Compress,
    Context,
    Encrypt,
    KeyNotFound,
    Outlast,
    PayloadDamaged,
    Run,
    RunConflict,
    RunFailed,
    Sealed,
    StoreRefused,
    current_step,
)
from outlast.core.lineage.children import CHILD_MESSAGE, ChildEnd
from outlast.core.states import RunStatus

SECRET = "4111-1111-1111-1111"
OLD, NEW = bytes(range(32)), bytes(range(1, 33))
UNDER_OLD = [Compress(above=200), Encrypt({"old": OLD})]
UNDER_NEW = [Compress(above=200), Encrypt({"old": OLD, "new": NEW}, current="new")]


def make_app(path: Path, codecs: Iterable[Codec] = ()) -> Outlast:
    app = Outlast(f"sqlite:///{path}/runs.db", codecs=codecs)

    @app.step(name="charge", retries=0)
    async def charge(card: str, amount: int) -> dict[str, str]:
        current_step().heartbeat({"card": card})
        if amount < 0:
            raise ValueError(f"{card} has no funds")
        return {"receipt": f"of {card}", "long": card * 100}

    @app.workflow(name="pay")
    async def pay(ctx: Context, card: str, amount: int) -> str:
        receipt = await charge(card, amount)
        await ctx.set_state("receipt", receipt)
        gate = asyncio.Event()
        if amount == 0:
            await gate.wait()  # for ever: the run is suspended as a deadlock
        await ctx.sleep(0.01 if amount == 1 else 0)
        again = await charge(receipt["receipt"], 1)
        return again["receipt"]

    return app


async def until_suspended(run: Run[str], code: str) -> None:
    async with asyncio.timeout(20):
        while (info := await run.status()).status != "suspended" or not info.waiting_on.startswith(code):
            await asyncio.sleep(0.01)


def everything_in(path: Path) -> bytes:
    """All values of all columns of the store."""
    with sqlite3.connect(path / "runs.db") as file:
        return b"\n".join(line.encode() for line in file.iterdump())


# SPEC D2
async def test_no_value_of_a_run_is_in_the_store(tmp_path) -> None:
    """Input, arguments, results, progress, state, output; message, traceback and summary of an error. It runs as ever,
    hot and by replay, and who has the key sees all of it."""
    app = make_app(tmp_path, UNDER_OLD)
    async with app.worker(max_hot=0):
        run = await app.start("pay", SECRET, 1, id="A-17", attributes={"region": "eu"})
        assert await run.result(timeout=20) == f"of of {SECRET}"
        failed = await app.start("pay", SECRET, -1)
        with pytest.raises(RunFailed, match=f"{SECRET} has no funds") as caught:
            await failed.result(timeout=20)
        assert isinstance(caught.value.error, ValueError)
        info = await run.status()
        assert (info.output, info.state["receipt"]["receipt"]) == (f"of of {SECRET}", f"of {SECRET}")
        assert [each.arguments["card"] for each in await run.history()] == [SECRET, f"of {SECRET}"]
        (row,) = (await app.runs(status="failed")).runs
        assert row.error == "ValueError: (encrypted)"
    stored = everything_in(tmp_path)
    assert SECRET.encode().hex().upper().encode() not in stored  # blobs are dumped in hexadecimal
    assert SECRET.encode() not in stored
    assert b'"aes-gcm:old"'.hex().upper().encode() in stored


# SPEC D2 S11
async def test_a_run_goes_on_under_a_new_key(tmp_path) -> None:
    """The journal is under the old key, its arguments compare equal on the replay, and what comes is under the new."""
    async with make_app(tmp_path, UNDER_OLD) as app:
        run = await app.start("pay", SECRET, 0)
        async with app.worker():
            await until_suspended(run, "DEADLOCK")
    app = make_app(tmp_path, UNDER_NEW)
    async with app.worker(max_hot=0):
        run = await app.get_run(run.id)
        await run.resume()
        await until_suspended(run, "DEADLOCK")  # replayed to the same point, and no NON_DETERMINISM
        other = await app.start("pay", SECRET, 1)
        assert await other.result(timeout=20) == f"of of {SECRET}"
        entries = [bytes(entry.events) for entry in await app._store.read_journal(other.uid)]
    assert not any(b"aes-gcm:old" in entry for entry in entries)
    assert any(b'["zlib","aes-gcm:new"]' in entry for entry in entries)


# SPEC D2
async def test_without_the_key_a_run_is_shown_and_its_values_are_marked(tmp_path) -> None:
    """Status, history, timeline and lists say what happened; only a result cannot be had, and the error says why."""
    async with make_app(tmp_path, UNDER_OLD).worker() as worker, make_app(tmp_path, UNDER_OLD) as app:
        run = await app.start("pay", SECRET, 1, id="A-17")
        failed = await app.start("pay", SECRET, -1, id="A-18")
        await run.result(timeout=20)
        with pytest.raises(RunFailed):
            await failed.result(timeout=20)
        assert worker.is_working
    async with make_app(tmp_path) as app:
        run, failed = await app.get_run("A-17"), await app.get_run("A-18")
        info = await run.status()
        assert (info.status, [step.status for step in info.steps]) == ("completed", ["succeeded"] * 2)
        assert isinstance(info.output, Sealed)
        assert isinstance(info.state["receipt"], Sealed)
        assert info.state["receipt"].codecs == ("zlib", "aes-gcm:old")
        assert all(isinstance(each.arguments, Sealed) for each in await run.history())
        assert [item.kind for item in await run.timeline()][-1] == "completed"
        error = (await failed.status()).error
        assert error is not None
        assert (error.type, "aes-gcm:old" in error.message) == ("ValueError", True)
        for each in (run, failed):
            with pytest.raises(KeyNotFound, match="aes-gcm:old"):
                await each.result(timeout=20)
        with pytest.raises(KeyNotFound):  # whether it is the same input cannot be told
            await app.start("pay", SECRET, 1, id="A-17")
    async with make_app(tmp_path, UNDER_NEW) as app:
        assert (await app.start("pay", SECRET, 1, id="A-17")).uid == run.uid
        with pytest.raises(RunConflict):
            await app.start("pay", SECRET, 2, id="A-17")


# SPEC D2 S13
async def test_a_worker_without_the_key_sets_the_run_aside_for_one_that_has_it(tmp_path) -> None:
    """Suspended with the reason and the key's id, and its journal as it was; a worker with the key goes on by itself,
    and one without does not take it a second time, also when it is told to resume."""
    async with make_app(tmp_path, UNDER_OLD) as app:
        run = await app.start("pay", SECRET, 1, id="A-17")
    bare = make_app(tmp_path)
    async with bare.worker():
        run = await bare.get_run("A-17")
        await until_suspended(run, "KEY_NOT_FOUND aes-gcm:old")
        suspension = [item for item in await run.timeline() if item.kind == "suspended"]
        assert len(suspension) == 1
    async with make_app(tmp_path, [Encrypt({"other": NEW})]).worker():
        await run_stays(bare, suspensions=1)
        async with make_app(tmp_path, UNDER_NEW).worker(), bare, asyncio.timeout(20):
            run = await bare.get_run("A-17")
            while (await run.status()).status != "completed":
                await asyncio.sleep(0.01)
            await run_stays(bare, suspensions=1)


async def run_stays(app: Outlast, *, suspensions: int) -> None:
    async with app:
        timeline = await (await app.get_run("A-17")).timeline()
        assert len([item for item in timeline if item.kind == "suspended"]) == suspensions


# SPEC D2 S13
async def test_a_run_without_its_key_can_be_cancelled(tmp_path) -> None:
    """Its body cannot run, so it ends without it, and says so."""
    async with make_app(tmp_path, UNDER_OLD) as app:
        await app.start("pay", SECRET, 1, id="A-17")
    bare = make_app(tmp_path)
    async with bare:
        run = await bare.get_run("A-17")
        assert await run.cancel("lost the key")
        async with bare.worker(), asyncio.timeout(20):
            while (info := await run.status()).status != "cancelled":
                await asyncio.sleep(0.01)
        assert info.error is not None
        assert info.error.message == "lost the key (not cleaned up: KEY_NOT_FOUND)"


# SPEC D2
async def test_a_key_of_the_same_id_and_other_bytes_suspends_the_run(tmp_path) -> None:
    """Nothing is guessed: once the right key is back, the run is resumed and ends."""
    async with make_app(tmp_path, UNDER_OLD) as app:
        await app.start("pay", SECRET, 1, id="A-17")
    wrong = make_app(tmp_path, [Encrypt({"old": NEW})])
    async with wrong.worker():
        run = await wrong.get_run("A-17")
        await until_suspended(run, "PAYLOAD_DAMAGED")
        with pytest.raises(PayloadDamaged):
            await wrong.start("pay", SECRET, 1, id="A-17")
    right = make_app(tmp_path, UNDER_OLD)
    async with right.worker():
        run = await right.get_run("A-17")
        await run.resume("PAYLOAD_DAMAGED")
        assert await run.result(timeout=20) == f"of of {SECRET}"


class Moody:
    """Packs nothing, and fails for one word."""

    name = "moody"
    hides = False
    required = False

    def encode(self, data: bytes, bound_to: bytes) -> tuple[str, bytes] | None:
        if b'"receipt":' in data or b"first" in data:
            raise RuntimeError("not in the mood")
        return None

    def decode(self, data: bytes, word: str, bound_to: bytes) -> bytes:
        return data


async def test_a_codec_that_fails_costs_its_own_run(tmp_path) -> None:
    """The run is set aside with the reason, and its worker goes on with others; a start is refused at the call."""
    app = make_app(tmp_path, [Moody()])
    async with app.worker():
        run = await app.start("pay", "card", 1)
        await until_suspended(run, "STORE_REFUSED")
        with pytest.raises(StoreRefused, match="not in the mood"):
            await app.start("pay", "first", 1)
        failed = await app.start("pay", "card", -1)
        with pytest.raises(RunFailed):
            await failed.result(timeout=20)


# --- between runs -----------------------------------------------------------------------------------------------------


def make_family(path: Path, codecs: Iterable[Codec] = ()) -> Outlast:
    app = Outlast(f"sqlite:///{path}/runs.db", codecs=codecs)

    @app.workflow(name="child")
    async def child(ctx: Context, card: str) -> str:
        if card == "":
            raise ValueError(SECRET)
        if card == "slow":
            await ctx.sleep(3600)
        return f"child of {card}"

    @app.workflow(name="parent")
    async def parent(ctx: Context, card: str) -> str:
        try:
            return await child(card)
        except ValueError as error:
            return str(error)

    return app


# SPEC D2 C2
async def test_what_runs_tell_each_other_is_sealed(tmp_path) -> None:
    """A child's input, its output and its error on their way to the parent."""
    app = make_family(tmp_path, UNDER_OLD)
    async with app:
        first, second = await app.start("parent", SECRET), await app.start("parent", "")
        async with app.worker(max_hot=0):
            assert await first.result(timeout=20) == f"child of {SECRET}"
            assert await second.result(timeout=20) == SECRET
    stored = everything_in(tmp_path)
    assert SECRET.encode() not in stored
    assert SECRET.encode().hex().upper().encode() not in stored


# SPEC D2 S13
async def test_a_message_that_cannot_be_read_waits_for_who_can(tmp_path) -> None:
    """A child ends under a key that its parent's worker lacks: the parent is set aside, the message stays where it is,
    and a worker that has the key takes it."""
    app = make_family(tmp_path)
    mixed = make_family(tmp_path, UNDER_NEW)
    async with app, mixed:
        run = await app.start("parent", "slow")
        async with app.worker() as worker:
            await tell_end_of_child(app, run, mixed)
            await until_suspended(run, "KEY_NOT_FOUND aes-gcm:new")
            assert worker.is_working
        async with mixed.worker():
            assert await (await mixed.get_run(run.id)).result(timeout=20) == "told"


async def tell_end_of_child(app: Outlast, run: Run[str], by: Outlast) -> None:
    """The child's end, as a worker with another key would tell it."""
    async with asyncio.timeout(20):
        while not (children := (await app.runs(parent=run.uid)).runs):
            await asyncio.sleep(0.01)
    (child,) = children
    end = ChildEnd("child", RunStatus.COMPLETED, output=msgspec.Raw(b'"told"'), id=child.id)
    await by._here().send(run.uid, CHILD_MESSAGE, msgspec.json.encode(end), message_id="told")
