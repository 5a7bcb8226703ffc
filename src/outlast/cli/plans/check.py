"""`outlast check`: what in workflows may make a replay differ, or happen twice. Layer: cli."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from outlast.app import Outlast
from outlast.authoring.source.checking import check_workflow
from outlast.authoring.workflow import Workflow
from outlast.cli.exits import ExitCode
from outlast.cli.options import Settings, shared_options
from outlast.cli.output import Output
from outlast.cli.plans.rehearsal import check_store
from outlast.cli.target import load_workflows
from outlast.core.check.findings import RULES, Finding
from outlast.errors import InvalidDefinition

__all__ = ["check"]


@click.command()
@click.argument("target", metavar="MODULE[:WORKFLOW]|GRAPH")
@shared_options
@click.pass_obj
def check(settings: Settings, /, target: str) -> ExitCode:
    """Look for what a workflow's body should leave to its steps, in the bodies and in all they call.

    Clocks, randomness, the environment, I/O, threads, the order of sets, globals that are changed, calls in clean-up,
    and steps that nothing awaits. A line with the comment "# outlast: ok" is passed over, and a function whose first
    line has it. Nothing is run but the module's import. Of a graph: whether its functions are there and take what they
    are given. Exits with 1 if anything was found.

    With --store: replay the journals of its live runs against this code instead, and exit with 1 if one does not fit.
    Nothing is executed, and no run is changed: for CI, before a deploy.
    """
    output = settings.output()
    with output.reserved():
        targets = load_workflows(target)
    if settings.store is not None:
        return check_store(settings.store, output, targets)
    with output.reserved():
        bodies = [workflow for _, workflow in targets if workflow.graph is None]
        found = {workflow.name: check_workflow(workflow) for workflow in bodies}
        graphs = {workflow.name: _check_graph(app, workflow) for app, workflow in targets if workflow.graph is not None}
    wrong = [problem for problems in graphs.values() for problem in problems]
    findings = [finding for some in found.values() for finding in some or ()]
    unread = sorted(name for name, some in found.items() if some is None)
    output.emit({"findings": findings, "graphs": wrong, "checked": sorted({**found, **graphs}), "unread": unread})
    _tell(output, findings)
    for problem in wrong:
        output.say(problem)
    for name in unread:
        output.say(f"{name}: its source cannot be read, so it was not checked")
    count = len(found) + len(graphs) - len(unread)
    output.say(f"{len(findings) + len(wrong)} found in {count} workflow{'' if count == 1 else 's'}")
    return ExitCode.FAILED if findings or wrong else ExitCode.COMPLETED


def _check_graph(app: Outlast, graph: Workflow[..., Any]) -> list[str]:
    """All that is wrong with what its nodes call."""
    try:
        graph.check(app)
    except InvalidDefinition as error:
        return [str(error), *(note.removeprefix("Also: ") for note in getattr(error, "__notes__", ()))]
    return []


def _tell(output: Output, findings: list[Finding]) -> None:
    told: set[str] = set()
    for finding in findings:
        place = f"{_near(finding.file)}:{finding.line}:{finding.column}"
        output.say(f"{place}: {finding.rule}: {finding.function} {finding.message}. {finding.todo}")
        told.add(finding.rule)
    if told:
        output.say("")
    for rule in RULES:
        if rule in told:
            output.say(f"{rule}: {RULES[rule]}")


def _near(file: str) -> str:
    """As seen from here, where it is below."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
