"""Reading runs over HTTP (SPEC A1): standing, story, past, lists."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from outlast import Outlast

RUNS = "/api/v1/runs"


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    """Of each embedded store."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/http.db"


async def start(app, workflow="double", *args, **options):
    """A run that has ended."""
    run = await app.start(workflow, *(args or (3,)), **options)
    await run.result(timeout=20)
    return run


async def test_a_run_is_shown_with_its_steps(app, client):
    """How it stands, what it was started with, and each step. # SPEC A1, R7"""
    run = await start(app, id="A-1", attributes={"region": "eu"}, user="ada")
    shown = (await client.get(f"{RUNS}/A-1")).json()
    assert (shown["uid"], shown["id"], shown["workflow"]) == (run.uid, "A-1", "double")
    assert (shown["status"], shown["output"], shown["input"]) == ("completed", 6, {"n": 3})
    assert (shown["user"], shown["attributes"]) == ("ada", {"region": "eu"})
    assert [(step["key"], step["status"]) for step in shown["steps"]] == [("twice", "succeeded")]


async def test_history_timeline_and_past(app, client):
    """Attempts with what went in and came out; each event by its number; and the run as it was. # SPEC O1, O2"""
    await start(app, id="A-1")
    (attempt,) = (await client.get(f"{RUNS}/A-1/history")).json()
    assert (attempt["key"], attempt["arguments"], attempt["result"], attempt["attempt"]) == ("twice", {"n": 3}, 6, 1)
    timeline = (await client.get(f"{RUNS}/A-1/timeline")).json()
    assert [item["seq"] for item in timeline] == list(range(len(timeline)))
    assert [item["kind"] for item in timeline] == ["queued", "started", "succeeded", "completed"]
    then = (await client.get(f"{RUNS}/A-1/state", params={"seq": 1})).json()
    assert (then["seq"], then["status"], then["results"]) == (1, "running", {})
    before = datetime.now(UTC) - timedelta(hours=1)
    empty = (await client.get(f"{RUNS}/A-1/state", params={"at": before.isoformat()})).json()
    assert (empty["seq"], empty["steps"]) == (-1, [])
    now = (await client.get(f"{RUNS}/A-1/state")).json()
    assert (now["status"], now["output"], now["path"]) == ("completed", 6, ["twice"])
    both = await client.get(f"{RUNS}/A-1/state", params={"seq": 1, "at": before.isoformat()})
    assert both.json()["code"] == "INVALID_REQUEST"


async def test_parts_of_long_stories(app, client):
    """A timeline can be read in parts, by number."""
    await start(app, id="A-1")
    part = (await client.get(f"{RUNS}/A-1/timeline", params={"after": 0, "limit": 2})).json()
    assert [item["seq"] for item in part] == [1, 2]
    assert (await client.get(f"{RUNS}/A-1/history", params={"after": 0})).json() == []
    assert len((await client.get(f"{RUNS}/A-1/history", params={"key": "twice"})).json()) == 1
    assert (await client.get(f"{RUNS}/A-1/history", params={"key": "charge"})).json() == []


async def test_lists_are_filtered_and_paged(app, client):
    """All filters must fit; newest first; the next page begins where the last ended. # SPEC R9"""
    for number in range(5):
        await start(app, id=f"A-{number}", attributes={"odd": number % 2 == 1, "n": number, "name": "7"})
    seen, after = [], None
    while True:
        params = {"limit": 2, "workflow": "double", **({} if after is None else {"after": after})}
        page = (await client.get(RUNS, params=params)).json()
        seen += [run["id"] for run in page["runs"]]
        after = page["next"]
        if after is None:
            break
    assert seen == [f"A-{number}" for number in reversed(range(5))]

    async def ids(params):
        return {run["id"] for run in (await client.get(RUNS, params=params)).json()["runs"]}

    assert await ids({"attribute": ["odd=true", "n=3"]}) == {"A-3"}
    assert await ids({"attribute": 'name="7"'}) == {f"A-{number}" for number in range(5)}
    assert await ids({"attribute": "name=7"}) == set()
    assert await ids({"status": ["failed", "cancelled"]}) == set()
    assert await ids({"status": ["failed", "completed"], "limit": 100}) == {f"A-{number}" for number in range(5)}


