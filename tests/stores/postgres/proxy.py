"""A way to the server that can fail: it loses a request, or the answer to one, and cuts the connection."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

__all__ = ["Place", "Proxy", "find_place", "proxy_to"]


@dataclass(frozen=True)
class Place:
    """Where a server is."""

    user: str
    host: str
    port: int
    database: str

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To its socket or port."""
        if self.host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self.host}/.s.PGSQL.{self.port}")
        return await asyncio.open_connection(self.host, self.port)


def find_place(url: str) -> Place:
    """Of the server that a URL names."""
    location, _, query = url.partition("://")[2].partition("?")
    place, _, database = location.partition("/")
    user, _, address = place.rpartition("@")
    host, _, port = address.partition(":")
    options = dict(parse_qsl(query))
    host, port = options.get("host", host) or "127.0.0.1", options.get("port", port) or "5432"
    return Place(user, host, int(port), database)


class Proxy:
    """Between a store and its server. `cut_before` and `cut_after` are looked for in what the store sends, and in the
    text of a prepared statement that it has executed; an empty one is in everything."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.cut_before: bytes | None = None
        """The request that has this in it does not arrive."""
        self.cut_after: bytes | None = None
        """The request that has this in it arrives, and its answer does not."""
        self.is_down = False
        """Nobody is let through any more."""
        self.cuts = 0
        self.is_mute = False
        """Notifications do not arrive any more; all else does."""
        self.is_silent = False
        """No answer arrives any more, and the connections stay."""
        self.connections = 0
        """How many there have been."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One more connection."""
        serving = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.close()
            return
        self.connections += 1
        try:
            answers, to_server = await self._place.connect()
        except OSError:
            writer.close()
            return
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
        texts: dict[bytes, bytes] = {}
        while sent := await reader.read(1 << 20):
            said = sent + _find_statement(sent, texts)
            if self.cut_before is not None and self.cut_before in said:
                self.cut_before = None
                self.cuts += 1
                return
            if self.cut_after is not None and self.cut_after in said:
                self.cut_after = None
                self.cuts += 1
                lose_answer.set()
            to_server.write(sent)

    async def _answer(
        self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter, lose_answer: asyncio.Event
    ) -> None:
        while True:
            head = await answers.readexactly(5)
            frame = head + await answers.readexactly(struct.unpack("!i", head[1:])[0] - 4)
            if lose_answer.is_set():
                return
            if not self.is_silent and not (self.is_mute and head[:1] == b"A"):
                writer.write(frame)

    def cut_off(self) -> None:
        """Cut all that is there, and let nobody through until `is_down` is reset."""
        self.is_down = True
        self.close()

    def close(self) -> None:
        """Cut all that is left."""
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Until all that was cut is gone."""
        await asyncio.gather(*self._serving)


def _find_statement(sent: bytes, texts: dict[bytes, bytes]) -> bytes:
    """The text of the statement that a request executes (Bind). `texts` are those prepared before (Parse), by name."""
    first, second, *_ = [*sent[5:].split(b"\0", 2), b"", b""]
    if sent[:1] == b"P":
        texts[first] = second
    return texts.get(second, b"") if sent[:1] == b"B" else b""


@contextlib.asynccontextmanager
async def proxy_to(url: str) -> AsyncGenerator[tuple[Proxy, str], None]:
    """A proxy to the server of this URL, and the URL through it. Nothing is encrypted, so that it can look."""
    place = find_place(url)
    proxy = Proxy(place)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    here = f"{place.user}{'@' if place.user else ''}127.0.0.1:{server.sockets[0].getsockname()[1]}"
    options = {name: value for name, value in parse_qsl(url.partition("?")[2]) if name not in {"host", "port"}}
    try:
        yield proxy, f"postgresql://{here}/{place.database}?{urlencode({**options, 'sslmode': 'disable'})}"
    finally:
        server.close()
        proxy.close()
        await proxy.wait_closed()
