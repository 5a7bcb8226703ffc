"""Forms of source that are seldom written: each is read, or shown by its text, and no step in one is lost."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest

from outlast.core.plan.expressions import Opaque, to_text
from outlast.core.plan.flow import flow_of, with_flow
from outlast.core.plan.nodes import StepNode, iter_nodes
from outlast.core.plan.plan import Plan, decode_plan, encode_plan
from outlast.core.plan.reading import reader
from tests.plans.outline import outline

HEAD = """
import asyncio, functools
from outlast import Context, Module

app = Module("")

@app.step
async def charge(x=None): ...

@app.step
async def pack(x=None): ...

@app.workflow
async def other(ctx: Context, x=None): ...

{more}

@app.workflow
async def body(ctx: Context, a, b, items):
"""

Read = Callable[..., Plan]


@pytest.fixture
def read() -> Read:
    """The plan of a body."""

    def run(text: str, more: str = "") -> Plan:
        source = HEAD.replace("{more}", more) + "".join(f"    {line}\n" for line in text.splitlines())
        name = f"<form {hash(source)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        namespace: dict[str, Any] = {"__name__": "forms"}
        exec(compile(source, name, "exec"), namespace)
        plan: Plan | None = namespace["body"].plan
        assert plan is not None
        return plan

    return run


def lines_of(plan: Plan) -> list[str]:
    return [line.strip() for line in outline(plan).splitlines()[2 + len(plan.steps) :]]


# --- expressions -----------------------------------------------------------------------------------------------------

SHOWN = [
    "a[1:b:2]",
    "a[:b]",
    "a[1:]",
    "(late := a)",
    "(late := a) + 1",
    "{k: v for (k, v) in items if k}",
    "{**a, 'k': b}",
    "{*a, 1}",
    "(a,)",
    "set()",
    "f'{a!r:>{b}} x'",
    "b if a else [1]",
    "lambda: a",
    "1j",
    "b'x'",
    "'\\ud800'",
    "99999999999999999999",
]


@pytest.mark.parametrize("text", SHOWN)
def test_an_argument_is_shown_as_it_is_written(text: str, read: Read) -> None:
    """Slices, names given on the way, comprehensions, spreads; by its text, what JSON does not have."""
    plan = read(f"await charge({text})")
    (step,) = [node for node in iter_nodes(plan.nodes) if isinstance(node, StepNode)]
    assert to_text(step.arguments[0].value) == text
    assert decode_plan(encode_plan(plan)) == plan


MORE = """
half = functools.partial(charge, 1)

async def forward(x, **rest):
    await rest["y"](x)

async def late(x):
    await half()

async def begin(x):
    await other(x)

@app.workflow
async def caller(ctx, x):
    await charge(x)

class Kept:
    step = charge
