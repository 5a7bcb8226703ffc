"""What may be done to a payload on its way into the store: the protocol, and compression. Layer: payloads."""

from __future__ import annotations

import zlib
from typing import Protocol

from outlast.errors import InvalidSetting

__all__ = ["LARGEST", "Codec", "Compress", "Undecodable"]

LARGEST = 64 * 1024 * 1024
"""Bytes that a payload may have once it is unpacked: what is longer was not packed by us."""


class Undecodable(Exception):
    """These bytes cannot be decoded. `needs` names what is missing, a key for instance; "": they are damaged, or were
    encoded with another key of this name. Raised by codecs, told as an error of outlast's own."""

    def __init__(self, problem: str, needs: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.needs = needs


class Codec(Protocol):
    """Packs payloads and unpacks them. Both are called in the event loop, for each payload: be quick.

    What it packed must be readable for as long as runs are kept; so a codec that changes takes another name.
    """

    @property
    def name(self) -> str:
        """Stored with each payload: lower case, without `:`. It finds the codec again."""
        ...

    @property
    def hides(self) -> bool:
        """Whether nobody without a secret can read what it packed. Then outlast's own texts quote no value either."""
        ...

    @property
    def required(self) -> bool:
        """Whether a value that did not go through it is refused when it is read."""
        ...

    def encode(self, data: bytes, bound_to: bytes) -> tuple[str, bytes] | None:
        """The packed bytes, and a word that `decode` needs beside them (a key's id, or ""). None: leave them as they
        are. `bound_to` says where the payload belongs: run, event and field. It is no secret, and not stored."""
        ...

    def decode(self, data: bytes, word: str, bound_to: bytes) -> bytes:
        """The bytes as they were. Raises `Undecodable`."""
        ...


class Compress:
    """Compresses payloads of `above` bytes of JSON and more, with zlib, where that makes them smaller.

    Level 1 packs some 100 MB a second; a higher one is up to ten times as slow and saves a tenth more.
    """

    name = "zlib"
    hides = False
    required = False

    def __init__(self, *, above: int = 1024, level: int = 1) -> None:
        if above < 0:
            raise InvalidSetting("Compress(above=…)", above, "a number of bytes, 0 or more")
        if level not in range(1, 10):
            raise InvalidSetting("Compress(level=…)", level, "1 (quick) to 9 (small)")
        self.above = above
        self.level = level

    def encode(self, data: bytes, bound_to: bytes) -> tuple[str, bytes] | None:  # noqa: ARG002 - see the protocol
        """See `Codec`. What does not get a quarter smaller, which base64 costs, is left as it is."""
        if len(data) < self.above:
            return None
        packed = zlib.compress(data, self.level)
        return ("", packed) if len(packed) < len(data) * 3 // 4 else None

    def decode(self, data: bytes, word: str, bound_to: bytes) -> bytes:  # noqa: ARG002 - see the protocol
        """See `Codec`."""
        unpacking = zlib.decompressobj()
        try:
            plain = unpacking.decompress(data, LARGEST)
        except zlib.error as error:
            raise Undecodable(f"it does not unpack, {error}") from error
        if not unpacking.eof or unpacking.unused_data:
            raise Undecodable("it does not unpack to what was packed")
        return plain
