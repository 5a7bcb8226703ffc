"""What a body may wait for, beside its steps: `ctx.wait_for`, `ctx.suspend`, `ctx.approval`. Layer: authoring.

Part of the context. What always holds: a wait is on record before anybody can answer it, costs no memory once its run
is parked, and gives the same on every replay.
"""

from __future__ import annotations

from asyncio import CancelledError
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from outlast.authoring.waits.plain_waiting import PlainWaiting
from outlast.authoring.waits.wanted import find_wanted
from outlast.core.durations import Duration, format_duration, parse_duration
from outlast.core.instants import to_datetime
from outlast.core.keys import check_name
from outlast.core.record import NOTHING
from outlast.core.waits.approval import Approvers, Decided, Expired, Policy, User, write_policy
from outlast.core.waits.body import TIMED_OUT, WaitCall
from outlast.core.waits.events import WaitKind
from outlast.errors import InvalidSetting, ValueTooLarge

if TYPE_CHECKING:
    import msgspec
    from typing_extensions import TypeForm

    from outlast.core.machine import Machine

__all__ = ["Waiting"]

T = TypeVar("T")

LONGEST_QUESTION = 64 * 1024
"""Bytes. It is shown to whoever can answer; what is longer belongs elsewhere."""


class Waiting(PlainWaiting):
    """The part of a context that is about waiting for somebody."""

    @overload
    async def wait_for(self, name: str, /, *, timeout: Duration | None = ...) -> Any: ...
    @overload
    async def wait_for(self, name: str, type: TypeForm[T], /, *, timeout: Duration | None = ...) -> T: ...
    async def wait_for(self, name: str, type: Any = Any, /, *, timeout: Duration | None = None) -> Any:
        """Wait for the signal `name`: `payment = await ctx.wait_for("paid", Payment, timeout="3d")`.

        One that came before is taken at once, in the order in which they came, each once. One that is no `type` is set
        aside, with a warning, and the wait goes on. Raises TimeoutError when the time is up.
        """
        machine = self._inside("wait_for()")
        wanted = find_wanted(type)
        policy = write_policy(Policy(schema=wanted.schema))
        timeout_us = None if timeout is None else parse_duration(timeout)
        call = WaitCall(WaitKind.SIGNAL, check_name("signal", name), timeout_us, policy, wanted.check)
        value = await _wait(machine, call)
        if value is TIMED_OUT:
            raise TimeoutError(f"No signal {name!r} came within {format_duration(timeout_us or 0)}.")
        return value

    async def suspend(self, reason: str, /) -> None:
        """Wait at a gate that opens only when this reason is resumed: `run.resume(reason)`.

        Each call is a gate of its own, also with the same reason. Raises InvalidName.
        """
        machine = self._inside("suspend()")
        await _wait(machine, WaitCall(WaitKind.GATE, check_name("reason", reason), None, NOTHING, _no_value))

    @overload
    async def approval(
        self,
        reason: str,
        schema: TypeForm[T],
        /,
        *,
        expires: None = None,
        approvers: Literal["any", "owner", "not-initiator"] = ...,
        scope: str | None = ...,
        key: str | None = ...,
    ) -> Decided[T]: ...
    @overload
    async def approval(
        self,
        reason: str,
        schema: TypeForm[T],
        /,
        *,
        expires: Duration,
        approvers: Literal["any", "owner", "not-initiator"] = ...,
        scope: str | None = ...,
        key: str | None = ...,
    ) -> Decided[T] | Expired: ...
    @overload
    async def approval(
        self,
        reason: str,
        /,
        *,
        expires: None = None,
        approvers: Literal["any", "owner", "not-initiator"] = ...,
        scope: str | None = ...,
        key: str | None = ...,
    ) -> Decided[Any]: ...
    @overload
    async def approval(
        self,
        reason: str,
        /,
        *,
        expires: Duration,
        approvers: Literal["any", "owner", "not-initiator"] = ...,
        scope: str | None = ...,
        key: str | None = ...,
    ) -> Decided[Any] | Expired: ...
    async def approval(
        self,
        reason: str,
        schema: Any = Any,
        /,
        *,
        expires: Duration | None = None,
        approvers: Literal["any", "owner", "not-initiator"] = "any",
        scope: str | None = None,
        key: str | None = None,
    ) -> Decided[Any] | Expired:
        """Wait until somebody decides: `answer = await ctx.approval("ship it?", Decision, expires="3d")`.

        `approvers` says who may: `any`; `owner`, who started the run; `not-initiator`, who is signed in and did not.
        `scope` they must hold as well. A decision that may not be, or is no `schema`, changes nothing but the record;
        the first that counts wins. Gives Decided (`value`, `by`, `at`), or Expired when nobody decided in time.
        `key` is what it is called, where `reason` is prose or changes. Raises InvalidName, InvalidSetting.
        """
        machine = self._inside("approval()")
        wanted = find_wanted(schema)
        if approvers not in tuple(Approvers):
            raise InvalidSetting("approvers", approvers, f"one of {', '.join(Approvers)}")
        name = check_name("approval key", key) if key is not None else check_name("approval reason", reason)
        text = "" if key is None else _check_question(reason)
        policy = Policy(
            schema=wanted.schema,
            approvers=Approvers(approvers),
            scope=None if scope is None else check_name("scope", scope),
            text=text,
        )
        expires_us = None if expires is None else parse_duration(expires)
        call = WaitCall(WaitKind.APPROVAL, name, expires_us, write_policy(policy), wanted.check, text)
        result = await _wait(machine, call)
        if result is TIMED_OUT:
            return Expired()
        value, decision = result
        return Decided(value, User(decision.user, decision.scopes), to_datetime(decision.sent_at))


async def _wait(machine: Machine, call: WaitCall) -> Any:
    wait = machine.waits.start(call)
    try:
        await wait.future
    except CancelledError:
        machine.waits.give_up(wait)
        raise
    return machine.waits.take(wait)


def _no_value(_: msgspec.Raw) -> tuple[Any, str]:
    """A gate asks for nothing."""
    return None, ""


def _check_question(reason: object) -> str:
    if not isinstance(reason, str) or not reason:
        raise InvalidSetting("reason", reason, "some text: the question")
    try:
        size = len(reason.encode())
    except UnicodeEncodeError:
        raise InvalidSetting("reason", reason, "text that is valid Unicode") from None
    if size > LONGEST_QUESTION:
        raise ValueTooLarge("an approval's question", size, LONGEST_QUESTION)
    return reason
