"""Exceptions as data, and back (SPEC R8)."""

import asyncio
import datetime as dt
import enum
import json
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import errors
from outlast.authoring.exceptions import MAX_MESSAGE, MAX_TRACEBACK, encode_error, rebuild_error, settle_error
from outlast.core.events import ErrorRecord
from outlast.core.retry import RetryPolicy, decide_retry, find_retry_after, is_retryable
from outlast.errors import ExpectedError, NonRetryable, RunFailed, StepFailed, StepTimeout


class Reason(enum.Enum):
    POOR = "poor"


@dataclass
class Card:
    number: str


class Declined(Exception):
    """Its constructor takes what its args do not have: the usual shape of an author's exception."""

    code = "CARD_DECLINED"
    expected = True

    def __init__(self, reason, card, *, amount):
        super().__init__(f"declined: {reason.value}")
        self.reason = reason
        self.card = card
        self.amount = amount


class Silent(Exception):
    def __init__(self, a, b):  # does not call super
        self.total = a + b

    def __str__(self):
        return f"total {self.total}"


class Slotted(Exception):
    __slots__ = ("limit",)

    def __init__(self, limit):
        super().__init__(limit)
        self.limit = limit


class WithResponse(Exception):
    def __init__(self, text, response):
        super().__init__(text)
        self.response = response


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("boo")

    @property
    def code(self):
        raise RuntimeError("boo")


class OutOfStock(ExpectedError):
    pass


class Final(NonRetryable):
    pass


class Shy(Exception):
    retryable = False


def caught(function, *args, **kwargs):
    """What the call raises, with its traceback."""
    try:
        function(*args, **kwargs)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def through(error, **options):
    """As the body gets it: recorded, stored as JSON, read again, and made again."""
    stored = msgspec.json.encode(encode_error(error))
    return rebuild_error(msgspec.json.decode(stored, type=ErrorRecord), **options)


def raise_it(error):
    raise error


