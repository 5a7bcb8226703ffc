"""`outlast graph`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import call


def test_a_workflow_is_drawn(shop: Path) -> None:
    """A Mermaid chart of one workflow goes to standard output, and nothing is run or stored."""  # SPEC G5
    done = call("graph", "shop:fulfil")
    assert done.code == 0
    assert done.out.startswith("flowchart TD\n")
    assert '["Charge"]' in done.out
    assert "n1 --> n2" in done.out
    assert not (shop / "shop.db").exists()


def test_all_workflows_of_a_module_are_drawn(shop: Path) -> None:
    """Each chart says whose it is."""
    done = call("graph", "shop")
    assert done.out.count("flowchart TD") == 5
    assert "%% shop:greet, version " in done.out


def test_a_plan_is_exported_as_json(shop: Path) -> None:
    """With its boxes and arrows; of a module, a list."""  # SPEC G5
    plan = call("graph", "shop:fulfil", "--format", "json").document
    assert plan["deterministic"]
    assert [step["label"] for step in plan["steps"]] == ["Charge", "Pack"]
    assert {edge["source"] for edge in plan["flow"]["edges"]} >= {"#start", "charge", "pack"}
    assert [plan["workflow"] for plan in call("graph", "shop", "--json").document][:2] == ["fulfil", "shop:greet"]


def test_what_is_not_there_is_named(shop: Path) -> None:
    """As with any command: what could have been meant."""
    done = call("graph", "shop:fulfill")
    assert done.code == 2
    assert "Did you mean 'fulfil'?" in done.err
