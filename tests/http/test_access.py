"""Who may do what (SPEC A2): tokens, sessions, hooks, owners."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from outlast import InvalidSetting, Outlast
from outlast.http.access import TokenAccess
from tests.http.conftest import client_of
from tests.http.streaming import streaming

RUNS = "/api/v1/runs"
TOKEN = "a token that is long enough"
OPEN = {"/api/v1/health", "/api/v1/ready", "/api/v1/session"}


@dataclass
class User:
    """As a host has them."""

    id: str
    scopes: set[str] = field(default_factory=set)


USERS = {"ada": User("ada"), "bob": User("bob"), "root": User("root", {"admin"})}


async def by_header(request):
    """An auth hook: the name in a header. A real one would check it."""
    name = request.headers.get("x-user")
    if name == "banned":
        raise PermissionError("banned")
    return USERS.get(name)


def as_user(name):
    """The header of a user."""
    return {"x-user": name}


def test_nothing_is_open_by_default():
    """One way to know who asks has to be chosen, and only one; a token is no empty or short text. # SPEC A2"""
    app = Outlast("memory://")
    wrong: tuple[Any, ...] = (
        {},
        {"no_auth": False},
        {"token": ""},
        {"token": "short"},
        {"token": TOKEN, "no_auth": True},
        {"token": TOKEN, "auth": by_header},
        {"auth": "ada"},
        {"no_auth": True, "hosts": "example.org"},
        {"no_auth": True, "origins": ["example.org"]},
    )
    for options in wrong:
        with pytest.raises(InvalidSetting) as caught:
            app.asgi(**options)
        assert options.get("token") != "short" or "short" not in str(caught.value)


async def test_every_route_wants_to_know_who_asks(app):
    """Without a token nothing answers but health and the session; the document neither. # SPEC A2"""
    api = app.asgi(token=TOKEN)
    async with client_of(api) as client:
        document = (await client.get("/openapi.json", headers={"authorization": f"Bearer {TOKEN}"})).json()
        for path, methods in document["paths"].items():
            for method, told in methods.items():
                if path in OPEN:
                    assert told["security"] == []
                    continue
                answer = await client.request(method, path.format(id="x", name="x", version="x"))
                assert (answer.status_code, answer.json()["code"]) == (401, "NOT_SIGNED_IN"), (method, path)
                assert answer.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/openapi.json")).status_code == 401
        assert (await client.post("/openapi.json", json={})).status_code == 405


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}"]
)
async def test_a_forged_token_is_no_token(app, given):
    """Only the whole token, in the header, is one; one in the URL is none. # SPEC A2"""
    async with client_of(app.asgi(token=TOKEN)) as client:
        assert (await client.get(RUNS, headers={"authorization": given})).status_code == 401
        assert (await client.get(RUNS, headers={"authorization": f"bearer {TOKEN}"})).status_code == 200


async def test_a_token_that_is_no_ascii_is_compared_too(app):
    """Bytes in a header that are no text are a wrong token, not an error."""
    async with client_of(app.asgi(token="ключ ключ ключ ключ")) as client:
        assert (await client.get(RUNS, headers=[(b"authorization", b"Bearer \xff\xfe")])).status_code == 401


# --- sessions ---------------------------------------------------------------------------------------------------------


async def test_a_browser_signs_in_with_the_token_once(app):
    """It gets a cookie that scripts cannot read, and signs out again. # SPEC A2"""
    async with client_of(app.asgi(token=TOKEN)) as client:
        before = (await client.get("/api/v1/session")).json()
        assert (before["mode"], before["is_signed_in"]) == ("token", False)
        wrong = await client.post("/api/v1/session", json={"token": "wrong"})
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        signed_in = await client.post("/api/v1/session", json={"token": TOKEN})
        cookie = signed_in.headers["set-cookie"]
        assert signed_in.status_code == 204
        assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/;"))
        assert TOKEN not in cookie
        assert (await client.get(RUNS)).status_code == 200
        assert (await client.get("/api/v1/session")).json()["is_signed_in"]
        await client.delete("/api/v1/session", headers={"origin": "http://test"})
        assert (await client.get(RUNS)).status_code == 401


