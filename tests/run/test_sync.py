"""A client for code without an event loop (SPEC R11)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from outlast import AppNotOpen, RunNotFound, User
from tests.waits.place import Place


@pytest.fixture(params=["memory", "sqlite"])
def place(request, tmp_path) -> Place:
    return Place(f"memory://{tmp_path}" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
def worked(place):
    """The place, worked by an app in a thread of its own."""
    app, loop = place.make_app(), asyncio.new_event_loop()
    stop, ready = asyncio.Event(), threading.Event()

    async def work() -> None:
        async with app.worker():
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(work()))
    thread.start()
    assert ready.wait(10)
    yield place
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


# SPEC R11
def test_runs_are_started_and_steered_without_an_event_loop(worked) -> None:
    """Each call waits for its answer, and raises what it raises in an event loop."""
    app = worked.make_app()
    with app.sync() as client:
        run = client.start("paid", 2, id="A-17")
        run.signal("paid", 1, key="k")
        client.get_run("A-17").signal("paid", 2)
        assert run.result(timeout=10) == [1, 2]
        assert (run.status().status, run.id) == ("completed", "A-17")
        assert run.timeline()[0].kind == "queued"
        shipped = client.start("shipped")
        assert shipped.approve("ship it?", {"ok": True}, by=User("bob"), timeout=10).by == User("bob")
        assert shipped.result(timeout=10) == [True, "bob"]
        assert shipped.history() == []
        with pytest.raises(TimeoutError):
            client.start("gated", ["look"], id="G").result(timeout=0.05)
        assert client.get_run("G").cancel("enough") is True
        with pytest.raises(RunNotFound):
            client.get_run("nobody")
        assert len(client.call(app.runs(workflow="paid")).runs) == 1
        run.delete()


# SPEC R11
def test_a_client_serves_several_threads(worked) -> None:
    """As those of a web server."""
    with worked.make_app().sync() as client, ThreadPoolExecutor(8) as pool:

        def pay(number: int) -> list[int]:
            run = client.start("paid", 1)
            run.signal("paid", number)
            return run.result(timeout=20)

        assert list(pool.map(pay, range(24))) == [[number] for number in range(24)]


# SPEC R11
def test_a_client_is_refused_where_it_would_block_an_event_loop(place) -> None:
    """It says what to do instead; and so does one that is closed."""

    async def within(client) -> None:
        client.get_run("A-17")

    with place.make_app().sync() as client:
        with pytest.raises(AppNotOpen, match="would block it"):
            asyncio.run(within(client))
        with pytest.raises(AppNotOpen, match="open already"), client:
            raise AssertionError
    with pytest.raises(AppNotOpen, match=r"with app\.sync"):
        client.get_run("A-17")


# SPEC R11
def test_a_call_that_waits_when_the_client_is_closed_is_given_up(place) -> None:
    """Whoever waits in another thread is told so, and does not wait for ever."""
    with ThreadPoolExecutor(1) as pool:
        with place.make_app().sync() as client:
            run = client.start("paid", 1)
            waiting = pool.submit(run.result)
            while not waiting.running():
                pass
            assert run.status().status == "queued"
        with pytest.raises(AppNotOpen):
            waiting.result(timeout=10)
