"""Requests that mean harm, or make none (SPEC A2, D4): each gets a clear answer, and nothing else happens."""

from __future__ import annotations

import json
import logging

import pytest

from tests.http.conftest import client_of
from tests.http.streaming import Stream

RUNS = "/api/v1/runs"
TOKEN = "a token that is long enough"
START = {"workflow": "double", "input": 1}
SCRIPT = "<script>alert(1)</script>"


async def raw(api, path, *, method="GET", headers=(), query=b"", body=b"", decoded=None):
    """A request as no well-behaved client would make it: status and text of the answer."""
    sent = Stream()
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": decoded if decoded is not None else path.decode("latin-1"),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(b"host", b"test"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("test", 80),
    }
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return parts.pop() if parts else {"type": "http.disconnect"}

    await api(scope, receive, sent.send)
    return sent.status, sent.raw.decode()


# --- other sites ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "is_taken"),
    [
        ({}, True),
        ({"origin": "http://test"}, True),
        ({"origin": "http://test:80"}, True),
        ({"origin": "https://console.example.org"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "http://test.evil.example"}, False),
        ({"origin": "http://test:81"}, False),
        ({"origin": "http://test@evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "http://[broken"}, False),
        ({"origin": "file://test"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
    ],
)
async def test_a_page_of_another_site_starts_nothing(app, headers, is_taken):
    """What changes something comes from here, from a site that was named, or from no page. # SPEC A2"""
    async with client_of(app.asgi(no_auth=True, origins=["https://console.example.org"])) as client:
        answer = await client.post(RUNS, json=START, headers=headers)
        assert answer.status_code == (201 if is_taken else 403), answer.text
        assert "access-control-allow-origin" not in answer.headers
        assert len((await app.runs()).runs) == int(is_taken)


async def test_a_cookie_needs_a_page_of_ours(app):
    """With a session, a request that does not say where it comes from changes nothing. # SPEC A2"""
    async with client_of(app.asgi(token=TOKEN)) as client:
        await client.post("/api/v1/session", json={"token": TOKEN})
        assert (await client.post(RUNS, json=START)).json()["code"] == "CROSS_SITE"
        assert (await client.post(RUNS, json=START, headers={"origin": "http://test"})).status_code == 201
        assert (await client.get(RUNS)).status_code == 200
        forged = {"origin": "https://evil.example", "authorization": f"Bearer {TOKEN}"}
        assert (await client.post(RUNS, json=START, headers=forged)).status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"])
async def test_a_form_is_no_request(app, client, kind):
    """Only JSON that says so is read: what a page can send without asking first is none of it. # SPEC A2"""
    answer = await client.post(RUNS, content=json.dumps(START), headers={"content-type": kind} if kind else {})
    assert (answer.status_code, answer.json()["code"]) == (415, "WRONG_MEDIA_TYPE")
    assert (await app.runs()).runs == ()


@pytest.mark.parametrize(
    ("host", "is_answered"),
    [
        ("test", True),
        ("localhost:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("10.0.0.7", True),
        ("console.internal", True),
        ("evil.example.com", False),
        ("127.0.0.1.evil.example.com", False),
        ("localhost.evil.example.com", False),
        ("evil.example.com:80@localhost", False),
        ("[::1", False),
        ("evil.example.com/localhost", False),
    ],
)
async def test_a_name_that_points_here_is_not_enough(app, host, is_answered):
    """Where nobody is asked who they are, a page whose name was pointed at this server gets nothing. # SPEC A2"""
    async with client_of(app.asgi(no_auth=True)) as client:
        answer = await client.get(RUNS, headers={"host": host})
        assert answer.status_code == (200 if is_answered else 421)
    async with client_of(app.asgi(no_auth=True, hosts=["evil.example.com", "::1"])) as client:
        answer = await client.get(RUNS, headers={"host": host})
        assert answer.status_code == (200 if host in {"evil.example.com", "[::1]:8000"} else 421)


async def test_two_hosts_are_none(app):
    """A request that names this server twice is not believed."""
    status, _ = await raw(app.asgi(no_auth=True), RUNS.encode(), headers=[(b"host", b"localhost")])
    assert status == 421


# --- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "MALFORMED_REQUEST"),
        (b"nonsense", 400, "MALFORMED_REQUEST"),
        (b'{"workflow": "double", "input": "\xff"}', 400, "MALFORMED_REQUEST"),
        (b'{"workflow": "\xff"}', 400, "MALFORMED_REQUEST"),
        (b'{"workflow": "double", "input": "\\ud800"}', 400, "MALFORMED_REQUEST"),
        (b'{"workflow": "double", "input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "MALFORMED_REQUEST"),
        (b'{"workflow": "double", "input": ' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}", 400, "MALFORMED_REQUEST"),
        (b'{"workflow": "double", "input": 1e999}', 422, "INVALID_INPUT"),
        (b'{"workflow": "double", "input": NaN}', 400, "MALFORMED_REQUEST"),
        (b'{"workflow": "double", "input": 1' + b"0" * 5000 + b"}", 422, "INVALID_INPUT"),
        (b'"' + b"x" * (4 * 2**20) + b'"', 413, "BODY_TOO_LARGE"),
        (b"null", 422, "INVALID_REQUEST"),
        (b"", 422, "INVALID_REQUEST"),
    ],
    ids=lambda value: repr(value[:40]) if isinstance(value, bytes) else None,
)
async def test_bodies_that_cannot_be_read(app, client, caplog, body, status, code):
    """Bad UTF-8, half characters, deep nesting, numbers without end, too much of all: a clear answer. # SPEC D4"""
    answer = await client.post(RUNS, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text[:300]
    assert (await app.runs()).runs == ()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_body_without_a_length_is_limited_too(app, client):
    """What is sent in pieces is counted as it comes. # SPEC D4"""
    sent = []

    async def pieces():
        for _ in range(100):
            sent.append(1)
            yield b" " * 100_000

    answer = await client.post(RUNS, content=pieces(), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
    assert len(sent) < 100


async def test_headers_and_paths_are_limited(app, client):
    """Past a limit they are not looked at."""
    assert (await client.get(RUNS, headers={"x": "y" * 40_000})).json()["code"] == "HEADERS_TOO_LARGE"
    assert (await client.get(f"{RUNS}/{'x' * 9000}")).json()["code"] == "HEADERS_TOO_LARGE"
    assert (await client.get(RUNS, params={"attribute": ["a=1"] * 200})).status_code == 422


@pytest.mark.parametrize(
    ("path", "decoded"),
    [
        (b"/api/v1/runs/%FF%FE", "/api/v1/runs/\ufffd\ufffd"),
        (b"/api/v1/runs/../../../etc/passwd", None),
        (b"/api/v1/runs/..%2F..%2Fetc%2Fpasswd", "/api/v1/runs/../../etc/passwd"),
        (b"/console/../../../../etc/passwd", None),
        (b"/console/%2e%2e/%2e%2e/http/asgi.py", "/console/../../http/asgi.py"),
        (b"/console/..%2f..%2fapp.py", "/console/../../app.py"),
        (b"//etc/passwd", None),
        (b"", ""),
        (b"/api/v1/runs//timeline", None),
        (b"/api/v1/runs/%00", "/api/v1/runs/\0"),
        (b"/" * 8000, None),
    ],
)
async def test_path_tricks_lead_nowhere(app, path, decoded):
    """A path is an id or a name in a table: no file, no traceback. # SPEC D4"""
    status, text = await raw(app.asgi(no_auth=True), path, decoded=decoded)
    assert status in {307, 400, 404, 422} or (status, 'id="app"' in text) == (200, True), (
        text
    )  # 200: the console's page
    assert "root:" not in text
    assert "Traceback" not in text


async def test_a_query_that_is_no_text(app):
    """Bad UTF-8 in a query, encoded or not, is told. # SPEC D4"""
    api = app.asgi(no_auth=True)
    for query in (b"workflow=%FF", b"workflow=\xff", b"\xff=1"):
        status, text = await raw(api, RUNS.encode(), query=query)
        assert (status, json.loads(text)["code"]) == (400, "MALFORMED_REQUEST")
    status, text = await raw(api, RUNS.encode(), query=b"workflow=%00")
    assert status in {200, 422}


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [SCRIPT, "'; drop table runs; --", "\"\\'", "a\nb\r\nSet-Cookie: x=1", "\u2028\u202e", "🙂" * 100, "{0.__class__}"],
)
async def test_hostile_texts_are_kept_as_they_are(app, client, text):
    """In ids, inputs, users and attributes: stored, found and given back, as JSON that no browser runs. # SPEC D4"""
    body = {"workflow": "buy", "input": {"note": text}, "id": text, "user": text, "attributes": {text: text}}
    answer = await client.post(RUNS, json=body, params={"wait": "20s"})
    assert answer.status_code == 200, answer.text
    assert "set-cookie" not in answer.headers
    shown = await client.get(answer.headers["location"])
    assert (shown.json()["id"], shown.json()["input"]["note"], shown.json()["user"]) == (text, text, text)
    (found,) = (await client.get(RUNS, params={"attribute": json.dumps({text: text})})).json()["runs"]
    assert found["attributes"] == {text: text}
    for answer in (shown, await client.get(f"{RUNS}/none"), await client.get(f"/{SCRIPT}")):
        assert answer.headers["content-type"] in {"application/json", "application/problem+json"}
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_events_keep_to_their_lines(app, client):
    """A value with line breaks, or what looks like an event, stays one event's data. # SPEC D4"""
    note = "x\n\nid: 99\nevent: end\ndata: {}\n\n\r\u2028"
    await client.post(RUNS, json={"workflow": "buy", "input": {"note": note}, "id": "A"}, params={"wait": "20s"})
    text = (await client.get(f"{RUNS}/A/events")).text
    ids = [line for line in text.split("\n") if line.startswith("id: ")]
    assert "id: 99" not in ids
    first = next(line for line in text.split("\n") if line.startswith("data: "))
    assert json.loads(first.removeprefix("data: "))["value"]["note"] == note


async def test_what_went_wrong_inside_is_not_told(app, caplog):
    """A store that fails names no file; a bug names no line: the log has both, and a number. # SPEC A1"""
    async with client_of(app.asgi(no_auth=True)) as client:
        find = app._store.find_run

        async def broken(id):
            raise ZeroDivisionError("in /secret/file.py")

        app._store.find_run = broken
        try:
            answer = await client.get(f"{RUNS}/A")
        finally:
            app._store.find_run = find
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
    assert "secret" not in answer.text
    assert answer.json()["fields"]["incident"] in caplog.text
