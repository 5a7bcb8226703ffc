"""What a benchmark's figures say, and where they are put. Never how large they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures import Figure, Report, Table, percentile, ratio, spread
from benchmarks.machine import Machine
from benchmarks.table import Figures, draw, write_section

MACHINE = Machine("Linux", "a processor", 2, "3.11.7", "3.40.1", {"msgspec": "0.20"}, "ext4", "abc")


def make_figures(*, is_quick: bool = False) -> Figures:
    table = Table("Speed", ["at once", "steps/s"], [["1", "10 (9–11)"], ["2", "a|b"]], ["A note."])
    report = Report("throughput", {"store": "SQLite"}, {"steps": spread([10, 9, 11], "steps/s")}, [table])
    return Figures("2026-01-01T00:00:00+00:00", "make bench", is_quick, MACHINE, [report])


def test_a_figure_is_a_median_with_its_range() -> None:
    """Three digits that count, and the least and the most of the samples beside them."""
    assert str(spread([3.0, 1.0, 2.0], "ms")) == "2 (1–3)"
    assert str(spread([12345.678], "steps/s")) == "12,346"
    assert str(spread([0.123456, 0.1230], "ms")) == "0.12"


def test_a_ratio_is_of_pairs() -> None:
    """What was measured side by side is compared, not the median of one with the median of the other."""
    ours, theirs = [10.0, 100.0, 1000.0], [20.0, 50.0, 10_000.0]
    assert ratio(ours, theirs) == Figure(0.5, 0.1, 2.0, 3, "×")
    assert ratio(ours, theirs, "%").median == pytest.approx(50.0)
    with pytest.raises(ValueError, match="zip"):
        ratio(ours, theirs[:2])


@pytest.mark.parametrize(
    ("value", "is_floor", "verdict"),
    [
        (1.5, False, "≤ 1.80: met"),
        (2.0, False, "≤ 1.80: MISSED"),
        (2.0, True, "≥ 1.80: met"),
        (1.5, True, "≥ 1.80: MISSED"),
    ],
)
def test_a_target_says_whether_it_was_met(value: float, is_floor: bool, verdict: str) -> None:
    """A target is the most or the least that a median may be."""
    assert spread([value], "×", target=1.8, is_floor=is_floor).verdict == verdict
    assert spread([value], "×").verdict == ""


def test_a_percentile_is_a_sample() -> None:
    """Of a hundred samples the 99th percentile is the largest, and of one sample it is that one."""
    assert percentile(range(100), 0.99) == 99
    assert percentile(range(100), 0.5) == 50
    assert percentile([7.0], 0.99) == 7.0


def test_figures_go_between_the_marks(tmp_path: Path) -> None:
    """What stands around the marks stays, what stood between them goes, and writing twice changes nothing."""
    page = tmp_path / "figures.md"
    page.write_text(
        "# Figures\n\n<!-- figures: begin. From benchmarks/. -->\n\nold\n\n<!-- figures: end -->\n\nAfter.\n"
    )
    write_section(make_figures(), page)
    once = page.read_text()
    assert once.startswith("# Figures\n\n<!-- figures: begin. From benchmarks/. -->\n\nMeasured at 2026-01-01")
    assert once.endswith("<!-- figures: end -->\n\nAfter.\n")
    assert "old" not in once
    assert "| 1 | 10 (9–11) |" in once
    assert "| 2 | a\\|b |" in once, "a bar would be another column"
    write_section(make_figures(), page)
    assert page.read_text() == once


def test_figures_that_mean_nothing_are_not_published(tmp_path: Path) -> None:
    """A smoke test's figures are refused, and so is a page without marks."""
    page = tmp_path / "figures.md"
    page.write_text("# Figures\n")
    with pytest.raises(ValueError, match="--quick"):
        write_section(make_figures(is_quick=True), page)
    with pytest.raises(ValueError, match="no marks"):
        write_section(make_figures(), page)
    assert page.read_text() == "# Figures\n"


def test_a_report_is_drawn_with_what_went_wrong() -> None:
    """Settings, tables and problems are all in the text for the terminal."""
    report = make_figures().reports[0]
    report.problems.append("a run was lost")
    text = draw(report)
    assert "store: SQLite" in text
    assert "1        10 (9–11)" in text
    assert "WRONG    a run was lost" in text
