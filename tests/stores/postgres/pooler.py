"""A pooler in transaction mode, in small: each transaction of a client may have another session of the server.

It gives sessions out in turn, so whatever a client leaves in one is not there for its next transaction, and is there
for somebody else's. Like the real ones it refuses settings at the start of a connection."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncGenerator
from typing import TypeAlias
from urllib.parse import parse_qsl, urlencode

from tests.stores.postgres.proxy import Place, find_place

__all__ = ["pooler_to"]

SSL_REQUEST = 80877103
KNOWN = {"user", "database", "client_encoding", "application_name"}
SESSIONS = 3

Frame: TypeAlias = tuple[bytes, bytes]


class Session:
    """One of the server's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.greeting = b""
        """What the server said when it was opened, for clients to hear too."""

    async def open(self, user: str, database: str) -> None:
        options = f"user\0{user}\0database\0{database}\0client_encoding\0utf-8\0\0".encode()
        self.writer.write(struct.pack("!ii", len(options) + 8, 196608) + options)
        while True:
            kind, frame = await read_frame(self.reader)
            assert kind != b"E", frame
            self.greeting += frame
            if kind == b"Z":
                return


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """The kind of the next message, and all of it."""
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


class Pooler:
    def __init__(self, place: Place, user: str, database: str) -> None:
        self._place = place
        self._user = user
        self._database = database
        self._free: asyncio.Queue[Session] = asyncio.Queue()
        self._all: list[Session] = []

    async def open(self) -> None:
        for _ in range(SESSIONS):
            session = Session(*await self._place.connect())
            await session.open(self._user, self._database)
            self._all.append(session)
            self._free.put_nowait(session)

    def close(self) -> None:
        for session in self._all:
            session.writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._greet(reader, writer)
            asked = asyncio.create_task(read_frame(reader))
            while (await asked)[0] != b"X":
                session = await self._free.get()
                asked = await self._serve_transaction(reader, writer, session, asked)
                self._free.put_nowait(session)
        writer.transport.abort()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            (length,) = struct.unpack("!i", await reader.readexactly(4))
            body = await reader.readexactly(length - 4)
            if struct.unpack("!i", body[:4])[0] != SSL_REQUEST:
                break
            writer.write(b"N")
        names = body[4:].split(b"\0")[0:-2:2]
        unknown = {name.decode() for name in names} - KNOWN
        if unknown:
            text = f"SFATAL\0C08P01\0Munsupported startup parameter: {unknown}\0\0".encode()
            writer.write(b"E" + struct.pack("!i", len(text) + 4) + text)
            await writer.drain()
            raise ConnectionError
        writer.write(self._all[0].greeting)

    @staticmethod
    async def _serve_transaction(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: Session, asked: asyncio.Task[Frame]
    ) -> asyncio.Task[Frame]:
        """Until the server says that no transaction is open; what the client asks for next is answered."""
        answered = asyncio.create_task(read_frame(session.reader))
        due, status = 0, b""
        while True:
            if asked.done():
                kind, frame = asked.result()
                session.writer.write(frame)
                due += int(kind in b"QS")
                asked = asyncio.create_task(read_frame(reader))
            if answered.done():
                kind, frame = answered.result()
                writer.write(frame)
                if kind == b"Z":
                    due, status = due - 1, frame[5:6]
                    if not due and status == b"I":
                        return asked
                answered = asyncio.create_task(read_frame(session.reader))
            await asyncio.wait([asked, answered], return_when=asyncio.FIRST_COMPLETED)


@contextlib.asynccontextmanager
async def pooler_to(url: str) -> AsyncGenerator[str, None]:
    """A pooler before the server of this URL, and the URL through it."""
    place = find_place(url)
    pooler = Pooler(place, place.user or "postgres", place.database)
    await pooler.open()
    server = await asyncio.start_server(pooler.serve, "127.0.0.1", 0)
    options = {name: value for name, value in parse_qsl(url.partition("?")[2]) if name not in {"host", "port"}}
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/{place.database}?{urlencode(options)}&pooler=transaction"
    finally:
        server.close()
        pooler.close()
