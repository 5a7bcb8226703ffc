"""Routes about workflows and their versions: what there is, and graphs stored as drafts (SPEC V6). Layer: http.

What always holds: a graph comes as data, never as a path; nobody but an admin lets runs of one be started; and who
stored, activated or declined a version stands with it.
"""

from __future__ import annotations

from typing import Any

from outlast.core.keys import check_name
from outlast.errors import FunctionNotFound, InvalidDefinition, PayloadUnreadable
from outlast.http.reach import engine_of
from outlast.http.refusals import InvalidRequest, NotAllowed
from outlast.http.route import Call, Nothing, Reply
from outlast.http.shapes import DecideRequest, DraftRequest, VersionFilters, VersionsOfAll
from outlast.run.definitions import find_startable
from outlast.run.describing import describe_workflow
from outlast.run.records import VersionInfo, WorkflowInfo

__all__ = [
    "activate_version",
    "decline_version",
    "draft_version",
    "get_version",
    "get_workflow",
    "list_all_versions",
    "list_versions",
    "list_workflows",
]

MOST_VERSIONS = 1000


async def list_workflows(call: Call[Nothing, Nothing]) -> list[WorkflowInfo]:
    """The workflows that can be started here, with their plans and the schemas of their input and output.

    Those of this server's code, and graphs that are stored and active.
    """
    known = call.app.workflows()
    names = {info.name for info in known}
    for version in await call.app.versions(status="active", limit=MOST_VERSIONS):
        if version.workflow not in names and version.kind == "graph" and version.decided_at is not None:
            names.add(version.workflow)
            try:
                known.append(describe_workflow(await find_startable(call.app, engine_of(call.app), version.workflow)))
            except (FunctionNotFound, InvalidDefinition, PayloadUnreadable):  # declined meanwhile; not for this server
                continue
    return known


async def get_workflow(call: Call[Nothing, Nothing]) -> WorkflowInfo:
    """One workflow that can be started here."""
    name = check_name("workflow", call.path["name"])
    return describe_workflow(await find_startable(call.app, engine_of(call.app), name))


async def list_versions(call: Call[VersionFilters, Nothing]) -> list[VersionInfo]:
    """The versions of a workflow that the store keeps, also of code that is gone; those stored or decided last first.

    Without their plans. A workflow that nobody has ever worked has none.
    """
    return await call.app.versions(call.path["name"], status=call.query.status, limit=call.query.limit)


async def list_all_versions(call: Call[VersionsOfAll, Nothing]) -> list[VersionInfo]:
    """The versions of all workflows, those stored or decided last first: with `status=draft`, what is to be decided."""
    query = call.query
    return await call.app.versions(query.workflow, status=query.status, limit=query.limit)


async def get_version(call: Call[Nothing, Nothing]) -> VersionInfo:
    """One version of a workflow, with its plan, and a graph's definition."""
    return await call.app.get_version(call.path["name"], call.path["version"])


async def draft_version(call: Call[Nothing, DraftRequest]) -> Reply[VersionInfo]:
    """Store a graph as a draft, to be looked at, then activated or declined. For admins, and for the scope `author`.

    The same graph again is the same version, and stays what it is.
    """
    stored = await call.app.draft(call.body.definition, by=_who(call, call.body.by))
    return Reply(stored, 201)


async def activate_version(call: Call[Nothing, DecideRequest]) -> VersionInfo:
    """Let runs of a version be started: of a graph that no code declares, the one activated last. For admins."""
    return await call.app.activate(call.path["name"], call.path["version"], by=_who(call, call.body.by))


async def decline_version(call: Call[Nothing, DecideRequest]) -> VersionInfo:
    """Start no run of a version any more; those in flight go on. For admins."""
    return await call.app.decline(call.path["name"], call.path["version"], by=_who(call, call.body.by))


def _who(call: Call[Any, Any], asked: str | None) -> str:
    """In whose name it is done."""
    caller = call.caller
    if asked is not None and asked != caller.id and not caller.is_admin:
        raise NotAllowed(caller.name, f"do this in the name of {asked!r}", "to be that user, or the scope 'admin'")
    name = asked or caller.id
    if not name:
        raise InvalidRequest("by", "a name, since this server does not know who asks", "it is missing")
    return name
