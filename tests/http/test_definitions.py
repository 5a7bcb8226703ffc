"""Graphs stored over HTTP: drafted, shown, activated, declined, by whom and when (SPEC V6)."""

from __future__ import annotations

import pytest

from outlast import Encrypt, Outlast
from tests.http.conftest import client_of
from tests.http.test_access import User, as_user

VERSIONS = "/api/v1/versions"
WORKFLOWS = "/api/v1/workflows"
RUNS = "/api/v1/runs"
ORDERS = {
    "name": "orders",
    "nodes": {"first": {"function": "twice", "input": "$input"}},
    "output": "$nodes.first",
}
USERS = {"ada": User("ada", {"admin"}), "program": User("program", {"author"}), "bob": User("bob")}


@pytest.fixture
async def hooked(app):
    """Of an API that knows its users by a header."""
    async with client_of(app.asgi(auth=lambda request: USERS.get(request.headers.get("x-user")))) as client:
        yield client


async def test_a_program_drafts_and_a_person_activates(hooked):
    """The draft is shown with its plan and definition; once activated it is listed, and runs of it are started."""
    drafted = await hooked.post(VERSIONS, json={"definition": ORDERS}, headers=as_user("program"))
    assert (drafted.status_code, drafted.json()["status"], drafted.json()["created_by"]) == (201, "draft", "program")
    again = await hooked.post(VERSIONS, json={"definition": ORDERS}, headers=as_user("ada"))
    assert again.json() == drafted.json()
    (listed,) = (await hooked.get(VERSIONS, params={"status": "draft"}, headers=as_user("bob"))).json()
    path = f"{WORKFLOWS}/orders/versions/{listed['version']}"
    shown = (await hooked.get(path, headers=as_user("bob"))).json()
    assert shown["definition"]["nodes"]["first"]["function"] == "twice"
    assert [step["key"] for step in shown["plan"]["steps"]] == ["first"]
    start = {"workflow": "orders", "input": 4}
    refused = await hooked.post(RUNS, json=start, headers=as_user("bob"))
    assert (refused.status_code, refused.json()["code"]) == (404, "FUNCTION_NOT_FOUND")
    assert (await hooked.get(f"{WORKFLOWS}/orders", headers=as_user("bob"))).status_code == 404

    decided = (await hooked.post(f"{path}/activate", json={}, headers=as_user("ada"))).json()
    assert (decided["status"], decided["decided_by"]) == ("active", "ada")
    assert decided["decided_at"] is not None
    assert (await hooked.get(VERSIONS, params={"status": "draft"}, headers=as_user("bob"))).json() == []
    names = [info["name"] for info in (await hooked.get(WORKFLOWS, headers=as_user("bob"))).json()]
    assert sorted(names) == ["buy", "double", "hold", "orders"]
    assert (await hooked.get(f"{WORKFLOWS}/orders", headers=as_user("bob"))).json()["version"] == listed["version"]
    ended = await hooked.post(RUNS, json=start, params={"wait": "20s"}, headers=as_user("bob"))
    assert (ended.status_code, ended.json()["output"]) == (200, 8)

    declined = (await hooked.post(f"{path}/decline", json={}, headers=as_user("ada"))).json()
    assert (declined["status"], declined["decided_by"]) == ("declined", "ada")
    assert (await hooked.post(RUNS, json=start, headers=as_user("bob"))).json()["code"] == "FUNCTION_NOT_FOUND"


