"""Where steps and workflows are declared and found by name: `Module`. Layer: authoring.

An app is a module without a name that includes others. What always holds: in everything a module reaches a name means
one function, and a second declaration of it is refused where it is made, naming both places.
"""

# ruff: noqa: SLF001 - modules reach into each other

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, Unpack, overload

from outlast.authoring.context import Context
from outlast.authoring.declaration import check_function, is_nested, place_of
from outlast.authoring.graph.builder import Graph, define_graph
from outlast.authoring.graph.files import read_graph
from outlast.authoring.graph.matching import check_calls
from outlast.authoring.graph.workflow import GraphWorkflow
from outlast.authoring.options import StepOptions
from outlast.authoring.runs.extension import Extension, check_extensions
from outlast.authoring.sharing import RunLimits, check_sharing
from outlast.authoring.step import Step
from outlast.authoring.workflow import Workflow
from outlast.core.graph.compiling import compile_graph
from outlast.core.graph.definition import GraphDefinition
from outlast.core.keys import check_step_name
from outlast.errors import InvalidDefinition

__all__ = ["Module", "StepDecorator", "WorkflowDecorator"]

P = ParamSpec("P")
R = TypeVar("R")

Declared: TypeAlias = Step[..., Any] | Workflow[..., Any]


class StepDecorator(Protocol):
    """What `@app.step(…)` with options gives."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Step[P, R]: ...


class WorkflowDecorator(Protocol):
    """What `@app.workflow(…)` with options gives."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> Workflow[P, R]: ...


