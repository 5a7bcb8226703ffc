"""What is committed: no traces of a desk or a package index, and locks that say what pyproject.toml says."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source import ROOT, list_files

LOCKS = ("dev", "run")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)", re.MULTILINE)
# Somebody's home folder. Spelt so that this file does not match itself.
HOME = re.compile(r"/(?:root|home/\w+|Users/\w+)/|[A-Z]:\\Users\\")
CONFLICT = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)


def read_lock(name: str) -> str:
    """The text of requirements/<name>.lock."""
    return (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")


@pytest.mark.parametrize("pattern", [HOME, CONFLICT], ids=["home folder", "merge conflict"])
def test_the_tree_has_no_trace_of_a_desk(pattern: re.Pattern[str]) -> None:
    """No file names a person's home folder, and none holds the marks of a merge."""
    found = []
    for path in list_files():
        content = (ROOT / path).read_bytes()
        if b"\0" not in content and (match := pattern.search(content.decode("utf-8", "replace"))):
            found.append(f"{path}: {match[0]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index_and_hashes_everything(lock: str) -> None:
    """Whoever installs chooses where from; the hashes say that they got what was tested."""
    text = read_lock(lock)
    assert "://" not in text
    assert "index" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) == len(PIN.findall(text))
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_locks_follow_pyproject() -> None:
    """Everything pyproject.toml asks for is pinned, at a version it allows; else `make lock` was forgotten."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    core = project["project"]["dependencies"]
    extras = [
        line for name, lines in project["project"]["optional-dependencies"].items() if name != "all" for line in lines
    ]
    groups = [line for lines in project["dependency-groups"].values() for line in lines if isinstance(line, str)]
    for lock, wanted in {"run": core, "dev": core + extras + groups}.items():
        pinned = {canonicalize_name(name): version for name, version in PIN.findall(read_lock(lock))}
        for requirement in map(Requirement, wanted):
            version = pinned.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement} is not in {lock}.lock"
            assert requirement.specifier.contains(version), f"{lock}.lock has {requirement.name} {version}"


def test_what_runs_and_what_is_tested_is_the_same() -> None:
    """The other Pythons get the very versions that the tests run with."""
    assert set(PIN.findall(read_lock("run"))) <= set(PIN.findall(read_lock("dev")))
