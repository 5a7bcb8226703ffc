"""The `outlast` command: its subcommands, and how errors become exit codes. Layer: cli."""

from __future__ import annotations

import importlib
import keyword
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

import click

from outlast.cli.exits import CommandError, ExitCode, exit_code_of, problem_of
from outlast.cli.options import Settings, shared_options
from outlast.errors import OutlastError

__all__ = ["cli", "main"]

COMMANDS = {
    "run": "run",
    "worker": "working.worker",
    "serve": "serving",
    "dev": "serving",
    "runs": "runs",
    "show": "show",
    "timeline": "journals",
    "events": "journals",
    "export": "journals",
    "import": "journals",
    "retry": "steering",
    "fork": "steering",
    "cancel": "steering",
    "resume": "steering",
    "waits": "waits.answering",
    "signal": "waits.answering",
    "approve": "waits.answering",
    "delete": "steering",
    "prune": "steering",
    "workers": "working.fleet",
    "drain": "working.fleet",
    "queues": "runs",
    "graph": "plans.graph",
    "check": "plans.check",
    "versions": "plans.stored",
    "draft": "plans.stored",
    "activate": "plans.stored",
    "decline": "plans.stored",
    "migrate": "migrate",
    "mirror": "mirror",
    "doctor": "doctor",
    "bench": "bench",
}
"""Name of each command, in the order of the help, and the module it lives in: only what is called is imported."""


class _Commands(click.Group):
    """The group: loads commands when they are called, and tells errors in three parts."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All, in order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """From its module."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command = getattr(importlib.import_module(f"outlast.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> NoReturn:
        """Run the command; its exit code is what it returns, or what the error means."""
        settings = ctx.ensure_object(Settings)
        try:
            code = super().invoke(ctx)
        except (OutlastError, CommandError, TimeoutError) as error:
            settings.output().report(problem_of(error))
            code = exit_code_of(error)
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
        ctx.exit(int(code or 0))


def _find_version() -> str:
    try:
        return version("outlast")
    except PackageNotFoundError:  # a work tree that was not installed
        return "(not installed)"


def _print_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"outlast {_find_version()}, Python {sys.version.split()[0]}")
        ctx.exit()


@click.group(
    "outlast", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@shared_options
def cli() -> None:
    """Durable workflows: run them, work them, look after them.

    Exit codes: 0 completed, 1 failed or refused, 2 wrong usage or input, 3 cancelled, 4 suspended or timed out, 130
    interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> Any:
    """What the `outlast` script calls. With `arguments` it is called from within a program, and leaves that alone."""
    settings = Settings(is_process=arguments is None)
    cli.main(args=None if arguments is None else list(arguments), prog_name="outlast", obj=settings)
