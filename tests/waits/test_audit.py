"""Every attempt to decide goes to a sink that outlives the run (SPEC W5)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from outlast import ApprovalForbidden, ApprovalResolved, AuditRecord, User
from tests.waits.place import Place, waits_on

YES = {"ok": True}
ADA, BOB = User("ada"), User("bob", ["ship"])


async def decide(app) -> None:
    """One attempt that is forbidden, one that is accepted, and one that comes when the run has ended."""
    run = await app.start("shipped", None, "not-initiator", user="ada", id="A-1")
    await waits_on(run, "approval ship it?")
    with pytest.raises(ApprovalForbidden):
        await run.approve("ship it?", YES, by=ADA)
    await run.approve("ship it?", YES, by=BOB)
    assert await run.result(timeout=10) == [True, "bob"]
    with pytest.raises(ApprovalResolved):
        await run.approve("ship it?", YES, by=ADA)


# SPEC W5
@pytest.mark.parametrize("is_async", [False, True])
async def test_the_sink_is_told_of_every_attempt(place: Place, is_async: bool) -> None:
    """Who, when, what, on which run, and what came of it; it may be a function or a coroutine function."""
    told: list[AuditRecord] = []

    async def tell(record: AuditRecord) -> None:
        await asyncio.sleep(0)
        told.append(record)

    app = place.make_app(audit=tell if is_async else told.append)
    async with app.worker():
        await decide(app)
    assert [(record.by, record.verdict) for record in told] == [
        (ADA, "forbidden"),
        (BOB, "accepted"),
        (ADA, "resolved"),
    ]
    (accepted,) = [record for record in told if record.verdict == "accepted"]
    assert (accepted.run_id, accepted.workflow, accepted.key, accepted.value) == ("A-1", "shipped", "ship it?", YES)
    assert len({record.message for record in told}) == 3
    assert told[2].reason == '{"ok":true}, decided by bob'


# SPEC W5
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_sink_that_fails_costs_nothing(place: Place, caplog, is_async: bool) -> None:
    """It is logged once, with its traceback; the attempts are lines of the log instead."""

    def fail(_: AuditRecord) -> None:
        raise OSError("the disk is full")

    async def fail_later(_: AuditRecord) -> None:
        raise OSError("the disk is full")

    app = place.make_app(audit=fail_later if is_async else fail)
    with caplog.at_level(logging.INFO, "outlast.audit"):
        async with app.worker():
            await decide(app)
    assert [record.levelname for record in caplog.records if "sink failed" in record.message] == ["ERROR"]
    assert caplog.text.count("decided, and it is") == 3


# SPEC W5
async def test_without_a_sink_attempts_are_lines_of_the_audit_log(memory_place: Place, caplog) -> None:
    """One for each, of the logger `outlast.audit`."""
    app = memory_place.make_app()
    with caplog.at_level(logging.INFO, "outlast.audit"):
        async with app.worker():
            await decide(app)
    lines = [record.message for record in caplog.records if record.name == "outlast.audit"]
    assert lines[0] == (
        "approval 'ship it?' of run A-1: ada decided, and it is forbidden (for they started the run themselves)"
    )
    assert [line.partition(": ")[2] for line in lines[1:]] == [
        "bob decided, and it is accepted",
        'ada decided, and it is resolved ({"ok":true}, decided by bob)',
    ]


# SPEC W5
async def test_a_sink_that_hangs_does_not_hold_up_the_app(memory_place: Place, monkeypatch) -> None:
    """Runs go on, and closing waits for it only so long."""
    monkeypatch.setattr("outlast.telemetry.audit.CLOSE_WITHIN_S", 0.05)
    began = asyncio.Event()

    async def hang(_: AuditRecord) -> None:
        began.set()
        await asyncio.Event().wait()

    app = memory_place.make_app(audit=hang)
    async with asyncio.timeout(10), app.worker():
        await decide(app)
    assert began.is_set()
