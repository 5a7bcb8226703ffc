"""Each rule of the protocol is needed: without it an invariant breaks, and the simulation sees it."""

from __future__ import annotations

import pytest

from tests.simulation.audit import SUPERSEDED
from tests.simulation.exploring import explore
from tests.simulation.fixes import ALL_FIXES, FIX_NAMES
from tests.simulation.orders import try_orders
from tests.simulation.scripts import HOLES, Hole


@pytest.mark.parametrize("hole", HOLES.values(), ids=HOLES.keys())
def test_a_hole_is_open_without_its_rule_and_closed_with_it(hole: Hole):
    """In all orders of the script nothing goes wrong with the rule; without it something does in some order."""
    base = ALL_FIXES.without(*hole.also_off)
    with_rule = try_orders(hole.script, base, hole.overlook)
    assert not with_rule.violations, with_rule.example
    without = try_orders(hole.script, base.without(hole.fix), hole.overlook)
    assert hole.violates in without.violations, f"{without.tried} orders: {dict(without.violations)}"
    assert set(without.violations) == {hole.violates}, without.example
    assert without.tried == with_rule.tried


def test_every_rule_has_a_script():
    """No rule is taken on trust."""
    assert {hole.fix for hole in HOLES.values()} == set(FIX_NAMES)
    assert len(FIX_NAMES) == 13


@pytest.mark.parametrize(
    ("off", "rule"),
    [
        (("worker_fence",), SUPERSEDED),
        (("worker_fence",), "3"),
        (("final_sweep",), "3"),
        (("dedup_fold",), "4"),
        (("park_idle",), "3"),
        (("park_fenced",), SUPERSEDED),
        (("one_flight", "predecessor"), "1"),
        (("fresh_id",), SUPERSEDED),
        (("reconcile",), "3"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else value[0],
)
def test_random_schedules_find_what_is_missing(off: tuple[str, ...], rule: str):
    """The common holes are found without being looked for."""
    findings = explore(ALL_FIXES.without(*off), 1500, seed=2, until=rule)
    assert any(broken.startswith(rule) for broken in findings.by_rule()), str(findings)
