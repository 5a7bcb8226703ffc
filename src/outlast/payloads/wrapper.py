"""How a packed payload lies in the store: JSON, as any other value. Layer: payloads.

    {"$outlast:codec":["zlib","aes-gcm:2026-07"],"data":"…base64…"}     packed by these, in this order
    {"$outlast:codec":[],"plain":…}                                    a user's own value that begins like one

What always holds: a payload is a wrapper if and only if its bytes begin as these do. Who writes a value of such a kind
escapes it, so that reading gives back what was written, whatever it was.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from outlast.payloads.codec import Undecodable

__all__ = ["MARK", "Wrapper", "escape", "escape_text", "is_wrapped", "read_wrapper", "wrap"]

MARK = b"$outlast:codec"
"""In every entry that has a wrapper, also where it is in a text: one look tells that there is none."""

_BEGIN = b'{"$outlast:codec":['


class Wrapper(msgspec.Struct, frozen=True):
    """A wrapper, read."""

    codecs: tuple[str, ...] = msgspec.field(name="$outlast:codec")
    """`name` or `name:word` of each codec it went through, the first first."""
    data: str | None = None
    plain: msgspec.Raw = msgspec.Raw(b"")

    @property
    def packed(self) -> bytes:
        """What the last codec made. Raises `Undecodable`."""
        try:
            return base64.b64decode(self.data or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise Undecodable("it is no base64") from error


_decode = msgspec.json.Decoder(Wrapper).decode
_encode = msgspec.json.Encoder().encode


def is_wrapped(payload: bytes) -> bool:
    """Whether these bytes of JSON are a wrapper."""
    return payload.startswith(_BEGIN)


def read_wrapper(payload: bytes) -> Wrapper:
    """The wrapper of these bytes. Raises `Undecodable` for one that nobody here wrote."""
    try:
        wrapper = _decode(payload)
    except msgspec.MsgspecError as error:
        raise Undecodable(f"its wrapper cannot be read, {error}") from error
    if bool(bytes(wrapper.plain)) is bool(wrapper.codecs):
        raise Undecodable("its wrapper cannot be read")
    return wrapper


def wrap(codecs: list[str], packed: bytes) -> bytes:
    """The wrapper around what these codecs made."""
    return _encode({"$outlast:codec": codecs, "data": base64.b64encode(packed).decode()})


def escape(payload: bytes) -> bytes:
    """The payload as it may be stored, where no codec has changed it."""
    return b'{"$outlast:codec":[],"plain":%b}' % payload if is_wrapped(payload) else payload


def escape_text(text: str) -> str:
    """The same for a text, which is stored as it is, or as the wrapper of its JSON."""
    if not is_wrapped(text.encode()):
        return text
    return (b'{"$outlast:codec":[],"plain":%b}' % msgspec.json.encode(text)).decode()
