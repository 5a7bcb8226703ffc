"""What a body is given: `ctx`, its only door to time, chance, waiting and its own state. Layer: authoring.

What always holds: what the context answers depends on the run's journal alone, so a replay gets the same answers; and
it answers in its own body alone. A step or a thread that was handed one gets NotInBody, but for who the run is.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload
from uuid import UUID

from outlast.authoring.codec import Returns, encode
from outlast.authoring.function import Closure
from outlast.authoring.mapping import collect_failure, run_map
from outlast.authoring.options import CallOptions, StepOptions
from outlast.authoring.runs.child import run_child, settle_child
from outlast.authoring.runs.extension import Extension, extend_run, find_added
from outlast.authoring.schema import decoder
from outlast.authoring.step import DEFAULTS, Coro, call_durably, settle_options
from outlast.authoring.waits.waiting import Waiting
from outlast.core.durations import Duration, parse_duration
from outlast.core.instants import to_datetime, to_us
from outlast.core.keys import check_name
from outlast.errors import FunctionNotFound, InvalidDefinition, StepFailed
from outlast.telemetry.logs import fields

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from outlast.authoring.module import Module
    from outlast.core.machine import Machine

__all__ = ["Context", "RunFacts", "RunIdentity"]

T = TypeVar("T")
R = TypeVar("R")

_UNSAID = inspect.Parameter.empty
_decode_any = decoder(Any)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the engine gives a context beside the machine."""

    registry: Module
    """The app's: where names are looked up."""
    log: logging.Logger
    """What `ctx.log` writes to."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Which run this is: what `ctx.get_run()` gives."""

    id: str
    uid: str
    workflow: str
    version: str
    user: str | None
    attributes: Mapping[str, Any]
    started_at: datetime


