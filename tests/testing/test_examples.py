"""Every example, stopped at each of its commits, on each kind of store (SPEC K2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outlast import User
from outlast.testing import Explored, Lab, explore_crashes
from tests.plans.kept import load
from tests.testing.places import PLACES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _order(folder: Path) -> tuple[Any, tuple[Any, ...]]:
    return "fulfil", ("A-17", ["book", "lamp"])


def _newsletter(folder: Path) -> tuple[Any, tuple[Any, ...]]:
    return "newsletter", (
        {"feeds": ["news", "sport"], "longest": 60},
    )  # lost at its last attempt, "broken" fails otherwise


def _nightly(folder: Path) -> tuple[Any, tuple[Any, ...]]:
    shop = folder / "shop.db"
    with closing(sqlite3.connect(shop)) as connection:
        connection.execute("create table orders (id text)")
    return "nightly", ("2026-07-01", str(folder / "backups"), [str(shop)])


def _sales(folder: Path) -> tuple[Any, tuple[Any, ...]]:
    inbox = folder / "inbox"
    inbox.mkdir()
    (inbox / "broken.csv").write_text("nothing of the kind\n")
    return "daily_sales", ("2026-07-01", str(inbox), str(folder / "out"))


def _orders(folder: Path) -> tuple[Any, tuple[Any, ...]]:
    return "fulfil", ({"items": ["book"], "amount": 30},)


async def _approve(lab: Lab, run: Any) -> None:
    if await lab.until_waiting(run):
        await run.approve("ship it?", {"ok": True}, by=User("bob"), key="bobs-answer")


INPUTS: dict[str, Callable[[Path], tuple[Any, tuple[Any, ...]]]] = {
    "order.py": _order,
    "orders.py": _orders,
    "newsletter.py": _newsletter,
    "nightly.py": _nightly,
    "demo/sales.py": _sales,
}


def _name(example: str, place: str) -> Any:
    """A world takes a second on a server, to connect to: there the others are for `make soak`."""
    marks = [pytest.mark.soak] if place == "postgres" and example != "order.py" else []
    return pytest.param(example, place, id=f"{example}-{place}", marks=marks)


BY_CHANCE = {"refunds.py"}
"""What it gives has an invocation id in it, and so no two runs give the same."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("example", "place"), [_name(example, place) for example in INPUTS for place in PLACES])
async def test_an_example_survives_a_crash_at_every_commit(
    example: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends as if nothing had been, no attempt is carried out twice, and the store is sound."""
    app = load(EXAMPLES / example)
    for name in app.functions():
        step = app.find_step(name)
        if step is not None and "SHARE_SECONDS" in step.fn.__globals__:
            monkeypatch.setitem(step.fn.__globals__, "SHARE_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)  # some write beside themselves
    workflow, input = INPUTS[example](tmp_path)
    drive = _approve if example == "orders.py" else None
    explored: Explored = await explore_crashes(workflow, *input, app=app, drive=drive, place=PLACES[place])
    assert explored.outcome.startswith("completed: ")
    assert explored.stops > explored.commits > 3


def test_no_example_is_left_out() -> None:
    """Each file with a workflow or a graph has its input here."""
    found = {
        str(path.relative_to(EXAMPLES))
        for path in EXAMPLES.rglob("*.py")
        if "@app.workflow" in (text := path.read_text(encoding="utf-8")) or "app.graph" in text
    }
    assert found == INPUTS.keys() | BY_CHANCE