def test_a_session_ends_and_cannot_be_forged():
    """It is signed, lasts 12 hours, and no longer than its token. # SPEC A2"""
    now = [1000.0]
    access = TokenAccess(TOKEN, lambda: now[0])
    session = access.make_session()
    assert access._is_session(session)
    until, _, signature = session.partition(".")
    for forged in (
        f"{int(until) + 1}.{signature}",
        until,
        f"{until}.",
        f".{signature}",
        "",
        "x.y",
        f"{session}0",
        "é.é",
    ):
        assert not access._is_session(forged), forged
    assert not TokenAccess(TOKEN + "!", lambda: now[0])._is_session(session)
    now[0] += 12 * 3600
    assert not access._is_session(session)


async def test_a_secure_cookie_where_the_request_was(app):
    """Over TLS the cookie never travels without."""
    async with client_of(app.asgi(token=TOKEN)) as client:
        answer = await client.post("https://test/api/v1/session", json={"token": TOKEN})
        assert "Secure" in answer.headers["set-cookie"]


async def test_other_ways_have_no_sessions(app):
    """Where the host knows its users it has sessions of its own."""
    async with client_of(app.asgi(auth=by_header)) as client:
        assert (await client.post("/api/v1/session", json={"token": TOKEN})).status_code == 405
        shown = (await client.get("/api/v1/session", headers=as_user("root"))).json()
        assert shown == {"mode": "hook", "is_signed_in": True, "user": "root", "scopes": ["admin"]}


# --- owners -----------------------------------------------------------------------------------------------------------


async def test_a_run_is_there_for_its_owner_alone(app):
    """To another user it does not exist, whatever they ask of it; to an admin it does. # SPEC A2"""
    api = app.asgi(auth=by_header)
    async with client_of(api) as client:
        body = {"workflow": "hold", "id": "mine"}
        assert (await client.post(RUNS, json=body, headers=as_user("ada"))).status_code == 201
        assert (await client.get(f"{RUNS}/mine", headers=as_user("ada"))).json()["user"] == "ada"
        uid = (await client.get(f"{RUNS}/mine", headers=as_user("root"))).json()["uid"]
        document = (await client.get("/openapi.json", headers=as_user("bob"))).json()
        asked = 0
        for path, methods in document["paths"].items():
            for method in methods:
                if not path.startswith(f"{RUNS}/{{id}}"):
                    continue
                for query in ({}, {"uid": uid}):
                    answer = await client.request(
                        method, path.format(id="mine"), params=query, headers=as_user("bob") | {"x": "1"}
                    )
                    if answer.status_code == 422:  # a body that this route wants
                        continue
                    assert (answer.status_code, answer.json()["code"]) == (404, "RUN_NOT_FOUND"), (method, path)
                    assert "ada" not in answer.text
                    asked += 1
        assert asked >= 16
        assert (await client.get(f"{RUNS}/mine", headers=as_user("ada"))).json()["status"] == "running"
    async with streaming(api, f"{RUNS}/mine/events", headers=[("x-user", "bob")]) as stream:
        await stream.until(lambda stream: stream.status)
    assert stream.status == 404


async def test_an_id_that_is_somebody_elses_run_gives_nothing_away(app):
    """Starting under it is a conflict, whatever the input; and it is not replaced. # SPEC A2, R3"""
    async with client_of(app.asgi(auth=by_header)) as client:
        body = {"workflow": "double", "input": {"n": 4}, "id": "mine"}
        first = await client.post(RUNS, json=body, params={"wait": "20s"}, headers=as_user("ada"))
        for change in (
            {"on_conflict": "return"},
            {"on_conflict": "restart"},
            {"on_conflict": "raise"},
            {"input": {"n": 5}},
            {"workflow": "buy", "input": {}},
        ):
            other = await client.post(RUNS, json=body | change, params={"wait": "1s"}, headers=as_user("bob"))
            assert other.json()["fields"] == {"id": "mine", "difference": "owner"}, change
            assert (other.status_code, other.json()["code"]) == (409, "RUN_CONFLICT"), change
            assert first.json()["uid"] not in other.text
        await client.post(RUNS, json=body | {"id": "his"}, params={"wait": "20s"}, headers=as_user("bob"))
        forked = await client.post(f"{RUNS}/his/fork", json={"at": "twice", "id": "mine"}, headers=as_user("bob"))
        assert forked.json()["fields"] == {"id": "mine", "difference": "owner"}
        own = await client.post(RUNS, json=body | {"on_conflict": "restart"}, headers=as_user("ada"))
        assert own.status_code == 201


