"""Starting and steering runs over HTTP (SPEC A1, R2, R3, R6, R10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

RUNS = "/api/v1/runs"


async def test_the_same_request_again_is_the_same_run(app, client):
    """The run's id is the idempotency key; other input, or another workflow, is a conflict. # SPEC A1, R3"""
    body = {"workflow": "double", "input": {"n": 4}, "id": "A-1"}
    first = await client.post(RUNS, json=body)
    assert (first.status_code, first.headers["location"]) == (201, f"{RUNS}/A-1")
    again = await client.post(RUNS, json=body, params={"wait": "20s"})
    assert (again.status_code, again.json()["uid"], again.json()["output"]) == (200, first.json()["uid"], 8)
    for change in ({"input": {"n": 5}}, {"workflow": "buy", "input": {}}):
        other = await client.post(RUNS, json=body | change)
        assert (other.status_code, other.json()["code"]) == (409, "RUN_CONFLICT")
    taken = await client.post(RUNS, json=body | {"on_conflict": "raise"})
    assert (taken.status_code, taken.json()["code"]) == (409, "RUN_EXISTS")
    anew = await client.post(RUNS, json=body | {"on_conflict": "restart"}, params={"wait": "20s"})
    assert anew.json()["uid"] != first.json()["uid"]
    assert len((await app.runs()).runs) == 2


async def test_a_key_in_the_header_is_the_id(app, client):
    """Of a request that names none; one that does is called by that. # SPEC A1, R3"""
    body, key = {"workflow": "double", "input": {"n": 4}}, {"idempotency-key": "evt-1"}
    first, again = [await client.post(RUNS, json=body, headers=key) for _ in range(2)]
    assert (first.json()["id"], again.json()["uid"]) == ("evt-1", first.json()["uid"])
    other = await client.post(RUNS, json=body | {"input": {"n": 5}}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "RUN_CONFLICT")
    named = await client.post(RUNS, json=body | {"id": "A-1"}, headers=key)
    assert named.json()["id"] == "A-1"
    wrong = await client.post(RUNS, json=body, headers={"idempotency-key": "x" * 600})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "INVALID_NAME")
    assert len((await app.runs()).runs) == 2


async def test_how_a_run_failed_is_an_answer(client):
    """Starting and waiting did what it was to do; the outcome says what the body raised. # SPEC R6, R8"""
    answer = await client.post(RUNS, json={"workflow": "buy", "input": {"fails": True}}, params={"wait": "20s"})
    outcome = answer.json()
    assert (answer.status_code, outcome["status"], outcome["is_ended"]) == (200, "failed", True)
    assert (outcome["error"]["type"], outcome["error"]["message"], outcome["output"]) == ("Declined", "no money", None)


async def test_a_run_that_takes_longer_goes_on(client):
    """202 after the time to wait; nothing is lost of it."""
    answer = await client.post(RUNS, json={"workflow": "hold", "id": "H"}, params={"wait": "10ms"})
    assert (answer.status_code, answer.json()["is_ended"]) == (202, False)
    assert (await client.get(f"{RUNS}/H")).json()["status"] == "running"


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"workflow": "double", "input": {"n": "x"}}, 422, "INVALID_INPUT", "n"),
        ({"workflow": "double", "input": {}}, 422, "INVALID_INPUT", "n"),
        ({"workflow": "buy", "input": {"m": 2}}, 422, "INVALID_INPUT", "m"),
        ({"workflow": "none", "input": 1}, 404, "FUNCTION_NOT_FOUND", None),
        ({"workflow": "double", "input": 1, "id": ""}, 422, "INVALID_NAME", None),
        ({"workflow": "double", "input": 1, "id": "x" * 513}, 422, "INVALID_NAME", None),
        ({"workflow": "double", "input": 1, "id": "a\0b"}, 422, "INVALID_NAME", None),
        ({"workflow": "double", "input": 1, "priority": 10}, 422, "INVALID_REQUEST", "priority"),
        ({"workflow": "double", "input": 1, "delay": "soon"}, 422, "INVALID_DURATION", None),
        ({"workflow": "double", "input": 1, "delay": -1}, 422, "INVALID_DURATION", None),
        ({"workflow": "double", "input": 1, "at": "2026-01-01T00:00:00"}, 422, "INVALID_REQUEST", "at"),
        ({"workflow": "double", "input": 1, "attributes": {"a": [1]}}, 422, "INVALID_REQUEST", "attributes[...]"),
        ({"workflow": "double", "input": 1, "attributes": {"a": "x" * 20_000}}, 413, "VALUE_TOO_LARGE", None),
        ({"workflow": "double", "input": 1, "trace": "x"}, 422, "INVALID_SETTING", None),
        ({"workflow": "double", "input": 1, "nonsense": 1}, 422, "INVALID_REQUEST", "nonsense"),
        ({"input": 1}, 422, "INVALID_REQUEST", "workflow"),
        ([], 422, "INVALID_REQUEST", "body"),
        ({"workflow": "buy", "input": {"note": "x" * (2 * 2**20)}}, 413, "VALUE_TOO_LARGE", None),
    ],
)
async def test_what_cannot_be_started_is_refused_before_anything_is_stored(app, client, body, status, code, field):
    """With the code of the error tree, and the field. # SPEC R2, A1"""
    answer = await client.post(RUNS, json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["status"]) == (status, code, status)
    if field is not None:
        assert problem["fields"]["field"] == field
    assert (await app.runs()).runs == ()


