"""Approvals from outside: judged when submitted and again by the run (SPEC W4)."""

from __future__ import annotations

import asyncio

import pytest

from outlast import (
    ApprovalForbidden,
    ApprovalInvalid,
    ApprovalResolved,
    Decided,
    Expired,
    InvalidName,
    InvalidSetting,
    Outlast,
    RunFailed,
    RunNotFound,
    User,
)
from outlast.core.events import DecisionJudged, DecisionMade
from tests.homes import everywhere
from tests.waits.place import Decision, Place, journal_of, parked, same_as_row, until, waits_on

YES, NO = {"ok": True}, {"ok": False}
BOB, EVE = User("bob", ["ship"]), User("eve")


# SPEC W4, W5, R1
@everywhere
async def test_a_decision_is_answered_once_the_run_has_judged_it(app: Outlast, parks_at_once) -> None:
    """The body gets value, who and when, and so does who decided; until then the run is suspended."""
    found: list[Decided[Decision]] = []

    @app.workflow(name="kept")
    async def kept(ctx) -> bool:
        answer = await ctx.approval("ship it?", Decision)
        found.append(answer)
        return answer.value.ok

    run = await app.start(kept)
    await parked(app, run)
    info = await run.status()
    assert (info.status, info.waiting_on) == ("suspended", "approval ship it?")
    await same_as_row(app, run)
    decided = await run.approve("ship it?", YES, by=BOB)
    assert await run.result(timeout=10) is True
    assert (decided.value, decided.by, found[0].value) == (YES, User("bob", ("ship",)), Decision(ok=True))
    assert (found[0].by, found[0].at) == (decided.by, decided.at)


# SPEC W4
@pytest.mark.parametrize(
    ("approvers", "scope", "by", "says"),
    [
        ("owner", None, BOB, "only who started the run"),
        ("not-initiator", None, User("ada"), "started the run themselves"),
        ("not-initiator", None, User(""), "not signed in"),
        ("any", "ship", EVE, "scope 'ship'"),
    ],
)
async def test_who_may_not_decide_is_told_so(place: Place, approvers, scope, by, says) -> None:
    """At once, also when nobody works; the attempt is on record, and the gate as closed as it was."""
    async with place.make_app() as asks:
        run = await asks.start("shipped", None, approvers, scope, user="ada")
        async with place.make_app().worker():
            await waits_on(run, "approval ship it?")
        with pytest.raises(ApprovalForbidden, match=says):
            await run.approve("ship it?", YES, by=by)
        async with place.make_app().worker():

            async def is_judged() -> bool:
                return any(isinstance(event, DecisionJudged) for event in await journal_of(asks, run))

            await until(is_judged)
            (judged,) = [event for event in await journal_of(asks, run) if isinstance(event, DecisionJudged)]
            assert (judged.verdict, says in judged.reason) == ("forbidden", True)
            good = User("ada", ["ship"]) if approvers == "owner" else BOB
            await run.approve("ship it?", YES, by=good)
            assert await run.result(timeout=10) == [True, good.id]


# SPEC W4
async def test_an_ill_formed_decision_is_told_so(app: Outlast) -> None:
    """With the place in it that does not fit; the next one counts."""
    run = await app.start("shipped")
    await waits_on(run, "approval ship it?")
    with pytest.raises(ApprovalInvalid, match=r"value\.ok: expected bool, got str"):
        await run.approve("ship it?", {"ok": "yes"}, by=BOB)
    with pytest.raises(ApprovalInvalid, match=r"value\.ok"):
        await run.approve("ship it?", {}, by=BOB)
    await run.approve("ship it?", Decision(ok=False), by=BOB)
    assert await run.result(timeout=10) == [False, "bob"]


# SPEC W4
async def test_who_comes_too_late_is_told_as_what_it_was_decided_and_by_whom(app: Outlast) -> None:
    """While the run goes on, and when it has ended."""

    @app.workflow(name="goes on")
    async def goes_on(ctx) -> bool:
        answer = await ctx.approval("ship it?", Decision)
        await ctx.suspend("look")
        return answer.value.ok

    run = await app.start(goes_on)
    await waits_on(run, "approval ship it?")
    await run.approve("ship it?", YES, by=BOB)
    with pytest.raises(ApprovalResolved, match=r'{"ok":true}, decided by bob'):
        await run.approve("ship it?", NO, by=EVE)
    with pytest.raises(ApprovalResolved, match="decided by bob"):
        await run.approve("ship it?", YES, by=BOB)
    await run.resume("look")
    assert await run.result(timeout=10) is True
    with pytest.raises(ApprovalResolved, match="decided by bob"):
        await run.approve("ship it?", NO, by=EVE)


