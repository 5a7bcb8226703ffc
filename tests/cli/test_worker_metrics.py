"""`outlast worker --metrics`: what a scraper and a probe see of a process that is a worker alone (SPEC O6)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.commands import PROMPT_S, begin, call, environment, finish, outlast

pytestmark = pytest.mark.process


@pytest.fixture
def start(shop: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts workers of the shop; kills what is left of them."""
    begun: list[subprocess.Popen[str]] = []

    def begin_worker(*words: str) -> subprocess.Popen[str]:
        begun.append(begin(shop, "worker", "shop.py", "--json", *words))
        return begun[-1]

    yield begin_worker
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    """Read what it prints until that was said."""
    assert process.stdout is not None
    for line in process.stdout:
        said: dict[str, Any] = json.loads(line)
        if said.get("event") == event:
            return said
    raise AssertionError(f"it ended before it said {event!r}")


def start_run(shop: Path, workflow: str, argument: str) -> None:
    """By a process that works no runs itself."""
    lines = [
        "import asyncio",
        "from shop import app",
        "async def main():",
        "    async with app:",
        f"        await app.start({workflow!r}, {argument!r})",
        "asyncio.run(main())",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=shop, env=environment(), check=True, timeout=PROMPT_S)


def ask(url: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, type and text."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=PROMPT_S) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read().decode()


def scrape(url: str) -> dict[tuple[str, str], float]:
    """Samples by name and the values of their labels, joined."""
    status, kind, text = ask(url)
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8"), text
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(sample.name, ",".join(sample.labels.values())): sample.value for sample in samples}


def test_a_worker_alone_shows_its_metrics_and_health(shop: Path, start) -> None:
    """It counts what it did since it began, says that it is ready, and while it drains that it is well, not ready."""
    process = start("--metrics", "127.0.0.1:0")
    url = until(process, "ready")["metrics"]
    base = url.removesuffix("/metrics")
    start_run(shop, "shop:greet", "Ada")
    ended = ("outlast_runs_ended_total", "shop:greet,completed")
    give_up = time.monotonic() + PROMPT_S
    while ended not in (found := scrape(url)):
        assert time.monotonic() < give_up, found
        time.sleep(0.05)
    assert found[ended] == found["outlast_workers", "alive"] == 1
    assert ("outlast_hot_runs", "") in found
    assert ask(f"{base}/health")[0] == ask(f"{base}/ready")[0] == 200
    assert ask(url, "HEAD")[2] == ""
    assert (ask(url, "POST")[0], ask(f"{base}/api/v1/runs")[0]) == (405, 404)
    start_run(shop, "patient", "go")
    give_up = time.monotonic() + PROMPT_S
    while not (shop / "go.begun").exists():
        assert time.monotonic() < give_up
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    until(process, "draining")
    assert json.loads(ask(f"{base}/health")[2])["state"] == "draining"
    assert (ask(f"{base}/health")[0], ask(f"{base}/ready")[0]) == (200, 503)
    (shop / "go").touch()
    assert finish(process).code == 0


def test_what_is_no_request_hurts_nobody(start) -> None:
    """Garbage, a head without an end, a client that says nothing and too many of those: the worker answers the next."""
    process = start("--metrics", "127.0.0.1:0")
    url = until(process, "ready")["metrics"]
    port = int(url.removesuffix("/metrics").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"\x16\x03\x01nothing\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 400 ")
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nx: " + b"a" * 40_000)
        assert client.recv(1000) == b""
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    assert ("outlast_workers", "alive") in scrape(url)
    for client in silent:
        client.close()


def find_two_ports() -> int:
    """The first of two in a row that are free, and that no socket gets which has any: tests run beside this one."""
    while True:
        port = random.randrange(20_000, 30_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as both:
            for number in (port, port + 1):
                both.enter_context(socket.create_server(("127.0.0.1", number)))
            return port


def test_each_of_several_processes_has_the_next_port(start) -> None:
    """Their numbers are their own; one that is started anew has the port of the one that died."""
    port = find_two_ports()
    process = start("--metrics", f"127.0.0.1:{port}", "--processes", "2")
    ready = [until(process, "ready") for _ in range(2)]
    assert sorted(line["metrics"] for line in ready) == [f"http://127.0.0.1:{port + n}/metrics" for n in range(2)]
    workers = {json.loads(ask(f"http://127.0.0.1:{port + n}/health")[2])["worker"] for n in range(2)}
    assert workers == {line["worker"] for line in ready}
    os.kill(ready[0]["pid"], signal.SIGKILL)
    anew = until(process, "ready")
    assert anew["metrics"] == ready[0]["metrics"]
    assert json.loads(ask(anew["metrics"].replace("/metrics", "/health"))[2])["worker"] == anew["worker"]
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 0


@pytest.mark.parametrize("text", ["9464", "localhost", ":9464", "127.0.0.1:70000", "::1:9464", "127.0.0.1:x"])
def test_what_is_no_address_is_a_usage_error(shop: Path, text: str) -> None:
    """It says what was expected."""
    done = call("worker", str(shop / "shop.py"), "--metrics", text)
    assert done.code == 2
    assert "HOST:PORT" in done.out + done.err


def test_a_port_that_is_taken_is_told(shop: Path) -> None:
    """Before anything is begun."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = outlast(shop, "worker", "shop.py", "--metrics", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.code == 2
    assert "CANNOT_LISTEN" in done.out + done.err or "--metrics" in done.out + done.err
