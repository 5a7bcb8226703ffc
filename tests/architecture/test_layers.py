"""What import-linter (in `make check`) cannot see: ways round the layers, and impure calls in the core.

The layers themselves are contracts in pyproject.toml.
"""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.architecture.source import ROOT, Module, list_package

CORE = "src/outlast/core"
# Modules of which the core may use a part only. What it may: the constructor of a seeded generator, types of time.
CLOCKS_AND_DICE = {
    "datetime": {"now", "today", "utcnow"},
    "date": {"today"},
    "random": {"choice", "choices", "getrandbits", "randbytes", "randint", "random", "randrange", "sample", "seed"}
    | {"shuffle", "uniform", "SystemRandom"},
    "uuid": {"getnode", "uuid1", "uuid4", "uuid6", "uuid7"},
    "UUID": set(),
}
IMPURE_BUILTINS = {"breakpoint", "input", "open", "print"}


def find_impurities(module: Module) -> list[str]:
    """Calls that read a clock, draw a random number or touch the world, as 'file:line name'."""
    found = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id=name) if name in IMPURE_BUILTINS:
                found.append(f"{module}:{node.lineno} {name}()")
            case ast.Attribute(attr=name, value=ast.Name(id=owner) | ast.Attribute(attr=owner)):
                if name in CLOCKS_AND_DICE.get(owner, ()):
                    found.append(f"{module}:{node.lineno} {owner}.{name}()")
            case _:
                pass
    for line, name in module.iter_imports():
        owner, _, part = name.rpartition(".")
        if part in CLOCKS_AND_DICE.get(owner, ()):
            found.append(f"{module}:{line} from {owner} import {part}")
    return found


def test_core_reads_no_clock_and_throws_no_dice() -> None:
    """Time, ids and randomness are arguments in the core, so the same journal gives the same commands anywhere."""
    core = [module for module in list_package() if module.is_in(CORE)]
    assert core, "the core is not where this test looks"
    assert [impurity for module in core for impurity in find_impurities(module)] == []


@pytest.mark.parametrize(
    "code",
    [
        "print('x')",
        "import random\nrandom.random()",
        "from random import choice",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.now(tz)",
        "import uuid\nuuid.uuid4()",
    ],
)
def test_an_impure_call_would_be_found(code: str) -> None:
    """The check above sees each way of being impure that it names."""
    module = list_package()[0]
    assert find_impurities(Module(module.path, 1, ast.parse(code)))


def test_no_module_goes_round_the_layers_through_the_front_door() -> None:
    """Nothing inside the package imports the package's public names: that would hide an import that points up."""
    doors = []
    for module in list_package():
        for line, name in module.iter_imports():
            inside = name.split(".")
            if inside[0] == "outlast" and len(inside) == 2 and not is_module(inside[1]):
                doors.append(f"{module}:{line} {name}")
    assert not doors, "\n".join(doors)


def is_module(name: str) -> bool:
    """Whether outlast.<name> is a module or a package, not a public name."""
    home = ROOT / "src" / "outlast"
    return (home / name).is_dir() or (home / f"{name}.py").is_file()


def test_importing_outlast_loads_no_extra() -> None:
    """`import outlast` works, and stays quick, without any optional dependency."""
    extras = ["asyncpg", "greenlet", "rich", "click", "pydantic", "attrs", "uvloop", "opentelemetry", "yaml"]
    code = f"import sys, outlast; print([name for name in {extras} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "src", capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"
