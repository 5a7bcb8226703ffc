"""How a run's approvals stand, as its journal shows: for whoever is about to decide one. Layer: core.

What always holds: what is refused here the run refuses too, since both go by the policy on record and by who started
the run. What is not refused may still be: the run has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outlast.core.events import (
    DecisionJudged,
    DecisionMade,
    Event,
    RunStarted,
    TimerFired,
    WaitStarted,
)
from outlast.core.reopening import splice
from outlast.core.waits.approval import EXPIRED, GIVEN_UP, User, find_objection, settlement, show_policy
from outlast.core.waits.book import OpenWait, OpenWaits
from outlast.core.waits.events import Judgement, WaitKind

__all__ = ["Refusal", "Standing"]


class Refusal(NamedTuple):
    """Why a decision does not count."""

    verdict: Judgement
    reason: str


class Standing:
    """The approvals of one run."""

    def __init__(self, journal: Sequence[Event]) -> None:
        started = journal[0]
        assert isinstance(started, RunStarted)
        self._initiator = started.user
        self._open = OpenWaits()
        self._settled: dict[str, str] = {}
        """Key of each approval that is over, and how it ended; the latest last."""
        self._asked: dict[str, OpenWait] = {}
        self._made: dict[str, DecisionMade] = {}
        for event in splice(journal):
            if type(event) is DecisionMade:
                self._made[event.message] = event
            ended = self._open.apply(event)
            if type(event) is WaitStarted and event.kind is WaitKind.APPROVAL:
                self._asked[event.key] = self._open[event.key]
            if ended is not None and ended.kind is WaitKind.APPROVAL:
                self._settled[ended.key] = self._how(event)

    def _how(self, event: object) -> str:
        if isinstance(event, DecisionJudged):
            made = self._made.get(event.message)
            return "decided" if made is None else settlement(made)
        return EXPIRED if isinstance(event, TimerFired) else GIVEN_UP

    def find_key(self, reason: str) -> str:
        """Key of the approval that `reason`, a key, a name or a question, means: one that is open, else the latest that
        was; `reason` itself, if there was none so far."""
        is_open = [wait for key, wait in self._asked.items() if key in self._open]
        over = [self._asked[key] for key in reversed(self._settled) if key in self._asked]
        for waits in (is_open, over):
            for wait in waits:
                if wait.key == reason:
                    return reason
            for wait in waits:
                if reason in {wait.name, show_policy(wait.policy).text}:
                    return wait.key
        return reason

    def find_wait(self, key: str) -> OpenWait | None:
        """The approval, open or over."""
        return self._asked.get(key)

    def refuse(self, key: str, by: User, now_us: int) -> Refusal | None:
        """Why this user's decision will not count, however it reads; None: it may. `now_us` is the store's."""
        if key in self._settled:
            return Refusal(Judgement.RESOLVED, self._settled[key])
        wait = self._open.get(key)
        if wait is None or wait.kind is not WaitKind.APPROVAL:
            return None
        if wait.deadline is not None and now_us >= wait.deadline:
            return Refusal(Judgement.EXPIRED, EXPIRED)
        objection = find_objection(show_policy(wait.policy), self._initiator, by.id, by.scopes)
        return Refusal(Judgement.FORBIDDEN, objection) if objection else None
