"""When a run is next due: the earliest of its timers and retries, and a host's timer that rings then."""

from __future__ import annotations

import asyncio

import pytest

from outlast.core.attempts import OpenSteps
from outlast.core.machine import Machine
from outlast.engine import alarm as alarm_module
from outlast.engine.alarm import Alarm
from tests.core.machines import START_US, fire, make_machine

SECOND = 1_000_000


class HostLoop:
    """What an alarm asks of the host's loop: timers, that ring when the test says so."""

    def __init__(self) -> None:
        self.delays_s: list[float] = []
        self.handles: list[asyncio.TimerHandle] = []

    def call_later(self, delay_s, callback) -> asyncio.TimerHandle:
        self.delays_s.append(delay_s)
        self.handles.append(asyncio.TimerHandle(delay_s, callback, (), asyncio.get_running_loop()))
        return self.handles[-1]

    @property
    def armed(self) -> list[float]:
        """Delays of the timers that were not cancelled."""
        return [handle.when() for handle in self.handles if not handle.cancelled()]


def sleeping(*seconds: float) -> Machine:
    """A body in several sleeps at once."""

    async def body(machine: Machine) -> bytes:
        await asyncio.gather(*(asyncio.sleep(each) for each in seconds))
        return b"null"

    machine = make_machine(body)
    machine.begin()
    return machine


def waiting(steps: OpenSteps, key: str, retry_at: int) -> None:
    steps.start(key, 1).retry_at = retry_at


def ring() -> None:
    raise AssertionError("it rang")


def test_nothing_armed_is_never_due() -> None:
    """No timer, no retry: only what comes from outside moves the run."""
    machine = sleeping()
    assert Alarm(OpenSteps()).next_due_us(machine) is None


@pytest.mark.parametrize(
    ("timers", "retries", "due"),
    [((5, 3), (), 3), ((), (7, 4), 4), ((5,), (7,), 5), ((5,), (7, 2), 2), ((5,), (5,), 5)],
)
def test_the_earliest_of_timers_and_retries_is_next(timers, retries, due) -> None:
    """Whichever of the two it is."""
    machine, steps = sleeping(*timers), OpenSteps()
    alarm = Alarm(steps)
    for number, seconds in enumerate(retries):
        waiting(steps, f"s{number}", START_US + seconds * SECOND)
        alarm.add_retry(START_US + seconds * SECOND, f"s{number}")
    assert alarm.next_due_us(machine) == START_US + due * SECOND


def test_retries_are_taken_in_the_order_in_which_they_are_due() -> None:
    """Not in that in which the steps failed."""
    steps, machine = OpenSteps(), sleeping()
    alarm = Alarm(steps)
    for key, seconds in (("late", 9), ("soon", 1), ("later", 20)):
        waiting(steps, key, START_US + seconds * SECOND)
        alarm.add_retry(START_US + seconds * SECOND, key)
    taken = []
    while alarm.next_due_us(machine) is not None:
        taken.append(alarm.take_retry())
    assert taken == ["soon", "late", "later"]


def test_a_step_that_moved_on_is_not_waited_for() -> None:
    """It was given up, or its next attempt has begun already: the entry of the heap is skipped."""
    steps, machine = OpenSteps(), sleeping()
    alarm = Alarm(steps)
    for key, seconds in (("gone", 1), ("begun", 2), ("put-off", 3), ("kept", 9)):
        waiting(steps, key, START_US + seconds * SECOND)
        alarm.add_retry(START_US + seconds * SECOND, key)
    del steps["gone"]
    steps["begun"].retry_at = None
    steps["put-off"].retry_at = START_US + 20 * SECOND
    assert alarm.next_due_us(machine) == START_US + 9 * SECOND
    assert alarm.take_retry() == "kept"


def test_an_evicted_run_is_due_when_it_was() -> None:
    """Without its body nobody can ask its timers: what was known then is what counts."""
    alarm = Alarm(OpenSteps())
    alarm.due_us = START_US + 5
    assert alarm.next_due_us(None) == START_US + 5


async def test_it_rings_when_it_is_due_and_at_no_other_time() -> None:
    """Set anew, the time before is forgotten; set for the same, nothing is armed twice."""
    host, alarm = HostLoop(), Alarm(OpenSteps())

    def set_for(due_us: int | None) -> None:
        alarm.set(host, due_us, lambda: START_US, ring)  # type: ignore[arg-type]

    set_for(START_US + 5 * SECOND)
    set_for(START_US + 5 * SECOND)
    assert (host.delays_s, host.armed) == ([5.0], [5.0])
    set_for(START_US + 3 * SECOND)
    assert (host.armed, alarm.is_set, alarm.due_us) == ([3.0], True, START_US + 3 * SECOND)
    set_for(None)
    assert (host.armed, alarm.is_set, alarm.due_us) == ([], False, None)
    set_for(START_US - SECOND)
    assert host.armed == [0.0], "what was due is due now"


async def test_a_month_is_looked_at_every_hour(monkeypatch) -> None:
    """The host's timers are not trusted for longer; `due_us` is the true time all the while."""
    host, alarm = HostLoop(), Alarm(OpenSteps())
    month_us = START_US + 30 * 86_400 * SECOND
    alarm.set(host, month_us, lambda: START_US, ring)  # type: ignore[arg-type]
    assert (host.armed, alarm.due_us) == ([alarm_module.LONGEST_S], month_us)
    alarm.rang()
    assert not alarm.is_set
    alarm.set(host, month_us, lambda: month_us - 5 * SECOND, ring)  # type: ignore[arg-type]
    assert host.delays_s == [alarm_module.LONGEST_S, 5.0]


async def test_a_cleared_alarm_is_silent_and_knows_its_time() -> None:
    """As for a run that is parked: its row says when it is due."""
    host, alarm = HostLoop(), Alarm(OpenSteps())
    alarm.set(host, START_US + SECOND, lambda: START_US, ring)  # type: ignore[arg-type]
    alarm.clear()
    alarm.clear()
    assert (host.armed, alarm.is_set, alarm.due_us) == ([], False, START_US + SECOND)


def test_timers_that_fired_are_not_due_again() -> None:
    """The machine's own timers go with the body."""
    machine = sleeping(1, 2)
    alarm = Alarm(OpenSteps())
    first = alarm.next_due_us(machine)
    assert first is not None
    machine.feed(fire(machine))
    assert alarm.next_due_us(machine) == START_US + 2 * SECOND
