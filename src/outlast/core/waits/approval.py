"""Approvals: who may decide, who did, and what came of it. Pure. Layer: core.

What always holds: whether a decision counts follows from the policy on record, from who started the run, and from the
decision itself. So whoever asks, a client before it sends or the run when it reads, finds the same.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from outlast.core.record import NOTHING
from outlast.core.waits.events import DecisionMade
from outlast.errors import InvalidSetting

__all__ = [
    "EXPIRED",
    "GIVEN_UP",
    "Approvers",
    "Decided",
    "Expired",
    "Policy",
    "User",
    "find_objection",
    "read_policy",
    "settlement",
    "show_policy",
    "write_policy",
]

EXPIRED = "it expired"
GIVEN_UP = "the run does not wait for it any more"
LONGEST_SHOWN = 200

T_co = TypeVar("T_co", covariant=True)


class Approvers(enum.StrEnum):
    """Who may decide."""

    ANY = "any"
    OWNER = "owner"
    """Who started the run."""
    NOT_INITIATOR = "not-initiator"
    """Who is signed in, and did not start it."""


@dataclass(frozen=True)
class User:
    """Who decides. An empty id is somebody who is not signed in: only `approvers="any"` lets them."""

    id: str
    scopes: Sequence[str] = ()
    """What they are allowed: an approval may ask for one of these."""

    def __post_init__(self) -> None:
        if isinstance(self.scopes, str):
            raise InvalidSetting("scopes", self.scopes, f"several texts, such as [{self.scopes!r}]")
        object.__setattr__(self, "scopes", tuple(self.scopes))


@dataclass(frozen=True)
class Decided(Generic[T_co]):
    """An approval was decided."""

    value: T_co
    by: User
    at: datetime
    """When the decision was stored."""


@dataclass(frozen=True)
class Expired:
    """Nobody decided in time."""


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a wait asks for, for those who can answer it."""

    schema: msgspec.Raw = NOTHING
    """JSON Schema of the value; null: any."""
    approvers: Approvers = Approvers.ANY
    scope: str | None = None
    """Must be among the scopes of who decides."""
    text: str = ""
    """The question in full, where the approval's name is a short key."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Policy).decode


def write_policy(policy: Policy) -> msgspec.Raw:
    """As the journal keeps it."""
    return msgspec.Raw(_encode(policy))


def read_policy(raw: msgspec.Raw) -> Policy:
    """What the journal keeps."""
    return Policy() if bytes(raw) == b"null" else _decode(raw)


def show_policy(raw: msgspec.Raw) -> Policy:
    """The same for who only looks: one that cannot be read, as where the key to it is not here, says nothing."""
    try:
        return read_policy(raw)
    except msgspec.MsgspecError:
        return Policy()


def find_objection(policy: Policy, initiator: str | None, user: str, scopes: Sequence[str]) -> str:
    """Why this user may not decide; "": nothing is against it. `initiator` is who started the run."""
    if policy.approvers is not Approvers.ANY and not user:
        return "for they are not signed in"
    if policy.approvers is Approvers.OWNER and user != initiator:
        return "for only who started the run may" if initiator else "for only who started the run may, and nobody did"
    if policy.approvers is Approvers.NOT_INITIATOR and user == initiator:
        return "for they started the run themselves"
    if policy.scope is not None and policy.scope not in scopes:
        return f"for they lack the scope {policy.scope!r}"
    return ""


def settlement(decision: DecisionMade) -> str:
    """As what an approval was decided, and by whom, for those who come too late."""
    value = bytes(decision.value).decode(errors="replace")
    shown = value if len(value) <= LONGEST_SHOWN else f"{value[: LONGEST_SHOWN - 1]}…"
    return f"{shown}, decided by {decision.user or 'somebody'}"
