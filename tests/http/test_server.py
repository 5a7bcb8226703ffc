"""The real server, over the network, in processes that are killed (SPEC A1, A2, O3, L10)."""

from __future__ import annotations

import json
import select
import signal
import socket
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from outlast.cli.serving.server import listen
from tests.cli.commands import PROMPT_S, as_before, begin, call, finish

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOKEN = "a token that is long enough"
SHOP = """
import asyncio
from pathlib import Path
from outlast import Context, Outlast, current_step

app = Outlast("sqlite:///shop.db")
FACTOR = 2

class User:
    id, scopes = "ada", ["admin"]

def who(request):
    return User if request.headers.get("x-key") == "open sesame" else None

@app.step
async def double(n: int) -> int:
    return n * FACTOR

@app.step(retries=3, timeout="1h")
async def wait_for(name: str) -> int:
    Path(f"begun-{current_step().attempt}").touch()
    while not Path(name).exists():
        await asyncio.sleep(0.02)
    return current_step().attempt

@app.workflow
async def twice(ctx: Context, n: int) -> int:
    return await double(n)

@app.workflow
async def patient(ctx: Context, name: str) -> int:
    await double(1)
    return await wait_for(name)
"""


@pytest.fixture(autouse=True)
def _no_other_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of the docs that ran before in this process may have left a module of that name."""
    monkeypatch.delitem(sys.modules, "shop", raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """With a module, where the test is."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def processes():
    """Processes that end with the test, whatever becomes of it."""
    begun = []
    yield begun
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_ready(process):
    """What it says once it is ready."""
    ready, _, _ = select.select([process.stdout], [], [], PROMPT_S)
    assert ready, "it prints nothing"
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return json.loads(line)


def until(holds, timeout=PROMPT_S):
    """Wait for what another process does."""
    end = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


@contextmanager
def connected(url, **headers):
    """A client of the server there."""
    with httpx.Client(base_url=url, headers=headers, timeout=PROMPT_S) as client:
        yield client


