"""Versions of workflows: what makes another one, and what does not."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.authoring.source.reading import read_workflow
from outlast.errors import InvalidName

app = Module("")


@app.workflow
async def fulfil(ctx: Context) -> None: ...


BODY = """
async def body(ctx, order: Order, tries=3) -> list[str]:
    receipt = await charge(order)
    total: int = 0
    for item in order.items:
        total += await pack(item, f"{item!r:>10} of {len(order.items)}")
    if total > 1_000 and not (total == 5):
        raise ValueError(f"too {total} " "much")
    async with ctx as a, other() as b:
        x = {**a, "k": [*b], 1: (2.5, 1j, b"x", None, ..., True)}
    match x:
        case {"k": [first, *_]} | str(first):
            del x["k"]
    return [lambda n, /, *, k=1: n[k:1:2] for _ in range(3)]
"""

SAME = {
    "comments and blank lines": ("    total: int = 0\n", "    # nothing yet\n\n    total: int = 0\n"),
    "a docstring": ("    receipt =", '    "Ship it."\n    receipt ='),
    "formatting": ("total > 1_000 and not (total == 5)", "(total>1000) and not total==5"),
    "an annotation of a variable": ("total: int = 0", "total = 0"),
    "annotations of the function": ("order: Order, tries=3) -> list[str]", "order, tries=3)"),
    "quotes": ('"much"', "'much'"),
    "a decorator": ("async def body", "@decorate(\n    name='x',\n)\nasync def body"),
    "its name": ("async def body", "async def other_body"),
    "a pass": ("    receipt =", "    pass\n    receipt ="),
}
OTHER = {
    "another step": ("charge(order)", "refund(order)"),
    "another constant": ("total > 1_000", "total > 1_001"),
    "another kind of constant": ("total: int = 0", "total: int = 0.0"),
    "another default": ("tries=3", "tries=4"),
    "another parameter": ("tries=3", "times=3"),
    "a statement less": ("    total: int = 0\n", ""),
    "another order": ("x = {**a, ", "x = {"),
    "no await": ("await charge(order)", "charge(order)"),
    "another text in a format": ("of {len", "from {len"),
    "a block less": ('            del x["k"]\n', "            pass\n"),
}


def fingerprint(fn: Any) -> str:
    """Of a function as it is."""
    return read_workflow("w", fn).version


def fingerprint_of(source: str, tmp_path: Path) -> str:
    """Of the first function in a file, which is where a fingerprint reads."""
    path = tmp_path / f"body_{abs(hash(source))}.py"
    path.write_text(source, encoding="utf-8")
    namespace: dict[str, Any] = {"decorate": lambda name: lambda fn: fn, "Order": int, "__name__": "bodies"}
    exec(compile(source, str(path), "exec"), namespace)
    return fingerprint(next(value for value in namespace.values() if inspect.iscoroutinefunction(value)))


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_does_not_change_the_plan_does_not_change_the_version(change: tuple[str, str], tmp_path: Path) -> None:
    """Comments, docstrings, annotations and formatting are for people: runs in flight do not care."""  # SPEC V1
    changed = BODY.replace(*change)
    assert changed != BODY
    assert fingerprint_of(changed, tmp_path) == fingerprint_of(BODY, tmp_path)


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_what_changes_the_plan_changes_the_version(change: tuple[str, str], tmp_path: Path) -> None:
    """A body that does something else is another version."""  # SPEC V1
    changed = BODY.replace(*change)
    assert changed != BODY
    assert fingerprint_of(changed, tmp_path) != fingerprint_of(BODY, tmp_path)


HELPED = """
from outlast import Context, Module
app = Module("")

@app.workflow
async def body(ctx: Context, order: str) -> None:
    await prepare(order)
    print(length(order))

async def prepare(order: str) -> None:
    await charge(order)

def length(order: str) -> int:
    return len(order)

@app.step
async def charge(order: str) -> None: ...

@app.step
async def refund(order: str) -> None: ...
"""


def version_of(source: str, path: Path) -> str:
    """Of the workflow in a module."""
    path.write_text(source, encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": path.stem}
    exec(compile(source, str(path), "exec"), namespace)
    version = namespace["body"].version
    assert isinstance(version, str)
    return version


@pytest.mark.parametrize(
    ("before", "after", "is_another"),
    [
        ("await charge(order)", "await refund(order)", True),
        ("@app.step\nasync def charge", "@app.step(name='pay')\nasync def charge", True),
        ("await charge(order)", "# pay\n    await charge( order )", False),
        ("return len(order)", "return 5", False),
        ("async def refund(order: str) -> None: ...", "async def refund(order: str) -> None: pass", False),
    ],
)
def test_what_the_body_comes_to_its_steps_through_is_part_of_the_version(
    before: str, after: str, is_another: bool, tmp_path: Path
) -> None:
    """A helper that calls steps, also one defined behind the body, and its steps' registered names."""  # SPEC V1
    changed = HELPED.replace(before, after)
    assert changed != HELPED
    is_changed = version_of(HELPED, tmp_path / "one.py") != version_of(changed, tmp_path / "two.py")
    assert is_changed is is_another


def test_a_file_that_is_replaced_does_not_change_what_runs(tmp_path: Path) -> None:
    """A version is that of the source the process was started from, however late it is asked for."""
    path = tmp_path / "replaced.py"
    path.write_text(HELPED, encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "replaced"}
    exec(compile(HELPED, str(path), "exec"), namespace)
    path.write_text(HELPED.replace("charge(order)", "refund(order)").replace("length", "size"), encoding="utf-8")
    assert namespace["body"].version == version_of(HELPED, tmp_path / "kept.py")


def test_a_version_given_by_hand_is_taken() -> None:
    """`version=` is the author's word, and must be a name that can be stored."""

    @app.workflow(name="by hand", version="2026-07")
    async def by_hand(ctx: Context) -> None: ...

    assert by_hand.version == "2026-07"
    assert len(fulfil.version) == 12
    with pytest.raises(InvalidName):
        app.workflow(name="no version", version="")(by_hand.fn)


def test_a_nested_body_has_a_version_too() -> None:
    """Indented source is read as it stands, texts of several lines included."""

    def make() -> Any:
        async def body(ctx: Context) -> str:
            return """
no indent
            """

        return body

    assert not fingerprint(make()).startswith("b-")


def test_without_source_the_bytecode_is_the_version() -> None:
    """Code that `exec` made has a version as well: the same for the same code, another for other code."""

    def make(result: int, docstring: str = "") -> str:
        namespace: dict[str, Any] = {}
        exec(f"async def body(ctx):\n    {docstring!r}\n    await step({result})", namespace)
        return fingerprint(namespace["body"])

    assert make(1).startswith("b-")
    assert make(1) == make(1)
    assert make(1) != make(2)


@pytest.mark.process
def test_versions_are_the_same_on_every_python(other_pythons: dict[str, Path], tmp_path: Path) -> None:
    """A fleet in the middle of a change of Python has one version of a body, not two."""
    path = tmp_path / "body.py"
    path.write_text(BODY, encoding="utf-8")
    code = f"""
from outlast.authoring.source.reading import read_workflow
namespace = {{"Order": int, "__name__": "bodies"}}
exec(compile(open({str(path)!r}).read(), {str(path)!r}, "exec"), namespace)
print(read_workflow("w", namespace["body"]).version)
"""
    answers = {}
    for python in [Path(sys.executable), *other_pythons.values()]:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        done = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, check=True)
        answers[str(python)] = done.stdout.strip()
    assert len(set(answers.values())) == 1, answers
    assert not next(iter(answers.values())).startswith("b-")
