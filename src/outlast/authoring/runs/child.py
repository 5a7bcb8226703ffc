"""Child runs, as their parent's body starts and holds them. Layer: authoring.

What always holds: a child is a step of its parent, with a key and recorded arguments as any other; what a body does to
its child is recorded too, so that a replay starts no second one and sends nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar, cast

from msgspec import Raw

from outlast.authoring.codec import encode
from outlast.authoring.exceptions import rebuild_error
from outlast.core.calls import STEP_MARK
from outlast.core.durations import Duration, parse_duration
from outlast.core.keys import check_name, child_uid
from outlast.core.loop import running_body_loop
from outlast.errors import InvalidDefinition, NotInBody

if TYPE_CHECKING:
    from outlast.authoring.codec import Returns
    from outlast.authoring.signature import Explicit
    from outlast.authoring.workflow import Workflow
    from outlast.core.calls import PendingStep
    from outlast.core.events import ErrorRecord
    from outlast.core.machine import Machine

__all__ = ["CHILD_DEFAULTS", "Child", "ChildCall", "ChildOptions", "ChildSettings", "run_child", "settle_child"]

R = TypeVar("R")


class ChildOptions(TypedDict, total=False):
    """What may be said of a child run where a body starts it."""

    name: str
    """What the step is called whose key the child goes by, in place of the workflow's name."""
    id: str | None
    """The child's name in the world; without one it is called by its uid."""
    queue: str
    """Workers of this queue run it."""
    priority: int
    """0 (first) to 9 (last); default 5."""
    timeout: Duration | None
    """How long it may take in all: then it is cancelled."""
    attributes: Mapping[str, str | int | float | bool | None]
    """What it can be searched by, besides what it inherits from its parent."""
    on_parent_close: Literal["cancel", "abandon"]
    """What becomes of it when its parent is cancelled, or ends before it."""
    compensate: bool
    """False: what it did stays when its parent is unwound."""


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """Options, settled."""

    name: str = ""
    id: str | None = None
    queue: str = "default"
    priority: int = 5
    timeout_us: int | None = None
    attributes: Mapping[str, Any] | None = None
    is_left: bool = False
    compensate: bool = True


CHILD_DEFAULTS: Final = ChildSettings()


def settle_child(base: ChildSettings, options: Mapping[str, Any], where: str) -> ChildSettings:
    """`base` with the options. Raises InvalidDefinition, InvalidDuration or InvalidName."""
    settled: dict[str, Any] = {}
    for name, value in options.items():
        match name:
            case "name" | "queue":
                settled[name] = check_name(f"child {name}", value)
            case "id":
                settled[name] = None if value is None else check_name("run id", value)
            case "timeout":
                settled["timeout_us"] = None if value is None else parse_duration(value)
            case "priority" if isinstance(value, int) and 0 <= value <= 9:
                settled[name] = value
            case "attributes" if isinstance(value, Mapping):
                settled[name] = dict(value)
            case "on_parent_close" if value in {"cancel", "abandon"}:
                settled["is_left"] = value == "abandon"
            case "compensate" if isinstance(value, bool):
                settled[name] = value
            case _:
                known = ", ".join(ChildOptions.__annotations__)
                fix = f"See ChildOptions: there are {known}."
                raise InvalidDefinition(f"{name}={value!r} says nothing of a child run", where, fix)
    return replace(base, **settled)


class ChildCall:
    """A `core.machine.StepCall` that is a run of its own."""

    __slots__ = ("_explicit", "_workflow", "arguments", "compensates", "function", "kind", "name", "settings", "undo")

    retries: int = 0

    def __init__(
        self,
        workflow: Workflow[..., Any],
        settings: ChildSettings,
        arguments: bytes,
        explicit: Explicit,
        *,
        compensates: str = "",
        name: str = "",
    ) -> None:
        """With `compensates`, the call that undoes what the child of that step did."""
        self._workflow = workflow
        self._explicit = explicit
        self.function = workflow.name
        self.settings = settings
        self.arguments = arguments
        self.name = name or settings.name or workflow.name
        self.compensates = compensates
        self.kind = "unwind" if compensates else "child"
        self.undo = workflow.name if settings.compensate and not compensates else ""

    @property
    def version(self) -> str:
        """That of the workflow as it is known here: the child begins with it."""
        return self._workflow.version

    @property
    def returns(self) -> Returns:
        """The codec of its output."""
        return self._workflow.arguments.returns

    @property
    def is_left(self) -> bool:
        """It goes on by itself when its parent's run is over."""
        return self.settings.is_left

    @property
    def timeout_us(self) -> int | None:
        """How long it may take in all; None: no limit."""
        return self.settings.timeout_us

    def same_arguments(self, recorded: bytes) -> bool:
        """Whether the arguments that the body gave itself are those on record."""
        return self._workflow.arguments.same_call(recorded, self.arguments, self._explicit)


