"""What a record of an error holds, how large it gets, and classes that are not loaded (SPEC R8)."""

# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportMissingImports=false
# (what is rebuilt is only known to be an Exception, and one module is made by a fixture)

import sys
import types
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from outlast.authoring.exceptions import MAX_MESSAGE, MAX_TRACEBACK, encode_error, rebuild_error, settle_error
from outlast.core.events import ErrorRecord
from outlast.errors import StepFailed
from tests.authoring.raising import Card, Declined, Reason, caught, make_local, raise_it, through


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
