"""What names in a body mean, as far as reading goes. Layer: core.

The reader (`reader`) asks a `Scope`, which authoring answers from the function's globals and closure. What always
holds: nothing here runs the author's code; a meaning is None where it cannot be known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from outlast.core.plan.expressions import Argument

__all__ = [
    "ClassMeaning",
    "Definition",
    "FunctionMeaning",
    "KnownMeaning",
    "Meaning",
    "OptionsMeaning",
    "PartialMeaning",
    "Scope",
    "StepMeaning",
    "ValueMeaning",
    "WorkflowMeaning",
]

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Meaning:
    """What something is known to be."""

    def attribute(self, name: str, /) -> Meaning | None:  # noqa: ARG002 - for those that have some
        """What `x.name` is."""
        return None

    def item(self, key: object, /) -> Meaning | None:  # noqa: ARG002
        """What `x[key]` is."""
        return None

    def members(self) -> Iterable[Meaning]:
        """What is inside, of a container."""
        return ()


class Scope(Protocol):
    """Where a function's free names are looked up."""

    module: str
    """Name of the module the function stands in."""
    file: str
    """Its file, for messages."""

    def find(self, name: str) -> Meaning | None:
        """A global, a variable of an enclosing function, or a builtin."""
        ...

    def find_import(self, module: str, name: str, level: int) -> Meaning | None:
        """What `from module import name` gives; with an empty `name`, what `import module` gives."""
        ...


@dataclass(frozen=True, eq=False)
class StepMeaning(Meaning):
    """A step, as it would be called."""

    function: str
    """Registered name."""
    name: str
    """The name used, from which its key is made."""
    handler: str = ""
    """Registered name of the step that is its `on_error`."""
    undo: str = ""
    """Registered name of its compensation."""
    options: tuple[Argument, ...] = ()
    """What `.options(…)` said."""

    def attribute(self, name: str, /) -> Meaning | None:
        """Its `options`."""
        return OptionsMeaning(self) if name == "options" else None


@dataclass(frozen=True, eq=False)
class OptionsMeaning(Meaning):
    """The method `options` of a step or workflow."""

    of: StepMeaning | WorkflowMeaning


@dataclass(frozen=True, eq=False)
class WorkflowMeaning(Meaning):
    """A workflow: calling it runs a child."""

    name: str
    """Registered name."""
    called: str = ""
    """The name used for its key, if it is another one."""
    body: FunctionMeaning | None = None
    """Its function, which `.fn` gives: awaited, it runs within this run."""
    options: tuple[Argument, ...] = ()
    """What `.options(…)` said."""

    def attribute(self, name: str, /) -> Meaning | None:
        """Its body, as `fn`, and its `options`."""
        if name == "options":
            return OptionsMeaning(self)
        return self.body if name == "fn" else None


@dataclass(frozen=True, eq=False)
class KnownMeaning(Meaning):
    """Something outside the author's code, by its dotted path: `asyncio.gather`, `time.time`, `ctx.sleep`."""

    path: str

    def attribute(self, name: str, /) -> Meaning | None:
        """By a longer path."""
        return KnownMeaning(f"{self.path}.{name}")


@dataclass(frozen=True, eq=False)
class FunctionMeaning(Meaning):
    """A function whose source can be read."""

    name: str
    definition: Definition
    scope: Scope
    bound: Meaning | None = None
    """What its first parameter is, of a bound method."""
    frame: Any = None
    """Where it was made, if that is being read too."""


@dataclass(frozen=True, eq=False)
class ValueMeaning(Meaning):
    """A constant of a module: a text, a number, a tuple of such …"""

    value: object


class ClassMeaning(Meaning):
    """A class of errors or of plain data, by where it is defined."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name


@dataclass(frozen=True, eq=False)
class PartialMeaning(Meaning):
    """A `functools.partial`: a function with arguments given already."""

    of: Meaning
    positional: Sequence[object] = ()
    named: Sequence[str] = field(default=())
