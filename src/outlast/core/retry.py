"""Retry arithmetic: whether a failed attempt is followed by another, and when. Layer: core.

What always holds: `retries=n` is at most n + 1 executions, on every path (SPEC S2), and the answer depends on the
arguments alone: time and randomness are the caller's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TypeAlias, cast

from outlast.core.durations import LONGEST_US, Duration, parse_duration
from outlast.errors import DefinitionError, InvalidDefinition, InvalidDuration, NonRetryable

__all__ = [
    "DEFAULT_RETRIES",
    "Backoff",
    "BackoffFunction",
    "Computed",
    "Exponential",
    "Fixed",
    "RetryPolicy",
    "Selector",
    "decide_retry",
    "exponential",
    "find_retry_after",
    "fixed",
    "is_retryable",
    "judge_failure",
]

DEFAULT_RETRIES = 5
MOST_RETRIES = 1_000_000

BackoffFunction: TypeAlias = Callable[[int], Duration] | Callable[[int, BaseException], Duration]
"""The delay after failed attempt n, from 1; a second parameter receives the error."""

Selector: TypeAlias = type[BaseException] | Iterable[type[BaseException]] | Callable[[BaseException], bool]
"""Which errors: a class, several, or a predicate."""

Random: TypeAlias = Callable[[], float]
"""Draws from [0, 1), as `random.random`."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """`first · factor^(n-1)`, at most `cap`; with jitter, anything from 0 to that, so that a crowd spreads out."""

    first_us: int = 1_000_000
    factor: float = 2.0
    cap_us: int = 300_000_000
    jitter: bool = True


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same delay after every attempt."""

    delay_us: int


@dataclass(frozen=True, slots=True)
class Computed:
    """A user's own function."""

    function: Callable[..., Duration]
    takes_error: bool


Backoff: TypeAlias = Exponential | Fixed | Computed


def exponential(
    first: Duration = 1.0, *, factor: float = 2.0, cap: Duration = 300.0, jitter: bool = True
) -> Exponential:
    """A delay that grows by `factor` from `first` to `cap`. Full jitter: between 0 and that, evenly."""
    if not 1 <= factor <= 1000:
        raise InvalidDefinition(f"factor={factor!r} is not from 1 to 1000", "exponential()", "Choose one, such as 2.")
    return Exponential(parse_duration(first), float(factor), parse_duration(cap), jitter)


def fixed(delay: Duration) -> Fixed:
    """The same delay after every attempt."""
    return Fixed(parse_duration(delay))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a step is retried. `retries` come after the first execution; `give_up_on` is stronger than `retry_on`.

    `backoff` may be an `exponential()` or `fixed()`, a duration, or a function of the number of the failed attempt,
    from 1, and, where it takes two arguments, of the error. Raises InvalidDefinition or InvalidDuration.
    """

    retries: int = DEFAULT_RETRIES
    _: KW_ONLY
    backoff: Backoff | Duration | BackoffFunction = Exponential()
    retry_on: Selector | None = None
    give_up_on: Selector | None = None

    def __post_init__(self) -> None:
        _check_retries(self.retries)
        object.__setattr__(self, "backoff", _backoff(self.backoff))
        object.__setattr__(self, "retry_on", _selector("retry_on=", self.retry_on))
        object.__setattr__(self, "give_up_on", _selector("give_up_on=", self.give_up_on))


def decide_retry(
    policy: RetryPolicy,
    attempt_in_budget: int,
    error: BaseException,
    random: Random,
    *,
    is_wanted: bool | None = None,
) -> int | None:
    """µs until the next attempt, or None if there is none. `attempt_in_budget` has failed; the first one is 1.

    `is_wanted` answers for the policy's selectors, of an error that was raised in another process: what is made of its
    record may be of another class. Raises InvalidDefinition where the author's own backoff or predicate raised: the
    step then fails with that.
    """
    if attempt_in_budget > policy.retries:
        return None
    if not (_wants_retry(policy, error) if is_wanted is None else is_wanted):
        return None
    asked_us = find_retry_after(error)
    if asked_us is not None:
        return asked_us
    return _delay_us(policy.backoff, attempt_in_budget, error, random)


def judge_failure(
    policy: RetryPolicy,
    attempt_in_budget: int,
    error: BaseException,
    random: Random,
    *,
    is_wanted: bool | None = None,
) -> tuple[int | None, BaseException]:
    """As `decide_retry`, with what the step has failed with: the error, or that the author's own rules are broken."""
    try:
        return decide_retry(policy, attempt_in_budget, error, random, is_wanted=is_wanted), error
    except Exception as broken:  # noqa: BLE001 - the author's own backoff or predicate
        return None, broken


