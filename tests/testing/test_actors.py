"""A scenario: actors whose steps go over HTTP, each through a client of its own, and are recorded like any step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn

from outlast import Context, InvalidSetting, Outlast, RunCancelled, RunFailed, User
from outlast.testing import Actors, Refused, Reply, Unreachable, explore_crashes, running

PEOPLE = {"ada": "shop", "bob": "ship"}
"""By name, the scope of each."""
RUNS = "/api/v1/runs"


@dataclass
class Decision:
    ok: bool


def make_shop() -> Outlast:
    """What the scenario is about: it asks somebody else than who ordered."""
    app = Outlast("memory://")

    @app.workflow(name="fulfil")
    async def fulfil(ctx: Context, order: str) -> str:
        answer = await ctx.approval("ship it?", Decision, approvers="not-initiator", scope="ship")
        return f"{order}: {answer.value.ok}, says {answer.by.id}"

    return app


def sign_in(request: Any) -> User | None:
    name = request.headers.get("x-name", "")
    return User(name, [PEOPLE[name]]) if name in PEOPLE else None


@asynccontextmanager
async def over_asgi(api: Any) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    async with clients_of("http://shop", transport=httpx.ASGITransport(app=api)) as clients:
        yield clients


@asynccontextmanager
async def over_a_socket(api: Any) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    server = uvicorn.Server(uvicorn.Config(api, port=0, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    (listening,) = server.servers[0].sockets
    async with clients_of("http://{}:{}".format(*listening.getsockname())) as clients:
        yield clients
    server.should_exit = True
    await serving


@asynccontextmanager
async def clients_of(url: str, **options: Any) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """One for each of them, and one that is nobody's."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, headers={"x-name": name}, trust_env=False, **options)
            )
            for name in [*PEOPLE, "eve"]
        }


def make_scenario(clients: Any, **options: Any) -> Outlast:
    app = Outlast("memory://", extensions=[Actors(clients, **options)])

    @app.workflow(name="scenario")
    async def scenario(ctx: Context, order: str) -> list[Any]:
        cast = ctx.use(Actors)
        ada, bob = cast["ada"], cast["bob"]
        with pytest.raises(Refused) as caught:
            await cast["eve"].post(RUNS, {"workflow": "fulfil", "input": {"order": order}, "id": order})
        refused = [caught.value.code]
        await ada.post(RUNS, {"workflow": "fulfil", "input": {"order": order}, "id": order})
        ada.afterwards("DELETE", f"{RUNS}/{order}")
        await ada.until(f"{RUNS}/{order}", lambda reply: reply.body["waits"], every="10ms")
        with pytest.raises(Refused) as caught:
            await ada.post(f"{RUNS}/{order}/approve", {"reason": "ship it?", "value": {"ok": True}}, name="by herself")
        refused.append(caught.value.code)
        await bob.post(f"{RUNS}/{order}/approve", {"reason": "ship it?", "value": {"ok": True}}, name="approve")
        ended = await ada.until(f"{RUNS}/{order}/result", lambda reply: reply.status == 200, every="10ms")
        return [*refused, ended.body["output"]]

    return app


@pytest.mark.parametrize("over", [over_asgi, over_a_socket])
async def test_actors_act_over_a_real_transport(over: Any) -> None:
    """Each as who they are; what they did is on record with its arguments, and who signed them in is not."""
    shop = make_shop()
    async with shop.worker(), over(shop.asgi(auth=sign_in)) as clients:
        app = make_scenario(clients)
        async with app.worker():
            run = await app.start("scenario", "A-17")
            assert await run.result(timeout=20) == ["NOT_SIGNED_IN", "APPROVAL_FORBIDDEN", "A-17: True, says bob"]
            attempts = await run.history()
            assert (await shop.runs()).runs == ()
    keys = [attempt.key for attempt in attempts]
    assert keys[:2] == [f"eve: POST {RUNS}", f"ada: POST {RUNS}"]
    assert keys[-1] == f"ada: DELETE {RUNS}/A-17"
    assert {"by herself", "approve"} <= {*keys}
    assert len(keys) == len(set(keys))
    first = attempts[1]
    body = {"workflow": "fulfil", "input": {"order": "A-17"}, "id": "A-17"}
    assert first.arguments == {"actor": "ada", "method": "POST", "path": RUNS, "body": body, "headers": {}}
    assert "x-name" not in str([attempt.arguments for attempt in attempts])


