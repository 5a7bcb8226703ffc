"""Every example, stopped at each of its commits, on each kind of store (SPEC K2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outlast import User
from outlast.testing import Explored, Lab, explore_crashes
from tests.plans.kept import load
from tests.testing.places import PLACES

Drive = Callable[[Lab, Any], Awaitable[object]]
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


def _refunds(folder: Path) -> tuple[Any, tuple[Any, ...]]:
    return "refunds", (["ada", "bob"],)


def _answer(ok: bool) -> Drive:
    async def answer(lab: Lab, run: Any) -> None:
        if await lab.until_waiting(run):
            await run.approve("ship it?", {"ok": ok, "note": "sold"}, by=User("bob"), key="bobs-answer")

    return answer


class Case(NamedTuple):
    """An example, and how it ends with this input when others do this."""

    example: str
    make_input: Callable[[Path], tuple[Any, tuple[Any, ...]]]
    ends: str
    drive: Drive | None = None


CASES = {
    "order": Case("order.py", _order, "completed: "),
    "orders-approved": Case("orders.py", _orders, "completed: 'parcel of book, ", _answer(True)),
    "orders-refused": Case("orders.py", _orders, "compensated: NotShipped('bob says no: sold')", _answer(False)),
    "orders-forgotten": Case("orders.py", _orders, "compensated: NotShipped('nobody decided in time')"),
    "newsletter": Case("newsletter.py", _newsletter, "completed: "),
    "nightly": Case("nightly.py", _nightly, "completed: "),
    "refunds": Case(
        "refunds.py", _refunds, "completed: ['dear ada, your money is on its way: <invocation id of pay_back>', "
    ),
    "sales": Case("demo/sales.py", _sales, "completed: "),
}


def _mark(name: str, place: str) -> Any:
    """A world takes a second on a server, to connect to: there the others are for `make soak`."""
    marks = [pytest.mark.soak] if place == "postgres" and name != "order" else []
    return pytest.param(CASES[name], place, id=f"{name}-{place}", marks=marks)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("case", "place"), [_mark(name, place) for name in CASES for place in PLACES])
async def test_an_example_survives_a_crash_at_every_commit(
    case: Case, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends as if nothing had been, no attempt is carried out twice, and the store is sound."""
    app = load(EXAMPLES / case.example)
    for name in app.functions():
        step = app.find_step(name)
        if step is not None and "SHARE_SECONDS" in step.fn.__globals__:
            monkeypatch.setitem(step.fn.__globals__, "SHARE_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)  # some write beside themselves
    workflow, input = case.make_input(tmp_path)
    explored: Explored = await explore_crashes(workflow, *input, app=app, drive=case.drive, place=PLACES[place])
    assert explored.outcome.startswith(case.ends)
    assert explored.stops > explored.commits > 3


def test_no_example_is_left_out(tmp_path: Path) -> None:
    """Each workflow and each graph of each example is explored: of every file that makes an app, also of one that is
    added later."""
    found = set()
    for path in EXAMPLES.rglob("*.py"):
        if "Outlast(" in path.read_text(encoding="utf-8"):
            found |= {(str(path.relative_to(EXAMPLES)), workflow.name) for workflow in load(path).iter_workflows()}
    explored = set()
    for name, case in CASES.items():
        (folder := tmp_path / name).mkdir()
        explored.add((case.example, case.make_input(folder)[0]))
    assert found == explored
