"""`outlast graph`: the plans of workflows, to be drawn or read by programs. Layer: cli."""

from __future__ import annotations

from typing import Any

import click

from outlast.authoring.workflow import Workflow
from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.options import Settings, shared_options
from outlast.cli.target import load_workflows
from outlast.core.plan.flow import with_flow
from outlast.core.plan.mermaid import to_mermaid
from outlast.core.plan.plan import Plan

__all__ = ["graph"]


@click.command()
@click.argument("target", metavar="MODULE[:WORKFLOW]|GRAPH")
@click.option(
    "--format",
    "form",
    type=click.Choice(["mermaid", "json"]),
    default="mermaid",
    help="A Mermaid flowchart (the default), or the plan as JSON, with its boxes and arrows.",
)
@shared_options
@click.pass_obj
def graph(settings: Settings, /, target: str, *, form: str) -> ExitCode:
    """Draw the plan of a workflow, or of all of MODULE, as its source says it; or the graph in a file.

    Nothing is run but the module's import. With --json, or --format json, of MODULE alone: a list.
    """
    settings.as_json |= form == "json"
    output = settings.output()
    with output.reserved():
        plans = [_plan_of(workflow) for _, workflow in load_workflows(target)]
    exported = [with_flow(plan) for plan in plans]
    output.emit(exported[0] if ":" in target else exported)
    for number, plan in enumerate(plans):
        if len(plans) > 1:
            output.say(f"{chr(10) if number else ''}%% {plan.workflow}, version {plan.version}")
        output.say(to_mermaid(plan))
    return ExitCode.COMPLETED


def _plan_of(workflow: Workflow[..., Any]) -> Plan:
    if workflow.plan is None:
        todo = "Run this where its .py file is."
        raise CommandError("NO_SOURCE", "The source of this workflow cannot be read", workflow.place, todo)
    return workflow.plan
