"""Which versions there are, kept in the store: what each was going to do, for those who come after. Layer: engine.

What always holds: a run's version is in the store before the run is; what was kept once is never changed, so it is read
once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from outlast.authoring.graph.stored import load_graph
from outlast.authoring.source.stored import StoredBody
from outlast.core.plan.plan import Plan, decode_plan, encode_plan
from outlast.core.program.language import decode_program
from outlast.engine.clock import boottime_us
from outlast.errors import InvalidDefinition, PayloadUnreadable, VersionNotActive
from outlast.payloads import open_definition
from outlast.stores.store import VersionRow, VersionStatus

if TYPE_CHECKING:
    from outlast.authoring.graph.workflow import GraphWorkflow
    from outlast.authoring.module import Module
    from outlast.authoring.workflow import Workflow
    from outlast.payloads import Payloads
    from outlast.stores.store import Store

__all__ = ["VersionKeeper", "to_row"]

_TRUSTED_US: Final = 10_000_000
"""How long it is taken for granted that a version is active still."""
_MOST_KNOWN: Final = 200
"""Plans of other deploys that are remembered here."""


class Stored(NamedTuple):
    """What the store has of a version that the code at hand is not."""

    body: StoredBody | GraphWorkflow | None
    """What its runs can go on with."""
    problem: str = ""
    """Why there is nothing, in a sentence without its full stop."""
    is_known: bool = True
    """The store has heard of the version."""


class VersionKeeper:
    """Keeps and finds versions, for one engine."""

    def __init__(
        self,
        store: Store,
        registry: Module,
        payloads: Payloads,
        log: logging.Logger,
        *,
        fails_on_conflict: bool = False,
    ) -> None:
        self.fails_on_conflict = fails_on_conflict
        """A run that neither the code nor its stored plan fits fails, instead of being set aside."""
        self._store = store
        self._registry = registry
        self._payloads = payloads
        self._log = log
        self._kept: set[tuple[str, str]] = set()
        """Those this process knows to be in the store."""
        self._plans: dict[tuple[str, str], Plan] = {}
        self._graphs: dict[tuple[str, str], GraphWorkflow] = {}
        self._active: dict[tuple[str, str], int] = {}
        """When a version was last seen to be active, on the machine's clock."""

    def forget(self) -> None:
        """What is known of the store: it was closed, or somebody decided on a version."""
        self._kept.clear()
        self._active.clear()

    async def keep(self, workflows: Iterable[Workflow[..., Any]]) -> None:
        """See to it that these versions are in the store. Raises StoreError."""
        new = {(workflow.name, workflow.version): workflow for workflow in workflows}
        missing = [key for key in new if key not in self._kept]
        if missing:
            await self._store.save_versions([to_row(new[key]) for key in missing])
            self._kept.update(missing)

    # --- starting -----------------------------------------------------------------------------------------------------

    async def check_active(self, workflow: Workflow[..., Any]) -> None:
        """Raises VersionNotActive for a version that may not be started (SPEC V6); what was decided elsewhere counts
        here after 10 s at the latest."""
        key = workflow.name, workflow.version
        now = boottime_us()
        if now - self._active.get(key, -_TRUSTED_US) < _TRUSTED_US:
            return
        row = await self._store.find_version(*key)
        if row is not None and row.status is not VersionStatus.ACTIVE:
            raise VersionNotActive(*key, row.status.value)
        self._active[key] = now

    async def find_active_graph(self, name: str) -> GraphWorkflow | None:
        """The graph of this name that was activated last, of those that only the store has."""
        for row in await self._store.list_versions(name, status=VersionStatus.ACTIVE):
            if row.kind == "graph" and row.decided_at is not None:
                return await self.find_graph(name, row.version)
        return None

    # --- going on -----------------------------------------------------------------------------------------------------

    async def find_workflow(self, name: str, version: str) -> Workflow[..., Any] | None:
        """What a run of this version is tried with first: the code at hand; but a graph that somebody stored and
        activated stays what its runs began with (SPEC V6). Raises PayloadUnreadable and StoreError."""
        known = self._registry.find_workflow(name)
        if known is not None and (known.version == version or known.graph is None):
            return known
        try:
            return await self.find_graph(name, version, is_decided=True) or known
        except InvalidDefinition as error:
            self._log.warning("the stored version %s of %s is no graph to this release: %s", version, name, error)
            return known

    async def find_graph(self, name: str, version: str, *, is_decided: bool = False) -> GraphWorkflow | None:
        """A graph from its stored definition. With `is_decided`, only one that somebody stored and activated: its runs
        keep it, whatever the code at hand says. Raises InvalidDefinition and PayloadUnreadable."""
        graph = self._graphs.get((name, version))
        if graph is None or is_decided:
            row = await self._store.find_version(name, version)
            if row is None or row.kind != "graph" or not row.definition:
                return None
            if is_decided and row.decided_at is None:
                return None
            if graph is None:
                if len(self._graphs) >= _MOST_KNOWN:
                    self._graphs.pop(next(iter(self._graphs)))
                graph = self._graphs[name, version] = load_graph(name, open_definition(row, self._payloads))
        return graph

    async def find_stored(self, workflow: Workflow[..., Any], version: str) -> Stored:
        """What a run of an earlier version goes on with where the code at hand does not fit (SPEC V3). Raises
        StoreError."""
        row = await self._store.find_version(workflow.name, version)
        if row is None:
            return Stored(None, "There is no stored plan of that version", is_known=False)
        try:
            definition = open_definition(row, self._payloads)
            if row.kind == "graph":
                return Stored(load_graph(row.workflow, definition))
        except PayloadUnreadable as error:
            return Stored(None, f"Its stored plan cannot be read here, {error.problem}")
        except InvalidDefinition:
            return Stored(None, "Its stored plan cannot be carried out: it is no graph to this release")
        if not definition:
            plan = decode_plan(row.plan) if row.plan else None
            why = "its source could not be read" if plan is None else plan.unclosed
            return Stored(None, f"Its stored plan cannot be carried out: {why}")
        program = decode_program(definition)
        if program is None:
            return Stored(None, "Its stored plan is none that this release can read")
        return Stored(StoredBody(program, workflow, version, fails=self.fails_on_conflict))

    def served(self) -> tuple[str, ...]:
        """The versions of the code at hand, as a worker's row tells them."""
        return tuple(f"{workflow.name}#{workflow.version}" for workflow in self._registry.iter_workflows())

    async def find_plan(self, workflow: str, version: str) -> Plan | None:
        """The plan of a version: of the code at hand, or as it was kept."""
        known = self._registry.find_workflow(workflow)
        if known is not None and known.version == version:
            return known.plan
        plan = self._plans.get((workflow, version))
        if plan is None:
            row = await self._store.find_version(workflow, version)
            plan = None if row is None else decode_plan(row.plan)
            if plan is not None:
                if len(self._plans) >= _MOST_KNOWN:
                    self._plans.pop(next(iter(self._plans)))
                self._plans[workflow, version] = plan
        return plan


def to_row(workflow: Workflow[..., Any]) -> VersionRow:
    """A version as the store keeps it."""
    plan, kind = workflow.plan, "body" if workflow.graph is None else "graph"
    encoded = b"" if plan is None else encode_plan(plan)
    return VersionRow(workflow.name, workflow.version, kind, plan=encoded, definition=workflow.definition_json())