async def test_nobody_starts_a_run_for_another(app):
    """But an admin. # SPEC A2"""
    async with client_of(app.asgi(auth=by_header)) as client:
        body = {"workflow": "double", "input": 1, "user": "ada"}
        assert (await client.post(RUNS, json=body, headers=as_user("bob"))).json()["code"] == "NOT_ALLOWED"
        assert (await client.post(RUNS, json=body | {"id": "A"}, headers=as_user("root"))).status_code == 201
        assert (await client.get(f"{RUNS}/A", headers=as_user("ada"))).json()["user"] == "ada"


async def test_lists_show_ones_own(app):
    """An admin sees all; workers are for admins. # SPEC A2"""
    for number, user in enumerate(("ada", "bob", None)):
        await app.start("double", number, id=f"A-{number}", user=user)
    async with client_of(app.asgi(auth=by_header)) as client:

        async def ids(name, **params):
            answer = await client.get(RUNS, params=params, headers=as_user(name))
            return answer.status_code, {run["id"] for run in answer.json().get("runs", ())}

        assert await ids("ada") == (200, {"A-0"})
        assert await ids("ada", user="ada") == (200, {"A-0"})
        assert await ids("ada", user="bob") == (403, set())
        assert await ids("root") == (200, {"A-0", "A-1", "A-2"})
        assert (await client.get(f"{RUNS}/A-2", headers=as_user("ada"))).status_code == 200
        assert (await client.get("/api/v1/workers", headers=as_user("ada"))).json()["code"] == "NOT_ALLOWED"
        assert (await client.get("/api/v1/workers", headers=as_user("root"))).status_code == 200


# SPEC A2, Q4
async def test_only_admins_see_what_workers_hold_and_drain_them(app):
    """Others learn nothing of them, and change nothing."""
    async with client_of(app.asgi(auth=by_header)) as client:
        (worker,) = (await client.get("/api/v1/workers", headers=as_user("root"))).json()
        place = f"/api/v1/workers/{worker['id']}"
        for answer in (
            await client.get(RUNS, params={"worker": worker["id"]}, headers=as_user("ada")),
            await client.get(f"{place}/steps", headers=as_user("ada")),
            await client.post(f"{place}/drain", headers=as_user("ada")),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "NOT_ALLOWED")
        assert (await client.post(f"{place}/drain")).status_code == 401
        assert (await app.workers())[0].drain_asked_at is None
        assert (await client.post(f"{place}/drain", headers=as_user("root"))).status_code == 200


async def test_a_scraper_is_let_in_to_the_metrics_alone(app):
    """The scope `metrics` reads them, and nothing else where it is all one has. # SPEC O6, A2"""
    users = USERS | {"scraper": User("scraper", {"metrics"}), "both": User("both", {"metrics", "ops"})}
    async with client_of(app.asgi(auth=lambda request: users.get(request.headers.get("x-user")))) as client:
        document = (await client.get("/openapi.json", headers=as_user("scraper"))).json()
        for path, methods in document["paths"].items():
            for method in methods:
                if path in OPEN | {"/metrics"}:
                    continue
                refused = await client.request(
                    method, path.format(id="x", name="x", version="x"), headers=as_user("scraper")
                )
                assert (refused.status_code, refused.json()["code"]) == (403, "NOT_ALLOWED"), (method, path)
        for name, status in {"scraper": 200, "both": 200, "root": 200, "ada": 403, "nobody": 401}.items():
            assert (await client.get("/metrics", headers=as_user(name))).status_code == status, name
        assert (await client.get(RUNS, headers=as_user("both"))).status_code == 200


async def test_a_hook_refuses_or_fails(app, caplog):
    """None is nobody, a PermissionError is a refusal; a hook that breaks opens nothing, and tells nothing. # SPEC A2"""

    def broken(request):
        raise RuntimeError("the secret of the hook")

    async with client_of(app.asgi(auth=by_header)) as client:
        assert (await client.get(RUNS)).status_code == 401
        assert (await client.get(RUNS, headers=as_user("banned"))).json()["code"] == "NOT_ALLOWED"
    async with client_of(app.asgi(auth=broken)) as client:
        answer = await client.get(RUNS)
        assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
        assert "secret" not in answer.text
        assert (await client.get("/api/v1/health")).status_code == 200
    assert "the secret of the hook" in caplog.text
    async with client_of(app.asgi(auth=lambda request: User("x" * 600))) as client:
        assert (await client.get(RUNS)).status_code == 422