class Context(Waiting):
    """The first parameter of every workflow. Its coroutines are for the body to await; the rest answers at once."""

    def __init__(self, machine: Machine, facts: RunFacts, home: str = "") -> None:
        """The engine makes it. `home` is the module whose bare names come first."""
        super().__init__(machine, facts.registry, home)
        self._attributes: Mapping[str, Any] | None = None
        self._facts = facts
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self._added: dict[type[Extension[Any]], Any] = {}
        for extension in facts.registry.extensions:
            extend_run(extension, self, self._added)

    def __repr__(self) -> str:
        return f"<context of run {self.run_id!r}>"

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Logs with the run's id; quiet while the body goes over what is on record, and while it is evicted."""
        if self._log is None:
            self._log = _BodyLog(self._facts.log, self._machine)
        return self._log

    # --- who the run is (anywhere) ------------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The user's name for the run."""
        return self._machine.started.id

    @property
    def uid(self) -> str:
        """The run's own id: after a restart the name is the same, and this is another one."""
        return self._machine.started.uid

    @property
    def workflow(self) -> str:
        """Full name of the workflow."""
        return self._machine.started.workflow

    @property
    def user(self) -> str | None:
        """Id of who started the run."""
        return self._machine.started.user

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What the run was started with, for people to find it by."""
        if self._attributes is None:
            self._attributes = MappingProxyType(_decode_any(self._machine.started.attributes) or {})
        return self._attributes

    @property
    def evicting(self) -> bool:
        """The body is being dropped from memory, not ended: it is in a `finally` that a replay will come to again."""
        return self._machine.loop.closing

    async def get_run(self) -> RunIdentity:
        """All of the above in one, with the version and the time of the start."""
        started = self._machine.started
        at = to_datetime(started.at)
        return RunIdentity(
            started.id, started.uid, started.workflow, started.version, started.user, self.attributes, at
        )

    # --- what extensions add ------------------------------------------------------------------------------------------

    def use(self, extension: type[Extension[T]], /) -> T:
        """What the app's extension of this class adds to the run: `cast = ctx.use(Actors)`.

        Where the app was not given one, the run is suspended as EXTENSION_MISSING.
        """
        return find_added(self._inside("use()"), self._added, extension)

    # --- time, chance and change --------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time, in UTC, of what the body is reacting to. It stands still between two awaits."""
        return to_datetime(self._inside("now()").loop.now_us)

    def uuid(self) -> UUID:
        """A random UUID, the same on replay."""
        return self._inside("uuid()").uuid()

    @property
    def random(self) -> Random:
        """A generator of random numbers, the same on replay."""
        return self._inside("random").random

    def patched(self, id: str, /) -> bool:
        """Whether to take the new path of a body that was changed: `if ctx.patched("ask twice"): …`.

        True for runs that come here for the first time with the new code, and then for ever; false for those that went
        by before. Raises InvalidName.
        """
        return self._inside("patched()").patched(check_name("patch id", id))

    # --- steps --------------------------------------------------------------------------------------------------------

    @overload
    def do(
        self, name: str, fn: Callable[[], object], /, *, returns: TypeForm[T], **options: Unpack[StepOptions]
    ) -> Coro[T]: ...
    @overload
    def do(self, name: str, fn: Callable[[], Coroutine[Any, Any, R]], /, **options: Unpack[StepOptions]) -> Coro[R]: ...
    @overload
    def do(self, name: str, fn: Callable[[], R], /, **options: Unpack[StepOptions]) -> Coro[R]: ...
    def do(
        self, name: str, fn: Callable[[], Any], /, *, returns: Any = _UNSAID, **options: Unpack[StepOptions]
    ) -> Coro[Any]:
        """Run a closure as a durable step called `name`: `await ctx.do("fetch", lambda: client.get(url))`.

        An async function runs in the worker's loop, any other in a thread. The result comes back as `returns` says, or
        the function's return annotation; where neither does, it has to be plain JSON. A closure stays in its worker: it
        has no queue or executor.
        """
        self._inside("do()")
        closure = Closure(name, fn, returns)
        settings = settle_options(DEFAULTS, options, f"ctx.do({name!r})")
        if settings.queue is not None or settings.executor is not None:
            problem = f"The closure {name!r} cannot be sent to a queue or an executor, which would not know it"
            raise InvalidDefinition(problem, f"ctx.do({name!r})", "Make it a step at the top of a module.")
        return call_durably(closure, name, settings, (), {})

    @overload
    async def call(
        self,
        function: str,
        /,
        args: Mapping[str, object] = ...,
        *,
        returns: TypeForm[T],
        **options: Unpack[CallOptions],
    ) -> T: ...
    @overload
    async def call(self, function: str, /, args: Mapping[str, object] = ..., **options: Unpack[CallOptions]) -> Any: ...
    async def call(
        self,
        function: str,
        /,
        args: Mapping[str, object] = MappingProxyType({}),
        *,
        returns: Any = _UNSAID,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Call a step by its registered name, with arguments by parameter name. The result is decoded as `returns`.

        The name of a workflow runs it as a child; its options are `ChildOptions`. A bare name is first looked up in the
        workflow's own module. If nobody here knows it, the run waits for a worker that does.
        """
        machine = self._inside("call()")
        step = self._registry.find_step(function, self._home)
        if step is None:
            workflow = self._registry.find_workflow(function, self._home)
            if workflow is not None:
                settings = settle_child(workflow.child_settings, options, f"ctx.call({function!r})")
                codec = None if returns is _UNSAID else Returns(workflow.name, returns)
                return await run_child(workflow, settings, (), dict(args), codec)
            await machine.report_missing(self._qualify(check_name("function name", function)))
            raise FunctionNotFound(function, "step")
        if options:
            step = step.options(**options)
        codec = None if returns is _UNSAID else Returns(step.function.name, returns)
        return await call_durably(step.function, step.name, step.settings, (), dict(args), codec)

    @overload
    async def map(
        self,
        step: Callable[[T], Coroutine[Any, Any, R]],
        items: Iterable[T],
        *,
        limit: int = ...,
        on_error: Literal["raise"] = "raise",
    ) -> list[R]: ...
    @overload
    async def map(
        self,
        step: Callable[[T], Coroutine[Any, Any, R]],
        items: Iterable[T],
        *,
        limit: int = ...,
        on_error: Literal["collect"],
    ) -> list[R | StepFailed]: ...
    async def map(
        self,
        step: Callable[[T], Coroutine[Any, Any, Any]],
        items: Iterable[T],
        *,
        limit: int = 20,
        on_error: Literal["raise", "collect"] = "raise",
    ) -> list[Any]:
        """`step` of every item, at most `limit` at a time; the results in the order of the items.

        `step` may be any async function of one argument, such as `lambda text: note(text, loud=True)`. With "raise" the
        first error cancels the calls still open, and is raised itself, not in a group, when they have ended. With
        "collect" a StepFailed stands in the place of a result that failed; its `__cause__` is the error.
        """
        self._inside("map()")
        if on_error not in {"raise", "collect"}:
            problem = f"on_error={on_error!r} is neither 'raise' nor 'collect'"
            raise InvalidDefinition(problem, "ctx.map()", "Give one of them.")
        return await run_map(step, items, limit, collect_failure if on_error == "collect" else None)

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def sleep(self, duration: Duration, /) -> None:
        """Wait for so long, however many processes that outlives. Raises InvalidDuration."""
        machine = self._inside("sleep()")
        await _sleep(machine, machine.loop.now_us + parse_duration(duration))

    async def sleep_until(self, instant: datetime, /) -> None:
        """Wait until then; return at once if it is past. Raises InvalidSetting for a datetime without a time zone."""
        await _sleep(self._inside("sleep_until()"), to_us(instant, "ctx.sleep_until()"))

    # --- what people see ----------------------------------------------------------------------------------------------

    async def milestone(self, name: str, /) -> None:
        """Set a named mark on the run's timeline. Raises InvalidName."""
        self._inside("milestone()").reach_milestone(check_name("milestone", name))

    async def set_state(self, key: str, value: object, /) -> None:
        """Set one key of the run's own state. Raises InvalidName, NotEncodable or ValueTooLarge."""
        machine = self._inside("set_state()")
        machine.set_state(check_name("state key", key), encode(value, f"the state {key!r}"))

    @property
    def state(self) -> Mapping[str, Any]:
        """The run's own state, as plain JSON; `status().state` shows it outside. What you get is yours to change."""
        return _State(self._inside("state").state)


async def _sleep(machine: Machine, until_us: int) -> None:
    if until_us <= machine.loop.now_us:
        await asyncio.sleep(0)  # others get their turn, as with any sleep
    else:
        await machine.start_sleep(until_us)


class _State(Mapping[str, Any]):
    """The state, decoded anew at each look: a body that changes what it got changes nothing but its copy."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, bytes]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return _decode_any(self._values[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(dict(self))


class _BodyLog(logging.LoggerAdapter[logging.Logger]):
    """Says each thing once: nothing while the body goes over its record, or is dropped from memory."""

    def __init__(self, log: logging.Logger, machine: Machine) -> None:
        super().__init__(log, dict(fields(machine.started)))
        self._machine = machine

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's name
        machine = self._machine
        return not machine.is_replaying and not machine.loop.closing and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Adds the run to what the author gives as `extra`, where the standard adapter would replace it."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs
