"""For cron: each call starts tonight's backup if nobody has, works on whatever is due, and ends.

    */5 * * * *  cd /srv/shop && python nightly.py backups shop.db stock.db

A call that is killed, or a machine that is switched off, costs nothing but time: the next one goes on. Backups on
record are not made again, and the run's id sees to it that a night has one run, however many calls there are.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from outlast import Context, ExpectedError, NonRetryable, Outlast, current_step

app = Outlast("sqlite:///nightly.db")


class Damaged(ExpectedError, NonRetryable):
    """A copy that SQLite's own check rejects: another attempt would find the same."""


@dataclass
class Backup:
    path: str
    size: int


@app.step(retries=3, backoff="2s", timeout="10min")
def back_up(database: str, folder: str, day: str) -> Backup:
    copy = Path(folder) / f"{Path(database).stem}-{day}.db"
    copy.parent.mkdir(parents=True, exist_ok=True)
    # Under a name of this step's own until it is whole: a second attempt writes over what the first one left.
    aside = copy.with_name(f"{current_step().invocation_id}.part")
    with (
        closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(aside)) as target,
    ):
        source.backup(target)
    aside.replace(copy)
    return Backup(str(copy), copy.stat().st_size)


@app.step
def check(backup: Backup) -> None:
    with closing(sqlite3.connect(backup.path)) as connection:
        ((answer,),) = connection.execute("pragma quick_check(1)").fetchall()
    if answer != "ok":
        raise Damaged(f"{backup.path}: {answer}")


@app.step
def drop_old(folder: str, database: str, keep: int) -> list[str]:
    old = sorted(Path(folder).glob(f"{Path(database).stem}-*.db"))[:-keep]
    for path in old:
        path.unlink(missing_ok=True)
    return [path.name for path in old]


@app.workflow
async def nightly(ctx: Context, day: str, folder: str, databases: list[str], keep: int = 14) -> int:
    """Copy all databases, two at a time, check the copies, and only then drop the oldest. Gives the bytes kept."""
    size = 0
    for backup in await ctx.map(lambda database: back_up(database, folder, day), databases, limit=2):
        await check(backup)
        size += backup.size
    await ctx.milestone("all copies are sound")
    for database in databases:
        await drop_old(folder, database, keep)
    return size


async def main(folder: str, *databases: str) -> int:
    day = datetime.now(UTC).date().isoformat()
    async with app:
        run = await app.start(nightly, day, folder, list(databases), id=f"nightly {day}")
        done = await app.work_until_idle("4min")
        info = await run.status()
    print(f"{info.id} is {info.status}; wrote {done.entries} entries", end="")
    print(f", next due at {done.next_at:%H:%M:%S}" if done.next_at else "")
    return 1 if info.error else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
