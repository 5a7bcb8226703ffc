"""The examples run, and the demo's proof can fail."""

from __future__ import annotations

import ast
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.docs.pages import ROOT, read_blocks

EXAMPLES = ROOT / "examples"


def run_example(name: str, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=110, check=False,
    )  # fmt: skip


def test_the_order_is_the_readmes() -> None:
    """What the README shows and what lies in examples/ are the same program."""
    block = next(block for block in read_blocks(ROOT / "README.md") if block.language == "python")
    shown, kept = (ast.dump(ast.parse(text)) for text in (block.text, (EXAMPLES / "order.py").read_text()))
    assert shown == kept


def test_the_orders_are_those_of_their_page() -> None:
    """The program that docs/orders.md runs is the one in examples/."""
    block = next(block for block in read_blocks(ROOT / "docs" / "orders.md") if block.language == "python")
    shown, kept = (ast.parse(text) for text in (block.text, (EXAMPLES / "orders.py").read_text()))
    assert ast.dump(shown) == ast.dump(ast.Module(kept.body[1:], []))


@pytest.mark.process
@pytest.mark.slow
def test_a_night_is_backed_up_once(tmp_path: Path) -> None:
    """The second call of a night finds the work done; the copies are databases."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("create table orders (id text)")
    first = run_example("nightly.py", "backups", "shop.db", cwd=tmp_path)
    assert first.returncode == 0, first.stdout
    [copy] = (tmp_path / "backups").iterdir()
    made_at = copy.stat().st_mtime_ns
    second = run_example("nightly.py", "backups", "shop.db", cwd=tmp_path)
    assert "is completed; wrote 0 entries" in second.stdout
    assert copy.stat().st_mtime_ns == made_at
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("select count(*) from orders").fetchall() == [(0,)]


@pytest.mark.process
@pytest.mark.slow
def test_a_newsletter_is_a_graph(tmp_path: Path) -> None:
    """It sends what fits, and complains of what it could not read."""
    done = run_example("newsletter.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert ast.literal_eval(done.stdout.splitlines()[-1]) == {
        "sent": "Hello! The town has a new bridge. It is closed for repairs.",
        "complaint": "to the editors: no broken: no answer",
    }


@pytest.mark.process
@pytest.mark.slow
def test_refunds_are_paid_once(tmp_path: Path) -> None:
    """A plain `def` body, called twice: the second call finds everybody paid, and gives the same letters."""
    first, second = (run_example("refunds.py", "ada", "bob", cwd=tmp_path) for _ in range(2))
    assert (first.returncode, second.stdout) == (0, first.stdout), first.stdout
    with closing(sqlite3.connect(tmp_path / "bank.db")) as bank:
        assert bank.execute("select customer, cents from payments order by 1").fetchall() == [
            ("ada", 1200),
            ("bob", 1200),
        ]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_demo_proves_what_it_says(tmp_path: Path) -> None:
    """`make demo` kills its workers twice, and every statement of its proof holds."""
    done = run_example("demo/run.py", cwd=ROOT, DEMO_PLACE=str(tmp_path / "demo"))
    assert done.returncode == 0, done.stdout
    proof = done.stdout.partition("7. The proof")[2].splitlines()
    assert sum(line.startswith("yes ") for line in proof) == 9
    assert not [line for line in proof if line.startswith("NO")]


# --- the proof --------------------------------------------------------------------------------------------------------


@pytest.fixture
def proof(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(EXAMPLES / "demo"))
    import proof  # type: ignore[import-not-found]

    yield proof
    for name in ("proof", "ledger"):
        sys.modules.pop(name, None)


def record(proof: Any, status: str, **steps: list[str]) -> Any:
    """The journal, by the outcomes of each step's attempts; the last one of a step is how the step stands."""
    summaries = [SimpleNamespace(key=key, status=outcomes[-1]) for key, outcomes in steps.items()]
    attempts = [SimpleNamespace(key=key, status=outcome) for key, outcomes in steps.items() for outcome in outcomes]
    return proof.Record(SimpleNamespace(status=status, steps=summaries), attempts)


def lines(pid: int, *began: str, ended: str = "") -> list[dict[str, Any]]:
    """What one process noted: `ended` are the steps among `began` that came to their end."""
    noted = [{"what": "began", "step": key, "invocation": f"id-{key}", "pid": pid} for key in began]
    return noted + [{"what": "ended", "step": key, "invocation": f"id-{key}", "pid": pid} for key in ended.split()]


DONE = {f"s{number}": ["succeeded"] for number in range(30)}
EARLY, LATER = [f"s{number}" for number in range(6)], [f"s{number}" for number in range(6, 30)]
BANK = {"fetch_rates": ["failed", "failed", "succeeded"]}
TRUE = [
    *lines(1, *["fetch_rates"] * 3, *EARLY, "open", ended=" ".join(["fetch_rates", *EARLY, "open"])),
    *lines(2, "open", *LATER, ended=" ".join(["open", *LATER])),
    *lines(3, "last", ended="last"),
]


def judge(proof: Any, folder: Path, noted: list[dict[str, Any]]) -> list[str]:
    """The statements that do not hold."""
    ledger = folder / "ledger.jsonl"
    ledger.write_text("".join(f"{json.dumps(line)}\n" for line in noted))
    first = record(proof, "running", **BANK, **{key: DONE[key] for key in EARLY}, open=["started"])
    second = record(proof, "running", **BANK, **DONE, open=["lost", "succeeded"])
    last = record(proof, "completed", **BANK, **DONE, open=["lost", "succeeded"], last=["succeeded"])
    return [text for text, holds in proof.prove(ledger, first, second, last) if not holds]


def test_what_is_true_is_proved(proof: Any, tmp_path: Path) -> None:
    """A step that was under way at the kill may have done its work twice; all else was done once."""
    assert judge(proof, tmp_path, TRUE) == []


@pytest.mark.parametrize(
    ("also", "found"),
    [
        (lines(2, "s0"), "ran again"),
        (lines(3, "s20"), "ran again"),
        (lines(2, ended="s0"), "did its work twice"),
        (lines(1, "s0"), "attempts on record"),
        ([{"what": "began", "step": "s0", "invocation": "another", "pid": 1}], "invocation ids"),
        (lines(1, "fetch_rates"), "the bank was asked 4 times"),
        (lines(4, "last"), "of 4 processes"),
    ],
    ids=["after kill 1", "after kill 2", "work twice", "not on record", "two names", "asked again", "a fourth process"],
)
def test_what_is_not_true_is_found(proof: Any, tmp_path: Path, also: list[dict[str, Any]], found: str) -> None:
    """One line more in the ledger, and the statement it breaks does not hold."""
    assert any(found in text for text in judge(proof, tmp_path, [*TRUE, *also]))
