"""The ASGI app: HTTP in, routes called, answers out. Layer: http.

What always holds: every request passes the same checks in the same order (size, host, route, who asks, site, query,
body) before a handler sees it; every answer carries the security headers; and an error is a problem document, whatever
raised it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.requests import Request

from outlast.core.durations import Duration, parse_duration
from outlast.http.access import Access, AuthHook, make_access
from outlast.http.answers import Answer, answer_error, answer_file, answer_value, make_headers, send_answer
from outlast.http.feeds import Feeds
from outlast.http.files import CONSOLE, POLICY, Files, console_folder
from outlast.http.openapi import describe_api
from outlast.http.paths import Paths, base_of, segments_of
from outlast.http.reading import check_headers, read_body, read_query
from outlast.http.refusals import MethodNotAllowed, NotSignedIn, RouteNotFound
from outlast.http.route import Call, ClientGone, Nothing, Reply, Text
from outlast.http.routes.surroundings import find_version
from outlast.http.routes.table import ROUTES
from outlast.http.sites import Sites
from outlast.http.streams import Events, send_stream, wait_gone

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from outlast.app import Outlast

__all__ = ["HttpApi", "make_asgi"]

DOCUMENT = ("openapi.json",)


def make_asgi(
    app: Outlast,
    *,
    token: str | None,
    auth: AuthHook | None,
    no_auth: bool,
    hosts: Collection[str] | None,
    origins: Collection[str],
    largest_body: int,
    heartbeat: Duration,
) -> HttpApi:
    """See `Outlast.asgi`. Raises InvalidSetting, InvalidDuration."""
    access = make_access(token, auth, no_auth)
    sites = Sites(hosts, origins, is_open=no_auth)
    return HttpApi(app, access, sites, largest_body=largest_body, heartbeat_s=parse_duration(heartbeat) / 1_000_000)


class HttpApi:
    """The HTTP API of one app, to be served or mounted."""

    def __init__(self, app: Outlast, access: Access, sites: Sites, *, largest_body: int, heartbeat_s: float) -> None:
        self._app = app
        self._access = access
        self._sites = sites
        self._largest_body = largest_body
        self._heartbeat_s = heartbeat_s
        self._feeds = Feeds()
        self._paths = Paths(ROUTES)
        self._files = Files(console_folder())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        match scope["type"]:
            case "http":
                await self._answer(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1000})
            case _:
                raise NotImplementedError(scope["type"])

    def close_streams(self) -> None:
        """End all streams: before a server stops, which would wait for them."""
        self._feeds.close()

    # --- lifespan -----------------------------------------------------------------------------------------------------

    async def _live(self, receive: Receive, send: Send) -> None:
        """Have the app open, here as well if it is open already, from startup to shutdown."""
        await receive()
        try:
            await self._app.__aenter__()
        except Exception as error:  # noqa: BLE001 - the server tells it, and stops
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        try:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        finally:
            self._feeds.close()
            await self._app.__aexit__(None, None, None)
        await send({"type": "lifespan.shutdown.complete"})

    # --- one request --------------------------------------------------------------------------------------------------

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, is_head = Request(scope, receive), scope["method"] == "HEAD"
        try:
            answer = await self._handle(request, receive)
            if isinstance(answer, Events):
                with self._feeds.place():
                    await self._stream(answer, receive, send, is_head=is_head)
                return
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - every error is told, and what is ours is logged
            answer = answer_error(error)
        await send_answer(send, answer, is_head=is_head)

    async def _handle(self, request: Request, receive: Receive) -> Answer | Events[Any]:
        scope = request.scope
        check_headers(scope)
        self._sites.check_host(request)
        segments = segments_of(scope)
        if segments == DOCUMENT:
            return await self._document(request)
        if segments[0] in {"", CONSOLE}:
            return self._console(request, segments)
        route, path = self._paths.find(request.method, segments)
        caller = await self._access.identify(request) if route.asks_who else None
        self._sites.check_origin(request, request.method, caller)
        if caller is None and not route.is_open:
            raise NotSignedIn(route.path)
        if caller is not None and not route.is_open:
            caller.check_scope(route.scopes, f"{route.method} {route.path}")
        query_type, body_type, _ = route.types
        query = read_query(scope.get("query_string", b""), query_type)
        body = Nothing() if body_type is Nothing else await read_body(request, body_type, self._largest_body)
        call: Call[Any, Any] = Call(
            app=self._app,
            feeds=self._feeds,
            access=self._access,
            identified=caller,
            path=path,
            query=query,
            body=body,
            headers=Headers(scope=scope),
            root=base_of(scope),
            is_gone=partial(wait_gone, receive),
            is_secure=scope.get("scheme") == "https",
        )
        given = await route.handler(call)
        if isinstance(given, Events):
            return given
        if isinstance(given, Text):
            return Answer(200, given.text.encode(), given.kind)
        return answer_value(given if isinstance(given, Reply) else Reply(given, route.statuses[0]))

    async def _document(self, request: Request) -> Answer:
        _check_reads(request, "/openapi.json")
        if await self._access.identify(request) is None:
            raise NotSignedIn("/openapi.json")
        return answer_value(Reply(describe_api(ROUTES, base_of(request.scope), find_version()), 200))

    def _console(self, request: Request, path: tuple[str, ...]) -> Answer:
        """A file of the console; `/` and `/console` lead to it."""
        _check_reads(request, "/console/")
        if self._app.dev:
            self._files = Files(console_folder())
        root = base_of(request.scope)
        below = path[1:] if path[0] == CONSOLE else ()
        file = self._files.find(below if below != ("",) else (), root)
        if file is None or (path[0] == "" and len(path) > 1):
            raise RouteNotFound(request.scope["path"][:200])
        if len(path) == 1:
            return Answer(307, headers={"location": f"{root}/{CONSOLE}/"})
        return answer_file(file, POLICY, request.headers.get("if-none-match"))

    async def _stream(self, events: Events[Any], receive: Receive, send: Send, *, is_head: bool) -> None:
        answer = Answer(200, kind="text/event-stream; charset=utf-8", headers={"x-accel-buffering": "no"})
        if events.parts is None:
            await send_answer(send, Answer(204), is_head=True)
        elif is_head:
            await events.parts.aclose()
            await send_answer(send, answer, is_head=True)
        else:
            headers = make_headers(answer, is_whole=False)
            await send_stream(events.parts, partial(wait_gone, receive), send, headers, self._heartbeat_s)


def _check_reads(request: Request, path: str) -> None:
    if request.method not in {"GET", "HEAD"}:
        raise MethodNotAllowed(request.method[:20], path, "GET, HEAD")
