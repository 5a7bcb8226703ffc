"""Each fault that the checker is to find is put into a store by SQL, and found (`outlast doctor --verify`)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from outlast.core.verifying import Rule
from outlast.stores.open import open_store
from tests.verifying.faults import FAULTS, Fault
from tests.verifying.world import Tables, build, problems_of


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound store's file."""
    path = tmp_path_factory.mktemp("built") / "store.db"
    asyncio.run(build(f"sqlite:///{path}"))
    return path


async def _verify(url: str):
    store = open_store(url)
    await store.open()
    try:
        return await problems_of(store)
    finally:
        await store.close()


async def test_a_sound_store_is_sound(built: Path, tmp_path: Path) -> None:
    """Runs in every kind of state, and nothing to be said of them."""
    assert await _verify(Tables(built, tmp_path).url) == []


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_fault_is_found(built: Path, tmp_path: Path, fault: Fault) -> None:
    """What is told names the run, the rule, and what is wrong."""
    tables = Tables(built, tmp_path)
    fault.make(tables)
    problems = await _verify(tables.url)
    found = [problem for problem in problems if (problem.id, problem.rule) == (fault.run, fault.rule)]
    assert any(re.search(fault.text, problem.text) for problem in found), problems


def test_every_rule_has_a_fault() -> None:
    """No rule is held by a check that nobody has seen find anything."""
    assert {fault.rule for fault in FAULTS.values()} == set(Rule)
