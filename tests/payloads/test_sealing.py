"""Payloads on their way into the store and back (SPEC D2): whatever was written is read, and nothing else."""

from __future__ import annotations

import base64
import contextlib
import enum
import json
import secrets
import typing
import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.core import events as all_events
from outlast.core.events import (
    ErrorRecord,
    Event,
    RunCompleted,
    RunFailed,
    RunStarted,
    RunSuspended,
    StateSet,
    StepFailed,
    StepStarted,
    StepSucceeded,
    encode_events,
)
from outlast.errors import InvalidSetting, KeyNotFound, PayloadDamaged
from outlast.payloads import Compress, Encrypt, Payloads, Sealed
from outlast.payloads.codec import LARGEST

KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
PLAIN = Payloads()
PACKED = Payloads([Compress(above=0)])
ENCRYPTED = Payloads([Encrypt({"k1": KEY})])
BOTH = Payloads([Compress(above=64), Encrypt({"k1": KEY, "k0": OTHER_KEY}, current="k1")])
ALL = [PLAIN, PACKED, ENCRYPTED, BOTH]

LOOKALIKES = st.sampled_from(
    [
        {"$outlast:codec": []},
        {"$outlast:codec": [], "plain": 1},
        {"$outlast:codec": ["zlib"], "data": ""},
        {"$outlast:codec": ["aes-gcm:k1"], "data": "AAAA"},
        {"$outlast:codec": 7},
        {"$outlast:sealed": []},
        '{"$outlast:codec":["zlib"],"data":""}',
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=200) | LOOKALIKES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
TEXT = (
    st.text(max_size=100) | st.just('{"$outlast:codec":[],"plain":"x"}') | st.text("ab", min_size=2000, max_size=2100)
)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def errors() -> st.SearchStrategy[ErrorRecord]:
    replace: typing.Any = msgspec.structs.replace
    plain = st.builds(ErrorRecord, type=st.just("Bad"), message=TEXT, traceback=TEXT, data=JSON.map(raw))
    return st.builds(replace, plain, cause=st.none() | plain, members=st.lists(plain, max_size=2).map(tuple))


def make_events(value: msgspec.Raw, error: ErrorRecord, text: str) -> list[Event]:
    return [
        RunStarted(1, "u", "A-17", "fulfil", "v1", value, 7, "3.11", attributes=raw({"region": "eu"})),
        StepStarted("charge", "charge", value),
        StepSucceeded(2, "charge", 1, value),
        StepFailed(3, "pack", 1, error),
        StateSet("k", value),
        RunSuspended(4, "NON_DETERMINISM", text, "detail"),
        RunFailed(error),
        RunCompleted(value),
    ]


# SPEC D2
@settings(max_examples=60, deadline=None)
@given(JSON, errors(), TEXT)
def test_what_was_written_is_read_back(value, error, text) -> None:
    """Any value and error under any codecs, also one that looks like a wrapper; and by whoever has the keys."""
    events = make_events(raw(value), error, text)
    for payloads in ALL:
        entry = payloads.encode_events("u", events)
        for reader in (payloads, BOTH):
            assert encode_events(reader.decode_events("u", entry)) == encode_events(events)


# SPEC D2
@settings(max_examples=60, deadline=None)
@given(JSON)
def test_without_codecs_an_entry_is_as_it_always_was(value) -> None:
    """Byte for byte, unless a value looks like a wrapper: old journals stay readable, and nothing costs more."""
    events = make_events(raw(value), ErrorRecord("Bad", "no"), "why")
    entry = PLAIN.encode_events("u", events)
    if b"$outlast:codec" not in encode_events(events):
        assert entry == encode_events(events)
    json.loads(entry)


# SPEC D2
def test_no_value_is_in_the_clear() -> None:
    """Input, arguments, results, state, output, and of errors message, traceback and data; each time in other bytes."""
    secret = "4111-1111-1111-1111"
    error = ErrorRecord("Bad", secret, traceback=secret, data=raw([secret]), cause=ErrorRecord("Worse", secret))
    events = make_events(raw({"card": secret}), error, f"recorded was {secret}")
    entries = [ENCRYPTED.encode_events("u", events) for _ in range(2)]
    assert secret.encode() not in entries[0]
    assert entries[0] != entries[1]
    found = msgspec.json.decode(entries[0])
    assert [event.get("key") for event in found][1:5] == ["charge", "charge", "pack", "k"]
    assert found[0]["attributes"] == {"region": "eu"}
    assert (found[3]["error"]["type"], found[3]["error"]["cause"]["type"]) == ("Bad", "Worse")


def test_every_field_of_an_event_that_holds_a_value_is_sealed() -> None:
    """Also of events to come: what is JSON of a user's, or an error, is found by its type."""
    secret = "s3cret-s3cret"
    for kind in typing.get_args(all_events.Event):
        given_fields = {}
        for field in msgspec.structs.fields(kind):
            types = {field.type, *typing.get_args(field.type)}
            if msgspec.Raw in types and field.name != "attributes":
                given_fields[field.name] = raw(secret)
            elif ErrorRecord in types:
                given_fields[field.name] = ErrorRecord("Bad", secret)
            elif field.required:
                given_fields[field.name] = _any_of(field.type)
        entry = ENCRYPTED.encode_events("u", [kind(**given_fields)])
        assert secret.encode() not in entry, kind
        assert ENCRYPTED.decode_events("u", entry) == [kind(**given_fields)]


def _any_of(kind: object) -> object:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    for value in (1, "x", True, [], {}):
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.convert(value, type=kind)  # type: ignore[call-overload]
    raise AssertionError(f"no value for {kind}")


# SPEC D2
def test_a_payload_is_readable_where_it_belongs_and_nowhere_else() -> None:
    """Moved to another run, another step or another field it does not decrypt, though the key is right."""
    read: typing.Any = ENCRYPTED.decode_events
    (stored,) = msgspec.json.decode(ENCRYPTED.encode_events("u", [StepSucceeded(2, "charge", 1, raw(7))]))
    moved = [
        ("u", {**stored, "key": "pack"}),
        ("u", {"event": "StateSet", "key": "charge", "value": stored["value"]}),
        ("other", stored),
    ]
    assert read("u", msgspec.json.encode([stored]))[0].value == raw(7)
    for uid, event in moved:
        with pytest.raises(PayloadDamaged, match="does not decrypt"):
            read(uid, msgspec.json.encode([event]))


# SPEC D2
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_found(position, flip) -> None:
    """Anywhere in nonce, ciphertext and tag: a clear error with its code, and never another value."""
    stored = ENCRYPTED.seal("u", b'{"amount":30}', b"place")
    packed = bytearray(base64.b64decode(json.loads(stored)["data"]))
    packed[position % len(packed)] ^= flip
    changed = json.dumps({**json.loads(stored), "data": base64.b64encode(packed).decode()}, separators=(",", ":"))
    with pytest.raises(PayloadDamaged) as caught:
        ENCRYPTED.open("u", changed.encode(), b"place")
    assert caught.value.code == "PAYLOAD_DAMAGED"


@pytest.mark.parametrize(
    "stored",
    [
        b'{"$outlast:codec":["zlib"]}',
        b'{"$outlast:codec":["zlib"],"data":"!"}',
        b'{"$outlast:codec":["zlib"],"data":"AAAA"}',
        b'{"$outlast:codec":[]}',
        b'{"$outlast:codec":[7],"data":""}',
        b'{"$outlast:codec":["aes-gcm:k1"],"data":"AAAA"}',
        b'{"$outlast:codec":["aes-gcm:k1"],"plain":1}',
        b'{"$outlast:codec":["zlib"],"data":"%b"}' % base64.b64encode(zlib.compress(b"x" * 100)[:-2]),
        b'{"$outlast:codec":["zlib"],"data":"%b"}' % base64.b64encode(zlib.compress(b"x") + b"more"),
    ],
)
def test_what_nobody_here_wrote_is_damaged(stored) -> None:
    """Broken JSON, base64 or zlib, a wrapper that contradicts itself."""
    with pytest.raises(PayloadDamaged):
        BOTH.open("u", stored, b"place")


def test_a_small_payload_does_not_unpack_to_a_huge_one() -> None:
    """A bomb in the store costs no more than the largest payload there can be."""
    packing = zlib.compressobj(9)
    bomb = b"".join(packing.compress(bytes(LARGEST // 8)) for _ in range(9)) + packing.flush()
    with pytest.raises(PayloadDamaged):
        PLAIN.open("u", b'{"$outlast:codec":["zlib"],"data":"%b"}' % base64.b64encode(bomb), b"place")


# --- keys -------------------------------------------------------------------------------------------------------------


# SPEC D2
def test_after_a_rotation_the_old_is_readable_and_the_new_is_under_the_new_key() -> None:
    """Add a key, make it current, drop the old one: each step reads what the step before wrote."""
    old = Payloads([Encrypt({"k0": OTHER_KEY})])
    both = Payloads([Encrypt({"k0": OTHER_KEY, "k1": KEY}, current="k1")])
    before, after = (each.seal("u", b"1", b"place") for each in (old, both))
    assert both.open("u", before, b"place") == both.open("u", after, b"place") == b"1"
    assert b"aes-gcm:k0" in before
    assert b"aes-gcm:k1" in after
    with pytest.raises(KeyNotFound) as caught:
        ENCRYPTED.open("u", before, b"place")
    assert (caught.value.code, caught.value.needs) == ("KEY_NOT_FOUND", "aes-gcm:k0")


def test_a_key_of_the_right_name_and_other_bytes_is_found_out() -> None:
    """Two deploys that disagree about a key read none of each other's values as something else."""
    with pytest.raises(PayloadDamaged, match="the key is another one"):
        Payloads([Encrypt({"k1": OTHER_KEY})]).open("u", ENCRYPTED.seal("u", b"1", b"p"), b"p")


# SPEC D2
def test_where_encryption_is_required_a_value_in_the_clear_is_refused() -> None:
    """Whoever can write to the store, and has no key, cannot slip a value in; texts and nothing are let be."""
    strict = Payloads([Compress(above=0), Encrypt({"k1": KEY}, required=True)])
    events = make_events(raw({"a": 1}), ErrorRecord("Bad", "no"), "why")
    assert strict.decode_events("u", strict.encode_events("u", events)) == events
    for payloads in (PLAIN, PACKED):
        with pytest.raises(PayloadDamaged, match="did not go through aes-gcm"):
            strict.decode_events("u", payloads.encode_events("u", [StepSucceeded(2, "charge", 1, raw({"a": 1}))]))
    by_who_has_no_key = [RunSuspended(4, "KEY_NOT_FOUND", "the key is not here")]
    assert strict.decode_events("u", PLAIN.encode_events("u", by_who_has_no_key)) == by_who_has_no_key


# SPEC D2
def test_who_only_looks_gets_the_rest_and_a_mark() -> None:
    """Without the key: names, times and what happened are there; a value is shown as sealed, a message as well."""
    problems: list[Exception] = []
    entry = BOTH.encode_events("u", make_events(raw("x" * 300), ErrorRecord("Bad", "no"), "why"))
    decode: typing.Any = PLAIN.decode_events
    started, called, *_, suspended, failed, _ = decode("u", entry, problems.append)
    assert (started.id, called.key, suspended.code) == ("A-17", "charge", "NON_DETERMINISM")
    assert isinstance(started.input, Sealed)
    assert started.input.codecs == ("zlib", "aes-gcm:k1")
    assert msgspec.json.decode(msgspec.json.encode(called.arguments))["$outlast:sealed"] == ["zlib", "aes-gcm:k1"]
    assert failed.error.type == "Bad"
    assert "aes-gcm:k1" in failed.error.message
    assert {type(problem) for problem in problems} == {KeyNotFound}
    with pytest.raises(KeyNotFound):
        PLAIN.decode_events("u", entry)


def test_what_a_process_can_read_is_told_in_the_words_of_what_it_would_lack() -> None:
    """So that a worker that has the key finds the runs that wait for it."""
    assert PLAIN.readable == []
    assert BOTH.readable == ["aes-gcm", "aes-gcm:k1", "aes-gcm:k0"]


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: Encrypt({}),
        lambda: Encrypt({"k": KEY, "l": KEY}),
        lambda: Encrypt({"k": KEY}, current="l"),
        lambda: Encrypt({"k": KEY[:15]}),
        lambda: Encrypt({"k": "no base64!"}),
        lambda: Encrypt({"a:b": KEY}),
        lambda: Compress(level=0),
        lambda: Compress(above=-1),
        lambda: Payloads([Compress(), Compress()]),
        lambda: Payloads([Encrypt({"k": KEY}), Compress()]),
        lambda: Payloads([typing.cast(typing.Any, "zlib")]),
        lambda: Encrypt.from_env(),
    ],
)
def test_settings_that_cannot_work_are_refused(make, monkeypatch) -> None:
    """When the app is made, not when the first payload comes; and no message says a key."""
    monkeypatch.setenv("OUTLAST_KEYS", "just-a-key")
    with pytest.raises(InvalidSetting) as caught:
        make()
    assert "just-a-key" not in str(caught.value)
    assert "no base64!" not in str(caught.value)


def test_keys_from_the_environment(monkeypatch) -> None:
    """The first is the current one."""
    keys = {"2026-07": secrets.token_bytes(32), "2025-01": secrets.token_bytes(16)}
    monkeypatch.setenv("KEYS", ", ".join(f"{name}={base64.b64encode(key).decode()}" for name, key in keys.items()))
    found = Encrypt.from_env("KEYS")
    assert (found.current, found.words) == ("2026-07", ("2026-07", "2025-01"))
    same = Payloads([Encrypt(keys, current="2025-01")])
    assert Payloads([found]).open("u", same.seal("u", b"1", b"p"), b"p") == b"1"
    assert not any(base64.b64encode(key).decode() in repr(found) for key in keys.values())


class Reversed:
    """A codec of a user's own."""

    name = "reversed"
    hides = False
    required = False

    def encode(self, data: bytes, bound_to: bytes) -> tuple[str, bytes]:
        return str(len(data)), data[::-1]

    def decode(self, data: bytes, word: str, bound_to: bytes) -> bytes:
        assert int(word) == len(data)
        return data[::-1]


# SPEC D2
def test_a_codec_of_ones_own() -> None:
    """Three names: it packs, it unpacks, and it is found by its name; who does not have it is told which it was."""
    own = Payloads([Reversed(), Encrypt({"k1": KEY})])
    stored = own.seal("u", b'"abc"', b"p")
    assert msgspec.json.decode(stored)["$outlast:codec"] == ["reversed:5", "aes-gcm:k1"]
    assert own.open("u", stored, b"p") == b'"abc"'
    with pytest.raises(KeyNotFound, match="codec 'reversed:5'"):
        ENCRYPTED.open("u", stored, b"p")
