"""Figures as tables: plain text for a terminal, Markdown for the documentation.

    python benchmarks/table.py FIGURES.json [DOCUMENT]     # into docs/figures.md, or this one, between its marks

What always holds: the text around the marks stays as it is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:1] = [str(ROOT), str(ROOT / "src")]

import msgspec  # noqa: E402

from benchmarks.figures import Report, Table  # noqa: E402
from benchmarks.machine import Machine  # noqa: E402

__all__ = ["Figures", "draw", "write_section"]

DOCUMENT = ROOT / "docs" / "figures.md"
BEGIN = re.compile(r"<!-- figures: begin\b.*?-->\n", re.DOTALL)
END = "<!-- figures: end -->"


class Figures(msgspec.Struct):
    """What one run of the program measured, as it is kept."""

    at: str
    command: str
    is_quick: bool
    """From a smoke test: nothing to be shown to anybody."""
    machine: Machine
    reports: list[Report]


# --- for a terminal ---------------------------------------------------------------------------------------------------


def draw(report: Report) -> str:
    """The subject's tables, with what they were measured under."""
    lines = [f"=== {report.subject}  ({report.seconds:.0f} s, load before {_load(report)})"]
    lines += [f"    {name}: {value}" for name, value in report.settings.items()]
    for table in report.tables:
        lines += ["", table.title, *_draw_table(table), *(f"    {note}" for note in table.notes)]
    lines += [f"WRONG    {problem}" for problem in report.problems]
    return "\n".join([*lines, ""])


def _draw_table(table: Table) -> list[str]:
    cells = [table.columns, *table.rows]
    widths = [max(len(row[number]) for row in cells) for number in range(len(table.columns))]
    lines = [
        "  ".join(_align(cell, width, number) for number, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    return [lines[0].rstrip(), "  ".join("-" * width for width in widths), *(line.rstrip() for line in lines[1:])]


def _align(cell: str, width: int, number: int) -> str:
    """What a row is about to the left, its figures to the right."""
    return cell.ljust(width) if number == 0 else cell.rjust(width)


def _load(report: Report) -> str:
    return " ".join(f"{load:.1f}" for load in report.load)


# --- for the documentation --------------------------------------------------------------------------------------------


def write_section(figures: Figures, document: Path = DOCUMENT) -> None:
    """Put the figures between the document's marks.

    Raises `ValueError` for a document without marks, and for figures of a smoke test."""
    if figures.is_quick:
        raise ValueError("figures that --quick made mean nothing: measure without it")
    text = document.read_text(encoding="utf-8")
    begin = BEGIN.search(text)
    end = text.find(END)
    if begin is None or end < begin.end():
        raise ValueError(f"{document} has no marks that say where the figures go: <!-- figures: begin … --> and {END}")
    document.write_text(f"{text[: begin.end()]}\n{_to_markdown(figures)}\n{text[end:]}", encoding="utf-8")


def _to_markdown(figures: Figures) -> str:
    lines = [
        f"Measured at {figures.at} by `{figures.command}` on {figures.machine}.",
        "",
        "A cell is the median of the rounds, in brackets the range they lay in. What is compared took turns, and",
        "a ratio is the median of the rounds' own ratios.",
    ]
    for report in figures.reports:
        lines += ["", f"## {report.subject.capitalize()}", ""]
        lines += [f"- {name}: {value}" for name, value in report.settings.items()]
        lines += [f"- load of the machine before: {_load(report)}"]
        lines += [f"- **wrong: {problem}**" for problem in report.problems]
        for table in report.tables:
            lines += ["", f"**{table.title}**", "", *_to_markdown_table(table), ""]
            lines += [f"{note}  " for note in table.notes]
    return "\n".join(lines).rstrip() + "\n"


def _to_markdown_table(table: Table) -> list[str]:
    rules = [":--", *["--:"] * (len(table.columns) - 1)]
    return [_row(table.columns), _row(rules), *(_row(row) for row in table.rows)]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> int:
    """The command."""
    if len(sys.argv) not in {2, 3}:
        print("usage: python benchmarks/table.py FIGURES.json [DOCUMENT]", file=sys.stderr)
        return 2
    figures = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Figures)
    write_section(figures, Path(sys.argv[2]) if len(sys.argv) == 3 else DOCUMENT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
