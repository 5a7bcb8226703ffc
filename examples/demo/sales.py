"""A nightly job: the sales files of many shops, as messy as they come, become one report.

    outlast run examples/demo/sales.py --input '{"inbox": "…", "out": "…"}'

`examples/demo/run.py` makes the files, kills the process that works on them, twice, and looks at what comes of it.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from ledger import noted
from reading import Problem, parse_sales
from report import Report, Sales, write_files

from outlast import Context, ExpectedError, Outlast, StepFailed, current_step

app = Outlast()  # the store is $OUTLAST_URL, else sqlite:///outlast.db

SHARE_SECONDS = 0.4  # how long the shops' network share takes for a file
RATES = {"EUR": Decimal(1), "CHF": Decimal("1.0412"), "SEK": Decimal("0.0871"), "PLN": Decimal("0.2333")}


class RatesUnavailable(ExpectedError):
    """The bank answers 503, as it does. Expected, so it is logged as one line, and retried like any other error."""


@dataclass
class Delivery:
    """What a step found in the inbox."""

    files: list[str]


@app.step
def find_files(inbox: str) -> Delivery:
    with noted():
        return Delivery(sorted(str(path) for path in Path(inbox).iterdir()))


@app.step(retries=5, backoff="250ms")
async def fetch_rates(day: str) -> dict[str, Decimal]:
    with noted(f"of {day}"):
        if current_step().attempt < 3:
            raise RatesUnavailable("503 Service Unavailable")
        return RATES


# A plain function runs in a thread, so the share may block it.
@app.step(retries=3, timeout="20s", give_up_on=Problem)
def read_file(path: str) -> Sales:
    with noted(Path(path).name):
        time.sleep(SHARE_SECONDS)
        return parse_sales(Path(path))


@app.step
def write_report(report: Report, out: str) -> str:
    with noted():
        return str(write_files(report, Path(out)))


@app.workflow
async def daily_sales(ctx: Context, day: str, inbox: str, out: str) -> str:
    """Read what has come, wait for the shops that are late, read what they sent, and write the report."""
    rates = await fetch_rates(day)
    report = Report(day, rates)

    first = (await find_files(inbox)).files
    await read_all(ctx, report, first)
    await ctx.milestone("first delivery read")

    await ctx.sleep("3s")  # in life it would be "2h": no process has to live that long

    late = [path for path in (await find_files(inbox)).files if path not in first]
    await read_all(ctx, report, late)
    await ctx.milestone("late files read")

    return await write_report(report, out)


async def read_all(ctx: Context, report: Report, paths: list[str]) -> None:
    """Four files at a time. A file that cannot be read is in the report, and stops nothing."""
    found = await ctx.map(read_file, paths, limit=4, on_error="collect")
    for path, sales in zip(paths, found, strict=True):
        if isinstance(sales, StepFailed):
            report.rejected[Path(path).name] = sales.message
        else:
            report.sales.append(sales)
    await ctx.set_state("files", {"read": len(report.sales), "rejected": len(report.rejected)})
    await ctx.set_state("bad rows", dict(sum((Counter(sales.bad_rows) for sales in report.sales), Counter())))