async def test_who_may_draft_and_who_decides(hooked):
    """Authors and admins store drafts, admins alone decide, and only they in somebody else's name. # SPEC A2"""

    async def post(path, user, **body):
        answer = await hooked.post(path, json=body, headers=as_user(user))
        return answer.status_code, answer.json()

    assert (await post(VERSIONS, "bob", definition=ORDERS))[0] == 403
    assert (await post(VERSIONS, "program", definition=ORDERS, by="ada"))[0] == 403
    _, draft = await post(VERSIONS, "ada", definition=ORDERS, by="somebody")
    assert draft["created_by"] == "somebody"
    path = f"{WORKFLOWS}/orders/versions/{draft['version']}"
    for user in ("bob", "program"):
        for decision in ("activate", "decline"):
            status, problem = await post(f"{path}/{decision}", user)
            assert (status, problem["code"]) == (403, "NOT_ALLOWED"), (user, decision)
    assert (await post(f"{path}/activate", "ada", by="grace"))[1]["decided_by"] == "grace"
    assert (await post(f"{WORKFLOWS}/orders/versions/none/activate", "ada"))[0] == 404


async def test_a_server_that_knows_nobody_asks_for_a_name(app, client):
    """Who stored and decided is on record, so somebody has to be named."""
    nameless = await client.post(VERSIONS, json={"definition": ORDERS})
    assert (nameless.status_code, nameless.json()["fields"]["field"]) == (422, "by")
    draft = (await client.post(VERSIONS, json={"definition": ORDERS, "by": "ada"})).json()
    path = f"{WORKFLOWS}/orders/versions/{draft['version']}"
    assert (await client.post(f"{path}/decline", json={})).status_code == 422
    assert (await client.post(f"{path}/decline", json={"by": "bob"})).json()["decided_by"] == "bob"
    assert [info.status for info in await app.versions("orders")] == ["declined"]


async def test_a_declined_version_of_the_code_is_not_started(app, client):
    """It is a conflict that says so, until somebody activates it again."""
    version = (await client.get(f"{WORKFLOWS}/double")).json()["version"]
    path = f"{WORKFLOWS}/double/versions/{version}"
    await client.post(f"{path}/decline", json={"by": "ada"})
    refused = await client.post(RUNS, json={"workflow": "double", "input": 1})
    assert (refused.status_code, refused.json()["code"]) == (409, "VERSION_NOT_ACTIVE")
    await client.post(f"{path}/activate", json={"by": "ada"})
    assert (await client.post(RUNS, json={"workflow": "double", "input": 1})).status_code == 201


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        ({}, "INVALID_DEFINITION"),
        ({"name": "x", "nodes": {}}, "INVALID_DEFINITION"),
        ({"name": "x", "nodes": {"a": {"function": "twice", "next": "nowhere"}}}, "INVALID_DEFINITION"),
        ({"name": "x" * 600, "nodes": {"a": {"function": "twice"}}}, "INVALID_DEFINITION"),
        ("shop.json", "INVALID_REQUEST"),
        ("/etc/passwd", "INVALID_REQUEST"),
        ([], "INVALID_REQUEST"),
        (None, "INVALID_REQUEST"),
    ],
    ids=str,
)
async def test_what_is_no_graph_is_refused(app, client, definition, code):
    """Before anything is stored; and a text is no path to a file. # SPEC D4"""
    answer = await client.post(VERSIONS, json={"definition": definition, "by": "ada"})
    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    assert "root:" not in answer.text
    assert await app.versions(status="draft") == []


async def test_a_graph_that_cannot_be_read_here_hides_no_other(tmp_path):
    """A server without the key lists all that it can read; asked for that one, it says what is missing. # SPEC D2"""
    url = f"sqlite:///{tmp_path}/x.db"
    async with Outlast(url, codecs=[Encrypt({"k1": bytes(32)}, current="k1")]) as sealed:
        draft = await sealed.draft(ORDERS, by="ada")
        await sealed.activate("orders", draft.version, by="ada")
    async with Outlast(url) as bare, client_of(bare.asgi(no_auth=True)) as client:
        assert (await client.get(WORKFLOWS)).json() == []
        asked = await client.get(f"{WORKFLOWS}/orders")
        assert (asked.status_code, asked.json()["code"]) == (503, "KEY_NOT_FOUND")
        assert [info["workflow"] for info in (await client.get(VERSIONS)).json()] == ["orders"]