class Forgetful(httpx.ASGITransport):
    """Loses the answer to the first POST, which has been carried out."""

    is_done = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if request.method == "POST" and not self.is_done:
            self.is_done = True
            raise httpx.ReadError("the line is dead")
        return response


async def test_an_answer_that_is_lost_starts_nothing_twice() -> None:
    """Outlast's own API takes the key of the request for the run's id."""
    shop = make_shop()
    async with shop.worker(), clients_of("http://shop", transport=Forgetful(shop.asgi(auth=sign_in))) as clients:
        app = Outlast("memory://", extensions=[Actors(clients, backoff=0)])

        @app.workflow(name="order")
        async def order(ctx: Context) -> str:
            reply = await ctx.use(Actors)["ada"].post(RUNS, {"workflow": "fulfil", "input": {"order": "A-17"}})
            return str(reply.body["id"])

        async with app.worker():
            run = await app.start(order)
            id = await run.result(timeout=10)
            assert [attempt.status for attempt in await run.history()] == ["failed", "succeeded"]
        assert [one.id for one in (await shop.runs()).runs] == [id]


# --- a transport that is told what to answer --------------------------------------------------------------------------


class Wire:
    """Answers as it is told, and notes what it was asked."""

    def __init__(self, answer: Callable[[httpx.Request, int], httpx.Response]) -> None:
        self.asked: list[httpx.Request] = []
        self._answer = answer
        self.client = httpx.AsyncClient(transport=httpx.MockTransport(self._handle), base_url="http://shop")

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return self._answer(request, len(self.asked))

    @property
    def said(self) -> list[str]:
        return [f"{request.method} {request.url.raw_path.decode()}" for request in self.asked]


def app_of(wire: Wire, **options: Any) -> Outlast:
    return Outlast("memory://", extensions=[Actors({"ada": wire.client}, **options)])


async def test_an_attempt_that_was_lost_is_sent_again_under_the_same_key() -> None:
    """No answer, and answers that pass: the same request, with the step's invocation id; retry-after is kept to."""

    def answer(request: httpx.Request, number: int) -> httpx.Response:
        if number == 1:
            raise httpx.ReadError("the line is dead")
        if number == 2:
            return httpx.Response(503, headers={"retry-after": "3600"}, json={"title": "busy"})
        return httpx.Response(201, json={"at": number}, headers={"location": "/orders/1", "set-cookie": "secret=1"})

    wire = Wire(answer)
    app = app_of(wire)

    @app.workflow(name="order")
    async def order(ctx: Context) -> Reply:
        return await ctx.use(Actors)["ada"].post("/orders?a=1", {"item": "lamp"}, headers={"x-more": "1"})

    async with running(app) as lab:
        before = lab.now
        run = await lab.app.start(order)
        reply = await lab.result(run)
        assert reply == Reply(201, {"content-type": "application/json", "location": "/orders/1"}, {"at": 3})
        assert 3600 <= (lab.now - before).total_seconds() < 3700
        (key,) = {effect.invocation_id for effect in lab.ledger.effects}
        assert [effect.key for effect in lab.ledger.effects] == ["ada: POST /orders"] * 3
    assert {(each.headers["idempotency-key"], each.headers["x-more"], each.content) for each in wire.asked} == {
        (key, "1", b'{"item":"lamp"}')
    }
    assert all(each.headers["traceparent"].startswith("00-") for each in wire.asked)


