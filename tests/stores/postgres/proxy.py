"""A way to the server that can fail: it loses a request, or the answer to one, and cuts the connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from urllib.parse import parse_qsl, urlencode

__all__ = ["Proxy", "proxy_to"]


class Proxy:
    """Between a store and its server. `cut_before` and `cut_after` are looked for in what the store sends; an empty
    one is in everything."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self.cut_before: bytes | None = None
        """The request that has this in it does not arrive."""
        self.cut_after: bytes | None = None
        """The request that has this in it arrives, and its answer does not."""
        self.is_down = False
        """Nobody is let through any more."""
        self.cuts = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        if self.is_down:
            writer.close()
            return
        if self._host.startswith("/"):
            answers, to_server = await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        else:
            answers, to_server = await asyncio.open_connection(self._host, self._port)
        lose_answer = asyncio.Event()
        both = [
            asyncio.create_task(self._ask(reader, to_server, lose_answer)),
            asyncio.create_task(self._answer(answers, writer, lose_answer)),
        ]
        self._tasks.update(both)
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        self._tasks.difference_update(both)
        for each in (writer, to_server):
            each.transport.abort()

    async def _ask(
        self, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter, lose_answer: asyncio.Event
    ) -> None:
        while sent := await reader.read(1 << 20):
            if self.cut_before is not None and self.cut_before in sent:
                self.cut_before = None
                self.cuts += 1
                return
            if self.cut_after is not None and self.cut_after in sent:
                self.cut_after = None
                self.cuts += 1
                lose_answer.set()
            to_server.write(sent)

    @staticmethod
    async def _answer(answers: asyncio.StreamReader, writer: asyncio.StreamWriter, lose_answer: asyncio.Event) -> None:
        while answer := await answers.read(1 << 20):
            if lose_answer.is_set():
                return
            writer.write(answer)

    def close(self) -> None:
        """Cut all that is left."""
        for task in self._tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def proxy_to(url: str) -> AsyncGenerator[tuple[Proxy, str], None]:
    """A proxy to the server of this URL, and the URL through it."""
    location, _, query = url.partition("?")
    scheme, _, rest = location.partition("://")
    place, _, database = rest.partition("/")
    user, at, address = place.rpartition("@")
    options = dict(parse_qsl(query))
    host, _, port = address.partition(":")
    host, port = options.pop("host", host) or "127.0.0.1", options.pop("port", port) or "5432"
    proxy = Proxy(host, int(port))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    here = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy, f"{scheme}://{user}{at}{here}/{database}?{urlencode(options)}"
    finally:
        server.close()
        proxy.close()
