"""The ASGI app: HTTP in, routes called, answers out. Layer: http.

What always holds: every request passes the same checks in the same order (size, host, route, who asks, site, query,
body) before a handler sees it; every answer carries the security headers; and an error is a problem document, whatever
raised it.
"""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request

from outlast.authoring.hooks import encode_unknown
from outlast.core.durations import Duration, parse_duration
from outlast.http.access import Access, AuthHook, make_access
from outlast.http.feeds import Feeds
from outlast.http.openapi import describe_api
from outlast.http.paths import Paths, root_of, segments_of
from outlast.http.problems import MEDIA_TYPE, problem_of
from outlast.http.reading import check_headers, read_body, read_query
from outlast.http.refusals import NotSignedIn
from outlast.http.route import Call, ClientGone, Nothing, Reply
from outlast.http.routes.surroundings import find_version
from outlast.http.routes.table import ROUTES
from outlast.http.sites import Sites
from outlast.http.streams import Events, send_stream, wait_gone

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from outlast.app import Outlast

__all__ = ["HttpApi", "make_asgi"]

DOCUMENT = ("openapi.json",)
SECURITY = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}

_encode = msgspec.json.Encoder(enc_hook=encode_unknown).encode


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
        is_open = False
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self._app.__aenter__()
                except Exception as error:  # noqa: BLE001 - the server tells it, and stops
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                is_open = True
                self._feeds.open()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self._feeds.close()
                if is_open:
                    await self._app.__aexit__(None, None, None)
                await send({"type": "lifespan.shutdown.complete"})
                return

    # --- one request --------------------------------------------------------------------------------------------------

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await self._handle(request, receive)
            if isinstance(answer, Events) and answer.parts is not None:
                await self._stream(answer.parts, request, receive, send)
                return
            reply = Reply(None, 204) if isinstance(answer, Events) else answer
            is_empty = reply.status == 204
            body = None if is_empty else _encode(reply.value)
            kind = "" if is_empty else "application/json"
            status, headers = reply.status, reply.headers
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - every error is told, and what is ours is logged
            problem = problem_of(error)
            status, body, kind, headers = problem.status, msgspec.json.encode(problem), MEDIA_TYPE, {}
            if status == 401:
                headers = {"www-authenticate": "Bearer"}
            elif status == 405:
                headers = {"allow": str(problem.fields.get("allowed", ""))}
        told = _headers(headers, kind, None if body is None else len(body))
        await _send(send, status, told, b"" if body is None or request.method == "HEAD" else body)

    async def _handle(self, request: Request, receive: Receive) -> Reply[Any] | Events[Any]:
        scope = request.scope
        check_headers(scope)
        self._sites.check_host(request)
        segments = segments_of(scope)
        if segments == DOCUMENT:
            return await self._document(request)
        route, path = self._paths.find(request.method, segments)
        caller = await self._access.identify(request)
        self._sites.check_origin(request, request.method, caller)
        if caller is None and not route.is_open:
            raise NotSignedIn(route.path)
        if route.needs_admin and caller is not None:
            caller.check_admin(f"{route.method} {route.path}")
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
            root=root_of(scope),
            is_gone=partial(wait_gone, receive),
            is_secure=scope.get("scheme") == "https",
        )
        answer = await route.handler(call)
        return answer if isinstance(answer, Reply | Events) else Reply(answer, route.statuses[0])

    async def _document(self, request: Request) -> Reply[Any]:
        if await self._access.identify(request) is None:
            raise NotSignedIn("/openapi.json")
        return Reply(describe_api(ROUTES, root_of(request.scope), find_version()), 200)

    async def _stream(self, parts: Any, request: Request, receive: Receive, send: Send) -> None:
        headers = _headers({"x-accel-buffering": "no"}, "text/event-stream; charset=utf-8", None)
        try:
            with self._feeds.place():
                if request.method == "HEAD":
                    await _send(send, 200, headers, b"")
                    return
                await send_stream(parts, partial(wait_gone, receive), send, headers, self._heartbeat_s)
        finally:
            await parts.aclose()


def _headers(more: MutableMapping[str, str], kind: str, length: int | None) -> list[tuple[bytes, bytes]]:
    told = {**SECURITY, **more}
    if kind:
        told["content-type"] = kind
    if length is not None:
        told["content-length"] = str(length)
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in told.items()]


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