def _wants_retry(policy: RetryPolicy, error: BaseException) -> bool:
    """Whether the error is one to try again for, were there attempts without end."""
    if not is_retryable(error):
        return False
    if policy.give_up_on is not None and _selects("give_up_on=", policy.give_up_on, error):
        return False
    return policy.retry_on is None or _selects("retry_on=", policy.retry_on, error)


def _delay_us(backoff: object, attempt: int, error: BaseException, random: Random) -> int:
    if isinstance(backoff, Exponential):
        try:
            longest = min(backoff.first_us * backoff.factor ** (attempt - 1), backoff.cap_us)
        except OverflowError:
            longest = backoff.cap_us
        return round(longest * random()) if backoff.jitter else round(longest)
    if isinstance(backoff, Fixed):
        return backoff.delay_us
    assert isinstance(backoff, Computed)  # RetryPolicy normalises
    try:
        return parse_duration(backoff.function(attempt, error) if backoff.takes_error else backoff.function(attempt))
    except Exception as cause:
        raise _broken("backoff=", backoff.function, cause) from cause


def is_retryable(error: BaseException) -> bool:
    """Whether another attempt could help: not for NonRetryable, an error of the code, or a wish to exit.

    An exception of any class may say `retryable = False` of itself; a group is as final as its most final member.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_retryable, error.exceptions))
    if isinstance(error, NonRetryable | DefinitionError) or not isinstance(error, Exception):
        return False
    return getattr(error, "retryable", True) is not False


def find_retry_after(error: BaseException) -> int | None:
    """What the error's own `retry_after` asks for, in µs: a duration, or a header's number of seconds as text.

    One that makes no sense is ignored: it comes from a peer, and must not turn a retry into a failure.
    """
    asked = getattr(error, "retry_after", None)
    if asked is None:
        return None
    if isinstance(asked, str) and asked.strip().isdecimal():
        asked = int(asked[:20])
    try:
        return min(parse_duration(asked), LONGEST_US)
    except InvalidDuration:
        return None


def _check_retries(retries: object) -> None:
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= MOST_RETRIES:
        problem = f"retries={retries!r} is not a whole number from 0 to {MOST_RETRIES}"
        raise InvalidDefinition(problem, "retry policy", "Use 0 for a single execution.")


def _backoff(given: Backoff | Duration | BackoffFunction) -> Backoff:
    if isinstance(given, Exponential | Fixed | Computed):
        return given
    if not callable(given):
        return Fixed(parse_duration(given))
    try:
        parameters = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not say
        return Computed(given, takes_error=False)
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    required = [p for p in positional if p.default is p.empty]
    takes_any = bool(positional) or any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if not takes_any or len(required) > 2:
        raise InvalidDefinition("backoff= takes neither (attempt) nor (attempt, error)", _name(given), "Change it.")
    # A second parameter with a default is the author's own: `lambda n, base=2: base**n`.
    return Computed(given, takes_error=len(required) == 2)


def _selector(option: str, given: object) -> Selector | None:
    """Classes as a tuple, for isinstance; a predicate as it is."""
    if isinstance(given, type) and issubclass(given, BaseException):
        return (given,)
    if given is None or (callable(given) and not isinstance(given, type)):
        return cast("Selector | None", given)
    classes = tuple(given) if isinstance(given, Iterable) else ()
    if not classes or not all(isinstance(one, type) and issubclass(one, BaseException) for one in classes):
        problem = f"{option}{given!r} is neither exception classes nor a predicate"
        raise InvalidDefinition(
            problem, "retry policy", "Give an exception class, several, or a function of the error."
        )
    return classes


def _selects(option: str, selector: object, error: BaseException) -> bool:
    if isinstance(selector, tuple):
        return isinstance(error, selector)
    assert callable(selector)  # RetryPolicy normalises
    try:
        return bool(selector(error))
    except Exception as cause:
        raise _broken(option, selector, cause) from cause


def _broken(option: str, function: object, cause: Exception) -> InvalidDefinition:
    problem = f"The function given as {option} failed with {type(cause).__name__}: {cause}"
    return InvalidDefinition(problem, _name(function), "Mend it; the step is not retried without it.")


def _name(function: object) -> str:
    return getattr(function, "__qualname__", repr(function))
