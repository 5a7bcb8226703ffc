"""Served by itself, or mounted in another app; and the console's files (SPEC A1, U2)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount

from outlast import AppNotOpen, Outlast
from outlast.http.files import Files
from tests.http.conftest import client_of
from tests.http.streaming import streaming

RUNS = "/api/v1/runs"


async def test_mounted_under_a_prefix(app):
    """Ids with slashes, locations, the document and the session's cookie keep to the prefix. # SPEC A1"""
    api = app.asgi(token="a token that is long enough")
    host = Starlette(routes=[Mount("/durable/here", app=api)], middleware=[Middleware(GZipMiddleware)])
    async with client_of(host, headers={"authorization": "Bearer a token that is long enough"}) as client:
        answer = await client.post(
            f"/durable/here{RUNS}", json={"workflow": "double", "input": 2, "id": "a/b"}, params={"wait": "20s"}
        )
        assert (answer.status_code, answer.json()["output"]) == (200, 4)
        assert answer.headers["location"] == f"/durable/here{RUNS}/a%2Fb"
        assert (await client.get(answer.headers["location"])).json()["id"] == "a/b"
        events = await client.get(f"{answer.headers['location']}/events")
        assert events.text.count("id: ") == 5
        document = (await client.get("/durable/here/openapi.json")).json()
        assert document["servers"] == [{"url": "/durable/here"}]
        signed_in = await client.post("/durable/here/api/v1/session", json={"token": "a token that is long enough"})
        assert "Path=/durable/here/;" in signed_in.headers["set-cookie"]
        assert (await client.get(f"/elsewhere{RUNS}")).status_code == 404


async def test_a_server_that_passes_no_raw_path_on(app):
    """Ids without slashes are found all the same."""
    await (await app.start("double", 1, id="a b")).result(timeout=20)
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": f"/x{RUNS}/a b", "root_path": "/x", "query_string": b""}
    await app.asgi(no_auth=True)(scope | {"headers": [(b"host", b"test")]}, receive, send)
    assert sent[0]["status"] == 200


@asynccontextmanager
async def living(api):
    """The lifespan of an app that is served by itself: what it says to startup and shutdown."""
    given, said = asyncio.Queue(), asyncio.Queue()
    task = asyncio.create_task(api({"type": "lifespan"}, given.get, said.put))
    await given.put({"type": "lifespan.startup"})
    try:
        yield await said.get()
    finally:
        if not task.done():
            await given.put({"type": "lifespan.shutdown"})
            assert (await said.get())["type"] == "lifespan.shutdown.complete"
        await task


async def test_served_by_itself_it_opens_the_app(tmp_path):
    """From the server's start to its stop, twice; streams end with it; an app that is open already stays so after."""
    app = Outlast(f"sqlite:///{tmp_path}/own.db")
    api = app.asgi(no_auth=True)
    for _ in range(2):
        async with living(api) as said, client_of(api) as client:
            assert said == {"type": "lifespan.startup.complete"}
            assert (await client.get("/api/v1/ready")).status_code == 200
            changes = streaming(api, "/api/v1/changes")
            stream = await changes.__aenter__()
            await stream.until(lambda stream: stream.status)
        await stream.until(lambda stream: stream.is_over)
        await changes.__aexit__(None, None, None)
    with pytest.raises(AppNotOpen):
        await app.runs()
    async with app:
        async with living(api):
            pass
        assert (await app.runs()).runs == ()


async def test_a_store_that_cannot_be_opened_stops_the_start(tmp_path):
    """The server hears why, and does not serve."""
    (tmp_path / "broken.db").write_text("this is no database, but long enough to be looked at as one" * 50)
    async with living(Outlast(f"sqlite:///{tmp_path}/broken.db").asgi(no_auth=True)) as said:
        assert said["type"] == "lifespan.startup.failed"
        assert "broken.db" in said["message"]


async def test_other_kinds_of_connection(app):
    """A websocket is closed; nothing speaks it here."""
    sent = []

    async def send(message):
        sent.append(message)

    await app.asgi(no_auth=True)({"type": "websocket", "path": "/"}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1000}]


# --- the console's files ----------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    """A small console."""
    folder = tmp_path / "static"
    (folder / "js").mkdir(parents=True)
    (folder / "index.html").write_text('<base href="__BASE__"><script type="module" src="js/main.js"></script>')
    (folder / "js" / "main.js").write_text("export default 1;")
    (folder / "secret.py").write_text("a file of another kind")
    (tmp_path / "outside.js").write_text("not in the folder")
    (folder / "link.js").symlink_to(folder / "js" / "main.js")
    return folder


async def test_the_console_is_served(app, files, monkeypatch):
    """`/` leads to it; deep links get the index, which knows where it is; scripts come from here alone. # SPEC U2"""
    monkeypatch.setattr("outlast.http.asgi.console_folder", lambda: files)
    host = Starlette(routes=[Mount("/durable", app=app.asgi(token="a token that is long enough"))])
    async with client_of(host) as client:
        for path in ("/durable/", "/durable/console"):
            assert (await client.get(path)).headers["location"] == "/durable/console/"
        index = await client.get("/durable/console/")
        assert index.text.startswith('<base href="/durable/console/">')
        assert "script-src 'self';" in index.headers["content-security-policy"]
        assert "unsafe" not in index.headers["content-security-policy"]
        for view in ("runs/A-17", "run/a.b", "run/x.js", "workflow/shop.fulfil%2F1"):
            assert (await client.get(f"/durable/console/{view}")).text == index.text, view
        script = await client.get("/durable/console/js/main.js")
        assert (script.text, script.headers["content-type"]) == ("export default 1;", "text/javascript; charset=utf-8")
        known = await client.get("/durable/console/js/main.js", headers={"if-none-match": script.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")
        for path in ("secret.py", "js/none.js", "..%2Foutside.js", "%2e%2e/outside.js", "js%2Fmain.js"):
            assert (await client.get(f"/durable/console/{path}")).status_code == 404, path
        assert (await client.post("/durable/console/", json={})).status_code == 405
        assert (await client.get(f"/durable{RUNS}")).status_code == 401


def test_a_base_cannot_break_out_of_its_attribute(files):
    """A prefix with quotes in it is text."""
    found = Files(files).find((), '/"><script>')
    assert found is not None
    assert b'"/&quot;&gt;&lt;script&gt;/console/"' in found.data


async def test_a_release_without_a_console(app, files, monkeypatch):
    """There is nothing there, and the API is."""
    monkeypatch.setattr("outlast.http.asgi.console_folder", lambda: files / "none")
    async with client_of(app.asgi(no_auth=True)) as client:
        assert (await client.get("/")).status_code == 404
        assert (await client.get("/console/")).status_code == 404
        assert (await client.get(RUNS)).status_code == 200
