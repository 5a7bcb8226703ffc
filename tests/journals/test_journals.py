"""Journals that earlier releases wrote: this one follows each of them, reads it, and goes on from it (SPEC K3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outlast import User
from outlast.core.events import decode_events
from outlast.core.timeline import tell
from outlast.core.verifying import check_events, check_form, flatten
from outlast.engine.verifying import verify_store
from outlast.run.transfer import import_run, read_file
from outlast.testing import replay, running
from tests.journals import bodies
from tests.journals.kept import EXAMPLES, HERE, RELEASES, find_app

FILES = sorted(path for release in RELEASES for path in (HERE / release).glob("*.jsonl"))


def _name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def test_everything_has_a_journal_of_the_latest_release() -> None:
    """Each body and each example; else `python tests/journals/kept.py` was forgotten."""
    kept = set()
    for path in (HERE / RELEASES[-1]).glob("*.jsonl"):
        with path.open("rb") as lines:
            kept.add(read_file(lines)[0].workflow)
    assert kept == {workflow.name for workflow in bodies.app.iter_workflows()} | EXAMPLES.keys()


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_journal_is_followed(path: Path) -> None:
    """The code at hand asks for what is on record, to the end; what people are told of it is what they were told."""
    with path.open("rb") as lines:
        header, entries, view = read_file(lines)
    app = find_app(header.workflow)
    workflow = app.find_workflow(header.workflow)
    assert workflow is not None
    replayed = replay(path, workflow, app=app)
    assert replayed.asks_next == ()
    journal = [(entry, decode_events(entry.events)) for entry in entries]
    assert check_form(journal) == []
    assert check_events(flatten(journal)) == []
    assert view.status is header.status
    assert len(tell(journal)) > 0


async def test_a_run_that_was_under_way_goes_on() -> None:
    """Sleeping or waiting when its release was replaced, it is finished by this one."""
    for release in RELEASES:
        async with running(find_app("outside")) as lab:
            for id in ("sleeping", "waiting"):
                lines = (HERE / release / f"{id}.jsonl").read_bytes().splitlines()
                await import_run(lab.worker.engine, lines)
                await (await lab.app.get_run(id)).resume("IMPORTED")
            waiting: Any = await lab.app.get_run("waiting")
            await waiting.signal("paid", 5)
            assert await lab.until_waiting(waiting)
            await waiting.approve("ship it?", False, by=User("bob"))
            assert await lab.until_waiting(waiting)
            await waiting.resume("look at it")
            assert await lab.result(waiting) == [5, False, "Expired"]
            slept = await lab.result(await lab.app.get_run("sleeping"))
            assert (slept["took"], slept["patched"], slept["length"]) == (30, True, 6)
            assert [problem async for problem in verify_store(lab.worker.engine.store)] == []
