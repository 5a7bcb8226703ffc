"""Open waits across runs (SPEC W6), and what a run's own status says of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from outlast import InvalidSetting, Outlast
from tests.homes import everywhere
from tests.waits.place import Place, waits_on


# SPEC W6
@everywhere
async def test_open_waits_are_listed_across_runs(app: Outlast) -> None:
    """Who waits for what, since when, until when; the longest first; what was answered is gone."""
    first = await app.start("shipped", 3600.0, "not-initiator", "ship", user="ada", id="A-1")
    await waits_on(first, "approval ship it?")
    second = await app.start("paid", 1, id="A-2")
    await waits_on(second, "signal paid")
    third = await app.start("gated", ["look"], id="A-3")
    await waits_on(third, "gate look")
    page = await app.waits()
    assert [(wait.run_id, wait.workflow, wait.kind, wait.name) for wait in page] == [
        ("A-1", "shipped", "approval", "ship it?"),
        ("A-2", "paid", "signal", "paid"),
        ("A-3", "gated", "gate", "look"),
    ]
    approval, signal, gate = page.waits
    assert isinstance(approval.until, datetime)
    assert approval.until - approval.since == timedelta(hours=1)
    assert (approval.approvers, approval.scope) == ("not-initiator", "ship")
    assert set(approval.schema["$defs"]["Decision"]["properties"]) == {"ok", "note"}
    assert (signal.until, signal.schema, signal.approvers) == (None, {"type": "integer"}, None)
    assert (gate.until, gate.schema, gate.key) == (None, None, "look")
    assert (await first.status()).waits == (approval,)
    await second.signal("paid", 1)
    await second.result(timeout=10)
    assert [wait.run_id for wait in await app.waits()] == ["A-1", "A-3"]


# SPEC W6
async def test_waits_are_filtered_and_paged(memory_place: Place) -> None:
    """By kind, name and workflow; a page goes on behind the one before."""
    app = memory_place.make_app()
    async with app.worker():
        for number in range(5):
            await waits_on(await app.start("gated", [f"g{number % 2}"]), f"gate g{number % 2}")
        await waits_on(await app.start("paid", 1), "signal paid")
        assert len(await app.waits(kind="gate")) == 5
        assert len(await app.waits(kind="gate", name="g1", workflow="gated")) == 2
        assert len(await app.waits(workflow="paid")) == 1
        seen, after = [], None
        while True:
            page = await app.waits(limit=4, after=after)
            seen += [wait.name for wait in page]
            after = page.next
            if after is None:
                break
        assert seen == ["g0", "g1", "g0", "g1", "g0", "paid"]
        refused: list[dict[str, Any]] = [{"kind": "door"}, {"after": "1:x"}, {"limit": 0}]
        for wrong in refused:
            with pytest.raises(InvalidSetting):
                await app.waits(**wrong)


# SPEC O2
async def test_a_moment_of_the_past_has_its_waits(app: Outlast) -> None:
    """As the run knew them then."""
    run = await app.start("paid", 1)
    await waits_on(run, "signal paid")
    await run.signal("paid", 1)
    await run.result(timeout=10)
    assert [wait.name for wait in (await run.state_at(1)).waits] == ["paid"]
    assert (await run.state_at(1)).waiting_on == "signal paid"
    assert (await run.status()).waits == ()
