"""`outlast run`: start a run, or join it, and work it in this process. Layer: cli."""

from __future__ import annotations

from typing import Any

import click

from outlast.app import Outlast
from outlast.authoring.workflow import Workflow
from outlast.cli import collector
from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.hashseed import fix_hash_seed, reexec_option
from outlast.cli.input import read_input
from outlast.cli.logs import log_level_option, set_up_logging
from outlast.cli.options import Settings, attributes_option, read_duration, shared_options
from outlast.cli.stopping import run_stoppable
from outlast.cli.store_choice import command_line, on_store
from outlast.cli.target import graph_module, load_workflow
from outlast.cli.watching import Watch, no_wait_option, work_run
from outlast.errors import InvalidInput
from outlast.run import Run
from outlast.run.options import StartOptions

__all__ = ["run"]

LONGEST_HINT = 200
"""Characters of input that are repeated in a command to copy."""


@click.command()
@click.argument("target", metavar="MODULE:WORKFLOW|GRAPH")
@click.option("--input", "given", metavar="JSON|@FILE|-", help="By parameter name, or the only parameter's value.")
@click.option("--module", metavar="MODULE[:APP]", help="Of a graph: where its functions are, if it does not say so.")
@click.option("--id", "id_", help="The run's name: the same id again joins the same run.")
@click.option(
    "--on-conflict",
    type=click.Choice(["return", "raise", "restart"]),
    default="return",
    show_default=True,
    help="When the id is taken: join that run, refuse, or start anew if it has ended.",
)
@click.option(
    "--timeout", type=read_duration, metavar="DURATION", help="Leave the run after this long (exit 4); it is kept."
)
@no_wait_option
@click.option("--user", help="Who starts it.")
@attributes_option("What the run can be found by; as often as wanted.")
@click.option(
    "--grace",
    type=read_duration,
    metavar="DURATION",
    default="3s",
    show_default=True,
    help="How long running steps may go on when this process has to leave.",
)
@log_level_option
@reexec_option
@shared_options
@click.pass_obj
def run(settings: Settings, /, target: str, given: str | None, *, no_reexec: bool, **options: Any) -> ExitCode:
    """Start a run of MODULE:WORKFLOW and work it here, shown step by step until it ends.

    MODULE is a dotted name or a path to a .py file; :WORKFLOW may be left out where there is only one. GRAPH is a file,
    .json or .yaml. An id that is
    taken joins its run. Ctrl-C leaves the run where it is: it is kept, and can go on at any time. Until the run ends
    this process is a worker like any other: what else is due in the store it works too. When the run waits for
    somebody, an approval, a gate or a signal, it is said how to answer, and waited for; with --no-wait it is left.
    """
    fix_hash_seed(settings, no_reexec=no_reexec)
    output = settings.output()
    with output.reserved():
        data = None if given is None else read_input(given)
        app, workflow = on_store(load_workflow(target, options["module"]), settings.store)
        arguments = _read_arguments(workflow, data)  # wrong input is told before the store is touched
        set_up_logging(options["log_level"], default="warning", is_viewed=not output.as_json)
        collector.settle(settings)
        start = StartOptions(
            id=options["id_"],
            on_conflict=options["on_conflict"],
            user=options["user"],
            attributes=dict(options["attributes"]),
        )

        async def begin() -> Run[Any]:
            return await app.start(workflow, *arguments, **start)

        watch = Watch(
            app=app,
            output=output,
            begin=begin,
            timeout=options["timeout"],
            waits=not options["no_wait"],
            grace=options["grace"],
            go_on=lambda run_id: _go_on(app, workflow, (target, options["module"], given), run_id),
        )
        return run_stoppable(lambda stopping: work_run(watch, stopping))


def _read_arguments(workflow: Workflow[..., Any], data: bytes | None) -> tuple[Any, ...]:
    """What `app.start` takes. Raises InvalidInput; CommandError for what is not given, or it has no way to take."""
    try:
        normal = workflow.encode_input((), {}) if data is None else workflow.decode_input_json(data)
    except InvalidInput as error:
        if data is not None:
            raise
        what, where, todo = error.parts()
        raise CommandError(error.code, what, where, f"{todo} Give it as JSON with --input.", ExitCode.USAGE) from error
    arguments, _ = workflow.arguments.decode_call(normal)
    if workflow.encode_input(arguments, {}) != normal:
        todo = "Let the workflow take it by position: move it before the *."
        raise CommandError("INPUT_BY_KEYWORD", "Only keywords could give this", workflow.name, todo, ExitCode.USAGE)
    return arguments


def _go_on(app: Outlast, workflow: Workflow[..., Any], words: tuple[str, str | None, str | None], run_id: str) -> str:
    """The same command with the run's id; where its input cannot be repeated, the one that goes on with all runs."""
    target, module, given = words
    if (given is None and workflow.arguments.names) or (given is not None and _is_long(given)):
        if workflow.graph is None:
            return command_line("worker", target.partition(":")[0], url=app.url)
        place = module or graph_module(target, workflow.graph.definition.module or "")
        return command_line("worker", place, "--graph", target, url=app.url)
    more = (() if module is None else ("--module", module)) + (() if given is None else ("--input", given))
    return command_line("run", target, "--id", run_id, *more, url=app.url)


def _is_long(given: str) -> bool:
    """Or cannot be read a second time."""
    return given == "-" or len(given) > LONGEST_HINT
