"""Finding the user's code: MODULE:WORKFLOW."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outlast import Compress, Outlast
from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.store_choice import app_on
from outlast.cli.target import load_app, load_workflow

ONE = """
from outlast.app import Outlast
from outlast.authoring.context import Context
app = Outlast("memory://one")
@app.workflow
async def only(ctx: Context) -> None: ...
"""
MANY = """
from outlast.app import Outlast
from outlast.authoring.module import Module
from outlast.authoring.context import Context
app = Outlast("memory://many")
same = app
other = Outlast("memory://other")
billing = Module("billing")
@billing.workflow
async def charge(ctx: Context) -> None: ...
app.include(billing)
@app.workflow(name="ship-it")
async def ship(ctx: Context) -> None: ...
@other.workflow(name="ship-it")
async def ship_other(ctx: Context) -> None: ...
lost = Module("lost")
@lost.workflow
async def stray(ctx: Context) -> None: ...
number = 5
"""


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The current folder is the test's own."""
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def refused(target: str, load: Any = load_workflow) -> CommandError:
    with pytest.raises(CommandError) as caught:
        load(target)
    return caught.value


@pytest.mark.parametrize("target", ["t_one.py", "t_one", "./t_one.py:only", "t_one:only"])
def test_a_module_is_named_by_path_or_by_dots(target: str) -> None:
    """A path and a dotted name find the same workflow, and its name may be left out where it is the only one."""
    write("t_one.py", ONE)
    assert load_workflow(target).workflow.name == "only"


def test_a_file_in_a_package_is_imported_as_part_of_it() -> None:
    """A path into a package finds the module under its full name, so that its relative imports work."""
    write("t_pack/__init__.py", "")
    write("t_pack/sub/__init__.py", "")
    write("t_pack/sub/names.py", "NAME = 'from beside'\n")
    write("t_pack/sub/flows.py", ONE + "from .names import NAME\n")
    target = load_workflow("t_pack/sub/flows.py")
    assert target.workflow.fn.__module__ == "t_pack.sub.flows"
    assert load_workflow("t_pack.sub.flows").workflow is target.workflow


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ship", "ship-it"),
        ("app.ship-it", "ship-it"),
        ("same.ship-it", "ship-it"),
        ("other.ship-it", "ship-it"),
        ("charge", "billing:charge"),
        ("billing:charge", "billing:charge"),
    ],
)
def test_a_workflow_is_named_as_a_variable_or_as_registered(name: str, found: str) -> None:
    """`:name` is a variable of the module, else a registered name, with the app before it where several have it."""
    write("t_many.py", MANY)
    target = load_workflow(f"t_many.py:{name}")
    assert target.workflow.name == found
    assert target.app.url == ("memory://other" if name.startswith("other") else "memory://many")


@pytest.mark.parametrize(
    ("name", "what", "todo"),
    [
        ("ship-it", "Several apps have a workflow 'ship-it'", "Name one, as in t_many.py:app.ship-it."),
        ("shipit", "There is no workflow 'shipit'", "Did you mean 'ship-it'?"),
        ("number", "'number' is no workflow but an int", "Correct the name."),
        ("stray", "No app knows this workflow", "Include its module: app.include(module)."),
        ("", "There are several workflows", "Name one, as in t_many.py:billing:charge."),
    ],
)
def test_a_workflow_that_is_not_there_is_told_with_those_that_are(name: str, what: str, todo: str) -> None:
    """A wrong name says what there is, and what may have been meant."""
    write("t_many.py", MANY)
    error = refused(f"t_many.py:{name}" if name else "t_many.py")
    assert (error.problem.what, error.problem.todo) == (what, todo)
    assert error.exit_code is ExitCode.USAGE


def test_an_app_is_named_where_there_are_several() -> None:
    """MODULE finds its only app; with several, each goes by the name of its variable."""
    write("t_many.py", MANY)
    write("t_one.py", ONE)
    assert load_app("t_one.py").url == "memory://one"
    assert load_app("t_many.py:other").url == "memory://other"
    assert refused("t_many.py", load_app).problem.what == "There are several apps"
    assert refused("t_many.py:othr", load_app).problem.todo == "Did you mean 'other'?"


