"""One call of a step: what the machine and the engine know of it. Layer: authoring.

What always holds: a step never shares an object with its body. It gets arguments decoded from the recorded bytes, the
same on every attempt, and what it returns is encoded before anybody sees it.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pickle
from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from outlast.authoring.current import StepInfo, entered_step, find_current_step
from outlast.authoring.declaration import is_nested
from outlast.authoring.exceptions import encode_error, to_step_failed
from outlast.authoring.function import Function
from outlast.authoring.options import StepSettings
from outlast.authoring.signature import Explicit
from outlast.core.retry import is_retryable
from outlast.errors import InvalidDefinition
from outlast.telemetry.otel import enter_trace, leave_trace

if TYPE_CHECKING:
    import msgspec

__all__ = ["Call", "CompensatingCall"]


class Call:
    """A `core.machine.StepCall`, and what the engine needs to carry it out."""

    __slots__ = (
        "_explicit",
        "_function",
        "arguments",
        "function",
        "is_async",
        "kind",
        "name",
        "retries",
        "settings",
        "undo",
    )

    compensates = ""
    """Key of the step that it undoes."""
    is_left = False

    def __init__(
        self, function: Function, name: str, settings: StepSettings, arguments: bytes, explicit: Explicit
    ) -> None:
        """`explicit` says which of the arguments the body gave itself (`Arguments.encode_call`)."""
        self._function = function
        self._explicit = explicit
        self.name = name
        """What the key is made from."""
        self.function = function.name
        self.kind = function.kind
        self.arguments = arguments
        """A JSON object by parameter name."""
        self.settings = settings
        self.retries = settings.policy.retries
        self.undo = "" if settings.undo_with is None else settings.undo
        self.is_async = function.is_async

    def __repr__(self) -> str:
        return f"<call of {self.kind} {self.name!r}>"

    @property
    def timeout_us(self) -> int | None:
        """Longest time for one attempt; None: no limit."""
        return self.settings.timeout_us

    def same_arguments(self, recorded: bytes) -> bool:
        """Whether the arguments that the body gave itself are those on record. Changed defaults do not count."""
        return self._function.arguments.same_call(recorded, self.arguments, self._explicit)

    def decode_call(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the function is called with."""
        return self._function.arguments.decode_call(self.arguments)

    def decode_result(self, value: msgspec.Raw) -> Any:
        """The result, as the body got it."""
        return self._function.returns.decode(value)

    def invoke(self) -> Any:
        """Call the function: a coroutine if `is_async`, else its value (or what it raises), computed in this thread.

        A closure that is no `async def` may still give a coroutine, as `lambda: client.get(url)` does: await it.
        """
        args, kwargs = self.decode_call()
        return self._function.fn(*args, **kwargs)

    def encode_result(self, value: Any) -> bytes:
        """What the journal keeps. Raises NotEncodable, ValueTooLarge, or ResultInvalid where it is not as annotated."""
        if type(value) is _Encoded:
            return value.data
        if isinstance(value, CoroutineType):
            value.close()
            problem = "A def returned a coroutine, which nobody awaits"
            raise InvalidDefinition(problem, self._function.place, "Write async def, and await it there.")
        return self._function.encode_result(value)

    def remote(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A function and its arguments, all of which can be pickled, that run the step in another process or thread.

        What it returns is for `encode_result`. Raises InvalidDefinition for a function another process cannot find.
        """
        fn = inspect.unwrap(self._function.fn)
        if self.kind != "step" or is_nested(fn):
            problem = f"{self.name!r} cannot be sent to an executor, which would not find its function"
            raise InvalidDefinition(problem, self._function.place, "Make it a step at the top of a module.")
        return _run_remotely, (fn.__module__, fn.__qualname__, self.function, self.arguments, _facts())


class CompensatingCall(Call):
    """A call that undoes what another step did."""

    __slots__ = ("compensates",)

    def __init__(self, compensates: str, *args: Any) -> None:
        super().__init__(*args)
        self.compensates = compensates


class _Encoded:
    """A result that was encoded where it was made. Unpickling a user's own types could break the whole pool."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def _facts() -> dict[str, Any] | None:
    info = find_current_step()
    return None if info is None else info.portable()


def _run_remotely(module: str, qualname: str, name: str, data: bytes, facts: dict[str, Any] | None) -> _Encoded:
    """In the executor: find the function, run it, encode its result."""
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    function = Function(getattr(found, "fn", found), name)
    entered_step(None if facts is None else StepInfo(**facts))
    trace = enter_trace((facts or {}).get("traceparent", ""))
    try:
        args, kwargs = function.arguments.decode_call(data)
        value = function.fn(*args, **kwargs)
        return _Encoded(function.encode_result(asyncio.run(value) if function.is_async else value))
    except Exception as error:  # noqa: BLE001 - every error has to come through
        raise _portable(error, facts or {}) from None
    finally:
        entered_step(None)
        leave_trace(trace)


def _portable(error: Exception, facts: dict[str, Any]) -> Exception:
    """The error, or one that says the same and can be pickled: what cannot be unpickled breaks a pool for good."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - we made it
    except Exception:  # noqa: BLE001 - whatever an author's class does
        other = to_step_failed(encode_error(error), step=facts.get("key", ""), attempts=facts.get("attempt", 1))
        if not is_retryable(error):
            other.retryable = False  # type: ignore[attr-defined]  # as authors say it
        return other
    return error
