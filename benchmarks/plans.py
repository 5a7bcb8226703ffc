"""How a store finds its rows, statement by statement: the plans of what is asked all the time, and of lists.

What always holds: the SQL is the store's own, in a session that is set as the store's are, and the plan is the one that
is kept for any values.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from outlast.stores.store import RunQuery

__all__ = ["Reads", "read_plans"]

HOT = {
    "sqlite": ("runs.list_due", "runs.look", "journal.insert_entry", "journal.read_journal", "listing.find_run"),
    "postgresql": (
        "claims.claim_runs", "claims.look", "journal.insert_entries", "journal.insert_entry", "journal.read_journal",
        "starts.start_runs", "runs.lock_for_worker", "runs.change_rows", "runs.sweep_ended",
    ),
}  # fmt: skip
GROWING = {"runs", "run_values", "journal", "inbox", "tasks", "waits"}
"""Tables that grow with the runs."""

Reads = dict[str, list[str]]
"""Of each statement, how it reads tables that grow: by which index, or `sequential`."""


async def read_plans(url: str, queries: Mapping[str, RunQuery]) -> Reads:
    """Of the statements above, and of these lists."""
    if url.startswith("sqlite:"):
        return _read_sqlite(url, queries)
    return await _read_postgres(url, queries)


def _read_sqlite(url: str, queries: Mapping[str, RunQuery]) -> Reads:
    from outlast.stores.sqlite.listing import write_query
    from outlast.stores.sqlite.statements import load_statements

    texts: dict[str, tuple[str, Any]] = {}
    for name in HOT["sqlite"]:
        file, _, statement = name.partition(".")
        sql = load_statements(file)[statement].sql.replace("$columns", "*")
        names = set(re.findall(r":(\w+)", sql))
        texts[statement] = sql, dict.fromkeys(names, "1") if names else ["1"] * sql.count("?")
    for name, query in queries.items():
        written, values = write_query(query)
        texts[f"list: {name}"] = written.sql, values
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return {
            name: _gather(_read_step(step[3], sql) for step in connection.execute(f"explain query plan {sql}", values))
            for name, (sql, values) in texts.items()
        }


def _read_step(step: str, sql: str) -> tuple[str, str] | None:
    """A line of SQLite's plan: the table and how it is read."""
    found = re.match(r"(SCAN|SEARCH) (\w+)(?: USING (?:COVERING )?INDEX (\w+)| USING (.*KEY))?", step)
    if found is None:
        return None
    kind, alias, index, key = found.groups()
    table = {alias: name for name, alias in re.findall(r"(?:from|join) (\w+) (\w+)\b", sql)}.get(alias, alias)
    return table, "sequential" if kind == "SCAN" and index is None else index or key or "primary key"


async def _read_postgres(url: str, queries: Mapping[str, RunQuery]) -> Reads:
    import asyncpg

    from outlast.stores.postgres.listing import write_query
    from outlast.stores.postgres.settings import Role, parse_url
    from outlast.stores.postgres.statements import in_schema, load_statements

    settings = parse_url(url)
    reads: Reads = {}
    working = await asyncpg.connect(settings.dsn, server_settings=settings.session(Role.WORK))
    for name in HOT["postgresql"]:
        file, _, short = name.partition(".")
        statement = load_statements(file)[short]
        await working.execute(f"prepare asked as {in_schema(statement.text, settings.schema)}")
        values = ", ".join(["null"] * len(statement.parameters))
        plan = json.loads(await working.fetchval(f"explain (format json) execute asked({values})"))
        await working.execute("deallocate asked")
        reads[short] = _gather(_iter_reads(plan[0]["Plan"]))
    await working.close()
    listing = await asyncpg.connect(settings.dsn, server_settings=settings.session(Role.LISTS))
    for name, query in queries.items():
        sql, given = write_query(query)
        plan = json.loads(await listing.fetchval(in_schema(f"explain (format json) {sql}", settings.schema), *given))
        reads[f"list: {name}"] = _gather(_iter_reads(plan[0]["Plan"]))
    await listing.close()
    return reads


def _iter_reads(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        yield node["Relation Name"], node.get("Index Name", "sequential")
    for below in node.get("Plans", ()):
        yield from _iter_reads(below)


def _gather(reads: Iterator[tuple[str, str] | None]) -> list[str]:
    """Each way once, of the tables that grow."""
    ways = (
        f"{read[0]} sequential" if read[1] == "sequential" else read[1] for read in reads if read and read[0] in GROWING
    )
    return list(dict.fromkeys(ways))
