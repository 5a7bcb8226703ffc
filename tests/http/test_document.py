"""The OpenAPI document says what the API does: requests made from it get answers that are in it (SPEC A1)."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from outlast import Context, Outlast
from outlast.cli.serving.server import listen, run_server, url_of
from outlast.http.openapi import describe_api
from outlast.http.routes.table import ROUTES
from tests.http.conftest import client_of

STREAMS = {"follow_run", "follow_changes"}
EXAMPLES = 3
TOKEN = "a token that is long enough"

document = describe_api(ROUTES, "", "0")
schema = schemathesis.openapi.from_dict(document)


class Served:
    """An API of an app with a worker, in a thread with an event loop of its own."""

    def __init__(self) -> None:
        self.app = Outlast("memory://")
        self._stop = asyncio.Event()
        self._loop: Any = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))

        @self.app.workflow(name="echo")
        async def echo(ctx: Context, value: Any = None) -> Any:
            return value

        @self.app.workflow(name="fail")
        async def fail(ctx: Context) -> None:
            raise ValueError("as always")

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        listening: socket.socket
        with listen("127.0.0.1", 0) as listening:
            self.url = url_of(listening)
            async with self.app.worker():
                for name in ("echo", "fail"):
                    await self.app.start(name, id=name, user="ada", attributes={"a": 1})
                api: Any = self.app.asgi(token=TOKEN)
                await run_server(api, listening, self._ready.set, self._stop)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)


@pytest.fixture(scope="module")
def served():
    """One server for all requests."""
    with Served() as served:
        yield served


@pytest.mark.slow
@schema.exclude(operation_id="follow_changes").parametrize()  # which never ends
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
def test_every_answer_is_documented(served, case):
    """Whatever is sent: no crash, no status, type or shape of an answer that the document does not have. # SPEC A1"""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    case.call_and_validate(base_url=served.url, headers=headers, timeout=20, excluded_checks=[positive_data_acceptance])


def test_every_route_is_told_with_its_errors():
    """Each has its own name, a summary, and a problem document for each status that it can refuse with."""
    names = [told["operationId"] for methods in document["paths"].values() for told in methods.values()]
    assert len(names) == len(set(names)) == len(ROUTES)
    for path, methods in document["paths"].items():
        for told in methods.values():
            assert told["summary"].strip(), path
            for status, answer in told["responses"].items():
                kinds = set(answer.get("content", ()))
                expected = {"application/problem+json"} if int(status) >= 400 else {"application/json"}
                if int(status) == 200 and path == "/metrics":
                    expected = {"text/plain"}
                if int(status) == 200 and told["operationId"] in STREAMS:
                    expected = {"text/event-stream"}
                assert kinds == (set() if status == "204" else expected), (path, status)


async def test_the_document_refers_to_nothing_that_is_not_there(client):
    """Every `$ref` leads to a schema of the document, and none is left over."""
    text = (await client.get("/openapi.json")).text
    names = set((await client.get("/openapi.json")).json()["components"]["schemas"])
    referred = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert referred <= names
    unused = names - referred - {"Change", "TimelineItem"}
    assert unused == set(), unused


async def test_the_document_needs_no_app():
    """It is the same for every app: a client can be made from it once."""
    async with client_of(Outlast("memory://").asgi(no_auth=True)) as client:
        assert (await client.get("/openapi.json")).json()["paths"] == document["paths"]
