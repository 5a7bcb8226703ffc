"""The watchdog and the end of a drain meet: nothing is raised in the loop's thread once `drain_ended` has returned."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast.core.loop import BodyHandle, BodyLoop
from outlast.engine import watchdog as watchdog_module
from outlast.errors import BodyBlocked
from tests.engine.watching import drain, spin_until

ROOT = Path(__file__).resolve().parents[2]


# SPEC P6
@pytest.mark.slow
def test_nothing_is_raised_once_a_drain_has_ended(make_watchdog, host, quick_switches) -> None:
    """Drains that end at the very moment of the shot: whatever comes, comes before `drain_ended` has returned."""
    watchdog = make_watchdog(host, blocked_us=4_000)
    stopped = 0

    def drain_for(seconds: float) -> bool:
        """Whether it was stopped."""
        end = time.monotonic() + seconds

        async def body() -> None:
            while time.monotonic() < end:
                pass

        try:
            drain(watchdog, body)
        except BodyBlocked:
            watchdog.drain_ended()
            return True
        return False

    for number in range(150):
        stopped += drain_for(0.003 + number % 30 * 0.0002)
        after = time.monotonic() + 0.001
        while time.monotonic() < after:  # a late shot would be raised here, and fail the test
            pass
    assert 0 < stopped < 150, "the drains were not around the limit"


@pytest.mark.parametrize("place", ["before the end is marked", "before it settles", "as it settles", "before"])
def test_a_shot_that_lands_on_the_way_out_is_settled(make_watchdog, host, monkeypatch, place) -> None:
    """It may be raised as the end of the drain is marked, until its place is taken: it gets out as what it is, and the
    next drain has nothing of it."""
    watchdog = make_watchdog(host)
    loop = BodyLoop(start_us=0)
    landed: list[str] = []

    def land(at: str) -> None:
        if at == place and not landed:
            landed.append(at)
            raise BodyBlocked("A-17", 1)

    def settle() -> BodyBlocked | None:
        land("before it settles")
        return type(watchdog)._settle(watchdog)

    def cancel(handle: BodyHandle) -> None:
        land("as it settles")
        cancel_handle(handle)

    def raise_in(thread_id: int, kind: type[BaseException]) -> None:
        if not issubclass(kind, BodyBlocked):
            land("before")
        raise_in_thread(thread_id, kind)

    def shoot() -> None:
        assert watchdog._drain is not None
        try:
            watchdog._shoot(watchdog._drain)
        finally:  # it is shot in its own thread here, which so comes no further
            shot = watchdog._shot
            assert shot is not None
            watchdog._shot = shot._replace(handle=loop.interrupt(shot.error))

    def drain_ended() -> None:
        land("before the end is marked")
        watchdog.drain_ended()

    cancel_handle, raise_in_thread = BodyHandle.cancel, watchdog_module._raise_in
    monkeypatch.setattr(BodyHandle, "cancel", cancel)
    monkeypatch.setattr(watchdog_module, "_raise_in", raise_in)
    monkeypatch.setattr(watchdog, "_settle", settle)
    watchdog.drain_began("A-17", loop)
    loop.call_soon(shoot)
    with pytest.raises(BodyBlocked):
        loop.drain()
    with pytest.raises(BodyBlocked):
        drain_ended()
    watchdog.drain_began("B-1", loop)
    watchdog.drain_ended()
    assert landed == [place]
    assert watchdog._shot is None
    assert not watchdog._lock.locked()


TRACED = """
import asyncio, logging, sys, threading
from outlast.core.loop import BodyLoop
from outlast.engine.watchdog import Watchdog
from outlast.errors import BodyBlocked
from tests.engine.watching import drain, spin_until

logging.disable()
host = asyncio.new_event_loop()
watchdog = Watchdog(threading.get_ident(), lease_us=60_000_000, log=logging.getLogger(), blocked_us=20_000)
watchdog.start(host)

async def body():
    spin_until(lambda: False)

def call():
    return "it came back"

for _ in range(2):
    try:
        drain(watchdog, body)
    except BodyBlocked:
        watchdog.drain_began("B-1")
        watchdog.drain_ended()
        sys.settrace(lambda *_: None)
        print(call())
        sys.settrace(None)
watchdog.stop()
host.close()
"""


# SPEC P6
@pytest.mark.process
@pytest.mark.slow
def test_code_can_be_traced_once_a_body_was_stopped() -> None:
    """A debugger that breaks in, or coverage, in a process that has stopped a body: on Python 3.11 the next call never
    returned, since an exception that had been raised was taken back all the same."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.stdout.splitlines(), done.stderr) == (["it came back"] * 2, "")


def test_a_ctrl_c_is_not_turned_into_a_blocked_body(make_watchdog, host) -> None:
    """A KeyboardInterrupt on its way out stays one."""
    watchdog = make_watchdog(host, blocked_us=40_000)

    async def body() -> None:
        try:
            spin_until(lambda: False)
        except BodyBlocked:
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt):
        drain(watchdog, body)
    watchdog.drain_began("B-1")
    watchdog.drain_ended()


@pytest.mark.process
def test_marking_a_drain_costs_next_to_nothing(make_watchdog, host) -> None:
    """Both marks together take about a microsecond: they are made for every stimulus."""
    watchdog = make_watchdog(host)
    loop = BodyLoop(start_us=0)
    best = 1.0
    for _ in range(50):
        began = time.thread_time()
        for _ in range(200):
            watchdog.drain_began("A-17", loop)
            watchdog.drain_ended()
        best = min(best, (time.thread_time() - began) / 200)
    assert best < 5e-6
