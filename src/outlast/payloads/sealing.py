"""A run's events between memory, where payloads are plain, and the store, where they are not. Layer: payloads.

What always holds: what is written is read back as it was, whatever codecs there are now; a payload that cannot be read
is an error, or, for who only looks, a `Sealed` in its place, and the event around it is whole. In the clear stay names,
keys, times, numbers, statuses, types and codes of errors, attributes of runs, and what people give as reasons: that is
what runs are found by, and moved by.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import msgspec

from outlast.core.events import Event, decode_events, encode_events
from outlast.errors import InvalidSetting, KeyNotFound, PayloadDamaged, PayloadUnreadable
from outlast.payloads.codec import Codec, Compress, Undecodable
from outlast.payloads.encryption import Encrypt
from outlast.payloads.fields import convert_event
from outlast.payloads.sealed import Sealed
from outlast.payloads.wrapper import MARK, Wrapper, escape, escape_text, is_wrapped, read_wrapper, wrap

__all__ = ["Payloads", "describe_unreadable"]

_NAME = re.compile(r"[a-z0-9-]{1,32}")


class Payloads:
    """The codecs of one app, as the engine uses them."""

    def __init__(self, codecs: Iterable[Codec] = ()) -> None:
        """`codecs`: in the order in which a payload goes through them. Raises InvalidSetting."""
        self._codecs = _check(tuple(codecs))
        self._known: dict[str, Codec] = {Compress.name: Compress()}
        self._known |= {codec.name: codec for codec in self._codecs}
        self.hides = any(codec.hides for codec in self._codecs)
        """Payloads are secret: no text that quotes one is stored in the clear."""
        self._required = [codec.name for codec in self._codecs if codec.required]

    @property
    def readable(self) -> list[str]:
        """What this process can decode, as a suspended run says what it lacks: `name`, `name:word` of each key."""
        names = [name for name in self._known if name != Compress.name]
        return names + [f"{name}:{word}" for name in names for word in getattr(self._known[name], "words", ())]

    def changes(self, events: bytes) -> bool:
        """Whether these bytes of an entry may not be stored as they are."""
        return bool(self._codecs) or events.find(MARK) >= 0

    # --- entries ------------------------------------------------------------------------------------------------------

    def encode_events(self, uid: str, events: Sequence[Event]) -> bytes:
        """The bytes of an entry of this run. With encryption they differ each time: make them once."""
        sealing = _Sealing(self, uid)
        return encode_events([convert_event(event, sealing) for event in events])

    def decode_events(
        self, uid: str, entry: bytes, on_unreadable: Callable[[PayloadUnreadable], None] | None = None
    ) -> list[Event]:
        """The events of an entry of this run, their payloads as they were.

        Raises PayloadUnreadable; or, with `on_unreadable`, tells it, and a `Sealed` takes the payload's place.
        """
        events = decode_events(entry)
        if entry.find(MARK) < 0 and not self._required:
            return events

        opening = _Opening(self, uid, on_unreadable)
        return [convert_event(event, opening) for event in events]

    # --- single payloads ----------------------------------------------------------------------------------------------

    def seal(self, uid: str, payload: bytes, place: bytes) -> bytes:
        """A payload of this run as it is stored. `place` names where; it is needed to open it, and not secret."""
        bound_to = _bind(uid, place)
        done: list[str] = []
        packed = payload
        for codec in self._codecs:
            answer = codec.encode(packed, bound_to)
            if answer is not None:
                word, packed = answer
                done.append(f"{codec.name}:{word}" if word else codec.name)
        return wrap(done, packed) if done else escape(payload)

    def open(self, uid: str, stored: bytes, place: bytes) -> bytes:
        """What `seal` was given. Raises PayloadUnreadable."""
        if not is_wrapped(stored) and not self._required:
            return stored
        where = place.decode(errors="replace").replace("\0", " ").strip()
        try:
            return self._unwrap(stored, _bind(uid, place))
        except Undecodable as error:
            if error.needs:
                raise KeyNotFound(uid, where, error.problem, error.needs) from error
            raise PayloadDamaged(uid, where, error.problem) from error

    def _unwrap(self, stored: bytes, bound_to: bytes) -> bytes:
        wrapper = read_wrapper(stored) if is_wrapped(stored) else Wrapper((), plain=msgspec.Raw(stored))
        missing = set(self._required) - {step.partition(":")[0] for step in wrapper.codecs}
        if missing:
            raise Undecodable(f"it did not go through {', '.join(missing)}, as every value must")
        if not wrapper.codecs:
            return bytes(wrapper.plain)
        packed = wrapper.packed
        for step in reversed(wrapper.codecs):
            name, _, word = step.partition(":")
            codec = self._known.get(name)
            if codec is None:
                needs = step if name == Encrypt.name else name  # a worker that has it finds the run by this
                raise Undecodable(f"it went through codec {step!r}, which is not here", needs)
            try:
                packed = codec.decode(packed, word, bound_to)
            except Undecodable:
                raise
            except Exception as error:
                raise Undecodable(f"codec {name!r} failed, {error!r}") from error
        return packed


# --- the payloads of an entry -----------------------------------------------------------------------------------------


class _Sealing:
    """On the way into the store. A text is packed as the JSON it would be; where none packs it, it stays a text."""

    def __init__(self, payloads: Payloads, uid: str) -> None:
        self._payloads = payloads
        self._uid = uid

    def json(self, raw: msgspec.Raw, place: bytes) -> msgspec.Raw:
        return msgspec.Raw(self._payloads.seal(self._uid, bytes(raw), place))

    def text(self, text: str, place: bytes) -> str:
        if not text:
            return text
        sealed = self._payloads.seal(self._uid, msgspec.json.encode(text), place)
        return sealed.decode() if is_wrapped(sealed) else escape_text(text)

    note = text


class _Opening:
    """On the way back. Texts are let be where they are in the clear: a process without keys may have written them."""

    def __init__(self, payloads: Payloads, uid: str, on_unreadable: Callable[[PayloadUnreadable], None] | None) -> None:
        self._payloads = payloads
        self._uid = uid
        self._on_unreadable = on_unreadable

    def json(self, raw: msgspec.Raw, place: bytes) -> msgspec.Raw:
        plain = self._open(bytes(raw), place)
        # A Sealed is no JSON, but for who looks at values only to show them.
        return cast(msgspec.Raw, plain) if isinstance(plain, Sealed) else msgspec.Raw(plain)

    def text(self, text: str, place: bytes) -> str:
        if not is_wrapped(text.encode()):
            return text
        plain = self._open(text.encode(), place)
        return str(plain) if isinstance(plain, Sealed) else msgspec.json.decode(plain, type=str)

    def _open(self, stored: bytes, place: bytes) -> bytes | Sealed:
        try:
            return self._payloads.open(self._uid, stored, place)
        except PayloadUnreadable as error:
            if self._on_unreadable is None:
                raise
            self._on_unreadable(error)
            return describe_unreadable(stored, error)

    def note(self, text: str, place: bytes) -> str:
        try:
            return _Opening(self._payloads, self._uid, None).text(text, place)
        except PayloadUnreadable as error:
            return str(describe_unreadable(text.encode(), error))


def describe_unreadable(stored: bytes, error: PayloadUnreadable) -> Sealed:
    """What is shown in the place of a payload that cannot be read here."""
    try:
        codecs = read_wrapper(stored).codecs
    except Undecodable:
        codecs = ()
    return Sealed(codecs, len(stored), error.problem)


def _bind(uid: str, place: bytes) -> bytes:
    """What a payload is bound to: it is readable nowhere else."""
    return b"outlast\0" + uid.encode() + b"\0" + place


def _check(codecs: tuple[Codec, ...]) -> tuple[Codec, ...]:
    names = [getattr(codec, "name", None) for codec in codecs]
    for codec, name in zip(codecs, names, strict=True):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidSetting("codecs", codec, "codecs with a `name` of small letters, digits and dashes")
        if names.count(name) > 1:
            raise InvalidSetting("codecs", name, "each codec once")
    hiding = [codec.hides for codec in codecs]
    if any(hiding) and not hiding[-1]:
        raise InvalidSetting("codecs", names, "compression before encryption: what is encrypted does not get smaller")
    return codecs