def make_call(workflow: Workflow[..., Any], settings: ChildSettings, args: Any, kwargs: Any) -> ChildCall:
    """Raises TypeError, NotEncodable or ValueTooLarge for an input that cannot be."""
    data, explicit = workflow.arguments.encode_call(args, kwargs)
    workflow.arguments.parse(data)  # InvalidInput here, in the parent, and not as soon as the child begins
    return ChildCall(workflow, settings, data, explicit)


async def run_child(
    workflow: Workflow[..., Any],
    settings: ChildSettings,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    returns: Returns | None = None,
) -> Any:
    """The coroutine of `await other_workflow(…)`: the child's output, or what it failed with.

    `returns` decodes the output instead of the workflow's own annotation. Raises NotInBody outside of a body.
    Cancelling it cancels the child.
    """
    loop = running_body_loop()
    if loop is None:
        raise NotInBody(f"{workflow.name}()")
    machine: Machine = loop.machine
    pending = machine.call_step(make_call(workflow, settings, args, kwargs))
    return await wait_for_child(machine, pending, returns)


async def wait_for_child(machine: Machine, pending: PendingStep, returns: Returns | None = None) -> Any:
    """Its outcome; if whoever waits for it is cancelled, it is given up."""
    try:
        outcome = await pending.future
    except asyncio.CancelledError:
        if pending.future.cancelled():
            machine.give_up(pending)
        raise
    return settle_outcome(pending, outcome, returns)


def settle_outcome(pending: PendingStep, outcome: Raw | ErrorRecord, returns: Returns | None = None) -> Any:
    """The output, or the error raised as itself."""
    if isinstance(outcome, Raw):
        call = cast(ChildCall, pending.call)
        return None if call.compensates else (returns or call.returns).decode(outcome)
    error = rebuild_error(outcome, step=pending.key)
    object.__setattr__(error, STEP_MARK, pending.key)  # not setattr: an author's class may be frozen
    try:
        raise error
    finally:
        del error  # its traceback holds this frame


class Child(Generic[R]):
    """A child run as its parent's body holds it. What is done with it is recorded."""

    def __init__(self, machine: Machine, pending: PendingStep) -> None:
        """Made by `ctx.start`."""
        self._machine = machine
        self._pending = pending
        self.key = pending.key
        """The step of the parent that it is."""
        self.uid = child_uid(machine.started.uid, pending.key)
        self.id: str = cast(ChildCall, pending.call).settings.id or self.uid

    def __repr__(self) -> str:
        return f"<child {self.id!r}>"

    async def result(self) -> R:
        """Its output, once it has ended; may be asked again. Raises what it failed with, or RunCancelled.

        Cancelling the wait leaves the child alone.
        """
        self._inside("result()")
        return cast(R, settle_outcome(self._pending, await asyncio.shield(self._pending.future)))

    async def cancel(self, reason: str = "its parent wished so", /) -> bool:
        """Ask it to stop. False: it has ended."""
        self._inside("cancel()")
        return self._machine.cancel_child(self._pending, check_name("reason", reason))

    async def signal(self, name: str, value: object = None, /, *, key: str | None = None) -> None:
        """Send it a signal; with a `key`, once for that key. Does nothing when it has ended."""
        self._inside("signal()")
        if key is not None:
            check_name("signal key", key)
        payload = encode(value, f"the signal {name!r}")
        self._machine.signal_child(self._pending, check_name("signal", name), payload, key)

    def _inside(self, call: str) -> None:
        loop = running_body_loop()
        if loop is None or loop.machine is not self._machine:
            raise NotInBody(f"child.{call}")
