"""Where the process may die between two durable effects, the code says so, and names the test that kills it there."""

from __future__ import annotations

import re

from tests.architecture.source import ROOT, TESTS, list_files, list_modules
from tests.crash.points import POINTS

_TEST = re.compile(r"\[(test_\w+)(?:\[([\w-]+)\])?\]")
_CRASH = re.compile(r"\bCRASH:")
_LINES = 6
"""Of a comment, in which the names are looked for."""


def _list_comments() -> list[tuple[str, str]]:
    """Where each stands, and what it says."""
    found = []
    for path in list_files():
        if path.parts[0] == "src" and path.suffix in {".py", ".sql"}:
            lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
            found += [
                (f"{path}:{number + 1}", "\n".join(lines[number : number + _LINES]))
                for number, line in enumerate(lines)
                if _CRASH.search(line)
            ]
    return found


def test_each_place_to_die_names_a_test() -> None:
    """Each comment that begins with CRASH names at least one test in brackets."""
    comments = _list_comments()
    assert len(comments) >= 8, "the places between two durable effects are worth a word"
    silent = [place for place, text in comments if not _TEST.search(text)]
    assert not silent, "\n".join(silent)


def test_each_test_named_by_the_code_exists() -> None:
    """`[test_name]` in the package is a test there is; `[test_killed_at[point]]` is one of the crash points."""
    tests = {f.name for module in list_modules() if module.is_in(*TESTS) for f in module.iter_functions()}
    wrong = []
    for path in list_files():
        if path.parts[0] == "src" and path.suffix in {".py", ".sql"}:
            for name, point in _TEST.findall((ROOT / path).read_text(encoding="utf-8")):
                if name not in tests or (point and (name != "test_killed_at" or point not in POINTS)):
                    wrong.append(f"{path}: [{name}{f'[{point}]' if point else ''}]")
    assert not wrong, "\n".join(wrong)