# SPEC W4
@everywhere
async def test_of_two_at_the_same_instant_one_is_accepted(place: Place) -> None:
    """From two apps that share nothing but the store; the other is told who was."""
    works, left, right = place.make_app(), place.make_app(), place.make_app()
    async with works.worker(), left, right:
        for _ in range(10):
            started = await works.start("shipped")
            await waits_on(started, "approval ship it?")
            runs = [await app.get_run(started.id) for app in (left, right)]
            answers = await asyncio.gather(
                runs[0].approve("ship it?", YES, by=BOB),
                runs[1].approve("ship it?", NO, by=EVE),
                return_exceptions=True,
            )
            (won,) = [answer for answer in answers if isinstance(answer, Decided)]
            (lost,) = [answer for answer in answers if isinstance(answer, ApprovalResolved)]
            assert f"decided by {won.by.id}" in str(lost)
            assert await started.result(timeout=10) == [won.value["ok"], won.by.id]


# SPEC W4
@everywhere
async def test_a_decision_may_come_before_the_gate(place: Place) -> None:
    """It is recorded, and judged when the body comes to ask; the same key asks about the same attempt."""
    async with place.make_app() as asks:
        run = await asks.start("shipped")
        with pytest.raises(TimeoutError, match=r"Recorded, but not judged within 50ms.*same key="):
            await run.approve("ship it?", YES, by=BOB, timeout="50ms", key="bob-1")
        async with place.make_app().worker():
            assert await run.result(timeout=10) == [True, "bob"]
        decided = await run.approve("ship it?", YES, by=BOB, key="bob-1")
        assert (decided.value, decided.by) == (YES, BOB)
        made = [event for event in await journal_of(asks, run) if isinstance(event, DecisionMade)]
        assert len(made) == 1


# SPEC W4
async def test_an_early_decision_that_does_not_count_leaves_the_gate_closed(place: Place) -> None:
    """It never fails the run; whoever asks again by its key hears why."""
    async with place.make_app() as asks:
        run = await asks.start("shipped", None, "owner", user="ada")
        for key, value, by in (("k1", YES, BOB), ("k2", {"ok": 3}, User("ada"))):
            with pytest.raises(TimeoutError):
                await run.approve("ship it?", value, by=by, timeout=0.01, key=key)
        async with place.make_app().worker():
            with pytest.raises(ApprovalForbidden):
                await run.approve("ship it?", YES, by=BOB, key="k1")
            with pytest.raises(ApprovalInvalid):
                await run.approve("ship it?", {"ok": 3}, by=User("ada"), key="k2")
            assert (await run.status()).status == "suspended"
            await run.approve("ship it?", YES, by=User("ada"))
            assert await run.result(timeout=10) == [True, "ada"]


# SPEC W4
async def test_an_approval_expires(app: Outlast) -> None:
    """The body gets Expired; who decides afterwards is told so."""

    @app.workflow(name="expiring")
    async def expiring(ctx) -> bool:
        answer = await ctx.approval("ship it?", Decision, expires="50ms")
        await ctx.suspend("look")
        return isinstance(answer, Expired)

    run = await app.start(expiring)
    await waits_on(run, "gate look")
    with pytest.raises(ApprovalResolved, match="it expired"):
        await run.approve("ship it?", YES, by=BOB)
    await run.resume("look")
    assert await run.result(timeout=10) is True
    assert [item.name for item in await run.timeline() if item.kind == "expired"] == ["ship it?"]


# SPEC W4
@everywhere
@pytest.mark.parametrize(("decided_after_s", "found"), [(30, [True, "bob"]), (61, ["expired"])])
async def test_expiry_is_decided_from_the_recorded_deadline(place: Place, decided_after_s: int, found: list) -> None:
    """Nobody worked: a decision that the store took before the deadline wins, one after it is told that it is too late,
    at once."""
    async with place.make_app() as asks:
        run = await asks.start("shipped", 60.0)
        async with place.make_app().worker():
            await waits_on(run, "approval ship it?")
        place.pass_time(decided_after_s)
        error = TimeoutError if decided_after_s < 60 else ApprovalResolved
        with pytest.raises(error):
            await run.approve("ship it?", YES, by=BOB, timeout=0.01)
        place.pass_time(1000)
        async with place.make_app().worker():
            assert await run.result(timeout=10) == found


# SPEC W4
async def test_a_hot_run_reads_its_inbox_before_a_deadline_ends_a_wait(app: Outlast, monkeypatch) -> None:
    """A decision that was stored in time wins though its worker had not heard of it when the time was up."""
    run = await app.start("shipped", 0.3)
    await waits_on(run, "approval ship it?")
    worker = app._here("a test").worker
    assert worker is not None

    async def hears_nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(worker.home, "read_mail", hears_nothing)
    with pytest.raises(TimeoutError):
        await run.approve("ship it?", YES, by=BOB, timeout=0.01)
    assert await run.result(timeout=10) == [True, "bob"]


