"""What a deploy would do to live runs, known before it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast import Outlast
from tests.cli.commands import as_before, call
from tests.versions.deploying import Deploys, begun_otherwise, later_changed, one, park, unclosed

SHOP = """
from outlast import Context, Outlast
app = Outlast("sqlite:///shop.db")

@app.step
async def charge(order: str) -> str:
    return order

@app.step
async def pack(order: str) -> str:
    return order

@app.workflow
async def fulfil(ctx: Context, order: str) -> str:
    await charge(order)
    await ctx.sleep("1h")
    return await pack(order)
"""


@pytest.fixture
def deploys(request: pytest.FixtureRequest) -> Deploys:
    return Deploys(f"memory://{request.node.name}")


async def rehearse(app: Outlast) -> list:
    async with app:
        return [rehearsal async for rehearsal in app.rehearse()]


async def test_a_run_that_would_go_on_fits(deploys: Deploys) -> None:
    """The same code, and code that differs behind what the run has done."""  # SPEC V5
    await park(deploys, deploys.app(one))
    for body in (one, later_changed):
        (rehearsal,) = await rehearse(deploys.app(body))
        assert rehearsal.fits
        assert rehearsal.id == "r"


async def test_a_difference_is_told_with_both_sides(deploys: Deploys) -> None:
    """Where they part, and whether the stored plan would do; the run is as it was."""  # SPEC V5
    await park(deploys, deploys.app(one))
    (rehearsal,) = await rehearse(deploys.app(begun_otherwise))
    assert not rehearsal.fits
    assert rehearsal.recorded.startswith("step 'charge'")
    assert rehearsal.asked.startswith("step 'pack'")
    assert rehearsal.plan_fits
    async with deploys.app(one) as app:
        timeline = await (await app.get_run("r")).timeline()
    assert [item.kind for item in timeline if item.kind in {"suspended", "version"}] == []
    assert deploys.done == ["charge a 1"]


async def test_a_plan_that_is_none_does_not_help(deploys: Deploys) -> None:
    """Then the run would be suspended."""
    await park(deploys, deploys.app(unclosed))
    (rehearsal,) = await rehearse(deploys.app(begun_otherwise))
    assert not rehearsal.fits
    assert not rehearsal.plan_fits


async def test_an_unknown_workflow_is_told(deploys: Deploys) -> None:
    """A workflow that is gone strands its runs; and a run that has not begun fits anything."""
    old = deploys.app(one)
    async with old:
        await old.start("fulfil", "a", id="new")
    (rehearsal,) = await rehearse(deploys.app(begun_otherwise))
    assert rehearsal.fits
    (rehearsal,) = await rehearse(Outlast(deploys.url))
    assert "does not know the workflow" in rehearsal.problem


async def test_a_run_of_a_stored_graph_fits(deploys: Deploys) -> None:
    """The store has what it goes on with: no code need declare it."""  # SPEC V5, V6
    graph = {"name": "stored", "nodes": {"charge": {"function": "charge", "input": {"order": "a"}}}}
    async with deploys.app(one) as app:
        draft = await app.draft(graph, by="ada")
        await app.activate("stored", draft.version, by="ada")
        await app.start("stored", None, id="r")
    (rehearsal,) = await rehearse(deploys.app(one))
    assert rehearsal.fits
    assert rehearsal.found == draft.version


def test_ci_hears_of_it_by_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 where all live runs fit, 1 where one does not; the first difference side by side."""  # SPEC V5
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "shop2.py").write_text(SHOP.replace("await charge(order)\n", "await pack(order)\n"))
    with as_before():
        assert call("check", "shop.py", "--store", "sqlite:///shop.db").code == 1, "there is no store yet"
        assert call("run", "shop.py:fulfil", "--input", '"a"', "--id", "A-1", "--timeout", "500ms").code == 4
        done = call("check", "shop.py", "--store", "sqlite:///shop.db")
        assert (done.code, done.out) == (0, "1 live runs in sqlite:///shop.db; 0 do not fit the code\n")
        done = call("check", "shop2.py", "--store", "sqlite:///shop.db")
        assert done.code == 1
        assert "run 'A-1' of fulfil" in done.out
        assert "step 'charge'" in done.out
        assert "It would go on from the stored plan" in done.out
        document = call("check", "shop2.py", "--store", "sqlite:///shop.db", "--json").document
        assert (document["runs"], document["differing"][0]["id"]) == (1, "A-1")
