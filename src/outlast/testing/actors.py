"""Actors: people and programs of a scenario, whose steps go over HTTP, each through its own client. Layer: testing.

A scenario is a workflow: `ada = ctx.use(Actors)["ada"]`, then `await ada.post("/orders", {...})`. What always holds:
what an actor asks for is a step like any other, recorded with its arguments, retried, and answered from the record on a
replay; and who an actor is, is its client's affair, and on no record.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Unpack, cast
from urllib.parse import urlencode

from outlast.authoring.module import Module
from outlast.authoring.options import CallOptions, StepOptions
from outlast.authoring.runs.extension import Body, Extension
from outlast.core.durations import Duration, format_duration, parse_duration
from outlast.errors import InvalidSetting
from outlast.testing.exchange import HttpClient, Refused, Reply, exchange

if TYPE_CHECKING:
    from outlast.authoring.context import Context
    from outlast.authoring.step import Coro, Step

__all__ = ["Actor", "Actors", "Cast", "RequestOptions"]

GONE: Final = (404, 410)


class RequestOptions(CallOptions, total=False):
    """What may be said of a request: how it is called and retried, as of any step, and what is sent with it."""

    query: Mapping[str, str | int | float]
    """Behind the path's own."""
    headers: Mapping[str, str]
    """Beside those of the client. They are on record: who an actor is, belongs to the client."""


class Actors(Extension["Cast"]):
    """Who takes part in the scenarios of an app: `Outlast(url, extensions=[Actors({"ada": client})])`."""

    def __init__(self, clients: Mapping[str, HttpClient], /, **options: Unpack[StepOptions]) -> None:
        """By name, the client that each one's requests go through: an `httpx.AsyncClient` that is signed in as them.

        The options are those of any step; without one for it, an attempt may take a minute. Clients are the caller's to
        open and close.
        """
        self.module = module = Module("actors")
        self._clients = dict(clients)
        options.setdefault("timeout", "1min")

        @module.step(name="send", **options)
        async def send(actor: str, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
            return await exchange(self.find_client(actor), actor, method, path, body, headers)

        self._send: Step[[str, str, str, Any, dict[str, str]], Reply] = send

    def extend(self, ctx: Context, /) -> Cast:
        """The cast of this run."""
        return Cast(ctx, self, self._send)

    async def wrap(self, ctx: Context, body: Body, /) -> Any:
        """Behind the body come the requests that it left for afterwards, however it ended."""
        actors = ctx.use(Actors)
        try:
            output = await body()
        except (Exception, CancelledError) as error:
            for problem in await actors.tidy():
                error.add_note(f"Afterwards: {problem}")
            raise
        problems = await actors.tidy()
        if problems:
            raise problems[0] if len(problems) == 1 else ExceptionGroup("what was left for afterwards", problems)
        return output

    def find_client(self, actor: str) -> HttpClient:
        """That of an actor. Raises InvalidSetting for one that nobody knows."""
        if actor not in self._clients:
            raise InvalidSetting("actor", actor, f"one of {', '.join(self._clients) or 'none'}")
        return self._clients[actor]


class Cast:
    """Who takes part in one run."""

    def __init__(self, ctx: Context, actors: Actors, send: Step[[str, str, str, Any, dict[str, str]], Reply]) -> None:
        """Made by Actors."""
        self.ctx = ctx
        self.send = send
        self._actors = actors
        self._afterwards: list[Callable[[], Coro[Reply]]] = []

    def __getitem__(self, name: str, /) -> Actor:
        """The actor of this name. Raises InvalidSetting for one that nobody knows."""
        self._actors.find_client(name)
        return Actor(self, name)

    def leave(self, request: Callable[[], Coro[Reply]]) -> None:
        """Note what is to be sent when the body is over."""
        self._afterwards.append(request)

    async def tidy(self) -> list[Exception]:
        """Send what was left for afterwards, the last first; gives what went wrong."""
        problems: list[Exception] = []
        while self._afterwards:
            try:
                await self._afterwards.pop()()
            except Refused as error:
                if error.status not in GONE:
                    problems.append(error)
            except Exception as error:  # noqa: BLE001 - the others are to be sent all the same
                problems.append(error)
        return problems


class Actor:
    """One of the cast, in one run. What it asks for is a step called `ada: POST /orders`, or by `name=`."""

    def __init__(self, members: Cast, name: str) -> None:
        """Made by Cast."""
        self.name: Final = name
        self._cast = members

    def __repr__(self) -> str:
        return f"<actor {self.name!r}>"

    def request(self, method: str, path: str, body: object = None, /, **options: Unpack[RequestOptions]) -> Coro[Reply]:
        """Send a request as a step, and get the answer. `body` is sent as JSON.

        Each attempt carries the step's invocation id as its Idempotency-Key, unless the method is safe. 408, 425, 429,
        5xx and no answer at all are retried. Raises Refused for an error, with its problem document, and Unreachable.
        """
        query, headers = options.pop("query", {}), options.pop("headers", {})
        options.setdefault("name", f"{self.name}: {method} {path.partition('?')[0]}")
        target = f"{path}{'&' if '?' in path else '?'}{urlencode(query)}" if query else path
        step = self._cast.send.options(**cast("CallOptions", options))
        return step(self.name, method, target, body, dict(headers))

    def get(self, path: str, /, **options: Unpack[RequestOptions]) -> Coro[Reply]:
        """Read something."""
        return self.request("GET", path, **options)

    def post(self, path: str, body: object = None, /, **options: Unpack[RequestOptions]) -> Coro[Reply]:
        """Have something done."""
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: object = None, /, **options: Unpack[RequestOptions]) -> Coro[Reply]:
        """Set something."""
        return self.request("PUT", path, body, **options)

    def patch(self, path: str, body: object = None, /, **options: Unpack[RequestOptions]) -> Coro[Reply]:
        """Change something."""
        return self.request("PATCH", path, body, **options)

    def delete(self, path: str, /, **options: Unpack[RequestOptions]) -> Coro[Reply]:
        """Remove something."""
        return self.request("DELETE", path, **options)

    async def until(
        self, path: str, is_so: Callable[[Reply], object], /, *, every: Duration = "1s", within: Duration = "1min"
    ) -> Reply:
        """Read again and again, until `is_so` is true of the answer. Raises TimeoutError, with the last answer."""
        ctx, wait = self._cast.ctx, timedelta(microseconds=parse_duration(within))
        until = ctx.now() + wait
        while True:
            reply = await self.get(path)
            if is_so(reply):
                return reply
            if ctx.now() >= until:
                waited = format_duration(parse_duration(within))
                raise TimeoutError(f"{self.name}: GET {path} has not come to it within {waited}: {reply.body!r}")
            await ctx.sleep(every)

    def afterwards(self, method: str, path: str, body: object = None, /, **options: Unpack[RequestOptions]) -> None:
        """Leave a request for when the body is over, however it ends: to clear away what the scenario made.

        The last that was left is sent first. What is gone by then (404, 410) is no error.
        """
        self._cast.leave(lambda: self.request(method, path, body, **options))
