"""A payload that this process cannot read, as it is shown instead of the value. Layer: payloads."""

from __future__ import annotations

import msgspec

__all__ = ["Sealed"]


class Sealed(msgspec.Struct, frozen=True):
    """Stands where a value would: in a run's status, history and timeline. Nothing is lost; see `problem`."""

    codecs: tuple[str, ...] = msgspec.field(name="$outlast:sealed")
    """What was done to it: `zlib`, `aes-gcm:KEY`."""
    size: int
    """Bytes it takes in the store."""
    problem: str
    """Why it cannot be read here."""

    def __str__(self) -> str:
        return f"<sealed by {', '.join(self.codecs) or 'nothing known'}: {self.problem}>"
