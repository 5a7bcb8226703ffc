"""What `outlast check` finds in bodies, and what it lets pass."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest

from outlast import Module
from outlast.authoring.source.checking import check_workflow
from outlast.core.check.findings import RULES, Finding
from outlast.core.check.tables import TODO
from tests.plans.kept import list_examples

HEAD = """
import asyncio, concurrent.futures, datetime, functools, logging, os, pathlib, random, secrets, socket, subprocess
import sys, threading, time, typing, uuid
from datetime import datetime as dt
from os import environ
from time import time as now
from outlast import Context, Module

app = Module("")
CACHE = {}
TABLE = {"a": 1}
COUNT = 0

@app.step
async def charge(x=None):
    CACHE["n"] = time.time()
    return 1

def stamp():
    return dt.now()

late_price = lambda: time.time()

def pure(x):
    return len(x)

def deeper():
    return stamp()

async def cleaned(ctx):
    try:
        await charge()
    finally:
        pure("x")

later = functools.partial(stamp)

def allowed():  # outlast: ok
    return time.time()

@app.workflow
async def body(ctx: Context, items: set[str], rows: list[str], db):
"""

FOUND = [
    ("clock", "now()"),
    ("clock", "time.monotonic()"),
    ("clock", "dt.now(datetime.UTC)"),
    ("clock", "datetime.date.today()"),
    ("clock", "stamp()"),
    ("clock", "deeper()"),
    ("clock", "[stamp() for row in rows]"),
    ("clock", "f'{time.time()}'"),
    ("clock", "(lambda: time.time())()"),
    ("random", "random.choice(rows)"),
    ("random", "random.Random().random()"),
    ("random", "secrets.token_hex()"),
    ("random", "str(uuid.uuid4())"),
    ("random", "os.urandom(5)"),
    ("environment", "os.environ['X']"),
    ("environment", "environ.get('X')"),
    ("environment", "os.getpid()"),
    ("environment", "socket.gethostname()"),
    ("environment", "sys.argv[1]"),
    ("io", "open('x')"),
    ("io", "print('x')"),
    ("io", "os.remove('x')"),
    ("io", "pathlib.Path('x').read_text()"),
    ("io", "subprocess.run(['x'])"),
    ("io", "time.sleep(1)"),
    ("thread", "threading.Thread(target=pure)"),
    ("thread", "await asyncio.to_thread(pure, 'x')"),
    ("thread", "asyncio.get_running_loop().run_in_executor(None, pure)"),
    ("thread", "concurrent.futures.ThreadPoolExecutor()"),
    ("thread", "asyncio.run(charge())"),
    ("order", "[row for row in items]"),
    ("order", "list({1, 2})"),
    ("order", "await asyncio.gather(*{charge(1)})"),
    ("order", "await asyncio.gather(*[charge(x) for x in items | {'a'}])"),
    ("order", "','.join(items)"),
    ("order", "items.pop()"),
    ("order", "id(rows)"),
    ("order", "[await charge(x) for x in set(rows)]"),
    ("order", "[await charge(x) for x in items.union(rows)]"),
    ("order", "[await charge(x) for x in (items if rows else rows)]"),
    ("order", "first, second = items"),
    ("global", "CACHE['a'], rows = 1, []"),
    ("global", "del CACHE['a']"),
    ("global", "CACHE['a']: int = 1"),
    ("clock", "(functools.partial(stamp))()"),
    ("clock", "functools.partial(functools.partial(stamp))()"),
    ("clock", "late_price()"),
    ("environment", "environ.update(a='1')"),
    ("clock", "[late := stamp(), late]"),
    ("clock", "later()"),
    ("environment", "sys.argv()"),
    ("global", "first, *CACHE['a'] = rows"),
    ("global", "CACHE['a'] = 1"),
    ("global", "CACHE.update(a=1)"),
    ("global", "print(CACHE)"),
    ("unawaited", "charge()"),
    ("unawaited", "return charge()"),
    ("unawaited", "late = charge()\nreturn late"),
    ("unawaited", "ctx.set_state('a', 1)"),
    ("unawaited", "ctx.milestone('paid')"),
    ("unawaited", "asyncio.create_task(charge())"),
    ("unawaited", "asyncio.gather(charge(), charge())"),
    ("cleanup", "await cleaned(ctx)"),
]

PASSED = [
    "ctx.now(), ctx.uuid(), ctx.random.random()",
    "await charge()",
    "return await charge()",
    "await ctx.set_state('a', 1); await ctx.milestone('paid')",
    "await asyncio.sleep(1)",
    "await ctx.do('now', lambda: time.time())",
    "await ctx.do('stamp', stamp)",
    "await ctx.do('stamp', functools.partial(stamp))",
    "await charge.options(on_error=lambda failed: print(failed))()",
    "ctx.compensate(stamp)",
    "db.milestone('paid')",
    "elsewhere.update(a=1)",
    "random.Random(5).random()",
    "uuid.uuid5(uuid.NAMESPACE_URL, 'x')",
    "datetime.datetime(2026, 1, 1) + datetime.timedelta(1)",
    "time.gmtime(0)",
    "TABLE['a']",
    "pure(rows)",
    "allowed()",
    "time.time()  # outlast: ok",
    "sorted(items), len(items), 'x' in items, max(items), sum(1 for x in items)",
    "[row for row in sorted(items)]",
    "{row for row in rows}",
    "pathlib.Path('x') / 'y'",
    "await asyncio.gather(*[charge(row) for row in rows])",
    "tasks = [asyncio.create_task(charge(row)) for row in rows]; await asyncio.wait(tasks)",
    "task = asyncio.create_task(charge()); await task",
    "await asyncio.Queue().get()",
    "ctx.log.info('x')",
    "'x'.join(rows), rows.pop(), dict.fromkeys(rows)",
    "isinstance(db, subprocess.CalledProcessError)",
]

BLOCKS = {
    "a loop over a set": ("order", "for x in items:\n    await charge(x)"),
    "a set that grew": ("order", "seen = set()\nseen.add(1)\nfor x in seen:\n    pass"),
    "a set that was sorted": ("", "seen = set(rows)\nseen = sorted(seen)\nfor x in seen:\n    pass"),
    "a global that is set": ("global", "global COUNT\nCOUNT = 1"),
    "a set that gets a name": ("order", "for x in (late := items):\n    await charge(x)"),
    "a set by its annotation": ("order", "found: set[str] = db.names()\nfor x in found:\n    await charge(x)"),
    "a set by the module's annotation": ("order", "found: typing.AbstractSet[str] = db.f()\nfor x in found:\n    pass"),
    "an import from a module in the body": ("clock", "from time import monotonic\nmonotonic()"),
    "a name that an error had": ("", "try:\n    await charge()\nexcept ValueError as time:\n    time.time()"),
    "a tuned step in finally": ("", "try:\n    await charge()\nfinally:\n    await charge.options(retries=0)(2)"),
    "the context in finally": ("", "try:\n    await charge()\nfinally:\n    await ctx.set_state('a', 1)"),
    "an error made in finally": ("", "try:\n    await charge()\nexcept BaseException:\n    raise ValueError('x')"),
    "the caller of a call in finally": ("cleanup", "try:\n    await charge()\nfinally:\n    db[0]()"),
    "a call in finally": ("cleanup", "try:\n    await charge()\nfinally:\n    db.close()"),
    "a step in finally": ("", "try:\n    await charge()\nfinally:\n    await charge(2)\n    rows.append(1)"),
    "a bare except": ("swallow", "try:\n    await charge()\nexcept:\n    pass"),
    "a call in a bare except": ("cleanup", "try:\n    await charge()\nexcept BaseException:\n    db.undo()\n    raise"),
    "a call in an except": ("", "try:\n    await charge()\nexcept ValueError:\n    pure('x')"),
    "a task in a group": ("", "async with asyncio.TaskGroup() as group:\n    group.create_task(charge())"),
    "a nested function": ("clock", "def inner():\n    return time.time()\ninner()"),
    "a nested function as a step": ("clock", "def inner():\n    return stamp()\ninner()"),
    "a name that gets its value later": ("order", "found: set[str]\nfor x in items:\n    found = x"),
    "a default of a function inside": ("clock", "def inner(at=time.time()):\n    return at\nrows.append(inner)"),
    "a default by name": ("clock", "def inner(*, at=time.time(), to):\n    return at\nrows.append(inner)"),
    "a local of the same name": ("", "time = rows\ntime.time()"),
    "a helper that is followed": ("io", "import os\nos.mkdir('x')"),
}

INNER = "def inner():\n    CACHE['n'] = stamp()\n    return time.time()\n"
HANDED = {
    "to do": f"{INNER}await ctx.do('now', inner)",
    "to do, by name": f"{INNER}await ctx.do('now', func=inner)",
    "async": f"async {INNER}await ctx.do('now', inner)",
    "twice": f"{INNER}await ctx.do('now', inner)\nawait ctx.do('again', inner)",
    "as partial": f"{INNER}await ctx.do('now', functools.partial(inner))",
    "by a lambda": f"{INNER}await ctx.do('now', lambda: inner())",
    "a lambda with a name": "inner = lambda: time.time()\nawait ctx.do('now', inner)",
    "to compensate": f"{INNER}ctx.compensate(inner)",
    "to an option of a step": f"{INNER}await charge.options(on_error=inner)()",
    "one that calls itself": "def inner():\n    return time.time() or inner()\nawait ctx.do('now', inner)",
    "one that another calls": f"{INNER}def outer():\n    return inner()\nawait ctx.do('now', outer)",
    "either of two": "if rows:\n    def inner(): return time.time()\nelse:\n    def inner(): return now()\n"
    "await ctx.do('now', inner)",
}
KEPT = {
    "called too": f"{INNER}inner()\nawait ctx.do('now', inner)",
    "called for what is handed": f"{INNER}await ctx.do('now', inner())",
    "handed with what it was called for": f"{INNER}await ctx.do('now', functools.partial(pure, inner()))",
    "handed as a value": f"{INNER}rows.append(inner)\nawait ctx.do('now', inner)",
    "mapped over": f"{INNER}await ctx.map(inner, rows)",
    "called by another": f"{INNER}def outer():\n    return inner()\nouter()\nawait ctx.do('now', inner)",
    "never used": INNER,
    "calls itself alone": "def inner():\n    return time.time() or inner()",
    "a lambda with a name": "inner = lambda: time.time()\ninner()\nawait ctx.do('now', inner)",
    "a lambda without a name": f"{INNER}rows[0] = lambda: inner()\nawait ctx.do('now', inner)",
    "a default": "def inner(at=time.time()):\n    return at\nawait ctx.do('now', inner)",
    "a default of a lambda": "inner = lambda at=time.time(): at\nawait ctx.do('now', inner)",
}


@pytest.fixture
def check() -> Callable[[str], list[Finding]]:
    """The findings of a body."""

    def run(text: str) -> list[Finding]:
        source = HEAD + "".join(f"    {line}\n" for line in text.splitlines())
        name = f"<body {hash(source)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        namespace: dict[str, Any] = {"__name__": "bodies"}
        exec(compile(source, name, "exec"), namespace)
        found = check_workflow(namespace["body"])
        assert found is not None
        return found

    return run


@pytest.mark.parametrize(("rule", "text"), FOUND)
def test_what_a_body_should_not_do_is_found(rule: str, text: str, check: Callable[[str], list[Finding]]) -> None:
    """With the rule it breaks, in the body and in what it calls, however deep."""
    assert rule in {finding.rule for finding in check(text)}


@pytest.mark.parametrize("text", PASSED)
def test_what_is_harmless_is_passed_over(text: str, check: Callable[[str], list[Finding]]) -> None:
    """What is the same on every replay, what runs as a step, and what was allowed."""
    assert check(text) == []


@pytest.mark.parametrize(("rule", "text"), BLOCKS.values(), ids=BLOCKS)
def test_blocks(rule: str, text: str, check: Callable[[str], list[Finding]]) -> None:
    """Loops, clean-up, globals and functions inside."""
    assert {finding.rule for finding in check(text)} == ({rule} if rule else set())


@pytest.mark.parametrize("text", HANDED.values(), ids=HANDED)
def test_a_function_inside_that_only_steps_run_is_a_steps_code(
    text: str, check: Callable[[str], list[Finding]]
) -> None:
    """It may do what a step may, as a lambda may that stands in the call itself."""
    assert check(text) == []


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_a_function_inside_that_the_body_runs_is_the_bodys(text: str, check: Callable[[str], list[Finding]]) -> None:
    """That it is handed to a step as well excuses nothing; nor does it what the body works out for it."""
    assert "clock" in {finding.rule for finding in check(text)}


def test_a_body_that_is_no_function_has_no_findings() -> None:
    """A graph has a plan and no source of its own: there is nothing to be found in it."""
    graph = Module("").graph({"name": "greeting", "nodes": {"greet": {"function": "greet"}}})
    assert graph.plan is not None
    assert check_workflow(graph) == []


def test_a_finding_says_where_and_what_to_do(check: Callable[[str], list[Finding]]) -> None:
    """File, line and column of the call itself, in the function it stands in."""
    (finding,) = check("rows.append(1)\nx = deeper()")
    line = next(number for number, text in enumerate(HEAD.splitlines(), 1) if "dt.now()" in text)
    assert (finding.line, finding.column, finding.function) == (line, 12, "stamp")
    assert finding.workflow == "body"
    assert finding.message == "calls datetime.datetime.now()"
    assert "ctx.now()" in finding.todo


def test_every_rule_has_a_reason_and_a_remedy() -> None:
    """Nobody is told that something is wrong without why, and what instead."""
    assert set(RULES) == set(TODO)


def test_the_examples_are_clean() -> None:
    """What we show does as we say."""
    assert [finding for workflow in list_examples() for finding in check_workflow(workflow) or ()] == []