# SPEC R8
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        ValueError(),
        KeyError("x"),
        KeyError((1, "a")),
        ValueError(Decimal("1.10"), dt.date(2020, 1, 1), b"x", {1}, None, [1, {"a": 2}]),
        Declined(Reason.POOR, Card("1"), amount=Decimal(3)),
        Silent(1, 2),
        Slotted(7),
        OutOfStock("bolts"),
        Final("enough"),
        caught(open, "/no/such/file"),
        caught(json.loads, "{"),
        caught(b"\xff".decode),
        caught(lambda: 1 / 0),
        caught(lambda: [].nothing),
        caught(__import__, "no_such_module"),
        caught(compile, "a b", "file", "exec"),
        caught(subprocess.run, [sys.executable, "-c", "exit(3)"], check=True),
        ConnectionResetError(104, "reset by peer"),
        UnicodeDecodeError("utf-8", b"ab", 0, 1, "bad"),
        StopAsyncIteration(3),
        TimeoutError(),
        StepTimeout("charge", 2, "30s"),
        errors.NotEncodable("order.x", "socket"),
        StepFailed("other.Declined", "no", "trace", "X", {"a": 1}, "charge", 3, True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_that_can_be_made_again_is_raised_as_itself(error):
    """Same class, args, attributes and text, without its constructor having run."""
    again = through(error, step="charge")
    assert type(again) is type(error)
    assert again.args == error.args
    assert str(again) == str(error)
    assert {name: getattr(again, name) for name in vars(error)} == vars(error)
    for name in ("filename", "limit", "name", "returncode"):
        assert getattr(again, name, None) == getattr(error, name, None)


def make_local():
    class Local(Exception):
        pass

    return Local("x")


# SPEC R8
@pytest.mark.parametrize(
    ("error", "name"),
    [
        (make_local(), "Local"),
        (WithResponse("bad", object()), "WithResponse"),
        (ValueError(object()), "ValueError"),
        (Unprintable(), "Unprintable"),
        (ValueError("\ud800"), "ValueError"),
        (ValueError(float("nan")), "ValueError"),
        (ValueError("x" * 300_000), "ValueError"),
        (SystemExit(3), "SystemExit"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError("no"), "CancelledError"),
        (RunFailed("A-17", "failed", ValueError("x")), "RunFailed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_other_arrives_as_step_failed_with_everything(error, name):
    """Type, message, traceback, code, data, step and attempts: nothing is lost that could be kept."""
    again = through(caught(raise_it, error), step="charge#1", attempts=3)
    assert type(again) is StepFailed
    assert again.type.endswith(name)
    assert (again.step, again.attempts) == ("charge#1", 3)
    assert "raise_it" in again.traceback
    assert name in str(again)
    assert "charge#1" in str(again)
    str(again).encode()


def test_what_a_stand_in_carries():
    """The original's message, code, expected flag and those attributes that JSON can carry."""
    error = WithResponse("bad gateway", object())
    error.status = 502
    error.code = "BAD_GATEWAY"
    error.expected = True
    again = through(error, step="get", attempts=2)
    assert again.message == "bad gateway"
    assert again.code == "BAD_GATEWAY"
    assert again.expected is True
    assert again.data == {"status": 502, "code": "BAD_GATEWAY", "expected": True, "args": ["bad gateway"]}
    assert again.type == f"{__name__}.WithResponse"


# SPEC R8
def test_the_record_says_all_that_people_ask():
    """Type, module, message, traceback, code and the expected flag are fields of the record."""
    record = encode_error(caught(raise_it, Declined(Reason.POOR, Card("1"), amount=Decimal(3))))
    assert (record.type, record.module) == ("Declined", __name__)
    assert record.message == "declined: poor"
    assert record.code == "CARD_DECLINED"
    assert record.expected is True
    assert record.traceback.startswith("Traceback")
    assert "raise_it" in record.traceback
    assert encode_error(StepTimeout("a", 1, "1s")).code == "STEP_TIMEOUT"
    assert encode_error(SystemExit(3)).code == ""


# SPEC R8
@pytest.mark.parametrize(
    ("error", "given_flag", "expected"),
    [
        (ValueError(), None, False),
        (OutOfStock(), None, True),
        (Declined(Reason.POOR, Card("1"), amount=1), None, True),
        (ValueError(), True, True),
        (OutOfStock(), False, False),
    ],
)
def test_an_author_marks_an_error_as_expected(error, given_flag, expected):
    """By the base class, by an attribute, or where it is recorded."""
    assert encode_error(error, expected=given_flag).expected is expected


def test_causes_and_notes_come_along():
    """`raise … from …` and `add_note` are part of what happened."""
    error = caught(raise_it, ValueError("outer"))
    error.__cause__ = KeyError("inner")
    error.__cause__.__cause__ = make_local()
    error.add_note("while packing")
    again = through(error, step="pack")
    assert isinstance(again.__cause__, KeyError)
    assert isinstance(again.__cause__.__cause__, StepFailed)
    assert again.__notes__ == ["while packing"]
    assert "while packing" in encode_error(error).traceback


def test_a_chain_of_causes_has_an_end():
    """Causes that go round, or on and on, are cut."""
    error = ValueError("round")
    error.__cause__ = other = KeyError("and round")
    other.__cause__ = error
    assert isinstance(through(error).__cause__, KeyError)


def test_a_group_comes_back_as_a_group():
    """`except*` works on what a step's TaskGroup raised; each member is itself or its stand-in."""
    inner = ExceptionGroup("inner", [Declined(Reason.POOR, Card("1"), amount=1), make_local()])
    again = through(caught(raise_it, ExceptionGroup("outer", [ValueError("a"), inner])))
    assert isinstance(again, ExceptionGroup)
    assert again.message == "outer"
    assert isinstance(again.exceptions[0], ValueError)
    assert isinstance(again.exceptions[1].exceptions[0], Declined)
    assert isinstance(again.exceptions[1].exceptions[1], StepFailed)
    mixed = through(BaseExceptionGroup("mixed", [KeyboardInterrupt(), ValueError()]))
    assert isinstance(mixed, Exception)
    assert isinstance(mixed.exceptions[0], StepFailed)


def test_a_group_of_very_many_is_cut():
    """A step with 10,000 failed requests leaves a record of bearable size."""
    record = encode_error(ExceptionGroup("many", [ValueError(n) for n in range(1000)]))
    assert len(record.members) == 100
    assert len(msgspec.json.encode(record)) < 200_000


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\ud800" * 100_000, "\0" * 10])
def test_records_are_bounded_and_can_be_stored(text):
    """However long or broken a message is."""

    def deep(n):
        return deep(n - 1) + 1 if n else raise_it(ValueError(text))

    record = encode_error(caught(deep, 50))
    assert len(record.message) <= MAX_MESSAGE + 10
    assert len(record.traceback) <= 6 * (MAX_TRACEBACK + 100)
    msgspec.json.encode(record)
    rebuild_error(record)


def test_a_traceback_begins_with_the_authors_own_frame():
    """The frames of the pool that ran a step say nothing about it; where there are no others, they stay."""
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(raise_it, ValueError("x")).exception()
        text = encode_error(error).traceback
        assert text.splitlines()[1].endswith("in raise_it")
        assert "concurrent/futures" not in text
        assert "concurrent/futures" in encode_error(pool.submit(int, "x").exception()).traceback


# SPEC S4
@pytest.mark.parametrize(
    "error", [Final("x"), Shy("x"), NonRetryable(object()), ExceptionGroup("g", [ValueError(), Final()])]
)
def test_an_error_that_is_final_stays_final(error):
    """Also where its class is not known: a queued step's owner decides like the worker that ran it."""
    record = encode_error(error)
    for again in (rebuild_error(record), rebuild_error(msgspec.structs.replace(record, module="gone"))):
        assert not is_retryable(again)
        assert decide_retry(RetryPolicy(), 1, again, lambda: 1.0) is None


# SPEC S4
def test_retry_after_is_kept_also_by_a_stand_in():
    """What the error asked for is honoured wherever the next attempt is decided."""
    error = make_local()
    error.retry_after = "90s"
    assert find_retry_after(through(error)) == 90_000_000
    again = ValueError()
    again.retry_after = 2
    assert find_retry_after(through(again)) == 2_000_000


def test_encoding_does_not_change_the_error():
    """It may be raised on: same traceback, args and attributes."""
    error = caught(raise_it, WithResponse("x", object()))
    before = (error.args, dict(vars(error)), error.__traceback__, error.__cause__)
    encode_error(error)
    assert (error.args, dict(vars(error)), error.__traceback__, error.__cause__) == before


@given(
    st.builds(
        lambda cls, args, attributes: (error := cls(*args), vars(error).update(attributes))[0],
        st.sampled_from([ValueError, KeyError, RuntimeError, OutOfStock, Final, OSError, ConnectionError]),
        st.lists(st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.dates(), max_size=3),
        st.dictionaries(st.sampled_from(["reason", "limit", "code"]), st.integers() | st.text()),
    )
)
def test_live_and_replay_raise_the_same(error):
    """What the body catches first is what it catches on every replay."""
    record = encode_error(error)
    live = rebuild_error(record, step="s")
    replayed = rebuild_error(msgspec.json.decode(msgspec.json.encode(record), type=ErrorRecord), step="s")
    assert type(live) is type(replayed)
    assert (str(live), live.args, vars(live)) == (str(replayed), replayed.args, vars(replayed))
    assert encode_error(live).type == encode_error(replayed).type


# --- classes that are not loaded --------------------------------------------------------------------------------------


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A module with an exception class, importable but not imported in the end; gives an error of it."""
    (tmp_path / "some_plugin.py").write_text("class Busy(Exception):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import some_plugin

    yield encode_error(some_plugin.Busy("later"))
    sys.modules.pop("some_plugin", None)


def test_a_replay_imports_what_the_live_run_had(plugin):
    """The class was loaded where the error was recorded; a replay elsewhere takes the same path."""
    del sys.modules["some_plugin"]
    again = rebuild_error(plugin)
    assert type(again).__name__ == "Busy"
    assert type(again).__module__ == "some_plugin"


def test_an_error_from_elsewhere_whose_class_is_not_loaded_stays_a_stand_in(plugin):
    """The owner settles it once: that another worker has the class loaded makes no difference later."""
    del sys.modules["some_plugin"]
    settled = settle_error(plugin)
    assert "some_plugin" not in sys.modules
    import some_plugin  # noqa: F401 - as the body of another run may do

    again = rebuild_error(settled)
    assert type(again) is StepFailed
    assert again.message == "later"
    assert again.data == {"args": ["later"]}


def test_settling_changes_nothing_where_the_class_is_loaded(plugin):
    """Causes and members included."""
    error = ExceptionGroup("g", [rebuild_error(plugin), ValueError("x")])
    error.__cause__ = rebuild_error(plugin)
    record = encode_error(error)
    assert settle_error(record) == record
    del sys.modules["some_plugin"]
    settled = settle_error(record)
    assert isinstance(rebuild_error(settled).__cause__, StepFailed)
    assert isinstance(rebuild_error(settled).exceptions[0], StepFailed)
    assert isinstance(rebuild_error(settled).exceptions[1], ValueError)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "SystemExit"),
        ("builtins", "KeyboardInterrupt"),
        ("builtins", "object"),
        ("subprocess", "Popen"),
        ("no.such.module", "Error"),
        ("", ""),
        ("builtins", "ValueError.__class__"),
        ("os", "path.join"),
    ],
)
def test_a_forged_record_makes_nothing_but_an_exception(module, name):
    """Whatever a journal names, only an Exception class is made, and no constructor of it runs."""
    record = ErrorRecord(type=name, module=module, message="x", data=msgspec.Raw(b'{"args":["true"],"whole":true}'))
    assert type(rebuild_error(record)) is StepFailed


def test_no_constructor_of_an_author_runs():
    """Making an exception again has no effects."""
    module = types.ModuleType("counting")
    made = []

    class Counting(Exception):
        def __init__(self, text):
            made.append(text)
            super().__init__(text)

    Counting.__module__, Counting.__qualname__ = "counting", "Counting"
    module.Counting = Counting
    sys.modules["counting"] = module
    try:
        again = through(Counting("x"))
    finally:
        del sys.modules["counting"]
    assert type(again) is Counting
    assert again.args == ("x",)
    assert made == ["x"]