class Module:
    """Collects steps and workflows under `name:`. `app.include(module)` makes them known to an app."""

    def __init__(self, name: str) -> None:
        """`name` comes before the names of all that is declared here: `billing:charge`. The empty name is the app's."""
        self.name = check_step_name(name, "module name") if name else ""
        self._functions: dict[str, Declared] = {}
        """By full name: what is declared here, and in all modules included."""
        self._includers: list[Module] = []
        self.extensions: tuple[Extension[Any], ...] = ()
        """What is around the bodies of an app's runs; a module's own has none."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}, {len(self._functions)} functions>"

    # --- declaring ----------------------------------------------------------------------------------------------------

    @overload
    def step(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def step(self, fn: Callable[P, R], /) -> Step[P, R]: ...
    @overload
    def step(self, /, *, name: str | None = None, **options: Unpack[StepOptions]) -> StepDecorator: ...
    def step(self, fn: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Make a function a durable step; bare, or with `name=` and the options of `StepOptions`.

        An `async def` runs in the worker's loop, a plain `def` in a thread. Raises InvalidDefinition, InvalidName or
        InvalidDuration, with the file and line, for what cannot be one.
        """
        if fn is None:
            return lambda fn: self._declare_step(fn, name, options)
        return self._declare_step(fn, name, options)

    @overload
    def workflow(self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def workflow(self, fn: Callable[Concatenate[Context, P], R], /) -> Workflow[P, R]: ...
    @overload
    def workflow(
        self,
        /,
        *,
        name: str | None = None,
        version: str | None = None,
        limit: int | None = None,
        fair_by: str | None = None,
    ) -> WorkflowDecorator: ...
    def workflow(
        self, fn: Any = None, /, *, name: Any = None, version: Any = None, limit: Any = None, fair_by: Any = None
    ) -> Any:
        """Make an `async def` that takes a Context first a workflow; bare, or with options.

        A plain `def` can be one too: it waits with `ctx.wait(…)`, and needs `outlast[sync]`. Without a `version` it is
        a fingerprint of what its source says. `limit`: workers have so many runs of it in hand at once, all together.
        `fair_by`: `"user"`, `"workflow"`, or an attribute of runs such as `"attributes.tenant"`; when runs wait, a
        place goes to whom fewest are in hand for. Raises InvalidDefinition or InvalidName, with the file and line, for
        what cannot be one; InvalidSetting; ExtraMissing.
        """
        limits = check_sharing(limit, fair_by)
        if fn is None:
            return lambda fn: self._declare_workflow(fn, name, version, limits)
        return self._declare_workflow(fn, name, version, limits)

    def graph(self, graph: Graph | GraphDefinition | Mapping[str, Any], /) -> GraphWorkflow:
        """Make a graph a workflow: one built with `Graph`, or as the data that JSON or YAML would hold.

        Whatever is wrong with it is told at once, with node and field; whether its functions exist, when it is started.
        The same graph again gives the same workflow. Raises InvalidDefinition or InvalidName.
        """
        return self._declare_graph(define_graph(graph), "", graph.calls if isinstance(graph, Graph) else {})

    def graph_from(self, source: str | Path | Mapping[str, Any], /) -> GraphWorkflow:
        """The same from a file, `.json`, `.yaml` or `.yml` (which needs `outlast[yaml]`), or from data.

        Raises InvalidDefinition; OSError where the file cannot be read; ExtraMissing.
        """
        if isinstance(source, str | Path):
            return self._declare_graph(read_graph(Path(source)), str(source), {})
        return self.graph(source)

    def _declare_graph(self, definition: GraphDefinition, source: str, calls: Mapping[str, Declared]) -> GraphWorkflow:
        compiled = compile_graph(definition)
        check_calls(compiled, calls, self)
        workflow = GraphWorkflow(compiled, self._full(compiled.name), home=self.name, source=source)
        known = self._functions.get(workflow.name)
        if isinstance(known, GraphWorkflow) and known.version == workflow.version:
            return known
        self._add({workflow.name: workflow})
        return workflow

    def _declare_step(self, fn: Any, name: str | None, options: dict[str, Any]) -> Step[..., Any]:
        _check_undeclared(fn)
        step: Step[..., Any] = Step(fn, self._full(check_function("step", fn, name)), options)
        step._declare = self._declare_step
        self._add({step.name: step})
        return step

    def _declare_workflow(
        self, fn: Any, name: str | None, version: str | None, limits: RunLimits
    ) -> Workflow[..., Any]:
        _check_undeclared(fn)
        full_name = self._full(check_function("workflow", fn, name))
        workflow: Workflow[..., Any] = Workflow(fn, full_name, home=self.name, version=version, limits=limits)
        self._add({workflow.name: workflow})
        return workflow

    def _full(self, name: str) -> str:
        return f"{self.name}:{name}" if self.name else name

    def include(self, module: Module) -> None:
        """Make known here all that the module declares, and will declare. A second time changes nothing."""
        given: object = module
        if not isinstance(given, Module):
            problem = f"Only a Module can be included, and this is {type(given).__name__}"
            raise InvalidDefinition(problem, repr(self), 'Make one: billing = Module("billing").')
        if module in self._reach():
            raise InvalidDefinition(f"{module!r} is this one, or includes it", repr(self), "Include it elsewhere.")
        if self not in module._includers:
            self._add(module._functions)
            module._includers.append(self)

    def _extend(self, extensions: Iterable[Extension[Any]]) -> None:
        self.extensions = check_extensions(extensions)
        for extension in self.extensions:
            if extension.module is not None:
                self.include(extension.module)

    def _add(self, functions: Mapping[str, Declared]) -> None:
        """To this module and to all that include it; to none where one of them knows another function by a name."""
        reach = self._reach()
        for module in reach:
            for name in functions.keys() & module._functions.keys():
                _check_same(module._functions[name], functions[name])
        for module in reach:
            module._functions.update(functions)

    def _reach(self) -> list[Module]:
        """This module, and all that include it, directly or not: those that know what is declared here."""
        reach: list[Module] = [self]
        for module in reach:
            reach += [includer for includer in module._includers if includer not in reach]
        return reach

    # --- finding ------------------------------------------------------------------------------------------------------

    def find_step(self, name: str, home: str | None = None) -> Step[..., Any] | None:
        """The step of this name. A bare one is first looked up in the module called `home`; by default in this one."""
        found = self._find(name, home)
        return found if isinstance(found, Step) else None

    def find_workflow(self, name: str, home: str | None = None) -> Workflow[..., Any] | None:
        """The workflow of this name, looked up likewise."""
        found = self._find(name, home)
        return found if isinstance(found, Workflow) else None

    def functions(self) -> tuple[str, ...]:
        """The full names of all steps and workflows known here, in the order declared or included."""
        return tuple(self._functions)

    def iter_workflows(self) -> Iterator[Workflow[..., Any]]:
        """All workflows known here."""
        return (function for function in self._functions.values() if isinstance(function, Workflow))

    def _find(self, name: str, home: str | None) -> Declared | None:
        home = self.name if home is None else home
        found = self._functions.get(f"{home}:{name}") if home else None
        return self._functions.get(name) if found is None else found


def _check_undeclared(fn: object) -> None:
    if isinstance(fn, Step | Workflow):
        kind = type(fn).__name__.lower()
        raise InvalidDefinition(f"This is the {kind} {fn.name!r} already", place_of(fn.fn), "Decorate the def alone.")


def _check_same(old: Declared, new: Declared) -> None:
    if old is not new and not _is_reloaded(old.fn, new.fn):
        problem = f"There are two functions called {new.name!r}"
        fix = f"The other one is {old.place}. Give one of them another name=."
        raise InvalidDefinition(problem, new.place, fix)


def _is_reloaded(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Whether it is the same `def`, run again because its module was reloaded."""
    return place_of(old) == place_of(new) and old.__module__ == new.__module__ and not is_nested(new)
