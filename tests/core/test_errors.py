"""The error tree: by whose problem it is, with code, fields and a message of three parts."""

import copy
import pickle
import re

import pytest

from outlast import errors
from outlast.errors import BodyStopped, ConfigError, DefinitionError, OutlastError, RunError, StoreError
from outlast.errors.described import Described

ABSTRACT = {OutlastError, DefinitionError, RunError, StoreError, ConfigError, BodyStopped}
CONCRETE = [
    one
    for one in (getattr(errors, name) for name in errors.__all__)
    if issubclass(one, Described) and one not in ABSTRACT
]
SAMPLES = {"int": 3, "float": 3.0, "bool": False, "Sequence[str]": ("a", "b"), "BaseException": ValueError("inner")}


def sample(kind):
    """An error of this class, each of its fields a value that can be found again in text."""
    kinds = {
        name: text for base in reversed(kind.__mro__) for name, text in vars(base).get("__annotations__", {}).items()
    }
    return kind(*("Mend it." if field == "fix" else SAMPLES.get(kinds[field], f"<{field}>") for field in kind._fields))


@pytest.mark.parametrize("kind", CONCRETE)
def test_an_error_tells_what_happened_to_what_and_what_to_do(kind):
    """Each of the three parts says something, and the message is made of them."""
    error = sample(kind)
    parts = error.parts()
    assert all(part.strip() for part in parts)
    assert str(error) == "{}: {}. {}".format(*parts)
    assert str(error).endswith(".")
    assert not str(error).endswith("..")


@pytest.mark.parametrize("kind", CONCRETE)
def test_every_value_in_a_message_is_a_field(kind):
    """Programs read fields; nobody has to take a message apart."""
    error = sample(kind)
    assert error.args == tuple(getattr(error, field) for field in kind._fields)
    for field in re.findall(r"<(\w+)>", str(error)):
        assert getattr(error, field) == f"<{field}>"


@pytest.mark.parametrize("kind", CONCRETE)
def test_an_error_survives_copy_and_pickle(kind):
    """Process pools pickle what a step raises."""
    error = sample(kind)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(other) is kind
        assert str(other) == str(error)


def test_codes_are_stable_and_unique():
    """A code is the class's name in capitals, but for one that is older than its name; no two are the same."""
    codes = {kind.code: kind for kind in CONCRETE}
    assert len(codes) == len(CONCRETE)
    for code, kind in codes.items():
        spelled = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).upper()
        assert code == spelled or (code, spelled) == ("DEADLOCK", "BODY_DEADLOCK")


def test_every_error_is_in_the_tree_by_whose_problem_it_is():
    """The code, the run, the store or the settings; but for the control flow in bodies."""
    for kind in CONCRETE:
        assert issubclass(kind, DefinitionError | RunError | StoreError | ConfigError | BodyStopped)
        assert kind.__name__ in str(errors.__doc__)


def test_no_except_exception_swallows_control_flow():
    """A body with `except Exception: pass` around everything is stopped all the same."""
    assert not issubclass(BodyStopped, Exception)


def test_an_effect_in_a_body_is_no_os_error():
    """`except OSError` around a call that fails must not take it for the network being down."""
    error = errors.EffectInBody("create_connection")
    assert not isinstance(error, OSError)
    assert "create_connection" in str(error)
    assert "Do this in a step" in str(error)


def test_timeouts_are_the_builtin_timeout_too():
    """A body that expects TimeoutError gets one."""
    assert isinstance(errors.StepTimeout("charge", 1, "30s"), TimeoutError)
    assert isinstance(errors.HeartbeatTimeout("charge", 1, "30s"), TimeoutError)


def test_a_failed_run_carries_the_original_error():
    """It is a field, in the message, and the cause that a traceback shows."""
    original = ValueError("no such item")
    error = errors.RunFailed("A-17", "failed", original, "pack#1")
    assert error.error is original
    assert error.__cause__ is original
    assert all(text in str(error) for text in ("A-17", "failed", "ValueError: no such item", "pack#1"))


def test_a_failed_step_carries_the_code_of_the_original():
    """What the author's class said as `code` is read from the stand-in as well."""
    assert errors.StepFailed("Declined", "no", code="CARD_DECLINED").code == "CARD_DECLINED"
    assert errors.StepFailed("Declined", "no").code == "STEP_FAILED"


def test_an_error_that_no_step_raised_names_none():
    """The stand-in for what a body raised itself says so."""
    assert "step" not in str(errors.StepFailed("SystemExit", "4")).partition(". ")[0]
    assert "the workflow's body" in str(errors.StepFailed("SystemExit", "4"))
    assert "step 'charge', attempt 1" in str(errors.StepFailed("Declined", "no", step="charge"))


@pytest.mark.parametrize(("args", "fields"), [((), {}), (("a", "b"), {}), (("a",), {"id": "b"}), ((), {"ids": "a"})])
def test_a_wrong_call_is_a_type_error(args, fields):
    """Missing, extra, doubled and unknown fields are told like any call's."""
    with pytest.raises(TypeError, match="RunNotFound"):
        errors.RunNotFound(*args, **fields)
