"""A client of event streams: speaks ASGI directly, so that it can leave, be slow, or look at what has come so far."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager


class Stream:
    """One open stream, and what has come of it."""

    def __init__(self) -> None:
        self.status = 0
        self.headers = {}
        self.raw = b""
        self.is_over = False
        self.may_send = asyncio.Event()
        self.may_send.set()
        self._moved = asyncio.Event()
        self._gone = asyncio.Event()
        self._is_asked = False

    async def receive(self):
        """What the server hears of the client."""
        if not self._is_asked:
            self._is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        """What the server sends; it waits while the client is slow."""
        await self.may_send.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.raw += message["body"]
            self.is_over = not message.get("more_body", False)
        self._moved.set()

    def leave(self):
        """Hang up."""
        self._gone.set()

    @property
    def events(self):
        """Id, type and data of each event that has come."""
        found = []
        for block in self.raw.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
            if "data" in fields:
                found.append((fields.get("id", ""), fields.get("event", "message"), fields["data"]))
        return found

    @property
    def ids(self):
        """Of the events that have come."""
        return [id for id, _, _ in self.events]

    async def until(self, holds, timeout=20):
        """Until it holds for what has come."""
        async with asyncio.timeout(timeout):
            while not holds(self):
                self._moved.clear()
                await self._moved.wait()


@asynccontextmanager
async def streaming(api, path, query="", headers=()):
    """A stream at `path`; it is left with the block."""
    stream = Stream()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"test"), *((name.encode(), value.encode()) for name, value in headers)],
        "client": ("127.0.0.1", 1),
        "server": ("test", 80),
    }
    task = asyncio.create_task(api(scope, stream.receive, stream.send))
    try:
        yield stream
    finally:
        stream.may_send.set()
        stream.leave()
        await asyncio.wait_for(task, 20)
