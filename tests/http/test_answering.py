"""Signals, gates and approvals over HTTP (SPEC A1, A2, W2, W3, W4, W6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from outlast import Context, User
from tests.http.conftest import client_of

RUNS = "/api/v1/runs"
ENDED = {"wait": "20s"}
USERS = {
    "ada": User("ada"),
    "bob": User("bob", ["ship"]),
    "eve": User("eve"),
    "root": User("root", ["admin"]),
}


@dataclass
class Decision:
    ok: bool


def by_header(request):
    """An auth hook: the name in a header."""
    return USERS.get(request.headers.get("x-user"))


def as_user(name):
    """The header of a user."""
    return {"x-user": name}


@pytest.fixture
def app(app):
    """Besides: bodies that wait for somebody."""

    @app.workflow(name="paid")
    async def paid(ctx: Context) -> Any:
        return await ctx.wait_for("paid", int)

    @app.workflow(name="gated")
    async def gated(ctx: Context) -> str:
        await ctx.suspend("look at it")
        return "seen"

    @app.workflow(name="shipped")
    async def shipped(ctx: Context, approvers: Any = "any", scope: str | None = None) -> Any:
        answer = await ctx.approval("ship it?", Decision, approvers=approvers, scope=scope)
        return [answer.value.ok, answer.by.id]

    return app


async def waiting(client, user=None, count=1):
    """The waits this user is shown, once there are as many."""
    while True:
        page = (await client.get("/api/v1/waits", headers=as_user(user) if user else {})).json()
        if len(page["waits"]) >= count:
            return page["waits"]


async def test_a_signal_is_sent_once_for_each_key(app, client):
    """It may come before anybody waits; with a value that does not fit the wait goes on. # SPEC W3"""
    await client.post(RUNS, json={"workflow": "paid", "id": "P"})
    for value, key in (("much", None), (30, "evt-9"), (30, "evt-9")):
        sent = await client.post(f"{RUNS}/P/signal", json={"name": "paid", "value": value, "key": key})
        assert (sent.status_code, sent.json()["id"]) == (200, "P")
    assert (await client.get(f"{RUNS}/P/result", params=ENDED)).json()["output"] == 30
    late = await client.post(f"{RUNS}/P/signal", json={"name": "paid", "value": 1})
    assert (late.status_code, late.json()["code"]) == (409, "RUN_ENDED")
    assert (await client.post(f"{RUNS}/P/signal", json={"name": ""})).json()["code"] == "INVALID_NAME"


async def test_a_key_may_stand_in_the_header(app, client):
    """For a client that sends a request again, and knows nothing of signals and decisions. # SPEC W3, W4"""
    key = {"idempotency-key": "k-1"}
    await client.post(RUNS, json={"workflow": "shipped", "id": "S"})
    decision = {"reason": "ship it?", "value": {"ok": True}, "by": {"id": "bob"}}
    for _ in range(2):  # the second is told that it counts, as the first was
        decided = await client.post(f"{RUNS}/S/approve", json=decision, headers=key)
        assert (decided.status_code, decided.json()["is_judged"]) == (200, True)
    await client.post(RUNS, json={"workflow": "paid", "id": "P"})
    run = await app.get_run("P")
    for _ in range(2):
        await client.post(f"{RUNS}/P/signal", json={"name": "other", "value": 1}, headers=key)
    await client.post(f"{RUNS}/P/signal", json={"name": "paid", "value": 30})
    assert await run.result(timeout=20) == 30
    assert [item.name for item in await run.timeline() if item.kind == "signalled"] == ["other", "paid"]


async def test_a_gate_opens_for_its_reason(app, client):
    """It is listed, and a stray reason is told what is open. # SPEC W2, W6"""
    await client.post(RUNS, json={"workflow": "gated", "id": "G"})
    (wait,) = await waiting(client)
    assert (wait["kind"], wait["name"], wait["run_id"]) == ("gate", "look at it", "G")
    stray = await client.post(f"{RUNS}/G/resume", json={"reason": "no such gate"})
    assert (stray.status_code, stray.json()["code"]) == (409, "WAIT_NOT_FOUND")
    assert stray.json()["fields"]["open"] == ["look at it"]
    assert (await client.post(f"{RUNS}/G/resume", json={"reason": "look at it"})).status_code == 200
    assert (await client.get(f"{RUNS}/G/result", params=ENDED)).json()["output"] == "seen"
    assert (await client.get("/api/v1/waits")).json() == {"waits": [], "next": None}


async def test_an_approval_is_decided_once(app, client):
    """With its schema for a form; what does not fit leaves it open, a second decision is told so. # SPEC W4"""
    await client.post(RUNS, json={"workflow": "shipped", "id": "S"})
    (wait,) = await waiting(client)
    assert (wait["kind"], wait["name"], wait["approvers"]) == ("approval", "ship it?", "any")
    assert wait["schema"]["$defs"]["Decision"]["required"] == ["ok"]
    decision = {"reason": "ship it?", "value": {"ok": True}, "by": {"id": "bob"}}
    invalid = await client.post(f"{RUNS}/S/approve", json=decision | {"value": {"ok": "perhaps"}})
    assert (invalid.status_code, invalid.json()["code"]) == (422, "APPROVAL_INVALID")
    decided = await client.post(f"{RUNS}/S/approve", json=decision)
    assert decided.status_code == 200
    assert (decided.json()["is_judged"], decided.json()["by"]) == (True, "bob")
    assert (await client.get(f"{RUNS}/S/result", params=ENDED)).json()["output"] == [True, "bob"]
    late = await client.post(f"{RUNS}/S/approve", json=decision)
    assert (late.status_code, late.json()["code"]) == (409, "APPROVAL_RESOLVED")


