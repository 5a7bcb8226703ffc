"""The code must change: declarations, calls and values that cannot work. Layer: errors."""

from __future__ import annotations

from outlast.errors.described import OutlastError

__all__ = [
    "DefinitionError",
    "EffectInBody",
    "FunctionNotFound",
    "InvalidDefinition",
    "InvalidDuration",
    "InvalidInput",
    "InvalidName",
    "NotEncodable",
    "NotInBody",
    "NotInStep",
    "ResultInvalid",
    "ValueTooLarge",
    "VersionNotActive",
]


class DefinitionError(OutlastError):
    """The code is wrong, or called wrongly. Trying again cannot help."""


class InvalidDefinition(DefinitionError):
    """A step, workflow, policy or graph that cannot be used as declared."""

    code = "INVALID_DEFINITION"
    template = "{problem}", "{where}", "{fix}"
    problem: str
    where: str
    fix: str


class InvalidDuration(DefinitionError, ValueError):
    """Something that is no duration."""

    code = "INVALID_DURATION"
    template = (
        "Not a duration",
        "{value!r}",
        "Give seconds, a timedelta, or text such as '250ms', '30s' or '1h30m', from 0 to 1,000 years.",
    )
    value: object


class InvalidName(DefinitionError, ValueError):
    """An id, name, key or reason that cannot be stored, or would be ambiguous."""

    code = "INVALID_NAME"
    template = "The {kind} {problem}", "{name}", "{fix}"
    kind: str
    name: str  # shortened, as repr
    problem: str
    fix: str = "Choose another."


class InvalidInput(DefinitionError, ValueError):
    """Input that does not fit the function's parameters. Raised before anything is stored."""

    code = "INVALID_INPUT"
    template = "Invalid input, {problem}", "{function}, at {field}", "Expected {expected}."
    function: str
    field: str  # a path: order.items[3].price
    expected: str
    problem: str


class NotEncodable(DefinitionError, TypeError):
    """A value that JSON cannot carry, found at the call."""

    code = "NOT_ENCODABLE"
    template = (
        "Cannot encode {type}{problem}",
        "{path}, in {what}",
        "Pass plain data: dataclasses, Structs, models, JSON types.",
    )
    path: str  # inside the value: order.items[3].price
    type: str
    problem: str = ""
    what: str = "a value"


class ValueTooLarge(DefinitionError, ValueError):
    """A value over the limit. Sizes are bytes, encoded."""

    code = "VALUE_TOO_LARGE"
    template = "{size} bytes encoded, over the limit of {limit}", "{what}", "Store it elsewhere and pass a reference."
    what: str
    size: int
    limit: int


class ResultInvalid(DefinitionError, TypeError):
    """A function returned what its own annotation says it does not."""

    code = "RESULT_INVALID"
    template = (
        "The result is not {expected}: {problem}",
        "{function}, which returned {got}",
        "Correct the annotation or the result.",
    )
    function: str
    expected: str
    got: str
    problem: str


class FunctionNotFound(DefinitionError, LookupError):
    """A step or workflow that nobody in this process registered under this name."""

    code = "FUNCTION_NOT_FOUND"
    template = "No such {kind} is registered", "{name!r}", "Import the module that declares it, or correct the name."
    name: str
    kind: str = "function"


class VersionNotActive(DefinitionError):
    """A version of a workflow that nobody has activated, or that was declined: no run of it is started."""

    code = "VERSION_NOT_ACTIVE"
    template = (
        "Version {version} is {status}, and only an active one is started",
        "workflow {workflow!r}",
        "Activate it, or start another version.",
    )
    workflow: str
    version: str
    status: str


class NotInBody(DefinitionError):
    """A workflow, or a call on its context, outside a running body."""

    code = "NOT_IN_BODY"
    template = "Only a workflow's body can do this", "{call}", "{fix}"
    call: str
    fix: str = "From outside, use app.start or app.run_sync."


class NotInStep(DefinitionError):
    """What only a running step can be told, asked for elsewhere."""

    code = "NOT_IN_STEP"
    template = "Only a running step can do this", "{call}", "Call it in a step's function, in the context it was given."
    call: str


class EffectInBody(DefinitionError):
    """I/O, a thread, a process or a signal in a body, whose replay would do it again."""

    code = "EFFECT_IN_BODY"
    template = "A workflow body may not do I/O", "{method}", "{fix}"
    method: str
    fix: str = "Do this in a step."
