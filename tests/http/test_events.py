"""Following runs by server-sent events (SPEC O3)."""

from __future__ import annotations

import asyncio
import json

from tests.http.streaming import streaming

RUNS = "/api/v1/runs"


def kinds(stream):
    """Of the timeline items that came."""
    return [json.loads(data)["kind"] for _, name, data in stream.events if name == "message"]


async def test_a_stream_tells_all_and_ends(app, client):
    """Every event with its number as id, and one more when the run has ended. # SPEC O3"""
    run = await app.start("double", 3, id="A-1")
    async with streaming(app.asgi(no_auth=True), f"{RUNS}/A-1/events") as stream:
        await stream.until(lambda stream: stream.is_over)
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert stream.ids == ["0", "1", "2", "3", "3.end"]
    assert kinds(stream) == ["queued", "started", "succeeded", "completed"]
    assert json.loads(stream.events[-1][2]) == {"seq": 3, "status": "completed"}
    assert [json.loads(data) for _, _, data in stream.events[:-1]] == (
        await client.get(f"{RUNS}/{run.id}/timeline")
    ).json()


async def test_who_comes_back_misses_nothing(app):
    """`Last-Event-ID`, or `after`, is the last that was seen. Who has seen the end need not come back. # SPEC O3"""
    run = await app.start("double", 3, id="A-1")
    await run.result(timeout=20)
    api = app.asgi(no_auth=True)
    for query, headers in (("after=1", []), ("", [("last-event-id", "1")]), ("after=3", [("last-event-id", "1")])):
        async with streaming(api, f"{RUNS}/A-1/events", query, headers) as stream:
            await stream.until(lambda stream: stream.is_over)
        assert stream.ids == ["2", "3", "3.end"]
    async with streaming(api, f"{RUNS}/A-1/events", headers=[("last-event-id", "3.end")]) as stream:
        await stream.until(lambda stream: stream.status)
    assert (stream.status, stream.raw) == (204, b"")
    for wrong in ("x", "3.ende", "9" * 30, "١"):
        async with streaming(api, f"{RUNS}/A-1/events", headers=[("last-event-id", wrong)]) as stream:
            await stream.until(lambda stream: stream.status)
        assert stream.status == 422


async def test_a_stream_goes_on_after_a_retry(app, mended):
    """A failed run that is retried is followed from where its first end was seen. # SPEC O3, R10"""
    run = await app.start("buy", True, id="A-1")
    api = app.asgi(no_auth=True)
    async with streaming(api, f"{RUNS}/A-1/events") as stream:
        await stream.until(lambda stream: stream.is_over)
    assert json.loads(stream.events[-1][2])["status"] == "failed"
    last = stream.ids[-1]
    mended.set()
    await run.retry()
    async with streaming(api, f"{RUNS}/A-1/events", headers=[("last-event-id", last)]) as more:
        await more.until(lambda stream: stream.is_over)
    assert json.loads(more.events[-1][2])["status"] == "completed"
    assert more.ids[0] == str(int(last.partition(".")[0]) + 1)
    assert kinds(more)[0] == "reopened"


async def test_a_quiet_stream_shows_that_it_lives(app):
    """A comment comes while nothing happens, so that both sides notice when the other is gone. # SPEC O3"""
    await app.start("hold", id="H")
    async with streaming(app.asgi(no_auth=True, heartbeat="10ms"), f"{RUNS}/H/events") as stream:
        await stream.until(lambda stream: stream.raw.count(b": still here\n\n") >= 3)
    assert kinds(stream) == ["queued", "started"]


async def test_a_client_that_leaves_is_let_go(app):
    """Nothing of it is left, though the run says nothing; and the next one is served."""
    await app.start("hold", id="H")
    api = app.asgi(no_auth=True)
    for _ in range(2):
        async with streaming(api, f"{RUNS}/H/events") as stream:
            await stream.until(lambda stream: len(stream.events) == 2)
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in names if name.startswith("outlast-feed")]


