"""Whether and when an attempt is followed by another (SPEC S2, S3, S4)."""

# pyright: reportAttributeAccessIssue=false
# (authors set attributes on exceptions)

from dataclasses import FrozenInstanceError
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.retry import RetryPolicy, decide_retry, exponential, fixed, is_retryable, judge_failure
from outlast.errors import (
    DefinitionError,
    InvalidDefinition,
    InvalidDuration,
    NonRetryable,
    NotEncodable,
    OutlastError,
    StepTimeout,
)

SECOND = 1_000_000


def longest():
    """Randomness at its upper end: full jitter then waits for all of the delay."""
    return 1.0


def executions(policy, error=None):
    """How often a step runs that always fails."""
    attempt = 1
    while decide_retry(policy, attempt, error or ValueError("no"), longest) is not None:
        attempt += 1
    return attempt


# SPEC S2
@pytest.mark.parametrize(("retries", "runs"), [(0, 1), (1, 2), (5, 6), (20, 21)])
def test_retries_come_after_the_first_execution(retries, runs):
    """`retries=0` is exactly one execution, `retries=5` is six."""
    assert executions(RetryPolicy(retries=retries)) == runs


# SPEC S2
def test_the_default_is_six_executions():
    """Without a word a step runs at most six times."""
    assert executions(RetryPolicy()) == 6


# SPEC S3
def test_the_default_backoff_doubles_from_a_second_to_five_minutes():
    """Exponential from 1 s by 2, never over 5 min, however many attempts there were."""
    policy = RetryPolicy(retries=1_000_000)
    delays = [decide_retry(policy, n, ValueError(), longest) for n in (1, 2, 3, 8, 9, 10, 5000)]
    assert delays == [n * SECOND for n in (1, 2, 4, 128, 256, 300, 300)]


# SPEC S3
@given(attempt=st.integers(1, 2000), draw=st.floats(0, 1, exclude_max=True))
def test_jitter_is_full(attempt, draw):
    """With jitter the delay is anything from nothing to all of it, evenly."""
    policy = RetryPolicy(retries=2000)
    full = decide_retry(policy, attempt, ValueError(), longest)
    assert decide_retry(policy, attempt, ValueError(), lambda: draw) == round(full * draw)


# SPEC S3
@pytest.mark.parametrize(
    ("backoff", "us"),
    [
        (0, [0, 0]),
        (0.05, [50_000, 50_000]),
        ("250ms", [250_000, 250_000]),
        (timedelta(milliseconds=1), [1_000, 1_000]),
        (fixed("3s"), [3 * SECOND, 3 * SECOND]),
        (exponential("10ms", factor=3, cap="20ms", jitter=False), [10_000, 20_000]),
        (lambda attempt: attempt * 0.5, [500_000, SECOND]),
        (lambda attempt, error: f"{attempt}{error}", [SECOND, 2 * SECOND]),
        (lambda attempt, base=2: base**attempt, [2 * SECOND, 4 * SECOND]),
        (lambda *args: len(args), [SECOND, SECOND]),
        (float, [SECOND, 2 * SECOND]),
    ],
)
def test_backoff_is_a_policy_a_delay_or_a_function(backoff, us):
    """Fixed delays and functions of the attempt (and error) are taken as given, sub-second ones too."""
    policy = RetryPolicy(backoff=backoff)
    assert [decide_retry(policy, n, ValueError("s"), longest) for n in (1, 2)] == us


# SPEC S4
def test_non_retryable_ends_it_at_once():
    """NonRetryable, its subclasses, and a group that holds one are final."""

    class Declined(NonRetryable):
        pass

    for error in (NonRetryable("no"), Declined("no"), ExceptionGroup("", [ValueError(), Declined()])):
        assert executions(RetryPolicy(), error) == 1
    assert executions(RetryPolicy(), ExceptionGroup("", [ValueError()])) == 6


def test_an_error_of_the_code_is_not_tried_again():
    """A definition error fails the same way each time; an outside failure may not."""
    assert executions(RetryPolicy(), NotEncodable("order.x", "socket")) == 1
    assert executions(RetryPolicy(), StepTimeout("charge", 1, "30s")) == 6
    assert not is_retryable(SystemExit(1))
    assert not is_retryable(KeyboardInterrupt())


# SPEC S4
@pytest.mark.parametrize(
    ("options", "error", "runs"),
    [
        ({"retry_on": ConnectionError}, ConnectionResetError(), 6),
        ({"retry_on": ConnectionError}, ValueError(), 1),
        ({"retry_on": (KeyError, ValueError)}, ValueError(), 6),
        ({"retry_on": [KeyError]}, ValueError(), 1),
        ({"retry_on": lambda error: "busy" in str(error)}, ValueError("busy"), 6),
        ({"retry_on": lambda error: "busy" in str(error)}, ValueError("bad"), 1),
        ({"give_up_on": ValueError}, ValueError(), 1),
        ({"give_up_on": ValueError}, KeyError(), 6),
        ({"give_up_on": lambda error: True}, KeyError(), 1),
        ({"retry_on": Exception, "give_up_on": ValueError}, ValueError(), 1),
    ],
)
def test_errors_are_selected_by_type_or_predicate(options, error, runs):
    """`retry_on` says which errors are worth another try, `give_up_on` which are not and is the stronger."""
    assert executions(RetryPolicy(**options), error) == runs