def test_a_module_of_parts_alone_is_worked_by_an_app_made_for_it() -> None:
    """A file that has a `Module` and no app can be run all the same."""
    write("t_part.py", MANY.partition("lost =")[2].join(["from outlast.authoring.module import Module\nlost =", ""]))
    text = Path("t_part.py").read_text()
    write("t_part.py", "from outlast.authoring.context import Context\n" + text)
    assert load_workflow("t_part.py").workflow.name == "lost:stray"


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("", "No module is named"),
        (":flow", "No module is named"),
        ("nowhere.py", "There is no such file"),
        ("t_absent", "There is no module 't_absent'"),
        ("os.t_absent", "There is no module"),
        ("t-absent", "Not a module"),
        ("sub/", "This is a folder, and no package"),
        ("./notes.txt", "This is no Python file"),
        ("a.b.py", "The file's name has a dot in it"),
        ("json.py", "The name 'json' is taken"),
        ("t_empty.py", "There is no app"),
    ],
)
def test_a_module_that_is_not_there_says_where_it_was_looked_for(target: str, what: str) -> None:
    """A wrong MODULE is wrong usage, in three parts, without a traceback."""
    for name in ("notes.txt", "a.b.py", "json.py", "t_empty.py", "sub/x.txt"):
        write(name, "")
    error = refused(target)
    assert error.problem.what.startswith(what)
    assert error.problem.todo
    assert error.exit_code is ExitCode.USAGE


def test_an_error_in_the_users_code_keeps_its_own_lines_alone() -> None:
    """A module that raises is told with its traceback, from its first line on."""
    write("t_broken.py", "import t_deep\n")
    write("t_deep.py", "def go():\n    return 1 / 0\ngo()\n")
    error = refused("t_broken.py")
    assert error.exit_code is ExitCode.FAILED
    assert "ZeroDivisionError" in error.problem.where
    assert 'File "' in error.problem.where
    assert "importlib" not in error.problem.where
    assert "target.py" not in error.problem.where


def test_a_missing_import_of_the_users_code_is_not_a_missing_module() -> None:
    """`import something` that fails inside MODULE is the module's error, and names the line."""
    write("t_importing.py", "import t_not_installed\n")
    error = refused("t_importing.py")
    assert error.problem.what == "The module cannot be imported"
    assert "t_not_installed" in error.problem.where


def test_a_module_that_exits_does_not_end_the_command_silently() -> None:
    """A script that calls sys.exit() when imported is told as such."""
    write("t_exits.py", "import sys\nsys.exit(0)\n")
    assert refused("t_exits.py").problem.what == "The module cannot be imported"


def test_a_definition_that_cannot_work_is_told_in_its_own_words() -> None:
    """A workflow refused where it is declared: the three parts, no traceback, exit 2."""
    write("t_wrong.py", ONE + "@app.workflow\nasync def generating(ctx: Context):\n    yield\n")
    error = refused("t_wrong.py")
    assert error.problem.code == "INVALID_DEFINITION"
    assert error.exit_code is ExitCode.USAGE


async def test_an_app_on_another_store_is_the_same_app() -> None:
    """`--store` changes the store, and nothing of what the module said of its queues, codecs and sinks."""
    codecs, told = [Compress()], []
    with ThreadPoolExecutor(1) as pool:
        app = Outlast("memory://one", codecs=codecs, audit=told.append, on_version_conflict="fail", dev=True)
        app.queue("gpu", limit=2)
        app.executor("pool", pool)
        async with app_on(app, "memory://two") as moved, app:
            mine, its = app._here(), moved._here()
            assert moved.url == "memory://two"
            assert (its.dev, its.queues, its.executors) == (True, mine.queues, mine.executors)
            assert its.audit is mine.audit
            assert its.versions.fails_on_conflict
            assert (moved.codecs, moved.extensions) == (app.codecs, app.extensions)
