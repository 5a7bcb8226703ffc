"""From a shop's file to its sales: whatever encoding, separator and number format the till was sold with."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from report import Sales

from outlast import ExpectedError

COLUMNS = {"receipt", "item", "quantity", "amount"}


class Problem(ExpectedError):
    """This file cannot be read, however often one tries."""


def parse_sales(path: Path) -> Sales:
    """The sums of one file by currency, and why rows were left out. Raises Problem."""
    shop, _, currency = path.name.split(".")[0].rpartition("-")
    text = decode(path)
    rows = list(parse_json(text) if ".jsonl" in path.suffixes else parse_csv(text))
    if not rows:
        raise Problem("it is empty")
    if missing := COLUMNS - set(rows[0]):
        raise Problem(f"it has no column {', '.join(sorted(missing))}")
    bad: Counter[str] = Counter()
    cents, seen = 0, set()
    for row in rows:
        problem, amount = judge(row, seen)
        if problem:
            bad[problem] += 1
        else:
            cents += amount
    return Sales(shop, currency, len(rows), cents, dict(bad))


def decode(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise Problem(f"it is damaged: {error}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def parse_csv(text: str) -> Iterator[Mapping[str, str]]:
    lines = text.splitlines()
    separator = ";" if lines and ";" in lines[0] else ","
    yield from csv.DictReader(lines, delimiter=separator, restkey="rest", restval="")


def parse_json(text: str) -> Iterator[Mapping[str, str]]:
    for line in text.splitlines():
        try:
            yield {name: str(value) for name, value in json.loads(line).items()}
        except ValueError:
            yield dict.fromkeys(COLUMNS, "")


def judge(row: Mapping[str, str], seen: set[str]) -> tuple[str, int]:
    """What is wrong with the row, if anything, and its amount in cents."""
    receipt = row["receipt"]
    if not receipt or "rest" in row:
        return "torn", 0
    if receipt in seen:
        return "receipt given twice", 0
    try:
        amount, quantity = parse_cents(row["amount"]), int(row["quantity"])
    except ValueError:
        return "no number", 0
    if quantity <= 0:
        return "nothing sold", 0
    seen.add(receipt)
    return "", amount


def parse_cents(text: str) -> int:
    """`1,234.50`, `1.234,50` and `12.5` in hundredths."""
    whole, fraction = split_decimal(text.strip().replace(" ", "").replace("'", ""))
    return int(whole) * 100 + int(fraction.ljust(2, "0")[:2])


def split_decimal(text: str) -> tuple[str, str]:
    last = max(text.rfind(","), text.rfind("."))
    if last < 0 or len(text) - last > 3:
        return digits(text), "0"
    return digits(text[:last]), text[last + 1 :]


def digits(parts: Iterable[str]) -> str:
    return "".join(part for part in parts if part not in ",.")
