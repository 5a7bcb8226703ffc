"""Two people in two processes decide at the same instant: exactly one is accepted (SPEC W4)."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from tests.waits.place import Place, waits_on

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


async def begin(url: str, user: str, value: str) -> Process:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    words = (sys.executable, "-m", "tests.waits.peer", url, user, value)
    peer = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE, cwd=ROOT, env=environment)
    assert await hear(peer) == "ready"
    return peer


async def hear(peer: Process) -> str:
    assert peer.stdout is not None
    async with asyncio.timeout(30):
        return (await peer.stdout.readline()).decode().strip()


async def decide_together(folder: Path, times: int) -> set[str]:
    """Who was accepted, over so many runs."""
    url = f"sqlite:///{folder}/store.db"
    app, won = Place(url).make_app(), set()
    async with app.worker():
        peers = {"bob": await begin(url, "bob", "true"), "eve": await begin(url, "eve", "false")}
        for number in range(times):
            run = await app.start("shipped", id=f"r{number}")
            await waits_on(run, "approval ship it?")
            for peer in peers.values():
                assert peer.stdin is not None
                peer.stdin.write(f"r{number}\n".encode())
            told = {user: await hear(peer) for user, peer in peers.items()}
            (winner,) = [user for user, text in told.items() if text == f"accepted {user}"]
            (loser,) = [text for user, text in told.items() if user != winner]
            assert loser.startswith("resolved ")
            assert f"decided by {winner}" in loser
            assert await run.result(timeout=10) == [winner == "bob", winner]
            won.add(winner)
        for peer in peers.values():
            assert peer.stdin is not None
            peer.stdin.close()
            await asyncio.wait_for(peer.wait(), 20)
    return won


async def test_of_two_processes_that_decide_at_once_one_is_accepted(tmp_path: Path) -> None:
    """A hundred times; the other is told who was, and as what."""
    assert await decide_together(tmp_path, 100) <= {"bob", "eve"}


@pytest.mark.soak
async def test_of_two_processes_that_decide_at_once_one_is_accepted_a_thousand_times(tmp_path: Path) -> None:
    """And it is not always the same one."""
    assert await decide_together(tmp_path, 1000) == {"bob", "eve"}
