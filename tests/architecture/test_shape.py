"""What a reader can rely on: how long things get, what they are called, and that each says what it is."""

from __future__ import annotations

import ast
from collections import Counter

from tests.architecture.source import PACKAGE, TESTS, list_modules, list_package

MODULE_LINES = 400  # the aim is 100 to 250
FUNCTION_LINES = 60  # the aim is under 50
FOLDER_MODULES = 20
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager", "service"}


def test_modules_are_short_enough_to_be_read() -> None:
    """No module is over 400 lines, tests included: one that is has two subjects."""
    long = [f"{module}: {module.lines} lines" for module in list_modules() if module.lines > MODULE_LINES]
    assert not long, "\n".join(long)


def test_functions_fit_on_a_screen() -> None:
    """No function has 60 lines, tests included."""
    long = []
    for module in list_modules():
        for function in module.iter_functions():
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines >= FUNCTION_LINES:
                long.append(f"{module}:{function.lineno} {function.name}: {lines} lines")
    assert not long, "\n".join(long)


def test_folders_can_be_overlooked() -> None:
    """No folder of the package holds more than 20 modules."""
    folders = Counter(str(module.path.parent) for module in list_package() if module.path.name != "__init__.py")
    full = [f"{folder}: {count} modules" for folder, count in folders.items() if count > FOLDER_MODULES]
    assert not full, "\n".join(full)


def test_names_of_modules_say_their_subject() -> None:
    """A module is named for its subject; `utils` is the name of none."""
    vague = [str(module) for module in list_package() if VAGUE & {*module.path.parts, module.path.stem}]
    assert not vague, "\n".join(vague)


def test_each_folder_of_the_package_says_what_it_is() -> None:
    """Each folder with modules is a package, and each module opens with a docstring."""
    folders = {module.path.parent for module in list_package()}
    packages = {module.path.parent for module in list_package() if module.path.name == "__init__.py"}
    assert folders - packages == set()
    silent = [str(module) for module in list_package() if not ast.get_docstring(module.tree)]
    assert not silent, "\n".join(silent)
    assert (PACKAGE / "py.typed").is_file(), "without it no type checker believes our annotations"


def test_each_test_says_its_rule() -> None:
    """A test's docstring is the rule it holds, in a sentence a user could read."""
    silent = []
    for module in list_modules():
        if module.is_in(*TESTS):
            tests = [function for function in module.iter_functions() if function.name.startswith("test_")]
            silent += [f"{module}:{test.lineno} {test.name}" for test in tests if not ast.get_docstring(test)]
    assert not silent, "\n".join(silent)