@pytest.mark.parametrize("max_hot", [0, 10])
async def test_an_error_is_its_problem_document(max_hot: int) -> None:
    """Live as on a replay; a refusal is asked for once, what passes as often as any step; text is an answer too."""

    def answer(request: httpx.Request, number: int) -> httpx.Response:
        if request.url.path == "/broken":
            return httpx.Response(502, text="<h1>Bad gateway</h1>")
        problem = {"title": "Taken", "detail": "The lamp is sold", "code": "SOLD", "fields": {"item": "lamp"}}
        return httpx.Response(409, json=problem, headers={"content-type": "application/problem+json"})

    wire = Wire(answer)
    app = app_of(wire, retries=2, backoff=0)

    @app.workflow(name="order")
    async def order(ctx: Context) -> list[Any]:
        ada, found = ctx.use(Actors)["ada"], []
        for path in ("/orders", "/broken"):
            try:
                await ada.get(path)
            except Refused as error:
                found.append([str(error), error.status, error.code, error.problem.get("fields"), error.expected])
        return found

    async with app.worker(max_hot=max_hot):
        assert await (await app.start(order)).result(timeout=10) == [
            ["ada: GET /orders was answered 409 SOLD: The lamp is sold", 409, "SOLD", {"item": "lamp"}, True],
            ["ada: GET /broken was answered 502: <h1>Bad gateway</h1>", 502, "", None, True],
        ]
    assert wire.said == ["GET /orders", "GET /broken", "GET /broken", "GET /broken"]
    assert "idempotency-key" not in wire.asked[0].headers


async def test_a_request_that_nobody_answers_fails_as_unreachable() -> None:
    """When its attempts are used up."""

    def answer(request: httpx.Request, number: int) -> httpx.Response:
        raise httpx.ConnectError("nobody listens")

    wire = Wire(answer)
    app = app_of(wire, retries=1, backoff=0)

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await ctx.use(Actors)["ada"].put("/orders/1", {"item": "lamp"})

    async with app.worker():
        with pytest.raises(RunFailed) as caught:
            await (await app.start(order)).result(timeout=10)
    assert isinstance(caught.value.__cause__, Unreachable)
    assert str(caught.value.__cause__) == "ada: PUT /orders/1 got no answer: ConnectError: nobody listens"
    assert len(wire.asked) == 2


async def test_bodies_are_read_as_what_they_are() -> None:
    """JSON as a type of one's own, text as text, and nothing as None; what says it is JSON and is not, as text."""

    def answer(request: httpx.Request, number: int) -> httpx.Response:
        kinds: dict[str, dict[str, Any]] = {
            "/json": {"json": {"ok": True}},
            "/text": {"text": "fine"},
            "/none": {"status_code": 204},
            "/odd": {"content": b"{", "headers": {"content-type": "application/json"}},
        }
        return httpx.Response(**{"status_code": 200, **kinds[request.url.path]})

    app = app_of(Wire(answer))

    @app.workflow(name="read")
    async def read(ctx: Context) -> list[Any]:
        ada = ctx.use(Actors)["ada"]
        replies = [await ada.get(path) for path in ("/json", "/text", "/none", "/odd")]
        assert replies[0].read(Decision) == Decision(ok=True)
        return [reply.body for reply in replies]

    async with app.worker():
        assert await (await app.start(read)).result(timeout=10) == [{"ok": True}, "fine", None, "{"]


