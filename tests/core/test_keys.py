"""Names, step keys and ids (SPEC S7, S8, C1, D4)."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.keys import (
    CHILDREN,
    INVOCATIONS,
    check_name,
    check_step_name,
    child_uid,
    invocation_id,
    signal_id,
    take_key,
    uuid7,
)
from outlast.errors import InvalidName

UID = "018bcfe5-687b-774b-a000-000000000000"


# SPEC S8
def test_the_first_use_is_the_bare_name_and_later_ones_are_numbered():
    """A name's uses are told apart by their order alone."""
    used = {}
    taken = [take_key(used, name) for name in ("charge", "pack", "charge", "charge", "pack")]
    assert taken == ["charge", "pack", "charge#1", "charge#2", "pack#1"]


# SPEC S8
def test_a_step_name_with_a_number_sign_is_refused():
    """`charge#1` as a name could not be told from the second `charge`; an id may have it."""
    with pytest.raises(InvalidName, match="contains '#'"):
        check_step_name("charge#1")
    assert check_name("id", "order#1") == "order#1"


# SPEC D4
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is empty"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        ("x" * 513, "513 bytes"),
        ("é" * 257, "514 bytes"),
        ("x" * 10_000, "10000 bytes"),
        (None, "NoneType"),
        (7, "int"),
        (b"id", "bytes"),
    ],
)
@pytest.mark.parametrize("kind", ["id", "name", "key", "reason"])
def test_names_that_cannot_be_stored_are_refused(kind, name, problem):
    """The error says what is wrong with it, and shows no more than its beginning."""
    with pytest.raises(InvalidName, match=problem) as caught:
        check_name(kind, name)
    assert kind in str(caught.value)
    assert len(str(caught.value)) < 400
    str(caught.value).encode()


# SPEC D4
@pytest.mark.parametrize("name", ["'; drop table runs; --", "../../etc/passwd", "a.b/c\\d", '"', "🙂", " ", "x" * 512])
def test_hostile_names_that_can_be_stored_are_kept_as_they_are(name):
    """Quotes, slashes, dots and emoji are only text."""
    assert check_step_name(name) is name


# SPEC S7
@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_an_invocation_id_is_the_uuid5_of_uid_and_key(key):
    """It is what any UUID library computes from the run's uid, a colon and the key."""
    assert invocation_id(UID, key) == str(uuid.uuid5(INVOCATIONS, f"{UID}:{key}"))
    assert child_uid(UID, key) == str(uuid.uuid5(CHILDREN, f"{UID}:{key}"))


# SPEC S7
def test_invocation_ids_never_change():
    """Other systems know payments by them: this value is the same in every release."""
    assert invocation_id(UID, "charge") == "9eaf8c24-00de-52c7-885a-04bbcce12e34"


# SPEC C1
def test_the_uid_of_a_child_never_changes_and_is_no_invocation_id():
    """What is handed to others as an idempotency key names no run."""
    assert child_uid(UID, "charge") == "c538e3cf-146c-5e63-8a33-700cd2b1e170"
    assert child_uid(UID, "charge") != invocation_id(UID, "charge")


def test_a_signal_id_tells_its_name_from_its_key():
    """`paid:a` with key `b` is not `paid` with key `a:b`."""
    assert signal_id(UID, "paid:a", "b") != signal_id(UID, "paid", "a:b")
    assert signal_id(UID, "paid", "a") == signal_id(UID, "paid", "a")


@given(
    earlier=st.integers(0, 2**48 * 1000 - 2),
    gap=st.integers(1, 10**12),
    bits=st.tuples(st.integers(0, 2**62 - 1), st.integers(0, 2**62 - 1)),
)
def test_ids_sort_by_time(earlier, gap, bits):
    """Ids made in different microseconds sort as they were made, as text and as UUIDs."""
    later = min(earlier + gap, 2**48 * 1000 - 1)
    first, second = uuid7(earlier, bits[0]), uuid7(later, bits[1])
    assert first < second
    assert uuid.UUID(first) < uuid.UUID(second)


@given(at=st.integers(0, 2**48 * 1000 - 1), bits=st.integers(0, 2**80))
def test_an_id_is_a_well_formed_uuid7(at, bits):
    """Version, variant and the milliseconds are where RFC 9562 wants them."""
    made = uuid.UUID(uuid7(at, bits))
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert made.int >> 80 == at // 1000
    assert str(made) == uuid7(at, bits)
