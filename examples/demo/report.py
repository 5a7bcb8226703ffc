"""What the sales come to, and the files that say so."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path


@dataclass
class Sales:
    """Of one shop's file."""

    shop: str
    currency: str
    rows: int
    cents: int
    """In the shop's currency."""
    bad_rows: dict[str, int]
    """How many were left out, by why."""


@dataclass
class Report:
    """Of all shops, for one day."""

    day: str
    rates: dict[str, Decimal]
    """What one unit of a currency is in euro."""
    sales: list[Sales] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)
    """Files that could not be read, and why."""

    def euro(self, sales: Sales) -> Decimal:
        euro = Decimal(sales.cents) / 100 * self.rates[sales.currency]
        return euro.quantize(Decimal("0.01"), ROUND_HALF_EVEN)

    @property
    def total(self) -> Decimal:
        return sum(map(self.euro, self.sales), Decimal(0))

    @property
    def bad_rows(self) -> Counter[str]:
        return sum((Counter(sales.bad_rows) for sales in self.sales), Counter())


def write_files(report: Report, out: Path) -> Path:
    """`report.md` for people and `report.json` for programs, each put in place whole."""
    out.mkdir(parents=True, exist_ok=True)
    put(out / "report.json", json.dumps(summary(report), indent=2, ensure_ascii=False))
    return put(out / "report.md", tell(report))


def put(path: Path, text: str) -> Path:
    """A reader sees the old file or the new one, also when this process dies here."""
    aside = path.with_suffix(".new")
    aside.write_text(text, encoding="utf-8")
    return aside.replace(path)


def summary(report: Report) -> dict[str, object]:
    return {
        "day": report.day,
        "total": str(report.total),
        "shops": {sales.shop: str(report.euro(sales)) for sales in report.sales},
        "bad_rows": dict(report.bad_rows),
        "rejected": report.rejected,
    }


def tell(report: Report) -> str:
    ranked = sorted(report.sales, key=report.euro, reverse=True)
    rows = sum(sales.rows for sales in ranked)
    lines = [
        f"# Sales of {report.day}",
        "",
        f"EUR {report.total:,} in {len(ranked)} shops, {rows:,} rows.",
        f"{report.bad_rows.total()} rows were left out: "
        + ", ".join(f"{count} {why}" for why, count in report.bad_rows.most_common())
        + ".",
        "",
        *(f"- {sales.shop}: EUR {report.euro(sales):,}" for sales in ranked[:5]),
        f"- and {len(ranked) - 5} more",
        "",
        *(f"Not read: {name}, {why}." for name, why in report.rejected.items()),
    ]
    return "\n".join(lines) + "\n"
