"""A server of an app's HTTP API in this process's event loop. Layer: cli.

What always holds: it says that it is ready only once it answers; told to stop, it breaks off event streams, which would
otherwise keep it up, and lets other requests end.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import socket
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from outlast.cli.exits import CommandError, ExitCode
from outlast.errors import ExtraMissing

if TYPE_CHECKING:
    import uvicorn

__all__ = ["Api", "listen", "require_server", "run_server", "url_of"]

GRACE_S = 10
"""How long requests may go on when it is told to stop."""
LARGEST_HEAD = 64 * 1024
BACKLOG = 512


class Api(Protocol):
    """What `app.asgi` gives, as far as a server of it needs to know."""

    def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """ASGI."""
        ...

    def close_streams(self) -> None:
        """End what would not end by itself."""
        ...


def require_server() -> None:
    """Raises ExtraMissing, before anything is begun."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn", "watchfiles")):
        raise ExtraMissing("The HTTP API", "server")


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """A socket that takes connections; `option` chose its port. Raises CommandError, saying why it cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        todo = f"Choose another {option}, or stop what listens there."
        raise CommandError(
            "CANNOT_LISTEN", f"Cannot listen, {reason}", f"{host}:{port}", todo, ExitCode.USAGE
        ) from None
    # Connections inherit it. asyncio sets it on sockets alone that name their protocol, which these do not; without it
    # an answer's body waits behind its head for the client's delayed acknowledgement: 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def url_of(listening: socket.socket) -> str:
    """Where it can be reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def run_server(api: Api, listening: socket.socket, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Serve until `stop` is set. Raises what opening the app does."""
    server = _make_server(api, ready)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        api.close_streams()
        server.should_exit = True
        await serving
    finally:
        stopping.cancel()
        if not serving.done():
            server.force_exit = server.should_exit = True
            with contextlib.suppress(asyncio.CancelledError):
                await serving


def _make_server(api: Api, ready: Callable[[], None]) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        """Without signal handlers: signals are this command's."""

        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

    return Server(
        uvicorn.Config(
            api,
            lifespan="off",  # the command has the app open
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # what a header says of who asks and how is not believed
            h11_max_incomplete_event_size=LARGEST_HEAD,
            timeout_graceful_shutdown=GRACE_S,
            ws="none",
            http="h11",
        )
    )