"""


@pytest.mark.parametrize("text", ["1j", "b'x'", "'\\ud800'", "99999999999999999999"])
def test_what_json_does_not_have_is_no_literal(text: str, read: Read) -> None:
    """A text that is no Unicode, a number beyond 64 bits, bytes: whoever reads a plan gets them as text."""
    (step,) = read(f"await charge({text})").nodes
    assert isinstance(step, StepNode)
    assert step.arguments[0].value == Opaque(text)


# --- statements ------------------------------------------------------------------------------------------------------

FORMS = {
    "the rest of a mapping": (
        "match a:\n    case {'k': v, **rest}:\n        await charge(rest)",
        ["match a", "case {'k': v, **rest}", "step charge = charge(rest)"],
    ),
    "the rest of a mapping hides a step": (
        "match a:\n    case {'k': v, **charge}:\n        await charge(1)",
        ["match a", "case {'k': v, **charge}", "opaque [await charge(1)] what it awaits is not known"],
    ),
    "a decorator of a function inside": (
        "@functools.wraps(charge)\nasync def inner(x):\n    await pack(x)\nawait inner(a)",
        [
            "opaque [functools.wraps(charge)] what it does with the steps handed to it cannot be told: charge",
            "opaque [await inner(a)] what it awaits is not known",
            "opaque [pack] it is named here, and how it is called cannot be read: pack",
        ],
    ),
    "a task of a task": (
        "task = asyncio.create_task(charge(a))\nagain = asyncio.ensure_future(task)\nawait again",
        ["task #task1", "step charge = charge(a)", "join #task1"],
    ),
    "tasks that are spread": (
        "tasks = [asyncio.create_task(charge(x)) for x in items]\nawait asyncio.gather(*tasks)",
        ["each x in items", "task #task1", "step charge = charge(x)", "parallel gather joins #task1"],
    ),
    "nothing gathered": ("await asyncio.gather()\nawait charge(a)", ["step charge = charge(a)"]),
    "the builtin map of what is not known": (
        "await asyncio.gather(*map(a, items))",
        ["parallel gather", "lane", "opaque [asyncio.gather(*map(a, items))] what it awaits is not known"],
    ),
    "a map of nothing": ("await ctx.map()", ["opaque [await ctx.map()] what it awaits is not known"]),
    "a partial of what is not known": (
        "late = functools.partial(a, 1)\nawait late()",
        ["opaque [await late()] what it awaits is not known"],
    ),
    "what else a task has": (
        "task = asyncio.create_task(charge(a))\ntask.add_done_callback(b)\nawait task\nawait pack(task.result())",
        ["task #task1", "step charge = charge(a)", "join #task1", "step pack = pack(task.result())"],
    ),
    "a list around a function gets what it does not wait for": (
        "calls = []\ndef put(x):\n    calls.append(charge(x))\nput(a)\nawait asyncio.gather(*calls)",
        [
            "function put(a)",
            "step later charge = charge(x)",
            "parallel gather",
            "lane",
            "opaque [asyncio.gather(*calls)] what it awaits is not known",
        ],
    ),
    "a plain value in a list of calls": (
        "calls = [charge(a)]\ncalls.append(1)\nawait asyncio.gather(*calls)",
        ["parallel gather", "lane", "step charge = charge(a)"],
    ),
    "options in a mapping": (
        "await charge.options(**a)(b)\nawait pack.options(name=b)(a)",
        ["step charge = charge(b) with **a", "step pack = pack(a) with name=b"],
    ),
    "a child by a workflow, with a name": (
        "child = await ctx.start(other, a, name='late')\nawait child.result()",
        ["child started late = other(a)", "join late"],
    ),
    "a child by what is not known": (
        "await ctx.start(a, b)",
        ["opaque [ctx.start(a, b)] which workflow it starts is not known", "join #opaque1"],
    ),
    "a copy of a list of calls": (
        "calls = [charge(a)]\nfor call in list(calls):\n    await call",
        ["for call in list(calls)", "opaque [await call] which of these it awaits cannot be told: charge"],
    ),
    "a call taken out of a list": (
        "calls = [charge(a)]\nawait calls.pop()",
        ["opaque [await calls.pop()] which of these it awaits cannot be told: charge"],
    ),
    "a list that is copied": (
        "calls = [charge(a), pack(b)]\nawait asyncio.gather(*calls.copy())",
        ["parallel gather", "lane", "step charge = charge(a)", "lane", "step pack = pack(b)"],
    ),
    "two lists side by side": (
        "for first, second in zip([charge(a)], [pack(b)]):\n    await first",
        [
            "for (first, second) in zip([charge(a)], [pack(b)])",
            "opaque [await first] what it awaits is not known: charge",
            "opaque [pack(b)] it is never awaited: pack",
        ],
    ),
    "a child with a name": ("await other.options(name='late')(a)", ["child now late = other(a)"]),
    "a handler": (
        "await charge.options(on_error=pack)(a)",
        ["step charge = charge(a) with on_error=pack, on error pack"],
    ),
    "a step by a name that is gathered": (
        "await forward(a, y=charge)",
        ["function forward(a, y=charge)", "opaque [rest['y'](x)] which of these it calls cannot be told: charge"],
    ),
    "a function that goes off with a partial": (
        "b.c = late",
        ["opaque [b.c] where it goes cannot be followed: charge"],
    ),
    "a function that goes off with a child": ("b.c = begin", ["opaque [b.c] where it goes cannot be followed: other"]),
    "a variable of the function around": (
        "one = charge\ndef change():\n    nonlocal one\n    one = a\n    return pack(a)\nawait change()\nawait one(b)",
        [
            "step pack = pack(a)",
            "opaque [await one(b)] what it awaits is not known",
            "opaque [charge] it is named here, and how it is called cannot be read: charge",
        ],
    ),
    "the truth of a call": (
        "if charge(a):\n    await pack(b)",
        ["opaque [charge(a)] where it goes cannot be followed: charge", "if", "when charge(a)", "step pack = pack(b)"],
    ),
    "what is not known, side by side": (
        "ctx.gather(*items)",
        ["parallel gather", "lane", "opaque [ctx.gather(*items)] what it awaits is not known"],
    ),
    "a partial that goes off": (
        "b.c = functools.partial(charge, 1)",
        ["opaque [b.c] where it goes cannot be followed: charge"],
    ),
    "the function of a workflow": (
        "b.c = lambda: caller.fn",
        [
            "opaque [b.c] where it goes cannot be followed: charge caller",
            "opaque [caller.fn] it is named here, and how it is called cannot be read: charge",
        ],
    ),
    "a queue that is not waited for": (
        "queue = asyncio.Queue()\nqueue.put_nowait(a)\nawait queue.get()",
        ["wait Queue.get"],
    ),
    "a step of a class": (
        "b.c = lambda: Kept.step",
        [
            "opaque [b.c] where it goes cannot be followed: charge",
            "opaque [Kept.step] it is named here, and how it is called cannot be read: charge",
        ],
    ),
}


@pytest.mark.parametrize(("text", "lines"), FORMS.values(), ids=FORMS)
def test_a_form_that_is_seldom_written_is_read(text: str, lines: list[str], read: Read) -> None:
    """As what it does, or as opaque with each step that may run there."""
    assert lines_of(read(text, MORE)) == lines


def test_calls_that_go_too_deep_are_opaque_with_their_steps(read: Read) -> None:
    """Eight calls are followed; the ninth says what it comes to, and the plan is not deterministic."""
    more = "\n".join(f"async def f{n}(x):\n    await f{n + 1}(x)" for n in range(12))
    plan = read("await f0(a)", f"{more}\nasync def f12(x):\n    await charge(x)")
    lines = lines_of(plan)
    assert lines[:-1] == [f"function f{n}({'a' if n == 0 else 'x'})" for n in range(8)]
    assert lines[-1] == "opaque [f8(x)] it is more than 8 calls away: charge"
    assert not plan.deterministic


def test_a_step_is_found_however_far_away_it_is(read: Read) -> None:
    """A function that is handed on names every step it comes to, through fifty calls and one that calls back."""
    more = "\n".join(f"def f{n}(x):\n    return f{n + 1}(x)" for n in range(50))
    plan = read("await pack(f0)", f"{more}\ndef f50(x):\n    return f0(x) or charge(x)")
    assert lines_of(plan) == ["opaque [pack(f0)] where it goes cannot be followed: charge", "step pack = pack(f0)"]
    assert not plan.deterministic


def test_a_plan_that_is_too_large_follows_no_further(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """From then on a function is shown as opaque, with the steps it comes to; none is lost."""
    more = "async def f(x):\n    await charge(x)"
    monkeypatch.setattr(reader, "MOST_NODES", 3)
    lines = lines_of(read("await f(1)\nawait f(2)\nawait f(3)", more))
    assert lines[:4] == ["function f(1)", "step charge = charge(x)", "function f(2)", "step charge#1 = charge(x)"]
    assert lines[4:] == ["opaque [f(3)] the plan is too large already: charge"]


def test_an_export_has_its_flow(read: Read) -> None:
    """Who draws a plan elsewhere need not know how: boxes and arrows stand in it. The plan is the same otherwise."""
    plan = read("await charge(a)\nawait pack(b)")
    exported = with_flow(plan)
    assert plan.flow is None
    assert exported.flow == flow_of(plan)
    assert [(edge.source, edge.target) for edge in flow_of(exported).edges] == [
        ("#start", "charge"), ("charge", "pack"), ("pack", "#end"),
    ]  # fmt: skip
    assert exported.nodes == plan.nodes
    assert decode_plan(encode_plan(exported)) == exported