async def test_the_result_is_waited_for(app, client):
    """202 while the run goes on; with `wait` the answer comes when it ends. # SPEC A1, R6"""
    held = await app.start("hold", id="H")
    early = await client.get(f"{RUNS}/H/result", params={"wait": "20ms"})
    assert (early.status_code, early.json()["is_ended"]) == (202, False)
    assert (await client.get(f"{RUNS}/H/result")).status_code == 202
    await held.cancel("enough")
    late = await client.get(f"{RUNS}/H/result", params={"wait": "20"})
    assert (late.status_code, late.json()["status"]) == (200, "cancelled")
    too_long = await client.get(f"{RUNS}/H/result", params={"wait": "1h"})
    assert too_long.json()["code"] == "INVALID_SETTING"
    assert (await client.get(f"{RUNS}/H/result", params={"wait": "soon"})).json()["code"] == "INVALID_DURATION"


@pytest.mark.parametrize("id", ["a/b", "..", ".", "a b", "#1", "ä/€/🙂", "%2F", "?x=1", "x" * 512, "'\"<script>", "-"])
async def test_any_id_is_found(app, client, id):
    """A run's id may be any text; it is found by its path, or else where the start said. # SPEC D4"""
    answer = await client.post(RUNS, json={"workflow": "double", "input": 2, "id": id}, params={"wait": "20s"})
    assert (answer.status_code, answer.json()["output"], answer.json()["id"]) == (200, 4, id)
    shown = (await client.get(answer.headers["location"])).json()
    assert (shown["id"], shown["status"]) == (id, "completed")


async def test_a_run_is_found_by_its_uid_after_its_id_was_given_away(app, client):
    """`?uid=` names this very run; the id in the path names whoever holds it now. # SPEC R6"""
    first = await start(app, "double", 1, id="A-1")
    second = await start(app, "double", 2, id="A-1", on_conflict="restart")
    assert (await client.get(f"{RUNS}/A-1")).json()["uid"] == second.uid
    old = await client.get(f"{RUNS}/A-1", params={"uid": first.uid})
    assert (old.json()["uid"], old.json()["output"]) == (first.uid, 2)
    assert (await client.get(f"{RUNS}/-", params={"uid": first.uid})).json()["uid"] == first.uid
    wrong = await client.get(f"{RUNS}/A-2", params={"uid": first.uid})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "INVALID_SETTING")
    assert (await client.get(f"{RUNS}/-", params={"uid": "nobody"})).status_code == 404


async def test_what_is_not_there_says_so(app, client):
    """Errors are problem documents with the error tree's codes. # SPEC A1"""
    missing = await client.get(f"{RUNS}/nobody")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    assert missing.json()["code"] == "RUN_NOT_FOUND"
    assert missing.json()["fields"] == {"id": "nobody"}
    assert "GET /api/v1/runs" in missing.json()["detail"]
    assert missing.json()["type"] == "urn:outlast:RUN_NOT_FOUND"
    nowhere = await client.get("/api/v1/nothing")
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "ROUTE_NOT_FOUND")
    wrong = await client.put(f"{RUNS}/nobody", json={})
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "DELETE, GET, HEAD")
    head = await client.head(f"{RUNS}/nobody")
    assert (head.status_code, head.content) == (404, b"")


