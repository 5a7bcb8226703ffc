"""The deliberate faults of `make mutate` can still be put in: it is for them that it is known what the tests see."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOT, apply
from tests.mutants.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_can_still_be_put_in(mutant: Mutant, tmp_path: Path):
    """What it changes stands in the source once, and what comes of it is still Python."""
    path = tmp_path / "outlast" / mutant.path
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "outlast" / mutant.path, path)
    apply(mutant, tmp_path)
    if path.suffix == ".py":
        ast.parse(path.read_text(encoding="utf-8"))
    assert mutant.is_simulated or mutant.tests


def test_there_are_faults_of_many_kinds():
    """In the engine, in the core and in more than one store; each has a name of its own."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 10
    assert {mutant.path.split("/")[0] for mutant in MUTANTS} == {"core", "engine", "stores"}