async def test_a_decision_that_is_not_judged_yet(app, client):
    """It is on record; the same request with its key asks about it again. # SPEC W4"""
    await client.post(RUNS, json={"workflow": "hold", "id": "H"})
    decision = {"reason": "ship it?", "value": {"ok": True}, "by": {"id": "bob"}, "key": "first"}
    early = await client.post(f"{RUNS}/H/approve", json=decision, params={"wait": "50ms"})
    assert (early.status_code, early.json()["is_judged"]) == (202, False)


async def test_who_may_decide_is_judged_by_who_is_signed_in(app):
    """Not who started it, with the scope; nobody decides in another's name, but an admin. # SPEC W4, A2"""
    async with client_of(app.asgi(auth=by_header)) as client:
        start = {"workflow": "shipped", "input": {"approvers": "not-initiator", "scope": "ship"}, "id": "S"}
        await client.post(RUNS, json=start, headers=as_user("ada"))
        await waiting(client, "ada")
        decision = {"reason": "ship it?", "value": {"ok": True}}
        for user, code in (("ada", "APPROVAL_FORBIDDEN"), ("eve", "APPROVAL_FORBIDDEN")):
            refused = await client.post(f"{RUNS}/S/approve", json=decision, headers=as_user(user))
            assert (refused.status_code, refused.json()["code"]) == (403, code), user
        named = decision | {"by": {"id": "bob", "scopes": ["ship"]}}
        assert (await client.post(f"{RUNS}/S/approve", json=named, headers=as_user("eve"))).json()["code"] == (
            "NOT_ALLOWED"
        )
        assert (await client.post(f"{RUNS}/S/approve", json=decision, headers=as_user("bob"))).status_code == 200
        ended = await client.get(f"{RUNS}/S/result", params=ENDED, headers=as_user("ada"))
        assert ended.json()["output"] == [True, "bob"]


async def test_who_may_not_see_a_run_learns_only_what_it_asks_them(app):
    """Approvals that they may decide are listed, and nothing else of a run of somebody else. # SPEC A2, W6"""
    async with client_of(app.asgi(auth=by_header)) as client:
        for workflow, given, name in (
            ("shipped", {"approvers": "not-initiator", "scope": "ship"}, "asks-ship"),
            ("shipped", {"approvers": "owner"}, "asks-ada"),
            ("gated", {}, "gate"),
            ("paid", {}, "signal"),
        ):
            await client.post(RUNS, json={"workflow": workflow, "input": given, "id": name}, headers=as_user("ada"))
        assert {wait["run_id"] for wait in await waiting(client, "root", 4)} == {
            "asks-ship",
            "asks-ada",
            "gate",
            "signal",
        }
        assert len(await waiting(client, "ada", 4)) == 4
        assert [wait["run_id"] for wait in await waiting(client, "bob")] == ["asks-ship"]
        assert (await client.get("/api/v1/waits", headers=as_user("eve"))).json()["waits"] == []
        assert (await client.get(f"{RUNS}/asks-ship", headers=as_user("bob"))).status_code == 404
        decision = {"reason": "ship it?", "value": {"ok": True}}
        for name, status in (("asks-ada", 403), ("gate", 404), ("signal", 404), ("nobody", 404)):
            refused = await client.post(f"{RUNS}/{name}/approve", json=decision, headers=as_user("bob"))
            assert refused.status_code == status, name
        for path, body in (("gate/resume", {}), ("signal/signal", {"name": "paid", "value": 1})):
            stray = await client.post(f"{RUNS}/{path}", json=body, headers=as_user("bob"))
            assert (stray.status_code, stray.json()["code"]) == (404, "RUN_NOT_FOUND")


async def test_waits_are_filtered_and_paged(app, client):
    """By kind, name and workflow; longest first. # SPEC W6"""
    for number in range(3):
        await client.post(RUNS, json={"workflow": "paid", "id": f"P-{number}"})
    await client.post(RUNS, json={"workflow": "gated", "id": "G"})
    await waiting(client, count=4)

    async def ids(**params):
        return [wait["run_id"] for wait in (await client.get("/api/v1/waits", params=params)).json()["waits"]]

    assert await ids(kind="gate") == ["G"]
    assert await ids(name="paid") == ["P-0", "P-1", "P-2"]
    assert await ids(workflow="gated") == ["G"]
    first = (await client.get("/api/v1/waits", params={"limit": 3})).json()
    rest = (await client.get("/api/v1/waits", params={"limit": 3, "after": first["next"]})).json()
    assert [wait["run_id"] for wait in first["waits"] + rest["waits"]] == ["P-0", "P-1", "P-2", "G"]
    assert (await client.get("/api/v1/waits", params={"kind": "nothing"})).json()["code"] == "INVALID_REQUEST"


async def test_a_deadline_is_part_of_a_start(app, client):
    """A run that takes too long is cancelled. # SPEC R4"""
    answer = await client.post(RUNS, json={"workflow": "hold", "timeout": "50ms"}, params=ENDED)
    assert answer.json()["status"] == "cancelled"
