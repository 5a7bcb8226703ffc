"""`outlast check`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import call

LATE = """
import time
from outlast import Context, Outlast
app = Outlast("memory://late")
@app.step
async def remind() -> None: ...
@app.workflow
async def late(ctx: Context) -> float:
    await remind()
    return time.time()
@app.workflow
async def fine(ctx: Context) -> None:
    await remind()
"""


def test_what_is_found_is_told_with_its_place(shop: Path) -> None:
    """File, line and column as editors read them, and an exit code that stops a build."""
    (shop / "late.py").write_text(LATE)
    done = call("check", "late")
    assert done.code == 1
    assert "late.py:10:12: clock: late calls time.time(). Use ctx.now()" in done.out
    assert done.out.endswith("1 found in 2 workflows\n")
    assert call("check", "late:fine").code == 0


def test_findings_are_a_document_with_json(shop: Path) -> None:
    """Everything of a finding, and what was looked at."""
    (shop / "late.py").write_text(LATE)
    document = call("check", "late", "--json").document
    assert [(found["rule"], found["line"], found["workflow"]) for found in document["findings"]] == [
        ("clock", 10, "late")
    ]
    assert document["checked"] == ["fine", "late"]


def test_a_shop_without_fault_passes(shop: Path) -> None:
    """Nothing found: exit code 0."""
    done = call("check", "shop")
    assert (done.code, done.out) == (0, "0 found in 5 workflows\n")
