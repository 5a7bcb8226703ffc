"""Rounds: a run that ends by going on as a fresh one, under its id (`ctx.continue_as_new`). Layer: core.

A body that loops for ever would have a journal without end. So it may end with `GoesOn`: this round is completed, and
the next begins with an empty journal and a uid of its own, so that its steps have invocation ids of their own. What
always holds: what came from outside, and the body had not taken, is the next round's; and a message that was heard
before is not heard again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from outlast.core.events import CancelRequested, DecisionMade, SignalReceived
from outlast.core.keys import child_uid

__all__ = ["NEXT_KEY", "GoesOn", "Heard", "find_goes_on", "keep_known", "next_uid"]

Heard: TypeAlias = SignalReceived | DecisionMade | CancelRequested
"""What came from outside, and is for the next round if this one has not taken it."""

MOST_KNOWN = 500
"""Ids of messages that a round tells the next of: whoever sends one again does so soon."""


NEXT_KEY = "#next"
"""What the next round goes by among the runs that a run starts. No step has this key."""


class GoesOn(BaseException):
    """Ends a body whose run goes on as a next round. Control flow: no `except Exception` may swallow it."""

    def __init__(self, input: bytes, version: str) -> None:
        """The next round's input, as JSON, and the version of the workflow that it begins with."""
        super().__init__()
        self.input = input
        self.version = version


def find_goes_on(error: BaseException | None) -> GoesOn | None:
    """What a body's error is, or is a group of and nothing else: tasks of a group may say that the run goes on."""
    if isinstance(error, BaseExceptionGroup) and error.split(GoesOn)[1] is not None:
        return None
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, GoesOn) else None


def next_uid(uid: str) -> str:
    """Of the round that follows: there can be no second one."""
    return child_uid(uid, NEXT_KEY)


def keep_known(messages: Iterable[str]) -> tuple[str, ...]:
    """Ids of messages that the next round need not hear again, the latest last. Those with a `#` are about steps of
    this round."""
    return tuple(message for message in messages if "#" not in message)[-MOST_KNOWN:]