def read_events(lines, count):
    """The next events of a stream: id, type and data of each."""
    found, fields = [], {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and "data" in fields:
            found.append((fields.get("id"), fields.get("event", "message"), json.loads(fields["data"])))
            fields = {}
            if len(found) == count:
                break
    return found


def test_a_stream_goes_on_though_the_worker_is_killed(folder, processes):
    """The server serves, workers work; one is killed, another takes over, and who follows sees it. # SPEC O3, L10"""
    server = begin(folder, "serve", "shop.py", "--port", "0", "--json", OUTLAST_TOKEN=TOKEN)
    first = begin(folder, "worker", "shop.py", "--lease", "1s")
    processes += [server, first]
    ready = read_ready(server)
    with connected(ready["url"]) as stranger:
        assert stranger.get("/api/v1/runs").status_code == 401
    with connected(ready["url"], authorization=f"Bearer {TOKEN}") as client:
        body = {"workflow": "patient", "input": {"name": "go"}, "id": "P"}
        assert client.post("/api/v1/runs", json=body).status_code == 201
        with client.stream("GET", "/api/v1/runs/P/events") as stream:
            lines = stream.iter_lines()
            before = read_events(lines, 4)
            until(lambda: (folder / "begun-1").exists())
            first.kill()
            processes.append(begin(folder, "worker", "shop.py", "--lease", "1s"))
            until(lambda: (folder / "begun-2").exists())
            (folder / "go").touch()
            after = read_events(lines, 100)
        assert [id for id, _, _ in before] == ["0", "1", "2", "3"]
        kinds = [data["kind"] for _, name, data in after if name == "message"]
        assert "taken_over" in kinds
        assert kinds[-2:] == ["succeeded", "completed"]
        last = len(before) + len(kinds) - 1
        assert after[-1] == (f"{last}.end", "end", {"seq": last, "status": "completed"})
        assert client.get("/api/v1/runs/P/result").json()["output"] == 2


def test_a_server_told_to_stop_stops_with_streams_open(folder, processes):
    """SIGTERM breaks streams off, and ends with 0; whoever follows comes back to the next server. # SPEC O3"""
    server = begin(folder, "serve", "shop.py", "--port", "0", "--json", "--no-auth")
    processes.append(server)
    url = read_ready(server)["url"]
    with connected(url) as client:
        client.post("/api/v1/runs", json={"workflow": "twice", "input": 1, "id": "A"})
        with client.stream("GET", "/api/v1/runs/A/events") as stream:
            lines = stream.iter_lines()
            (first,) = read_events(lines, 1)
            server.send_signal(signal.SIGTERM)
            assert read_events(lines, 100) == []
    done = finish(server)
    assert (done.code, first[2]["kind"]) == (0, "queued"), done.err
    assert json.loads(done.out) == {"event": "stopped"}


def test_a_hook_of_the_module(folder, processes):
    """`--auth NAME` is a function beside the app. # SPEC A2"""
    server = begin(folder, "serve", "shop.py", "--port", "0", "--json", "--auth", "who")
    processes.append(server)
    url = read_ready(server)["url"]
    with connected(url) as client:
        assert client.get("/api/v1/runs").status_code == 401
        assert client.get("/api/v1/session", headers={"x-key": "open sesame"}).json()["user"] == "ada"


def test_dev_works_serves_and_starts_anew(folder, processes):
    """A run started over HTTP is worked here; changed code is in force at once; nothing is left behind. # SPEC A2"""
    server = begin(folder, "dev", "shop.py", "--port", "0", "--json")
    processes.append(server)
    first = read_ready(server)
    start = {"workflow": "twice", "input": {"n": 4}}
    with connected(first["url"]) as client:
        assert client.post("/api/v1/runs", json=start, params={"wait": "20s"}).json()["output"] == 8
        rebound = client.get("/api/v1/runs", headers={"host": "evil.example.com"})
        assert (rebound.status_code, rebound.json()["code"]) == (421, "HOST_REFUSED")
        (folder / "shop.py").write_text("a mistake")
        until(lambda: not is_alive(first["pid"]))
        (folder / "shop.py").write_text(SHOP.replace("FACTOR = 2", "FACTOR = 3"))
        second = read_ready(server)
        assert second["url"] == first["url"]
        assert client.post("/api/v1/runs", json=start, params={"wait": "20s"}).json()["output"] == 12
    server.kill()
    until(lambda: not is_alive(second["pid"]))


def is_alive(pid):
    """Whether it runs: one that has ended and was not asked how does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "shop.py"], "Nothing says who may use the server"),
        (["serve", "shop.py", "--token-env", "NO_SUCH_TOKEN"], "is not set"),
        (["serve", "shop.py", "--no-auth", "--auth", "who"], "Only one way"),
        (["serve", "shop.py", "--auth", "whom"], "There is no function 'whom'"),
        (["serve", "shop.py", "--no-auth", "--host", "256.1.1.1"], "Cannot listen"),
        (["dev", "shop.py", "--host", "0.0.0.0"], "It asks nobody who they are"),
    ],
)
def test_what_cannot_be_served_says_why(folder, monkeypatch, words, said):
    """Before anything listens: nothing is open by default, and `dev` never beyond this machine. # SPEC A2"""
    monkeypatch.delenv("OUTLAST_TOKEN", raising=False)
    monkeypatch.setenv("OUTLAST_DEV", "")
    with as_before():
        done = call(*words)
    assert done.code == 2, done
    assert said in done.err


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_no_part_of_an_answer_waits_for_an_acknowledgement(host):
    """A connection to what is served sends at once what it is given: a body behind its head waited for 40 ms."""
    with (
        listen(host, 0) as listening,
        socket.create_connection(listening.getsockname()[:2]),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
