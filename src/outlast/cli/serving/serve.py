"""`outlast serve`: the HTTP API of an app, until told to stop. Layer: cli.

What always holds: nothing is open that was not said to be: without a token, a hook or `--no-auth` it does not start.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

import click

from outlast.app import Outlast
from outlast.cli import collector
from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.logs import log_level_option, set_up_logging
from outlast.cli.options import Settings, shared_options
from outlast.cli.output import Output
from outlast.cli.serving.server import Api, listen, require_server, run_server, url_of
from outlast.cli.stopping import Stopping, run_stoppable
from outlast.cli.store_choice import app_on, without_password
from outlast.cli.target import load_app, load_function

__all__ = ["serve"]

TOKEN_NAME = "OUTLAST_TOKEN"  # noqa: S105 - the name of a variable


@click.command()
@click.argument("target", metavar="MODULE[:APP]")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any that is free.")
@click.option(
    "--token-env", metavar="NAME", help=f"The variable that holds the token; {TOKEN_NAME}, if it is set, by default."
)
@click.option("--auth", "hook", metavar="NAME", help="A function in MODULE that gives a request's User, or None.")
@click.option("--no-auth", is_flag=True, help="Ask nobody who they are: whoever reaches it may do everything.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name it answers to; as often as wanted.")
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="URL", help="A site whose pages may act here; likewise."
)
@log_level_option
@shared_options
@click.pass_obj
def serve(settings: Settings, /, target: str, *, log_level: str | None, **options: Any) -> ExitCode:
    """Serve the HTTP API of MODULE's app, and the console, until SIGTERM or SIGINT.

    It starts and steers runs; to work them takes a worker. Nothing is open by default: give --token-env, --auth, or
    say --no-auth.
    """
    require_server()
    output = settings.output()
    with output.reserved():
        app = app_on(load_app(target), settings.store)
        access = _choose_access(target, options)
        set_up_logging(log_level, default="info")
        collector.settle(settings)
        api = cast(Api, app.asgi(**access, hosts=options["hosts"] or None, origins=options["origins"]))
        return run_stoppable(lambda stopping: _serve(app, api, options, output, stopping))


async def _serve(app: Outlast, api: Api, options: dict[str, Any], output: Output, stopping: Stopping) -> ExitCode:
    asked, main = asyncio.Event(), asyncio.current_task()
    assert main is not None
    stopping.on_first = asked.set
    with listen(options["host"], options["port"]) as listening:
        url = url_of(listening)

        def ready() -> None:
            stopping.is_opening = False
            stopping.hurry = main.cancel  # type: ignore[assignment]
            output.emit({"event": "ready", "url": url, "store": without_password(app.url)})
            output.say(
                f"ready: {url}/ serves {', '.join(_names(app)) or 'no workflows'}, store {without_password(app.url)}"
            )

        try:
            async with app:
                await run_server(api, listening, ready, asked)
        except asyncio.CancelledError:
            if not stopping.is_asked:
                raise
            main.uncancel()
    output.emit({"event": "stopped"})
    output.say("stopped")
    return ExitCode.INTERRUPTED if stopping.count > 1 else ExitCode.COMPLETED


def _names(app: Outlast) -> list[str]:
    return [workflow.name for workflow in app.iter_workflows()]


def _choose_access(target: str, options: dict[str, Any]) -> dict[str, Any]:
    """Raises CommandError where nothing is chosen, two things are, or what is named is not there."""
    ways = {"--token-env": "token_env", "--auth": "hook", "--no-auth": "no_auth"}
    given = [name for name, option in ways.items() if options[option]]
    if len(given) > 1:
        raise _wrong("Only one way to know who asks can be chosen", " and ".join(given), "Leave the others out.")
    if options["no_auth"]:
        return {"no_auth": True}
    if options["hook"]:
        return {"auth": load_function(target, options["hook"])}
    name = options["token_env"] or TOKEN_NAME
    token = os.environ.get(name)
    if token:
        return {"token": token}
    if options["token_env"]:
        raise _wrong("The variable of the token is not set", name, "Set it to a long random text.")
    todo = f"Set {TOKEN_NAME}, give --token-env or --auth; or say --no-auth, and whoever reaches it may do everything."
    raise _wrong("Nothing says who may use the server", target, todo)


def _wrong(what: str, where: str, todo: str) -> CommandError:
    return CommandError("NO_ACCESS_CHOSEN", what, where, todo, ExitCode.USAGE)
