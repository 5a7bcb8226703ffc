"""How one worker stands, over HTTP: `outlast worker --metrics HOST:PORT`. Layer: cli.

For scrapers and probes alone, so it needs no package, and asks nobody who they are: whoever reaches the address reads
numbers and names of functions, and nothing of any run. What always holds: it answers GET and HEAD of three paths, holds
a connection for `ANSWER_S` at most, and nothing that is asked or goes wrong here touches the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.serving.server import listen
from outlast.errors import OutlastError
from outlast.telemetry.logs import ENGINE

if TYPE_CHECKING:
    from outlast.app import Outlast
    from outlast.engine.worker import Worker

__all__ = ["Address", "listen_at", "read_address", "showing"]

ANSWER_S = 10.0
LARGEST_HEAD = 16 * 1024
MOST_CONNECTIONS = 32
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Address(NamedTuple):
    """Where to listen. Port 0: any that is free."""

    host: str
    port: int


def read_address(text: str) -> Address:
    """`HOST:PORT`; an address of IPv6 stands in brackets."""
    host, _, port = text.strip().rpartition(":")
    is_bare = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not host or is_bare or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT: write 127.0.0.1:9464, 0.0.0.0:9464 or [::1]:9464.")
    return Address(host, int(port))


def listen_at(address: Address, place: int) -> socket.socket:
    """Of several processes, number `place` (from 1) has its own port: the first has the one given, each the next one.

    Raises CommandError.
    """
    port = address.port and address.port + place - 1
    if port > 65535:
        todo = "Choose a lower port in --metrics: each process has the next one."
        raise CommandError("CANNOT_LISTEN", "There is no such port", f"{address.host}:{port}", todo, ExitCode.USAGE)
    return listen(address.host, port, option="--metrics")


@contextlib.asynccontextmanager
async def showing(app: Outlast, listening: socket.socket | None) -> AsyncGenerator[Standing, None]:
    """Answer while the block lasts: before the worker is open, and while it drains, too."""
    standing = Standing(app)
    if listening is None:
        yield standing
        return
    server = await asyncio.start_server(standing.take, sock=listening, limit=LARGEST_HEAD)
    try:
        yield standing
    finally:
        server.close()


class Standing:
    """Answers about one worker."""

    def __init__(self, app: Outlast) -> None:
        self._app = app
        self._worker: Worker | None = None
        self._connections = 0

    async def tell_of(self, worker: Worker) -> None:
        """It is open: say how it stands from now on, and count what it does."""
        self._worker = worker
        await self._app.metrics_text()  # counting begins when somebody asks

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        self._connections += 1
        try:
            if self._connections <= MOST_CONNECTIONS:
                async with asyncio.timeout(ANSWER_S):
                    await self._answer(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is slow, gone, or speaks something else
        except Exception:  # noqa: BLE001 - a scraper must not end a worker
            ENGINE.warning("what was asked of the worker's metrics could not be answered", exc_info=True)
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        method = words[0]
        status, kind, text = await self._tell(words)
        body = text.encode()
        lines = [
            f"HTTP/1.1 {status} {REASONS[status]}",
            f"content-type: {kind}",
            f"content-length: {len(body)}",
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "connection: close",
            *(["allow: GET, HEAD"] if status == 405 else []),
        ]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if method == "HEAD" else body))
        await writer.drain()

    async def _tell(self, words: list[str]) -> tuple[int, str, str]:
        """Status, type and text of the answer to a request line."""
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            return 400, TEXT, "This is not HTTP.\n"
        path = words[1].split("?", 1)[0]
        if path not in {"/metrics", "/health", "/ready"}:
            return 404, TEXT, "There are /metrics, /health and /ready.\n"
        if words[0] not in {"GET", "HEAD"}:
            return 405, TEXT, "It can only be read.\n"
        if path == "/metrics":
            return await self._tell_metrics()
        worker, state = self._worker, self._state()
        is_well = state == "working" if path == "/ready" else state != "lost"
        told = {
            "worker": "" if worker is None else worker.id,
            "state": state,
            "lease_age_s": 0 if worker is None else round(worker.lease_age_us / 1e6, 3),
        }
        return 200 if is_well else 503, "application/json", msgspec.json.encode(told).decode() + "\n"

    async def _tell_metrics(self) -> tuple[int, str, str]:
        try:
            return 200, PROMETHEUS, await self._app.metrics_text()
        except OutlastError as error:  # it is not open yet, or not any more
            return 503, TEXT, f"{error}\n"

    def _state(self) -> str:
        """`lost` while it has no lease that others heed: it holds nothing then, and comes back by itself if it can."""
        worker = self._worker
        if worker is None:
            return "opening"
        if worker.is_draining:  # it holds its lease until it has handed back, and then has nothing to lose
            return "draining"
        if worker.lease_age_us > worker.settings.lease_us:
            return "lost"
        return "working" if worker.is_working else "lost"
