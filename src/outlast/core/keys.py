"""Names, step keys and ids: what may be called what, and which id follows from it. Layer: core.

What always holds: a key depends on the order in which the body asks, never on timing; and an id follows from its run's
uid and its key alone, so that every attempt, worker, store and deploy computes the same one.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final
from uuid import UUID

from outlast.errors import InvalidName

__all__ = [
    "CHILDREN",
    "DECISIONS",
    "INVOCATIONS",
    "LONGEST_NAME",
    "SIGNALS",
    "check_name",
    "check_step_name",
    "child_uid",
    "decision_id",
    "invocation_id",
    "signal_id",
    "take_key",
    "uuid7",
]

LONGEST_NAME: Final = 512
"""Bytes of UTF-8. Names are indexed, and an index has an end (SPEC D4)."""

# Random UUIDs of this project. They never change: an invocation id is what other systems know a payment by.
INVOCATIONS: Final = UUID("7d4a1a0e-6c7f-4d1b-9a55-2f1c83b0c6e9")
CHILDREN: Final = UUID("b3f3c0de-5c0a-4f0e-8d3e-61a7c95d02f4")
SIGNALS: Final = UUID("0f6d2a57-98b1-43d6-b7c4-d85e4b7a13c8")
DECISIONS: Final = UUID("5e0b7c1d-3f64-4b8e-9c02-a7d1f86e2b35")

_INVOCATIONS, _CHILDREN, _SIGNALS = INVOCATIONS.bytes, CHILDREN.bytes, SIGNALS.bytes
_DECISIONS = DECISIONS.bytes


def check_name(kind: str, text: object) -> str:
    """`text`, if an id, name, key or reason may be called so; else InvalidName, which says why. `kind` says what it is.

    Refused: what is no text or empty, over 512 bytes, with a NUL (PostgreSQL cannot hold it) or a lone surrogate (UTF-8
    cannot). Quotes, dots, slashes, spaces and emoji are all right.
    """
    if not isinstance(text, str):
        raise InvalidName(kind, _shorten(text), f"is {type(text).__name__}, not text", "Pass a str.")
    if not text:
        raise InvalidName(kind, "''", "is empty", "Give it at least one character.")
    if "\0" in text:
        raise InvalidName(kind, _shorten(text), "contains a NUL character", "Remove it.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidName(kind, _shorten(text), "contains half a surrogate pair", "Decode it properly first.") from None
    if size > LONGEST_NAME:
        problem = f"is {size} bytes long, over the limit of {LONGEST_NAME}"
        raise InvalidName(kind, _shorten(text), problem, "Use a short key, and keep the text in the value.")
    return text


def check_step_name(text: object, kind: str = "step name") -> str:
    """As `check_name`, and without `#`, which parts a name from the number of its use."""
    name = check_name(kind, text)
    if "#" in name:
        raise InvalidName(
            kind, _shorten(name), "contains '#'", "The engine numbers repeated steps with it; use another."
        )
    return name


def _shorten(value: object) -> str:
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def take_key(used: dict[str, int], name: str) -> str:
    """The next free key of `name`, `charge`, `charge#1`, `charge#2`; counts it in `used`, which is one run's own."""
    use = used.get(name, 0)
    used[name] = use + 1
    return f"{name}#{use}" if use else name


def _uuid5(namespace: bytes, name: str) -> str:
    """`str(uuid.uuid5(…))` in a third of the time."""
    digest = sha1(namespace + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def invocation_id(uid: str, key: str) -> str:
    """What one step of one run is called in the world: the same on every attempt. Hand it out as idempotency key."""
    return _uuid5(_INVOCATIONS, f"{uid}:{key}")


def child_uid(parent_uid: str, key: str) -> str:
    """The uid of the child that this step of the parent starts: there can be no second one."""
    return _uuid5(_CHILDREN, f"{parent_uid}:{key}")


def signal_id(uid: str, name: str, key: str) -> str:
    """The message id of a signal with a dedup key. The lengths part `a:b` + `c` from `a` + `b:c`."""
    return _uuid5(_SIGNALS, f"{uid}:{len(name)}:{name}:{key}")


def decision_id(uid: str, reason: str, key: str) -> str:
    """The message id of a decision with a dedup key, as it was addressed."""
    return _uuid5(_DECISIONS, f"{uid}:{len(reason)}:{reason}:{key}")


def uuid7(at_us: int, random_bits: int) -> str:
    """A time-ordered UUID, as text. Ids of different microseconds sort by time, whatever the 62 `random_bits` are."""
    millis, micros = divmod(at_us, 1000)
    value = (millis & (1 << 48) - 1) << 80 | 0x7 << 76 | (micros * 4096 // 1000) << 64
    text = f"{value | 0b10 << 62 | random_bits & (1 << 62) - 1:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
