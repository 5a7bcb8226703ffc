"""The sales files of a day, made up: the same on every machine, and as messy as real ones.

Tills write UTF-8, with a byte order mark or without, or Windows' code page; commas or semicolons; decimal points or
commas; CSV or JSON lines, some compressed. Rows are torn, given twice, or have no number. Two files cannot be read at
all. What the readable rows come to is known here, before anybody has read them.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

FIRST = {
    "aachen": "EUR",
    "basel": "CHF",
    "bergen": "EUR",
    "bologna": "EUR",
    "brno": "EUR",
    "dresden": "EUR",
    "eger": "EUR",
    "gdansk": "PLN",
    "geneve": "CHF",
    "gent": "EUR",
    "goeteborg": "SEK",
    "graz": "EUR",
    "koeln": "EUR",
    "krakow": "PLN",
    "lausanne": "CHF",
    "leipzig": "EUR",
    "lyon": "EUR",
    "malmoe": "SEK",
    "porto": "EUR",
    "torino": "EUR",
}
LATE = {"utrecht": "EUR", "valencia": "EUR", "wien": "EUR", "zuerich": "CHF"}
DAMAGED = ("uppsala-SEK", "winterthur-CHF")  # cut short; without amounts

ROWS = 800
ITEMS = ("Crème brûlée", "Müesli", "Smørrebrød", "Käsebrot", "Jus d'orange", "Coffee, large", "Tea")

Row = tuple[str, str, str, int]  # receipt, item, quantity, cents


@dataclass
class Made:
    """What was put into the files, for comparison."""

    cents: dict[str, int]
    """By shop, in its currency: what the good rows come to."""
    bad_rows: Counter[str]
    rejected: set[str]
    """Names of files that cannot be read."""


def make_files(inbox: Path, shops: dict[str, str], damaged: str) -> Made:
    """Files of these shops (by name, with their currency), and one damaged."""
    inbox.mkdir(parents=True, exist_ok=True)
    made = Made({}, Counter(), set())
    for shop, currency in shops.items():
        random = Random(shop)
        rows, made.cents[shop] = make_rows(random)
        bad = spoil(rows, random)
        made.bad_rows.update(bad)
        save = FORMATS[random.randrange(len(FORMATS))]
        save(inbox / f"{shop}-{currency}", rows)
    made.rejected.add(DAMAGES[damaged](inbox / damaged).name)
    return made


def make_rows(random: Random) -> tuple[list[Row], int]:
    rows = [
        (f"r{number:05}", random.choice(ITEMS), str(random.randint(1, 4)), random.randint(150, 250_000))
        for number in range(ROWS)
    ]
    return rows, sum(cents for *_, cents in rows)


def spoil(rows: list[Row], random: Random) -> Counter[str]:
    """Put bad rows between the good ones. Gives how many of which kind."""
    bad: Counter[str] = Counter()
    for _ in range(random.randint(2, 9)):
        receipt, item, quantity, cents = random.choice(rows[: ROWS // 2])
        kind = random.choice(("torn", "receipt given twice", "no number", "nothing sold"))
        spoilt = {
            "torn": ("", item, quantity, cents),
            "receipt given twice": (receipt, item, quantity, cents),
            "no number": (f"x{random.randrange(10**6)}", item, "two", cents),
            "nothing sold": (f"x{random.randrange(10**6)}", item, "0", cents),
        }
        rows.insert(random.randint(ROWS // 2 + 10, len(rows)), spoilt[kind])
        bad[kind] += 1
    return bad


# --- formats ----------------------------------------------------------------------------------------------------------


def csv_text(rows: list[Row], separator: str, money: Callable[[int], str]) -> str:
    lines = [separator.join(("receipt", "item", "quantity", "amount"))]
    for receipt, item, quantity, cents in rows:
        quoted = f'"{item}"' if separator in item else item
        amount = money(cents)
        lines.append(separator.join((receipt, quoted, quantity, f'"{amount}"' if separator in amount else amount)))
    return "\r\n".join(lines)


def english(cents: int) -> str:
    return f"{cents / 100:,.2f}"


def german(cents: int) -> str:
    return english(cents).translate(str.maketrans(",.", ".,"))


def save_plain(path: Path, rows: list[Row]) -> None:
    path.with_suffix(".csv").write_text(csv_text(rows, ",", english), encoding="utf-8")


def save_windows(path: Path, rows: list[Row]) -> None:
    path.with_suffix(".csv").write_text(csv_text(rows, ";", german), encoding="cp1252")


def save_marked(path: Path, rows: list[Row]) -> None:
    path.with_suffix(".csv").write_text(csv_text(rows, ";", english), encoding="utf-8-sig")


def save_packed(path: Path, rows: list[Row]) -> None:
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(csv_text(rows, ",", german).encode(), mtime=0))


def save_json(path: Path, rows: list[Row]) -> None:
    lines = [
        json.dumps({"receipt": receipt, "item": item, "quantity": quantity, "amount": english(cents)})
        for receipt, item, quantity, cents in rows
    ]
    path.with_suffix(".jsonl").write_text("\n".join(lines), encoding="utf-8")


def save_cut(path: Path) -> Path:
    whole = gzip.compress(csv_text(make_rows(Random(path.name))[0], ",", english).encode(), mtime=0)
    cut = path.with_suffix(".csv.gz")
    cut.write_bytes(whole[: len(whole) // 2])
    return cut


def save_without_amounts(path: Path) -> Path:
    without = path.with_suffix(".csv")
    without.write_text("receipt,item,quantity\nr00001,Tea,1\n", encoding="utf-8")
    return without


FORMATS = (save_plain, save_windows, save_marked, save_packed, save_json)
DAMAGES = {DAMAGED[0]: save_cut, DAMAGED[1]: save_without_amounts}
