"""Bodies that wait, and what comes for them from outside."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from outlast.core.events import DecisionMade, GateOpened, RunCompleted, SignalReceived, encode_events, is_command
from outlast.core.machine import Machine
from outlast.core.waits.approval import Approvers, Policy, write_policy
from outlast.core.waits.body import TIMED_OUT, WaitCall
from outlast.core.waits.events import WaitKind
from tests.core.machines import START_US, Body, Recorder, replay

HOUR_US = 3_600_000_000


def _check_number(raw: msgspec.Raw) -> tuple[Any, str]:
    value = msgspec.json.decode(raw)
    return (value, "") if isinstance(value, int) else (None, "expected a number")


async def wait(machine: Machine, call: WaitCall) -> Any:
    """As authoring does it."""
    found = machine.waits.start(call)
    try:
        await found.future
    except asyncio.CancelledError:
        machine.waits.give_up(found)
        raise
    return machine.waits.take(found)


async def signal(machine: Machine, name: str, timeout_us: int | None = None) -> Any:
    """A number under this name, or "late"."""
    value = await wait(machine, WaitCall(WaitKind.SIGNAL, name, timeout_us, msgspec.Raw(b"null"), _check_number))
    return "late" if value is TIMED_OUT else value


async def gate(machine: Machine, reason: str) -> None:
    await wait(machine, WaitCall(WaitKind.GATE, reason, None, msgspec.Raw(b"null"), _check_number))


async def approval(
    machine: Machine,
    reason: str,
    *,
    expires_us: int | None = None,
    approvers: Approvers = Approvers.ANY,
    scope: str | None = None,
    text: str = "",
) -> Any:
    """A number and who decided, or "late"."""
    policy = write_policy(Policy(approvers=approvers, scope=scope, text=text))
    result = await wait(machine, WaitCall(WaitKind.APPROVAL, reason, expires_us, policy, _check_number, text))
    return "late" if result is TIMED_OUT else (result[0], result[1].user)


def sent(name: str, value: object, message: str = "m1", at: int = START_US) -> SignalReceived:
    """A signal that came."""
    return SignalReceived(at, message, name, msgspec.Raw(msgspec.json.encode(value)), at)


def decided(
    name: str, value: object = 1, user: str = "bob", message: str = "d1", at: int = START_US, *scopes: str
) -> DecisionMade:
    """A decision that came."""
    return DecisionMade(at, message, name, msgspec.Raw(msgspec.json.encode(value)), user, scopes, at)


def resumed(key: str, message: str = "r1", at: int = START_US) -> GateOpened:
    """A gate that somebody opened."""
    return GateOpened(at, message, key, "bob")


def replay_prefixes(body: Body, recorder: Recorder) -> None:
    """Cut anywhere, the body asks for exactly what was still to come (invariant 8)."""
    whole = recorder.journal
    for length in range(1, len(whole) + 1):
        machine, beyond = replay(body, whole[:length])
        cut = next((n for n, event in enumerate(whole[length:], length) if not is_command(event)), len(whole))
        assert encode_events(beyond) == encode_events(whole[length:cut])
        machine.evict()


def found(recorder: Recorder) -> Any:
    """What the body gave."""
    end = recorder.journal[-1]
    assert isinstance(end, RunCompleted), end
    return msgspec.json.decode(end.output)


def of(recorder: Recorder, kind: type) -> list[Any]:
    return [event for event in recorder.journal if type(event) is kind]


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


async def ship(machine: Machine) -> bytes:
    return encoded(await approval(machine, "ship?", expires_us=HOUR_US))
