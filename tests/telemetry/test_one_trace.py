"""One trace from an HTTP request to the last compensation, whichever process does what (SPEC O5).

The real commands, each process with OpenTelemetry's own SDK, whose exporter writes spans to a file of that process.
"""

from __future__ import annotations

import json
import signal
from typing import Any

import httpx
import pytest

from tests.cli.commands import PROMPT_S, begin, finish
from tests.http.test_server import read_ready

pytestmark = [pytest.mark.process, pytest.mark.slow]

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SHOP = """
import os
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from outlast import Context, Outlast

provider = TracerProvider(resource=Resource({"service.name": os.environ["SERVICE"]}))
out = open(os.environ["SERVICE"] + ".spans", "w", buffering=1)
exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + chr(10))
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)  # as a host does; the app finds it

app = Outlast("sqlite:///shop.db")

@app.step(retries=0)
async def charge() -> str:
    return "receipt"

@charge.compensation
async def refund(receipt: str) -> None: ...

@app.step(queue="gpu", retries=0)
async def render() -> str:
    with trace.get_tracer("a library").start_as_current_span("draw"):
        return "picture"

@app.step(retries=0)
async def wrap() -> str:
    return "parcel"

@wrap.compensation
async def unwrap(parcel: str) -> None: ...

@app.workflow
async def pack(ctx: Context) -> str:
    return await wrap()

@app.workflow
async def fulfil(ctx: Context) -> None:
    await charge()
    await render()
    await pack()
    raise ValueError("nobody is at home")
"""


@pytest.fixture
def services(tmp_path):
    """A server, a worker of runs, and one of the queue `gpu`; they end with the test."""
    (tmp_path / "shop.py").write_text(SHOP)
    begun = {
        "server": begin(tmp_path, "serve", "shop.py", "--port", "0", "--no-auth", "--json", SERVICE="server"),
        "runs": begin(tmp_path, "worker", "shop.py", SERVICE="runs"),
        "gpu": begin(tmp_path, "worker", "shop.py", "--queue", "gpu", SERVICE="gpu"),
    }
    yield begun
    for process in begun.values():
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_spans(folder) -> list[dict[str, Any]]:
    """What the processes exported, each with the service that did."""
    found = []
    for file in sorted(folder.glob("*.spans")):
        for line in file.read_text().splitlines():
            span = json.loads(line)
            assert span["resource"]["attributes"]["service.name"] == file.stem
            found.append({**span, "service": file.stem})
    return found


# SPEC O5 A1 Q1 C4 X3
def test_a_request_and_all_that_follows_from_it_is_one_trace(services, tmp_path):
    """From the caller's request through the start, the run, a step queued to another process and a child to the
    compensations: one trace, each span once, below the span it follows from, by the process that did it."""
    url = read_ready(services["server"])["url"]
    with httpx.Client(base_url=url, timeout=PROMPT_S) as client:
        body = {"workflow": "fulfil", "id": "A-17"}
        ended = client.post("/api/v1/runs", json=body, params={"wait": "20s"}, headers={"traceparent": CALLER})
        assert (ended.status_code, ended.json()["status"]) == (200, "compensated"), ended.text
        assert client.get("/api/v1/runs/A-17").json()["trace"].split("-")[1] == CALLER.split("-")[1]
    for process in services.values():
        process.send_signal(signal.SIGTERM)
    for process in services.values():
        assert finish(process).code == 0

    spans = read_spans(tmp_path)
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{CALLER.split('-')[1]}"}
    ids = [span["context"]["span_id"] for span in spans]
    assert len(set(ids)) == len(ids)
    assert tree_of(spans) == TREE
    by_id = {span["context"]["span_id"]: span["name"] for span in spans}
    links = {(span["name"], by_id.get(link["context"]["span_id"])) for span in spans for link in span["links"]}
    assert links >= {("run pack", "run fulfil"), ("step refund", "step charge"), ("step unwrap", "step wrap")}


def tree_of(spans) -> set[tuple[str, str, str]]:
    """Each span, the span it is below, and the process that told it."""
    names = {span["context"]["span_id"]: span["name"] for span in spans} | {f"0x{CALLER.split('-')[2]}": "(caller)"}
    return {(span["name"], names.get(span["parent_id"], "elsewhere"), span["service"]) for span in spans}


TREE = {
    ("start fulfil", "(caller)", "server"),
    ("run fulfil", "start fulfil", "runs"),
    ("step charge", "run fulfil", "runs"),
    ("attempt charge", "step charge", "runs"),
    ("step render", "run fulfil", "runs"),
    ("attempt render", "step render", "gpu"),
    ("draw", "attempt render", "gpu"),
    ("step pack", "run fulfil", "runs"),
    ("run pack", "step pack", "runs"),
    ("step wrap", "run pack", "runs"),
    ("attempt wrap", "step wrap", "runs"),
    ("run pack", "run pack", "runs"),  # reopened, to be undone
    ("step unwrap", "run pack", "runs"),
    ("attempt unwrap", "step unwrap", "runs"),
    ("step refund", "run fulfil", "runs"),
    ("attempt refund", "step refund", "runs"),
}
"""Span, what it is below, and the process it comes from."""
