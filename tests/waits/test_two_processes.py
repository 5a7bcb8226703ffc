"""Two people in two processes decide at the same instant: exactly one is accepted (SPEC W4)."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path

import pytest

from tests.homes import between_processes
from tests.waits.place import Place, waits_on

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 50
"""Runs that wait before the first of them is decided."""

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


async def decide_together(url: str, times: int) -> Counter[str]:
    """How often each was accepted, over so many runs."""
    app, won = Place(url).make_app(), Counter[str]()
    async with app.worker():
        peers = {"bob": await begin(url, "bob", "true"), "eve": await begin(url, "eve", "false")}
        for first in range(0, times, AT_ONCE):
            runs = [await app.start("shipped", id=f"r{number}") for number in range(first, first + AT_ONCE)]
            for run in runs:
                await waits_on(run, "approval ship it?")
            for run in runs:
                for peer in peers.values():
                    assert peer.stdin is not None
                    peer.stdin.write(f"{run.id}\n".encode())
                winner = judge({user: await hear(peer) for user, peer in peers.items()})
                assert await run.result(timeout=10) == [winner == "bob", winner]
                won[winner] += 1
        for peer in peers.values():
            assert peer.stdin is not None
            peer.stdin.close()
            await asyncio.wait_for(peer.wait(), 20)
    return won


def judge(told: dict[str, str]) -> str:
    """Who was accepted: one, and the other was told who."""
    (winner,) = [user for user, text in told.items() if text == f"accepted {user}"]
    (loser,) = [text for user, text in told.items() if user != winner]
    assert loser.startswith("resolved ")
    assert f"decided by {winner}" in loser
    return winner


@between_processes
async def test_of_two_processes_that_decide_at_once_one_is_accepted(url: str) -> None:
    """A hundred times; the other is told who was, and as what."""
    assert (await decide_together(url, 100)).total() == 100


@between_processes
@pytest.mark.soak
async def test_of_two_processes_that_decide_at_once_one_is_accepted_a_thousand_times(url: str) -> None:
    """And it is not always the same one."""
    won = await decide_together(url, 1000)
    print(dict(won))
    assert won.total() == 1000
    assert {*won} == {"bob", "eve"}