async def test_a_slow_client_holds_nobody_up_and_misses_nothing(app, monkeypatch):
    """It reads from the store what is not kept any more: each event once, in order."""
    monkeypatch.setattr("outlast.http.feeds.KEPT_BYTES", 1000)

    @app.workflow(name="many")
    async def many(ctx, n: int) -> None:
        for _ in range(n):
            await app.find_step("twice")(1)

    await app.start("hold", id="H")
    run = await app.start("many", 60, id="M")
    api = app.asgi(no_auth=True)
    async with streaming(api, f"{RUNS}/M/events") as slow, streaming(api, f"{RUNS}/M/events") as quick:
        await slow.until(lambda stream: stream.events)
        slow.may_send.clear()
        await quick.until(lambda stream: stream.is_over)
        slow.may_send.set()
        await slow.until(lambda stream: stream.is_over)
    count = len(await run.timeline())
    assert quick.ids == slow.ids == [*map(str, range(count)), f"{count - 1}.end"]


class Counting:
    """A store's reads, counted."""

    def __init__(self, store):
        self.count = 0
        for name in ("read_journal", "find_uid"):
            setattr(store, name, self._counted(getattr(store, name)))

    def _counted(self, read):
        async def counted(*args, **options):
            self.count += 1
            return await read(*args, **options)

        return counted


async def test_two_hundred_clients_cost_no_more_than_one(app):
    """One reader for each run that is followed, however many clients follow it."""
    reads = Counting(app._store)
    api, release = app.asgi(no_auth=True), asyncio.Event()

    @app.step(name="held")
    async def held(n: int) -> int:
        await release.wait()
        return n

    @app.workflow(name="long")
    async def long(ctx, n: int) -> None:
        await held(0)
        for number in range(n):
            await held(number)

    costs = []
    for clients in (1, 200):
        release.clear()
        await app.start("long", 30, id=f"L-{clients}")
        streams = [streaming(api, f"{RUNS}/L-{clients}/events") for _ in range(clients)]
        opened = [await stream.__aenter__() for stream in streams]
        for stream in opened:
            await stream.until(lambda stream: len(stream.events) >= 2)
        before = reads.count
        release.set()
        for stream in opened:
            await stream.until(lambda stream: stream.is_over)
        costs.append(reads.count - before)
        for stream in streams:
            await stream.__aexit__(None, None, None)
        assert len({tuple(stream.ids) for stream in opened}) == 1
    # How often one reader looks follows from how long the run takes, and that from what two hundred streams do besides.
    assert costs[1] <= costs[0] + 10, costs


async def test_lists_are_told_to_look_again(app):
    """A change of any run is hinted at, so that no list has to be polled."""
    async with streaming(app.asgi(no_auth=True), "/api/v1/changes") as stream:
        await stream.until(lambda stream: stream.status)
        await asyncio.sleep(0)
        before = len(stream.events)
        await app.start("hold", id="H")
        await stream.until(lambda stream: len(stream.events) > before)
    assert {name for _, name, _ in stream.events} == {"change"}


async def test_a_run_that_is_deleted_breaks_its_stream_off(app):
    """Without an end: whoever comes back is told that there is no such run."""
    run = await app.start("double", 3, id="A-1")
    await run.result(timeout=20)
    await run.delete()
    async with streaming(app.asgi(no_auth=True), f"{RUNS}/A-1/events") as stream:
        await stream.until(lambda stream: stream.status)
    assert stream.status == 404


async def test_streams_are_limited(app, monkeypatch):
    """Past the limit the next one is told to come back later; a place is free again when one has left."""
    monkeypatch.setattr("outlast.http.feeds.MOST_STREAMS", 2)
    await app.start("hold", id="H")
    api, path = app.asgi(no_auth=True), f"{RUNS}/H/events"
    async with streaming(api, path) as first, streaming(api, "/api/v1/changes") as second:
        await first.until(lambda stream: stream.status)
        await second.until(lambda stream: stream.status)
        async with streaming(api, path) as third:
            await third.until(lambda stream: stream.is_over)
        assert (third.status, json.loads(third.raw)["code"]) == (503, "TOO_MANY_STREAMS")
    async with streaming(api, path) as again:
        await again.until(lambda stream: stream.events)
    assert again.status == 200


async def test_a_server_that_stops_ends_its_streams(app):
    """They break off, so that stopping does not wait for them; clients come back to another server."""
    await app.start("hold", id="H")
    api = app.asgi(no_auth=True)
    async with streaming(api, f"{RUNS}/H/events") as run, streaming(api, "/api/v1/changes") as changes:
        await run.until(lambda stream: len(stream.events) == 2)
        await changes.until(lambda stream: stream.status)
        api.close_streams()
        await run.until(lambda stream: stream.is_over)
        await changes.until(lambda stream: stream.is_over)
    assert "end" not in [name for _, name, _ in run.events]
