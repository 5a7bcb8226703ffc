"""`make demo`: a real job, killed in the middle, twice, and what the journal and an outside ledger say about it.

The job is `sales.py`: it reads the sales files of many shops, waits for those that are late, and writes a report. It
runs in processes of its own. This one makes the files, starts the run, kills whoever works on it, and compares what is
on record with the ledger that the steps keep themselves. It fails if a step that had finished ran again, or if the
report is not what the files were made from.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PLACE = Path(os.environ.get("DEMO_PLACE", ".demo")).absolute()
INBOX, OUT, LEDGER = PLACE / "inbox", PLACE / "out", PLACE / "ledger.jsonl"
os.environ["OUTLAST_URL"] = URL = f"sqlite:///{PLACE}/demo.db"  # read when an app is made
os.environ["DEMO_LEDGER"] = str(LEDGER)

from proof import Record, prove  # noqa: E402
from sales import RATES, app, daily_sales  # noqa: E402
from shops import DAMAGED, FIRST, LATE, Made, make_files  # noqa: E402

RUN = "sales-2024-04-26"
DAY = "2024-04-26"
LEASE = "3s"
PATIENCE = 60.0  # seconds: past it something is wrong


def say(text: str = "") -> None:
    print(text, flush=True)


def title(text: str) -> None:
    say(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n=== {text}")


def outlast(*arguments: str) -> list[str]:
    """The command line, as a person would type it; printed, so that one can."""
    say("$ outlast " + shlex.join(arguments).replace(f"{HERE}/", "examples/demo/").replace(str(PLACE), PLACE.name))
    return [sys.executable, "-m", "outlast", *arguments]


def start_worker() -> subprocess.Popen[bytes]:
    return subprocess.Popen(outlast("worker", f"{HERE}/sales.py", "--lease", LEASE, "--log-level", "warning"))


async def show() -> None:
    process = await asyncio.create_subprocess_exec(*outlast("show", RUN))
    if await process.wait():
        raise SystemExit("outlast show failed.")


async def is_parked() -> bool:
    """Whether the run is given up until it is due: then no process has to live for it."""
    (row,) = (await app.runs()).runs
    return row.waiting_on.startswith("sleep")


def kill(worker: subprocess.Popen[bytes]) -> None:
    """No warning, no clean-up: as the kernel does it when memory runs out, or a machine when its power does."""
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    say(f"SIGKILL to process {worker.pid}.")


def ended_files() -> int:
    """How many files have been read, by the ledger."""
    lines = LEDGER.read_text(encoding="utf-8").splitlines() if LEDGER.exists() else []
    return sum('"ended", "step": "read_file' in line for line in lines)


async def until(what: str, is_so: Callable[[], Awaitable[bool]], worker: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not await is_so():
        if worker.poll() is not None:
            raise SystemExit(f"The worker ended by itself, with status {worker.returncode}.")
        if time.monotonic() > deadline:
            raise SystemExit(f"Within {PATIENCE:g} s it did not come to this: {what}.")
        await asyncio.sleep(0.02)


async def read_record() -> Record:
    """What the journal says of the run now."""
    async with app:
        run = await app.get_run(RUN)
        return Record(await run.status(), await run.history())


# --- the story --------------------------------------------------------------------------------------------------------


async def main() -> int:
    made = prepare()
    await start()
    workers: list[subprocess.Popen[bytes]] = []
    try:
        first = await kill_while_reading(workers)
        late, second = await kill_while_sleeping(workers)
        finish()
    finally:
        for worker in workers:
            worker.kill()
    made.cents |= late.cents
    made.bad_rows += late.bad_rows
    made.rejected |= late.rejected
    return 0 if await compare(first, second, made) else 1


def prepare() -> Made:
    shutil.rmtree(PLACE, ignore_errors=True)
    made = make_files(INBOX, FIRST, DAMAGED[0])
    title("1. The job")
    say(
        f"""\
{len(FIRST) + 1} shops have sent their sales to {PLACE.name}/inbox: CSV and JSON, in three encodings, with bad rows; one
file is damaged. The job fetches exchange rates, reads the files, four at a time, waits for the shops that
are late, and writes a report. All that is known of the run is in one SQLite file."""
    )
    return made


async def start() -> None:
    async with app:
        await app.start(daily_sales, DAY, str(INBOX), str(OUT), id=RUN)
    say(f"The run {RUN} is started. Nobody works on it yet: it is a row in {PLACE.name}/demo.db.")


async def kill_while_reading(workers: list[subprocess.Popen[bytes]]) -> Record:
    title("2. A worker takes it, and is killed while it reads")
    workers.append(start_worker())

    async def has_read_some() -> bool:
        return ended_files() >= 9

    await until("nine files were read", has_read_some, workers[-1])
    kill(workers[-1])
    title("3. What is on record")
    await show()
    return await read_record()


async def kill_while_sleeping(workers: list[subprocess.Popen[bytes]]) -> tuple[Made, Record]:
    title("4. Another worker takes over, and is killed while the run sleeps")
    say(
        f"It waits for the dead one's lease to lapse, {LEASE} here (10s by default), then replays the journal: steps on"
    )
    say("record answer from there. Those that were under way are begun again, under the same invocation id.")
    workers.append(start_worker())
    async with app:
        await until("the run sleeps", is_parked, workers[-1])
    kill(workers[-1])
    record = await read_record()
    late = make_files(INBOX, LATE, DAMAGED[1])
    say(f"Nobody works now. The files of {len(LATE) + 1} late shops arrive, and the time of the sleep passes.")
    await asyncio.sleep(2)
    return late, record


def finish() -> None:
    title("5. A third process finishes the job")
    given = json.dumps({"day": DAY, "inbox": str(INBOX), "out": str(OUT)})
    command = outlast("run", f"{HERE}/sales.py", "--id", RUN, "--input", given)
    shown = subprocess.run(command, check=True, timeout=PATIENCE, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    before = next(number for number, line in enumerate(shown) if "run  sleeping" in line)
    say(f"(… {before} lines: what is on record from before)")
    say("\n".join(shown[before:]))


async def compare(first: Record, second: Record, made: Made) -> bool:
    title("6. The report")
    say((OUT / "report.md").read_text(encoding="utf-8").rstrip())
    title("7. The proof")
    report = json.loads((OUT / "report.json").read_text(encoding="utf-8"))
    checks = prove(LEDGER, first, second, await read_record())
    checks.append(("the report is what the files were made from", is_right(report, made)))
    for text, holds in checks:
        say(f"{'yes' if holds else 'NO ':4}{text}")
    holds_all = all(holds for _, holds in checks)
    say("\nNothing that had finished ran again, and nothing is missing." if holds_all else "\nTHE PROOF FAILED.")
    return holds_all


def is_right(report: dict[str, Any], made: Made) -> bool:
    """Against what is known of the files without having read them."""
    rates = {shop: RATES[currency] for shop, currency in (FIRST | LATE).items()}
    shops = {shop: (Decimal(cents) / 100 * rates[shop]).quantize(Decimal("0.01")) for shop, cents in made.cents.items()}
    return (
        report["shops"] == {shop: str(euro) for shop, euro in shops.items()}
        and report["total"] == str(sum(shops.values()))
        and report["bad_rows"] == made.bad_rows
        and set(report["rejected"]) == made.rejected
    )


if __name__ == "__main__":
    began = time.monotonic()
    status = asyncio.run(main())
    say(f"{time.monotonic() - began:.0f} s. Look around: .venv/bin/outlast show {RUN} --timeline --store {URL}")
    sys.exit(status)
