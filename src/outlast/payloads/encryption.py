"""Encryption of payloads: AES-GCM, with key ids and rotation (SPEC D2). Layer: payloads. Needs the extra `crypto`.

A payload carries the id of its key, a random nonce of 96 bits, and a tag that binds it to its run, event and field: it
does not decrypt anywhere else. What always holds: new payloads are written under the current key; those of any other
key that is given are readable. A random nonce is safe for some four billion payloads of one key: rotate before that.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from outlast.errors import ExtraMissing, InvalidSetting
from outlast.payloads.codec import Undecodable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["Encrypt"]

NONCE = 12
TAG = 16
SIZES = frozenset({16, 24, 32})
KEYS_VARIABLE = "OUTLAST_KEYS"

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Encrypt:
    """Encrypts every payload under the `current` key. See the module's docstring.

    `keys`: by id, each of 16, 24 or 32 random bytes, or those in base64: `secrets.token_bytes(32)`. `current`: the id
    to write under; may be left out where there is one key. To rotate, add a key everywhere, then make it current, and
    drop the old one when no run is left from its time. Ids are stored in the clear, keys never.

    `required`: values in the clear are refused, so that whoever can write to the store cannot slip one in. Set it once
    no run is left that was begun without encryption.
    """

    name = "aes-gcm"
    hides = True

    def __init__(self, keys: Mapping[str, bytes | str], *, current: str | None = None, required: bool = False) -> None:
        self._keys = {_check_id(key_id): _make_cipher(key_id, key) for key_id, key in keys.items()}
        if current is None and len(self._keys) == 1:
            current = next(iter(self._keys))
        if current not in self._keys:
            raise InvalidSetting("Encrypt(current=…)", current, f"the id of one of the keys: {', '.join(self._keys)}")
        self.current: str = current
        self.required = required

    @classmethod
    def from_env(cls, variable: str = KEYS_VARIABLE, *, required: bool = False) -> Encrypt:
        """Keys from an environment variable, `ID=BASE64` one after another with commas; the first is the current one.

        Raises InvalidSetting, which does not repeat what the variable holds."""
        keys: dict[str, bytes | str] = {}
        for part in filter(None, (text.strip() for text in os.environ.get(variable, "").split(","))):
            key_id, equals, key = part.partition("=")
            if not equals:
                raise InvalidSetting(f"${variable}", "…", "ID=BASE64, and more of them after commas")
            keys[key_id.strip()] = key.strip()
        if not keys:
            raise InvalidSetting(f"${variable}", None, "ID=BASE64, and more of them after commas")
        return cls(keys, current=next(iter(keys)), required=required)

    @property
    def words(self) -> tuple[str, ...]:
        """Ids of the keys it has."""
        return tuple(self._keys)

    def __repr__(self) -> str:
        return f"Encrypt(keys: {', '.join(self._keys)}; current={self.current!r})"

    def encode(self, data: bytes, bound_to: bytes) -> tuple[str, bytes]:
        """See `Codec`."""
        nonce = os.urandom(NONCE)
        return self.current, nonce + self._keys[self.current].encrypt(nonce, data, bound_to)

    def decode(self, data: bytes, word: str, bound_to: bytes) -> bytes:
        """See `Codec`."""
        cipher = self._keys.get(word)
        if cipher is None:
            raise Undecodable(f"it is encrypted under key {word!r}, which is not here", f"{self.name}:{word}")
        if len(data) < NONCE + TAG:
            raise Undecodable("it is too short to be what was encrypted")
        from cryptography.exceptions import InvalidTag

        try:
            return cipher.decrypt(data[:NONCE], data[NONCE:], bound_to)
        except InvalidTag as error:
            problem = f"it does not decrypt under key {word!r}: the key is another one, or somebody has changed it"
            raise Undecodable(problem) from error


def _check_id(key_id: str) -> str:
    if not _ID.fullmatch(str(key_id)):
        raise InvalidSetting("id of a key", key_id, "up to 64 letters, digits, dots, dashes and underscores")
    return key_id


def _make_cipher(key_id: str, key: bytes | str) -> AESGCM:
    """The key is in no message: messages are logged."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ExtraMissing("Encryption of payloads", "crypto") from None
    if isinstance(key, str):
        try:
            key = base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidSetting(f"key {key_id!r}", "…", "bytes, or base64 of them") from None
    if len(key) not in SIZES:
        raise InvalidSetting(f"key {key_id!r}", "…", "16, 24 or 32 bytes, such as secrets.token_bytes(32)")
    return AESGCM(key)
