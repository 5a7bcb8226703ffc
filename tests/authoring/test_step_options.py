"""Options of steps, handlers of failures, and what both refuse."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.authoring.step import FailedStep
from outlast.core.events import RunFailed
from outlast.core.retry import exponential
from outlast.errors import InvalidDefinition, InvalidDuration, InvalidName, NonRetryable
from tests.authoring.player import Player

app = Module("")


class CardDeclined(Exception):
    """Rebuilt by the codec."""


@app.step
async def charge(order: str) -> str:
    return f"receipt {order}"


@app.step
def pack(item: str) -> str:
    return item


@app.step(retries=2)
async def decline(amount: int) -> None:
    raise CardDeclined(f"no {amount}")


# --- options ----------------------------------------------------------------------------------------------------------


def test_options_change_what_they_name_and_nothing_else() -> None:
    """A step's options come from its declaration, then from the call; the step itself stays as it was."""
    # SPEC S2, S3

    @Module("m").step(
        name="tuned", retries=3, timeout="30s", backoff=exponential("1s", jitter=False), retry_on=[ValueError]
    )
    async def tuned() -> None: ...

    other = tuned.options(retries=0, timeout=None, heartbeat_timeout="1min", queue="gpu", at_most_once=True)
    assert (tuned.settings.policy.retries, tuned.settings.timeout_us, tuned.settings.queue) == (3, 30_000_000, None)
    assert (other.settings.policy.retries, other.settings.timeout_us, other.settings.queue) == (0, None, "gpu")
    assert other.settings.heartbeat_timeout_us == 60_000_000
    assert other.settings.at_most_once
    assert other.settings.policy.backoff == tuned.settings.policy.backoff
    assert other.settings.policy.retry_on == (ValueError,)
    assert charge.settings.policy.retries == 5
    assert other.fn is tuned.fn
    assert other.name == tuned.name == "m:tuned"


def test_options_made_in_a_loop_are_made_once() -> None:
    """The same options give the same step; `1` and `True` are not the same; names made up do not pile up."""
    assert charge.options(retries=1) is charge.options(retries=1)
    assert charge.options(retries=1) is not charge.options(retries=2)
    with pytest.raises(InvalidDefinition, match="retries=True"):
        charge.options(retries=True)
    for number in range(1000):
        charge.options(name=f"charge {number}")
    assert len(charge._variants) <= 64
    assert charge.options(retry_on=[ValueError]).settings.policy.retry_on == (ValueError,)  # a list cannot be hashed


async def test_a_name_given_at_the_call_makes_the_key() -> None:
    """`options(name=…)` names the step in this run; what runs is still the function."""

    @app.workflow(name="named")
    async def named(ctx: Context) -> list[str]:
        return [await pack.options(name=f"pack {item}")(item) for item in "ab"]

    player = Player(named)
    await player.play()
    assert [(event.key, event.function) for event in player.started_steps] == [("pack a", "pack"), ("pack b", "pack")]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"retries": -1}, InvalidDefinition, r"retries=-1 .*test_step_options\.py:\d+, in charge"),
        ({"retries": "3"}, InvalidDefinition, r"retries='3'"),
        ({"timeout": "soon"}, InvalidDuration, "'soon'"),
        ({"timeout": 0}, InvalidDefinition, "no time at all"),
        ({"heartbeat_timeout": -1}, InvalidDuration, "-1"),
        ({"retires": 3}, InvalidDefinition, r"no option retires=.*Is it retries=\?"),
        ({"frobnicate": 3}, InvalidDefinition, "There are retries, "),
        ({"name": "a#1"}, InvalidName, "contains '#'"),
        ({"name": ""}, InvalidName, "empty"),
        ({"queue": ""}, InvalidName, "empty"),
        ({"at_most_once": 1}, InvalidDefinition, "neither True nor False"),
        ({"backoff": "later"}, InvalidDuration, "'later'"),
        ({"retry_on": int}, InvalidDefinition, "retry_on="),
        ({"on_error": 3}, InvalidDefinition, "cannot be called"),
        ({"on_error": lambda: None}, InvalidDefinition, "with one argument"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_where_it_is_given(options: Any, error: type, says: str) -> None:
    """The error names the option, its value, and the step's file and line."""  # SPEC S3
    with pytest.raises(error, match=says) as caught:
        charge.options(**options)
    where = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert "charge" in where or isinstance(caught.value, InvalidName)


# --- on_error ---------------------------------------------------------------------------------------------------------


async def test_a_handler_runs_once_as_its_own_step_and_the_error_goes_on() -> None:
    """`on_error` is told which step failed, with what, and under which id, when no attempt is left."""  # SPEC S9
    told: list[FailedStep] = []

    def tell(failed: FailedStep) -> None:
        told.append(failed)

    failing = decline.options(on_error=tell)

    @app.workflow(name="handled")
    async def handled(ctx: Context) -> None:
        await failing(7)

    player = Player(handled)
    last = await player.play()
    assert isinstance(last, RunFailed)
    assert last.error.type == "CardDeclined"
    assert player.keys == ["decline", "decline.on_error"]
    (failed,) = told
    assert (failed.name, failed.key, failed.arguments) == ("decline", "decline", {"amount": 7})
    assert (failed.error.type, failed.error.message) == ("CardDeclined", "no 7")
    assert isinstance(failed.exception, CardDeclined)
    assert len(failed.invocation_id) == 36
    assert player.replay() == []
    assert len(told) == 1


async def test_a_handler_may_be_a_step_and_may_fail() -> None:
    """A step as handler runs under its own name; if it fails, the original error is raised all the same."""

    @app.step(name="tell", retries=0)
    async def tell(failed: FailedStep) -> None:
        raise NonRetryable("nobody listens")

    @app.workflow(name="badly handled")
    async def badly_handled(ctx: Context) -> list[str]:
        with pytest.raises(CardDeclined) as caught:
            await decline.options(on_error=tell)(1)
        return caught.value.__notes__

    player = Player(badly_handled)
    assert await player.output() == ["Its on_error handler failed as well: NonRetryable: nobody listens"]
    assert player.keys == ["decline", "tell"]