async def test_workflows_and_workers(app, client):
    """What there is to start, with schemas for forms; and who works. # SPEC A1"""
    names = [workflow["name"] for workflow in (await client.get("/api/v1/workflows")).json()]
    assert names == ["double", "hold", "buy"]
    double = (await client.get("/api/v1/workflows/double")).json()
    assert (double["doc"], double["output_schema"]) == ("Twice as much.", {"type": "integer"})
    (definition,) = double["input_schema"]["$defs"].values()
    assert (definition["properties"], definition["required"]) == ({"n": {"type": "integer"}}, ["n"])
    assert (await client.get("/api/v1/workflows/none")).json()["code"] == "FUNCTION_NOT_FOUND"
    (worker,) = (await client.get("/api/v1/workers")).json()
    assert worker["is_alive"]
    assert set(worker["functions"]) == set(app.functions())
    (queue,) = (await client.get("/api/v1/queues")).json()
    assert (queue["name"], queue["workers"], queue["waiting_steps"]) == ("default", 1, 0)


async def test_versions_are_kept(app, client):
    """Each version that a worker brought along, with its plan, also when its code is gone. # SPEC A1, V1, V2"""
    double = app.find_workflow("double")
    (shown,) = (await client.get("/api/v1/workflows/double/versions")).json()
    assert (shown["version"], shown["kind"], shown["status"], shown["plan"]) == (double.version, "body", "active", None)
    one = (await client.get(f"/api/v1/workflows/double/versions/{double.version}")).json()
    assert one["plan"] == (await client.get("/api/v1/workflows/double")).json()["plan"]
    assert (await client.get("/api/v1/workflows/none/versions")).json() == []
    missing = await client.get("/api/v1/workflows/double/versions/none")
    assert (missing.status_code, missing.json()["code"]) == (404, "FUNCTION_NOT_FOUND")


async def test_health_and_readiness(client):
    """One says that the server answers, the other that its store does. # SPEC A1"""
    assert (await client.get("/api/v1/health")).json()["is_ready"]
    assert (await client.get("/api/v1/ready")).json()["is_ready"]


async def test_an_app_that_is_not_open_is_not_ready():
    """Mounted in a host that has not opened it, the API answers 503 and says what to do."""
    from tests.http.conftest import client_of

    async with client_of(Outlast("memory://").asgi(no_auth=True)) as client:
        ready = await client.get("/api/v1/ready")
        assert (ready.status_code, ready.json()["code"]) == (503, "APP_NOT_OPEN")
        assert "async with app" in ready.json()["detail"]
        assert (await client.get("/api/v1/health")).status_code == 200


# SPEC Q4, A1
async def test_a_worker_is_looked_at_and_drained(app, client):
    """What it holds is counted and listed; asked to drain it says since when, and the same when asked again."""
    run = await app.start("hold", id="h")
    (worker,) = (await client.get("/api/v1/workers")).json()
    assert (worker["state"], worker["drain_asked_at"]) == ("serving", None)
    place = f"/api/v1/workers/{worker['id']}"
    async with asyncio.timeout(10):
        while (await client.get("/api/v1/workers")).json()[0]["held_runs"] != 1:
            await asyncio.sleep(0.01)
    held = (await client.get("/api/v1/runs", params={"worker": worker["id"]})).json()
    assert [one["id"] for one in held["runs"]] == ["h"]
    assert (await client.get(f"{place}/steps")).json() == []
    asked = await client.post(f"{place}/drain")
    assert (asked.status_code, asked.json()["id"]) == (200, worker["id"])
    assert (await client.post(f"{place}/drain")).json() == asked.json()
    (draining,) = (await client.get("/api/v1/workers")).json()
    assert (draining["state"], draining["drain_asked_at"]) == ("draining", asked.json()["drain_asked_at"])
    for answer in (await client.post("/api/v1/workers/nobody/drain"), await client.get("/api/v1/workers/nobody/steps")):
        assert (answer.status_code, answer.json()["code"], answer.json()["fields"]) == (
            (404, "WORKER_NOT_FOUND", {"id": "nobody"})
        )
        assert "GET /api/v1/workers" in answer.json()["detail"]
    await run.cancel()