async def test_all_that_can_be_said_of_a_start_is_kept(app, client):
    """Delay, priority, queue, user, attributes, trace; the header's trace where the body names none. # SPEC R4"""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    at = datetime.now(UTC) + timedelta(hours=1)
    body = {
        "workflow": "double",
        "input": 1,
        "id": "A-1",
        "at": at.isoformat(),
        "priority": 0,
        "queue": "slow",
        "user": "ada",
        "attributes": {"region": "eu", "n": 1, "ok": None},
    }
    await client.post(RUNS, json=body, headers={"traceparent": trace})
    shown = (await client.get(f"{RUNS}/A-1")).json()
    assert (shown["status"], shown["priority"], shown["queue"], shown["user"]) == ("queued", 0, "slow", "ada")
    assert (shown["attributes"], shown["trace"][:35]) == (body["attributes"], trace[:35])
    assert datetime.fromisoformat(shown["due_at"]) == at
    later = await client.post(RUNS, json=body | {"id": "A-2"}, headers={"traceparent": "nonsense"})
    assert later.status_code == 201


async def test_cancel(app, client):
    """Asked once it is stored; an ended run says that there was nothing to cancel. # SPEC X1"""
    await app.start("hold", id="H")
    asked = await client.post(f"{RUNS}/H/cancel", json={"reason": "changed my mind"})
    assert (asked.status_code, asked.json()["is_sent"]) == (200, True)
    ended = await client.get(f"{RUNS}/H/result", params={"wait": "20s"})
    assert (ended.json()["status"], ended.json()["error"]["message"]) == ("cancelled", "changed my mind")
    assert (await client.post(f"{RUNS}/H/cancel")).json()["is_sent"] is False
    assert (await client.post(f"{RUNS}/none/cancel")).json()["code"] == "RUN_NOT_FOUND"


async def test_resume_says_what_is_open(app, client):
    """A run that is not suspended has nothing to resume; one that has ended takes no message. # SPEC W2"""
    await app.start("hold", id="H")
    nothing = await client.post(f"{RUNS}/H/resume", json={"reason": "x"})
    assert (nothing.status_code, nothing.json()["code"]) == (409, "WAIT_NOT_FOUND")
    run = await app.start("double", 1, id="A-1")
    await run.result(timeout=20)
    ended = await client.post(f"{RUNS}/A-1/resume")
    assert (ended.status_code, ended.json()["code"]) == (409, "RUN_ENDED")


async def test_retry(app, client, mended):
    """A failed run goes on from what failed; another cannot be retried. # SPEC R10"""
    await client.post(RUNS, json={"workflow": "buy", "input": {"fails": True}, "id": "B"}, params={"wait": "20s"})
    mended.set()
    assert (await client.post(f"{RUNS}/B/retry")).json()["id"] == "B"
    ended = await client.get(f"{RUNS}/B/result", params={"wait": "20s"})
    assert (ended.json()["status"], ended.json()["output"]) == ("completed", "paid")
    again = await client.post(f"{RUNS}/B/retry")
    assert (again.status_code, again.json()["code"]) == (409, "RUN_NOT_FAILED")


async def test_fork(app, client):
    """A new run from a copy of the journal, with another result if wanted; the first one stays as it is. # SPEC R10"""
    run = await app.start("double", 3, id="A-1")
    await run.result(timeout=20)
    forked = await client.post(f"{RUNS}/A-1/fork", json={"at": "twice", "id": "a/fork"})
    assert (forked.status_code, forked.headers["location"]) == (201, f"{RUNS}/a%2Ffork")
    ended = await client.get(f"{forked.headers['location']}/result", params={"wait": "20s"})
    assert ended.json()["output"] == 6
    assert (await client.get(forked.headers["location"])).json()["forked_from"] == run.uid
    wrong = await client.post(f"{RUNS}/A-1/fork", json={"at": "nothing"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "INVALID_SETTING")
    taken = await client.post(f"{RUNS}/A-1/fork", json={"at": "twice", "id": "A-1"})
    assert (taken.status_code, taken.json()["code"]) == (409, "RUN_EXISTS")


async def test_delete(app, client):
    """Only what has ended, and then nothing is left of it. # SPEC R9"""
    held = await app.start("hold", id="H")
    refused = await client.delete(f"{RUNS}/H")
    assert (refused.status_code, refused.json()["code"]) == (409, "RUN_NOT_ENDED")
    await held.cancel("enough")
    await client.get(f"{RUNS}/H/result", params={"wait": "20s"})
    gone = await client.delete(f"{RUNS}/H")
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await client.get(f"{RUNS}/H")).status_code == 404
