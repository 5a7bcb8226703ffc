"""What may be declared as a step or a workflow, and what is refused."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.errors import InvalidDefinition, InvalidName

app = Module("")


class Order: ...


@app.workflow
async def fulfil(ctx: Context) -> None: ...


# --- what is refused --------------------------------------------------------------------------------------------------


async def noctx(order: Order) -> None: ...
async def nothing() -> None: ...
async def star(*ctx: Context) -> None: ...
async def keyword(ctx: Context, *, order: Order) -> None: ...
async def unresolved(context: NotDefined) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def plain(ctx: Context) -> None: ...
async def agen(ctx: Context) -> AsyncIterator[int]:
    yield 1


async def undecodable(ctx: Context, sock: Callable[[], int]) -> None: ...


class Shop:
    async def method(self, ctx: Context) -> None: ...


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (noctx, "takes a context first, and its first parameter is order: Order:"),
        (nothing, "it has no parameter"),
        (star, r"takes a context first"),
        (keyword, "keyword-only parameter 'order' of this workflow has no default"),
        (unresolved, "takes a context first"),
        (agen, "A generator cannot be a workflow"),
        (Shop.method, "A method cannot be a workflow"),
        (Shop().method, "A method cannot be a workflow"),
        (undecodable, "Callable is not supported.*parameter 'sock'"),
        (functools.partial(noctx), "is partial"),
        (Shop, "this is type"),
        ("fulfil", "this is str"),
        (fulfil, "This is the workflow 'fulfil' already"),
    ],
)
def test_what_cannot_be_a_workflow_is_refused_where_it_is_declared(fn: Any, says: str) -> None:
    """The error says what is wrong, in which file and line, and what to write."""
    with pytest.raises(InvalidDefinition, match=says) as caught:
        Module("").workflow(fn)
    if inspect.isfunction(fn):
        assert f"test_declaration.py:{fn.__code__.co_firstlineno}" in str(caught.value)


def gen() -> Iterator[int]:
    yield 1


def awaitable() -> Awaitable[int]:
    return asyncio.sleep(0, 1)


def task() -> asyncio.Task[int]:
    raise AssertionError


def hide(fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapper(*args: Any) -> Any:
        return fn(*args)

    return wrapper


@hide
async def hidden() -> None: ...


def forward(value: Later) -> Later:  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
    return value


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (gen, "A generator cannot be a step"),
        (agen, "A generator cannot be a step"),
        (awaitable, "A def that returns an awaitable cannot be a step"),
        (task, "A def that returns an awaitable cannot be a step"),
        (hidden, "A decorator hides that this step is an async def"),
        (lambda: 3, "A lambda cannot be a step without a name"),
        (Shop.method, "A method cannot be a step"),
        (staticmethod(gen), "A method cannot be a step"),
        (len, "this is builtin_function_or_method"),
        (asyncio.sleep(0), "this is coroutine"),
    ],
)
def test_what_cannot_be_a_step_is_refused_where_it_is_declared(fn: Any, says: str) -> None:
    """The error says what is wrong, and what to write instead."""
    with pytest.raises(InvalidDefinition, match=says):
        Module("").step(fn)
    if inspect.iscoroutine(fn):
        fn.close()


def test_nested_functions_need_a_name() -> None:
    """What is made anew at each call of another function has no name of its own; with `name=` it is all right."""

    async def nested(ctx: Any) -> None: ...

    for declare in (Module("").workflow, Module("").step):
        with pytest.raises(InvalidDefinition, match=r"A nested function .* without a name.*give it name="):
            declare(nested)
        declare(name="nested")(nested)
    assert Module("").step(name="three")(lambda: 3).name == "three"


@pytest.mark.parametrize("name", ["a#1", "", "x" * 513, "a\0b", 3])
def test_names_that_cannot_be_stored_are_refused(name: Any) -> None:
    """A `#` would be taken for the number of a use; quotes, dots, slashes and emoji are all right."""  # SPEC S8, D4
    with pytest.raises(InvalidName):
        Module("").workflow(name=name)(fulfil.fn)
    with pytest.raises(InvalidName):
        Module("").step(name=name)(forward)
    assert Module("").step(name="a/b.c'd 🙂")(forward).name == "a/b.c'd 🙂"


def test_a_forward_reference_is_resolved_at_the_first_use() -> None:
    """A type may be defined after the function; one that never is, is an error at the first call."""
    step = Module("").step(forward)
    with pytest.raises(InvalidDefinition, match="Later"):
        step.function.arguments.encode_call((1,), {})
    globals()["Later"] = int
    try:
        assert step.function.arguments.encode_call((1,), {})[0] == b'{"value":1}'
    finally:
        del globals()["Later"]
