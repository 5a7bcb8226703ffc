"""`outlast worker`: work the runs of an app until told to stop. Layer: cli."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

import click

from outlast.app import Outlast
from outlast.cli import collector
from outlast.cli.exits import ExitCode
from outlast.cli.hashseed import fix_hash_seed, reexec_option
from outlast.cli.logs import log_level_option, set_up_logging
from outlast.cli.options import Settings, read_duration, shared_options
from outlast.cli.output import Output
from outlast.cli.serving.server import url_of
from outlast.cli.stopping import Stopping, run_stoppable
from outlast.cli.store_choice import app_on, without_password
from outlast.cli.target import add_graph, load_app
from outlast.cli.watching import stop_steps
from outlast.cli.working.processes import look_after
from outlast.cli.working.standing import Address, listen_at, read_address, showing
from outlast.engine.worker import Worker

__all__ = ["worker"]


@click.command()
@click.argument("target", metavar="MODULE[:APP]")
@click.option("--graph", "graphs", multiple=True, metavar="FILE", help="A graph to know besides; as often as wanted.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="A queue to serve; as often as wanted.")
@click.option(
    "--processes",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="So many worker processes: this one starts them, starts those that die anew, and stops them all.",
)
@click.option("--lifeline", type=int, hidden=True, help="Closed by a parent that is gone.")
@click.option("--place", type=int, default=1, hidden=True, help="Which of several processes it is, from 1.")
@click.option(
    "--metrics",
    type=read_address,
    metavar="HOST:PORT",
    help="Serve /metrics, /health and /ready there, to whoever asks. Of several processes, each has the next port.",
)
@click.option("--concurrency", type=int, default=200, show_default=True, help="Steps executing at once.")
@click.option("--threads", type=int, default=32, show_default=True, help="Plain functions among them.")
@click.option("--max-hot", type=int, default=10_000, show_default=True, help="Runs kept in memory.")
@click.option(
    "--lease",
    type=read_duration,
    metavar="DURATION",
    default="10s",
    show_default=True,
    help="If this worker dies, others wait this long.",
)
@click.option(
    "--grace",
    type=read_duration,
    metavar="DURATION",
    default="30s",
    show_default=True,
    help="How long running steps may go on when it is told to stop.",
)
@log_level_option
@reexec_option
@shared_options
@click.pass_obj
def worker(
    settings: Settings,
    /,
    target: str,
    *,
    processes: int,
    lifeline: int | None,
    place: int,
    metrics: Address | None,
    no_reexec: bool,
    log_level: str | None,
    **options: Any,
) -> ExitCode:
    """Work the runs of MODULE's app until SIGTERM, SIGINT or `outlast drain`.

    Told to stop, it claims no more, lets running steps end within --grace, and hands the rest back at once. A second
    signal does not wait for them.
    """
    fix_hash_seed(settings, no_reexec=no_reexec)
    output = settings.output()
    if processes > 1 and lifeline is None:
        return run_stoppable(lambda stopping: look_after(processes, output, stopping))
    with output.reserved():
        app = app_on(load_app(target), settings.store)
        for graph in options.pop("graphs"):
            add_graph(app, graph)
        set_up_logging(log_level, default="info")
        collector.settle(settings)
        options["queues"] = options["queues"] or ("default",)
        with contextlib.nullcontext() if metrics is None else listen_at(metrics, place) as listening:
            return run_stoppable(lambda stopping: _work(app, output, stopping, lifeline, listening, options))


async def _work(
    app: Outlast,
    output: Output,
    stopping: Stopping,
    lifeline: int | None,
    listening: socket.socket | None,
    options: dict[str, Any],
) -> ExitCode:
    main = asyncio.current_task()
    assert main is not None
    if lifeline is not None:
        _stop_with_parent(lifeline, stopping)
    asked = asyncio.Event()
    stopping.on_first = main.cancel  # type: ignore[assignment]  # nothing is held until the worker is ready
    try:
        async with showing(app, listening) as standing, app.worker(**options) as worker:
            stopping.is_opening = False
            stopping.on_first, stopping.hurry = asked.set, lambda: stop_steps(worker)
            worker.on_asked = asked.set
            if listening is not None:
                await standing.tell_of(worker)
            _tell_ready(app, output, worker, None if listening is None else url_of(listening))
            await asked.wait()
            _tell_draining(output, worker, options["grace"], is_asked=not stopping.is_asked)
    except asyncio.CancelledError:
        if not stopping.is_asked:
            raise
        main.uncancel()
    code = ExitCode.INTERRUPTED if stopping.count > 1 else ExitCode.COMPLETED
    output.emit({"event": "stopped" if code else "drained"})
    output.say("stopped without waiting for its steps" if code else "drained: everything is handed back")
    return code


def _stop_with_parent(lifeline: int, stopping: Stopping) -> None:
    """Nobody would start this process anew, or pass signals on: as if it was told to stop, once."""
    loop = asyncio.get_running_loop()

    def take() -> None:
        loop.remove_reader(lifeline)
        stopping.take_once()

    loop.add_reader(lifeline, take)


def _tell_ready(app: Outlast, output: Output, worker: Worker, url: str | None) -> None:
    workflows = [workflow.name for workflow in app.iter_workflows()]
    queues = worker.settings.queues
    output.emit(
        {
            "event": "ready",
            "worker": worker.id,
            "pid": os.getpid(),
            "store": without_password(app.url),
            "queues": queues,
            "functions": app.functions(),
            **({} if url is None else {"metrics": f"{url}/metrics"}),
        }
    )
    known = f"{len(workflows)} workflow{'s' if len(workflows) != 1 else ''}"
    served = f"queue{'s' if len(queues) != 1 else ''} {', '.join(queues)}"
    output.say(
        f"ready: worker {worker.id} (pid {os.getpid()}) serves {served} with {known}, store {without_password(app.url)}"
        + ("" if url is None else f", metrics at {url}/metrics")
    )


def _tell_draining(output: Output, worker: Worker, grace: str, *, is_asked: bool) -> None:
    """`is_asked`: from outside, and by no signal."""
    executing = worker.home.stepper.executing if worker.home is not None else 0
    output.emit({"event": "draining", "executing": executing, **({"asked": True} if is_asked else {})})
    if is_asked:
        output.say("asked to drain")
    if executing:
        steps = "1 step" if executing == 1 else f"{executing} steps"
        output.say(f"draining: {steps} may go on for {grace}; a second signal stops now")