# SPEC W4
async def test_prose_takes_a_key(app: Outlast) -> None:
    """The approval goes by its key; its question is shown, and may name it too."""
    question = "May this parcel leave the house? " * 40

    @app.workflow(name="prose")
    async def prose(ctx) -> list[bool]:
        first = await ctx.approval(question, Decision, key="ship")
        second = await ctx.approval(question, Decision, key="ship")
        return [first.value.ok, second.value.ok]

    @app.workflow(name="too long")
    async def too_long(ctx) -> None:
        await ctx.approval(question, Decision)

    run = await app.start(prose)
    await waits_on(run, "approval ship")
    (wait,) = (await run.status()).waits
    assert (wait.key, wait.name, wait.question) == ("ship", "ship", question)
    await run.approve("ship", YES, by=BOB)
    await until(lambda: _waits_for(run, "ship#1"))
    await run.approve("ship", NO, by=BOB)
    assert await run.result(timeout=10) == [True, False]
    with pytest.raises(RunFailed, match="over the limit of 512"):
        await (await app.start(too_long)).result(timeout=10)


# SPEC W4
async def test_of_several_open_approvals_the_one_that_is_named_is_meant(app: Outlast) -> None:
    """By its question as by its key, whichever was asked first."""

    @app.workflow(name="several")
    async def several(ctx) -> list[bool]:
        first = asyncio.create_task(ctx.approval("ship it?", Decision, key="ship"))
        second = asyncio.create_task(ctx.approval("insure it?", Decision, key="insure"))
        return [(await first).value.ok, (await second).value.ok]

    run = await app.start(several)
    await waits_on(run, "approval ship")
    await run.approve("insure it?", NO, by=BOB)
    await until(lambda: _waits_for(run, "ship"))
    await run.approve("ship it?", YES, by=BOB)
    assert await run.result(timeout=10) == [True, False]


async def _waits_for(run, key: str) -> bool:
    return [wait.key for wait in (await run.status()).waits] == [key]


# SPEC W4
@everywhere
async def test_a_run_that_ends_without_judging_settles_what_was_sent(app: Outlast) -> None:
    """Whoever waits for the verdict on an approval that never opened hears when the run has ended."""
    run = await app.start("gated", ["look"])
    await waits_on(run, "gate look")
    waiting = asyncio.create_task(run.approve("ship it?", YES, by=BOB))

    async def is_recorded() -> bool:
        return any(isinstance(event, DecisionMade) for event in await journal_of(app, run))

    await until(is_recorded)
    await run.resume("look")
    with pytest.raises(ApprovalResolved, match="the run has ended"):
        await asyncio.wait_for(waiting, 10)


# SPEC D4
async def test_what_cannot_be_a_decision_is_refused_before_it_is_sent(app: Outlast) -> None:
    """Names, users and scopes that cannot be stored; a `by` that is no user; a run that is not there."""
    run = await app.start("shipped")
    await waits_on(run, "approval ship it?")
    for reason, by in (("", BOB), ("x" * 513, BOB), ("ship it?", User("b\0b")), ("ship it?", User("bob", ["s" * 600]))):
        with pytest.raises(InvalidName):
            await run.approve(reason, YES, by=by)
    with pytest.raises(InvalidSetting):
        await run.approve("ship it?", YES, by="bob")  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting):
        User("bob", "ship")
    assert not [event for event in await journal_of(app, run) if isinstance(event, DecisionMade)]
    await run.cancel("enough")
    with pytest.raises(ApprovalResolved, match="does not wait for it any more"):
        await run.approve("ship it?", YES, by=BOB, timeout=10)
    await run.delete()
    with pytest.raises(RunNotFound):
        await run.approve("ship it?", YES, by=BOB)


# SPEC P1
async def test_approvals_side_by_side_go_by_their_keys(app: Outlast) -> None:
    """Two with the same reason are two: the first that is open is meant, unless the key says otherwise."""

    @app.workflow(name="two")
    async def two(ctx) -> list[str]:
        both = await asyncio.gather(ctx.approval("ship it?", Decision), ctx.approval("ship it?", Decision))
        return [answer.by.id for answer in both]

    run = await app.start(two)
    await until(lambda: _has_two(run))
    await run.approve("ship it?#1", YES, by=BOB)
    await run.approve("ship it?", YES, by=EVE)
    assert await run.result(timeout=10) == ["eve", "bob"]


async def _has_two(run) -> bool:
    return len((await run.status()).waits) == 2
