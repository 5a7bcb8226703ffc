"""`outlast dev`: a worker, the HTTP API and the console in one, started anew when code changes. Layer: cli.

Two processes: this one listens and watches files; the other, its child, works and serves on the socket it inherits. So
a change costs no connection: what comes meanwhile waits in the socket. What always holds: it listens on loopback alone,
since it asks nobody who they are; and a run is durable whenever the child is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, cast

import click

from outlast.app import Outlast
from outlast.cli import collector
from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.hashseed import fix_hash_seed, reexec_option
from outlast.cli.logs import log_level_option, set_up_logging
from outlast.cli.options import Settings, shared_options
from outlast.cli.output import Output
from outlast.cli.serving.server import Api, listen, require_server, run_server, url_of
from outlast.cli.stopping import Stopping, run_stoppable
from outlast.cli.store_choice import app_on, without_password
from outlast.cli.target import load_app
from outlast.cli.watching import stop_steps
from outlast.http.sites import LOOPBACK, is_loopback

__all__ = ["dev"]

GRACE = 1.0
"""Seconds that steps may go on when code has changed."""
PATIENCE_S = 10.0
"""How long a child may take to stop: past it it is killed."""


@click.command()
@click.argument("target", metavar="MODULE[:APP]")
@click.option("--host", default="127.0.0.1", show_default=True, help="A loopback address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any that is free.")
@click.option("--reload/--no-reload", "reloads", default=True, show_default=True, help="Start anew when code changes.")
@click.option("--inherited", type=int, nargs=2, hidden=True, help="The socket to serve on, and the lifeline.")
@log_level_option
@reexec_option
@shared_options
@click.pass_obj
def dev(settings: Settings, /, target: str, *, no_reexec: bool, log_level: str | None, **options: Any) -> ExitCode:
    """Work and serve MODULE's app on this machine, and start anew when its code changes: for development.

    A worker, the HTTP API and the console in one. It asks nobody who they are, and so listens on loopback alone. Bodies
    raise on what must not be done in them (as with OUTLAST_DEV=1).
    """
    require_server()
    os.environ.setdefault("OUTLAST_DEV", "1")
    output = settings.output()
    if options["inherited"] is None and not is_loopback(options["host"]):
        todo = "Listen on 127.0.0.1; to serve others use outlast serve."
        raise CommandError("NOT_LOOPBACK", "It asks nobody who they are", options["host"], todo, ExitCode.USAGE)
    if options["reloads"] and options["inherited"] is None:
        return _supervise(target, options["host"], options["port"])
    fix_hash_seed(settings, no_reexec=no_reexec)
    with output.reserved():
        app = app_on(load_app(target), settings.store)
        set_up_logging(log_level, default="info")
        collector.settle(settings)
        return run_stoppable(lambda stopping: _work(app, options, output, stopping))


async def _work(app: Outlast, options: dict[str, Any], output: Output, stopping: Stopping) -> ExitCode:
    asked = asyncio.Event()
    stopping.on_first = asked.set
    if options["inherited"] is None:
        listening = listen(options["host"], options["port"])
    else:
        descriptor, lifeline = options["inherited"]
        listening = socket.socket(fileno=descriptor)
        asyncio.get_running_loop().add_reader(lifeline, asked.set)
    api = cast(Api, app.asgi(no_auth=True, hosts=LOOPBACK))
    with listening:
        url = url_of(listening)

        def ready() -> None:
            stopping.is_opening = False
            output.emit({"event": "ready", "url": url, "pid": os.getpid(), "store": without_password(app.url)})
            names = ", ".join(workflow.name for workflow in app.iter_workflows()) or "no workflows"
            output.say(f"ready: {url}/ works and serves {names}, store {without_password(app.url)}")

        async with app.worker(grace=GRACE) as worker:
            stopping.hurry = lambda: stop_steps(worker)
            await run_server(api, listening, ready, asked)
    return ExitCode.COMPLETED


# --- the process that watches -----------------------------------------------------------------------------------------


def _supervise(target: str, host: str, port: int) -> ExitCode:
    """Keep a child at work until told to stop."""
    from watchfiles import PythonFilter, awatch

    async def main(stopping: Stopping) -> ExitCode:
        asked = asyncio.Event()
        stopping.on_first, stopping.is_opening = asked.set, False
        with listen(host, port) as listening:
            child = _Child(listening)
            changes = awatch(*_folders(target), watch_filter=PythonFilter(), stop_event=asked, step=100)
            try:
                await child.start()
                async for change in changes:
                    names = ", ".join(sorted(Path(path).name for _, path in change)[:3])
                    click.echo(f"changed: {names}; starting anew", err=True)
                    await child.stop()
                    await child.start()
            finally:
                await child.stop()
                child.close()
        return ExitCode.COMPLETED

    return run_stoppable(main)


def _folders(target: str) -> set[Path]:
    """Where code may change: here, and where the module is."""
    path = Path(target.partition(":")[0])
    return {Path.cwd(), *([path.resolve().parent] if path.exists() else [])}


class _Child:
    """The process that works and serves. One that ended by a mistake in the code waits for the next change."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening.fileno()
        self._lifeline, self._held = os.pipe()
        """Its reader hears when this process is gone, however it went."""
        self._process: asyncio.subprocess.Process | None = None

    def close(self) -> None:
        """Let go of the lifeline."""
        os.close(self._lifeline)
        os.close(self._held)

    async def start(self) -> None:
        """This very command again, with what it inherits."""
        inherited = [self._socket, self._lifeline]
        command = [sys.executable, *sys.orig_argv[1:], "--inherited", *map(str, inherited)]
        self._process = await asyncio.create_subprocess_exec(*command, pass_fds=inherited, start_new_session=True)

    async def stop(self) -> None:
        """In good order; what takes too long is killed, and goes on when it is started anew."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
