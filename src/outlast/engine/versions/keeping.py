"""Which versions there are, kept in the store: what each was going to do, for those who come after. Layer: engine.

What always holds: a run's version is in the store before the run is; what was kept once is never changed, so it is read
once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from outlast.core.plan.plan import Plan, decode_plan, encode_plan
from outlast.stores.store import VersionRow

if TYPE_CHECKING:
    from outlast.authoring.module import Module
    from outlast.authoring.workflow import Workflow
    from outlast.stores.store import Store

__all__ = ["VersionKeeper"]

_MOST_KNOWN: Final = 200
"""Plans of other deploys that are remembered here."""


class VersionKeeper:
    """Keeps and finds versions, for one engine."""

    def __init__(self, store: Store, registry: Module) -> None:
        self._store = store
        self._registry = registry
        self._kept: set[tuple[str, str]] = set()
        """Those this process knows to be in the store."""
        self._plans: dict[tuple[str, str], Plan] = {}

    def forget(self) -> None:
        """The store was closed: the next one may be another."""
        self._kept.clear()

    async def keep(self, workflows: Iterable[Workflow[..., Any]]) -> None:
        """See to it that these versions are in the store. Raises StoreError."""
        new = {(workflow.name, workflow.version): workflow for workflow in workflows}
        missing = [key for key in new if key not in self._kept]
        if missing:
            await self._store.save_versions([_to_row(new[key]) for key in missing])
            self._kept.update(missing)

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


def _to_row(workflow: Workflow[..., Any]) -> VersionRow:
    plan, kind = workflow.plan, "body" if workflow.graph is None else "graph"
    encoded = b"" if plan is None else encode_plan(plan)
    return VersionRow(workflow.name, workflow.version, kind, plan=encoded, definition=workflow.definition_json())