# --- afterwards -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize("max_hot", [0, 10])
async def test_what_was_left_for_afterwards_is_sent_however_the_body_ends(end: str, max_hot: int) -> None:
    """Once, the last first; what is gone by then is no error; a body that is dropped from memory has not ended."""

    def answer(request: httpx.Request, number: int) -> httpx.Response:
        return httpx.Response(404 if request.url.path == "/2" else 204)

    wire = Wire(answer)
    app = app_of(wire)

    @app.workflow(name="tidy")
    async def tidy(ctx: Context) -> None:
        ada = ctx.use(Actors)["ada"]
        for number in (1, 2, 3):
            ada.afterwards("DELETE", f"/{number}")
        await ada.get("/")
        if end == "failed":
            raise ValueError("now")
        if end == "cancelled":
            await ctx.suspend("wait")

    async with app.worker(max_hot=max_hot):
        run = await app.start(tidy)
        if end == "completed":
            await run.result(timeout=10)
        elif end == "failed":
            with pytest.raises(RunFailed):
                await run.result(timeout=10)
        else:
            async with asyncio.timeout(10):
                while (await run.status()).status != "suspended":
                    await asyncio.sleep(0.01)
            assert wire.said == ["GET /"]
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(timeout=10)
    assert wire.said == ["GET /", "DELETE /3", "DELETE /2", "DELETE /1"]


async def test_what_cannot_be_cleared_away_is_told() -> None:
    """All are tried; a scenario that went well fails by it, another keeps its own error, with a note."""

    def answer(request: httpx.Request, number: int) -> httpx.Response:
        return httpx.Response(403 if request.url.path in {"/1", "/3"} else 204)

    wire = Wire(answer)
    app = app_of(wire)

    @app.workflow(name="tidy")
    async def tidy(ctx: Context, fails: bool) -> None:
        ada = ctx.use(Actors)["ada"]
        for number in (1, 2, 3):
            ada.afterwards("DELETE", f"/{number}")
        if fails:
            raise ValueError("now")

    async with app.worker():
        with pytest.raises(RunFailed) as caught:
            await (await app.start(tidy, False)).result(timeout=10)
        assert isinstance(caught.value.__cause__, ExceptionGroup)
        assert len(caught.value.__cause__.exceptions) == 2
        run = await app.start(tidy, True)
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout=10)
        assert isinstance(caught.value.__cause__, ValueError)
        error = (await run.status()).error
        assert error is not None
        assert "Afterwards: ada: DELETE /3 was answered 403" in error.traceback
    assert wire.said == ["DELETE /3", "DELETE /2", "DELETE /1"] * 2


# --- crashes, and mistakes --------------------------------------------------------------------------------------------


async def test_a_scenario_goes_on_wherever_it_was_stopped() -> None:
    """However often the world stops: each request is one key, and the same in both lives."""
    wire = Wire(lambda request, number: httpx.Response(200, json={"path": request.url.path}))
    app = app_of(wire)

    @app.workflow(name="story")
    async def story(ctx: Context) -> list[Any]:
        ada = ctx.use(Actors)["ada"]
        ada.afterwards("DELETE", "/orders/1")
        made = await ada.post("/orders", {"item": "lamp"})
        await ctx.sleep("1d")
        return [made.body, (await ada.get("/orders/1")).status]

    explored = await explore_crashes(story, app=app)
    assert explored.outcome == "completed: [{'path': '/orders'}, 200]"
    assert explored.stops > explored.commits
    assert {*wire.said} == {"POST /orders", "GET /orders/1", "DELETE /orders/1"}


async def test_an_actor_that_nobody_knows_is_named() -> None:
    """With those there are; and a body that never comes to its end says what it was answered last."""
    app = app_of(Wire(lambda request, number: httpx.Response(200, json={"at": number})))

    @app.workflow(name="lost")
    async def lost(ctx: Context) -> str:
        with pytest.raises(InvalidSetting, match="one of ada"):
            ctx.use(Actors)["eve"]
        with pytest.raises(TimeoutError) as caught:
            await ctx.use(Actors)["ada"].until("/", lambda reply: False, every="1s", within="2s")
        return str(caught.value)

    async with running(app) as lab:
        assert await lab.run(lost) == "ada: GET / has not come to it within 2s: {'at': 3}"
