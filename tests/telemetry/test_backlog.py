"""What observers put aside is done in another thread, or dropped and counted (invariant 11)."""

from __future__ import annotations

import threading

from outlast.telemetry.backlog import Backlog


def test_work_is_done_in_order_in_another_thread() -> None:
    """And all that waits is done before it closes; what comes after that begins another thread."""
    done: list[tuple[int, int]] = []
    backlog: Backlog[int] = Backlog("test", lambda item: done.append((item, threading.get_ident())), 100)
    for item in range(50):
        backlog.put(item)
    assert backlog.close(10)
    assert [item for item, _ in done] == list(range(50))
    assert threading.get_ident() not in {thread for _, thread in done}
    backlog.put(50)
    assert backlog.close(10)
    assert done[-1][0] == 50
    assert backlog.close(0)


def test_who_puts_in_never_waits_and_what_does_not_fit_is_counted(caplog) -> None:
    """Work that hangs holds up nothing but itself, and does not keep the process: closing gives up on it."""
    begun, gate = threading.Event(), threading.Event()
    done: list[int] = []

    def hang(item: int) -> None:
        begun.set()
        gate.wait(20)
        done.append(item)

    backlog = Backlog("test", hang, 10)
    backlog.put(0)
    assert begun.wait(10)
    for item in range(1, 31):
        backlog.put(item)
    assert (len(backlog), backlog.dropped) == (10, 20)
    assert not backlog.close(0.01)
    assert [record.getMessage() for record in caplog.records] == [
        "test is behind by 10: what comes is dropped until it has caught up"
    ]
    gate.set()
    assert backlog.close(10)
    assert done == list(range(11))


def test_work_that_fails_costs_no_other(caplog) -> None:
    """It is said once; parts of a work fail one by one."""
    done: list[object] = []

    def work(item: int) -> None:
        backlog.attempt(lambda: done.append(10 // item))
        backlog.attempt(lambda: done.append("other"))
        if item == 0:
            raise RuntimeError("no")

    backlog = Backlog("test", work, 10)
    for item in (1, 0, 2):
        backlog.put(item)
    assert backlog.close(10)
    assert done == [10, "other", "other", 5, "other"]
    assert backlog.failed == 2
    assert len(caplog.records) == 1
