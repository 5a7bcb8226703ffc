"""What a deploy does to runs in flight."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import RunFailed, VersionConflict
from outlast.core.states import RunStatus
from outlast.stores.store import WorkerRow
from tests.versions.deploying import (
    PATIENCE_S,
    Deploys,
    begun_otherwise,
    finish,
    later_changed,
    one,
    park,
    suspended,
    taken,
    unclosed,
    until,
)


@pytest.fixture
def deploys(request: pytest.FixtureRequest) -> Deploys:
    return Deploys(f"memory://{request.node.name}")


async def test_a_run_that_fits_goes_on_with_the_new_version(deploys: Deploys) -> None:
    """Its journal fits the new code: from there on it does what the new code says, and says so."""  # SPEC V3
    await park(deploys, deploys.app(one))
    new = deploys.app(later_changed)
    assert await finish(new) == ["receipt a 1", "parcel a", "parcel a second parcel"]
    async with new:
        assert await taken(new) == [(new.find_workflow("fulfil").version, "code")]
        info = await (await new.get_run("r")).status()
    assert info.version != new.find_workflow("fulfil").version, "a run keeps the version that it was started with"


async def test_a_run_that_does_not_fit_goes_on_from_its_stored_plan(deploys: Deploys) -> None:
    """It ends as its own version would have ended it, on workers that do not have that code any more."""  # SPEC V3
    old = deploys.app(one)
    await park(deploys, old)
    new = deploys.app(begun_otherwise)
    assert await finish(new) == ["receipt a 1", "parcel a"]
    assert deploys.done == ["charge a 1", "pack a"]
    async with new:
        assert await taken(new) == [(old.find_workflow("fulfil").version, "plan")]


async def test_a_run_that_nothing_fits_is_suspended_with_both_sides(deploys: Deploys) -> None:
    """Where they part, side by side, and why its plan does not help; a worker of its version ends it."""  # SPEC V3
    old = deploys.app(unclosed)
    await park(deploys, old)
    new = deploys.app(begun_otherwise)
    async with new.worker():
        info = await suspended(new)
        timeline = await (await new.get_run("r")).timeline()
    assert info.waiting_on == "VERSION_CONFLICT"
    said = next(item.detail for item in timeline if item.kind == "suspended")
    assert "import math" in said
    assert "the journal (version" in said
    assert "step 'charge'" in said
    assert "step 'pack'" in said
    assert await finish(old) == ["receipt a 1"]
    assert deploys.done == ["charge a 1"]


async def test_another_deploy_may_fit_a_suspended_run(deploys: Deploys) -> None:
    """A third version that fits takes it: nobody has to resume it."""  # SPEC V4
    await park(deploys, deploys.app(unclosed))
    new = deploys.app(begun_otherwise)
    async with new.worker():
        await suspended(new)
    mended = deploys.app(one)
    assert await finish(mended) == ["receipt a 1", "parcel a"]


async def test_a_deploy_that_does_not_fit_looks_once(deploys: Deploys) -> None:
    """Restarted with the same code, it neither moves the run nor says the same again."""
    await park(deploys, deploys.app(unclosed))
    for _ in range(2):
        new = deploys.app(begun_otherwise)
        async with new.worker():
            await suspended(new)
    third = deploys.app(lambda charge, pack: begun_otherwise(pack, charge))
    async with third.worker():
        await suspended(third)
        timeline = await (await third.get_run("r")).timeline()
    assert [item.kind for item in timeline].count("suspended") == 1


async def test_without_a_stored_plan_the_version_is_not_found(deploys: Deploys) -> None:
    """Said with another code: whoever looks knows that no plan will help."""  # SPEC V3
    old = deploys.app(one)
    await park(deploys, old)
    new = deploys.app(begun_otherwise)
    old._store._tables.versions.clear()
    async with new.worker():
        assert (await suspended(new)).waiting_on == "VERSION_NOT_FOUND"


async def test_a_suspended_run_can_be_cancelled_by_any_deploy(deploys: Deploys) -> None:
    """It ends as cancelled, without its body."""  # SPEC X1
    await park(deploys, deploys.app(unclosed))
    new = deploys.app(begun_otherwise)
    async with new.worker():
        await suspended(new)
        run = await new.get_run("r")
        await run.cancel("enough")

        async def is_cancelled() -> bool:
            return (await run.status()).status is RunStatus.CANCELLED

        await until(is_cancelled)


async def test_an_option_makes_it_fail_instead(deploys: Deploys) -> None:
    """For those who would rather hear of it at once."""  # SPEC V3
    await park(deploys, deploys.app(unclosed))
    new = deploys.app(begun_otherwise, on_version_conflict="fail")
    async with new.worker():
        run = await new.get_run("r")
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout=PATIENCE_S)
    assert isinstance(caught.value.error, VersionConflict)
    assert "import math" in str(caught.value.error)


async def test_a_run_is_left_to_a_live_worker_of_its_version(deploys: Deploys) -> None:
    """While workers of both versions are up, each run ends on the one that fits; nothing is suspended."""  # SPEC V4
    old, new = deploys.app(unclosed), deploys.app(begun_otherwise)
    await park(deploys, old)
    async with old.worker(), new.worker():
        run = await new.get_run("r")
        assert await run.result(timeout=PATIENCE_S) == ["receipt a 1"]
        timeline = await run.timeline()
    assert not [item for item in timeline if item.kind in {"suspended", "version"}]


async def test_what_was_left_to_a_worker_that_went_is_taken_back(deploys: Deploys, monkeypatch: Any) -> None:
    """The last worker of the old version leaves before it took the run: then its stored plan has to do."""  # SPEC V4
    monkeypatch.setattr("outlast.engine.sweeper.CARE_EVERY", 2)
    old, new = deploys.app(one), deploys.app(begun_otherwise)
    await park(deploys, old)
    async with new.worker() as worker:
        version = old.find_workflow("fulfil").version
        worker.home.peers = [*worker.home.peers, _peer(version)]
        worker.home.deploy = new._engine.deploy
        run = await new.get_run("r")
        assert await run.result(timeout=PATIENCE_S) == ["receipt a 1", "parcel a"]


def _peer(version: str, *queues: str) -> Any:
    served = (f"fulfil#{version}",)
    return WorkerRow("gone", "host", 1, queues or ("default",), ("fulfil",), deploy="other", versions=served)


async def test_what_was_left_before_all_went_is_taken_back(deploys: Deploys) -> None:
    """All workers of both versions are gone; of those that come back the first looks again."""  # SPEC V4
    old, new = deploys.app(one), deploys.app(begun_otherwise)
    await park(deploys, old)
    async with new:
        await new._store.register(_peer(old.find_workflow("fulfil").version), 60_000_000)
    async with new.worker():
        await until(lambda: is_left(new))
    async with new:
        await new._store.retire("gone")
    assert await finish(new) == ["receipt a 1", "parcel a"]


async def is_left(app: Any) -> bool:
    return bool(app._store._tables.runs[(await app.get_run("r")).uid].unfit)


async def test_a_run_is_left_to_nobody_who_does_not_serve_its_queue(deploys: Deploys) -> None:
    """A worker of its version that serves other queues would never come for it."""  # SPEC V4
    old, new = deploys.app(one), deploys.app(begun_otherwise)
    await park(deploys, old)
    async with new:
        await new._store.register(_peer(old.find_workflow("fulfil").version, "night"), 60_000_000)
    assert await finish(new) == ["receipt a 1", "parcel a"]
