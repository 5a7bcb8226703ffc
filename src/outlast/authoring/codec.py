"""The codec: values to JSON and back, through msgspec (SPEC D1, S12). Layer: authoring. Nothing is ever pickled.

What always holds: what a body sees is what the journal holds, decoded, so a value seen live equals the value seen on
replay (invariant 9). The same value gives the same bytes in every process; sets, whose order does not, are sorted.

A value comes back as its *annotation* says. Where the annotation is `Any` or missing, it comes back as plain JSON: a
tuple or set as a list, a date as text, a dataclass as a dict, the keys of a dict as text. NaN and the infinities, which
JSON does not have, are refused by name; within a `Decimal` they are text, and pass.
"""

from __future__ import annotations

import re
from types import NoneType
from typing import Any

import msgspec

from outlast.authoring.hooks import encode_unknown
from outlast.authoring.schema import check_type, decoder, describe_type, explain
from outlast.authoring.values import MAX_DEPTH, find_fault, is_canonical, is_too_deep, to_canonical
from outlast.errors import NotEncodable, ResultInvalid, ValueTooLarge

__all__ = ["FLAT", "MAX_VALUE", "Returns", "decoder", "encode", "encode_flat", "is_same_json"]

MAX_VALUE = 2 * 1024 * 1024
"""Bytes of JSON that one argument list or result may take (SPEC S12)."""

_encode = msgspec.json.Encoder(enc_hook=encode_unknown).encode
_pack = msgspec.msgpack.Encoder(enc_hook=encode_unknown).encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_decode_any = decoder(Any)

_SHALLOW = 2 * MAX_DEPTH
"""Bytes that JSON has at least if it is too deep."""

FLAT = frozenset({str, int, bool, NoneType, bytes})
"""Types whose values hold nothing that could be hidden, unordered or deep."""

# An IEEE double in MessagePack whose exponent is all ones, as those of NaN and the infinities are.
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL)


def encode(value: object, what: str = "a value", *, root: str = "value", limit: int = MAX_VALUE) -> bytes:
    """The value as compact JSON, the same in every process.

    `what` says what the value is and `root` begins the path inside it, in an error: NotEncodable names path and type,
    ValueTooLarge the size. Also refused: values that contain themselves, or nest over `MAX_DEPTH` deep.
    """
    try:
        data = _encode(value)
    except Exception as error:  # also of users' own serializers
        raise _not_encodable(value, what, root, error) from error
    if len(data) > limit:
        raise ValueTooLarge(what, len(data), limit)
    if type(value) not in FLAT:
        if len(data) > _SHALLOW and is_too_deep(data):
            raise _not_encodable(value, what, root, None)
        # msgspec writes NaN as null. MessagePack does not: the quickest way to look for one in a value with nulls.
        # (`in` would take four times as long as `find`: for bytes it tries an integer first.)
        if data.find(b"null") >= 0 and _may_hide_nan(value) and find_fault(value, root) is not None:
            raise _not_encodable(value, what, root, None)
        if not is_canonical(value):
            data = _encode(to_canonical(value))
    return data


def encode_flat(value: object, limit: int = MAX_VALUE) -> bytes | None:
    """The same, for a value all of whose parts are `FLAT`. None: it does not go; `encode` says why."""
    try:
        data = _encode(value)
    except Exception:  # noqa: BLE001 - `encode` meets it again
        return None
    return data if len(data) <= limit else None


def _may_hide_nan(value: object) -> bool:
    try:
        return _NOT_FINITE.search(_pack(value)) is not None
    except Exception:  # noqa: BLE001 - an int beyond MessagePack's: look closely
        return True


def _not_encodable(value: object, what: str, root: str, error: Exception | None) -> NotEncodable:
    fault = find_fault(value, root)
    if fault is None:
        return NotEncodable(root or what, type(value).__qualname__, f", {error}", what)
    return NotEncodable(fault.path.removeprefix("."), fault.type, fault.problem, what)


def is_same_json(one: bytes | msgspec.Raw, other: bytes | msgspec.Raw) -> bool:
    """Whether both say the same, whatever the order of keys. `1` and `1.0`, and `1` and `true`, differ."""
    return bytes(one) == bytes(other) or _encode_sorted(_decode_any(one)) == _encode_sorted(_decode_any(other))


class Returns:
    """What a function promises to return: encodes its results, and decodes them as annotated. One per function."""

    __slots__ = ("_as_is", "_decode", "_what", "annotation", "function")

    def __init__(self, function: str, annotation: Any = Any) -> None:
        check_type(annotation, f"{function}, its result")
        self.function = function
        self._what = f"the result of {function}"
        self.annotation = annotation
        self._decode = decoder(annotation)
        # Exactly these come back from JSON as they went in, and cannot be changed by whoever holds them.
        self._as_is = frozenset({str, int, bool, NoneType}) & {NoneType if annotation is None else annotation}
        if annotation is Any or annotation is object:
            self._as_is = frozenset({str, int, bool, NoneType})

    def settle(self, value: object) -> tuple[bytes, Any]:
        """What the journal keeps of a result, and what the body gets: the same value that a replay will decode.

        Raises NotEncodable, ValueTooLarge, or ResultInvalid for a result that is not what the annotation promises.
        """
        if type(value) in self._as_is and (flat := encode_flat(value)) is not None:
            return flat, value
        data = encode(value, self._what, root="result")
        try:
            return data, self._decode(data)
        except msgspec.MsgspecError as error:
            raise self._invalid(error, value) from error

    def decode(self, data: bytes | msgspec.Raw) -> Any:
        """A recorded result. Raises ResultInvalid where the annotation has changed and the result does not fit it."""
        try:
            return self._decode(data)
        except msgspec.MsgspecError as error:
            raise self._invalid(error, msgspec.Raw(data)) from error

    def _invalid(self, error: msgspec.MsgspecError, value: object) -> ResultInvalid:
        path, expected, problem = explain(error)
        shown = bytes(value).decode(errors="replace") if isinstance(value, msgspec.Raw) else repr(value)
        got = shown if len(shown) <= 120 else f"{shown[:117]}..."
        at = f"{path.replace('$', 'result', 1)}: expected {expected}, {problem}"
        return ResultInvalid(self.function, describe_type(self.annotation), got, at)