# SPEC S4
@pytest.mark.parametrize(
    ("asked", "us"),
    [
        (2, 2 * SECOND),
        (0, 0),
        (0.1, 100_000),
        (timedelta(minutes=1), 60 * SECOND),
        ("1min", 60 * SECOND),
        ("120", 120 * SECOND),
        (None, SECOND),
        ("Wed, 21 Oct 2015 07:28:00 GMT", SECOND),
        (-5, SECOND),
        (object(), SECOND),
    ],
)
def test_retry_after_of_an_error_is_honoured(asked, us):
    """An error's own `retry_after` is the delay; one that makes no sense leaves the backoff as it is."""
    error = ValueError()
    error.retry_after = asked
    assert decide_retry(RetryPolicy(), 1, error, longest) == us


def test_retry_after_does_not_add_attempts():
    """An error that asks for another try gets none once they are used up."""
    error = ValueError()
    error.retry_after = 1
    assert decide_retry(RetryPolicy(retries=0), 1, error, longest) is None


@pytest.mark.parametrize("retries", [-1, 1.5, True, None, "3", 10**9])
def test_retries_is_a_whole_number(retries):
    """A count that is none is refused where it is declared."""
    with pytest.raises(InvalidDefinition, match="retries="):
        RetryPolicy(retries=retries)


@pytest.mark.parametrize("option", ["retry_on", "give_up_on"])
@pytest.mark.parametrize("selector", [int, "ValueError", (ValueError, int), [ValueError()], 3, ()])
def test_a_selector_is_classes_or_a_predicate(option, selector):
    """What cannot select an exception is refused where it is declared."""
    with pytest.raises(InvalidDefinition, match=option):
        RetryPolicy(**{option: selector})


@pytest.mark.parametrize("backoff", ["soon", -1, None, float("nan")])
def test_a_backoff_that_is_no_duration_is_refused(backoff):
    """A delay is checked where it is declared, not at the first failure."""
    with pytest.raises(InvalidDuration):
        RetryPolicy(backoff=backoff)


@pytest.mark.parametrize("backoff", [lambda: 1, lambda a, b, c: 1])
def test_a_backoff_function_takes_one_or_two_arguments(backoff):
    """A function that could not be called is refused where it is declared."""
    with pytest.raises(InvalidDefinition, match="backoff="):
        RetryPolicy(backoff=backoff)


@pytest.mark.parametrize(
    "options", [{"backoff": lambda n: 1 / 0}, {"backoff": lambda n: "soon"}, {"retry_on": lambda e: e.x}]
)
def test_a_broken_function_of_the_author_is_told(options):
    """Where backoff or predicate raises, the step fails with an error that says which function and why."""
    with pytest.raises(InvalidDefinition, match="failed with") as caught:
        decide_retry(RetryPolicy(**options), 1, ValueError(), longest)
    assert isinstance(caught.value.__cause__, Exception)
    assert "lambda" in str(caught.value)


def test_exponential_refuses_a_factor_that_shrinks():
    """The delay grows, or stays."""
    for factor in (0.5, -2, float("nan"), float("inf")):
        with pytest.raises(InvalidDefinition, match="factor="):
            exponential(factor=factor)


def test_a_policy_cannot_be_changed():
    """Policies are shared between calls."""
    with pytest.raises(FrozenInstanceError):
        RetryPolicy().retries = 1
    assert RetryPolicy(retry_on=ValueError) == RetryPolicy(retry_on=[ValueError])
    assert issubclass(InvalidDefinition, DefinitionError)
    assert issubclass(DefinitionError, OutlastError)


# SPEC S3, S4
def test_a_backoff_that_raises_is_what_the_step_fails_with():
    """No other attempt follows a rule that is broken; who reads of the failure learns that it is the rule."""

    def broken(attempt: int) -> float:
        raise ZeroDivisionError("no such delay")

    error = ValueError("no")
    again_us, reason = judge_failure(RetryPolicy(backoff=broken), 1, error, longest)
    assert again_us is None
    assert isinstance(reason, InvalidDefinition)
    assert "no such delay" in str(reason)
    assert judge_failure(RetryPolicy(retries=0), 1, error, longest) == (None, error)


# SPEC S3
def test_a_builtin_that_does_not_say_what_it_takes_gets_the_attempt():
    """Of some builtins Python knows no signature."""
    assert decide_retry(RetryPolicy(backoff=int), 2, ValueError("no"), longest) == 2 * SECOND
