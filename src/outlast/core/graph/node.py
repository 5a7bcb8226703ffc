"""One node, compiled: its values parsed, its edges and options settled. Layer: core.

What always holds: a compiled node needs no further look at its definition, and what is said of a node alone has been
checked: which node it leads to, and what may be referred to, is for `compiling`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from outlast.core.durations import parse_duration
from outlast.core.graph.definition import Growth, NodeDefinition, Targets
from outlast.core.graph.limits import DEFAULT_LIMIT, LONGEST_ID, MOST_LIMIT, MOST_VISITS
from outlast.core.graph.problems import Problems, find_twice, list_names, shorten
from outlast.core.graph.references import Literal, Reference, ReferenceProblem, Template, Value, parse_value
from outlast.core.keys import check_name, check_step_name
from outlast.core.retry import MOST_RETRIES, exponential, fixed
from outlast.errors import InvalidDefinition, InvalidDuration, InvalidName

__all__ = ["ANY_KEY", "ERROR_KEY", "Node", "compile_node", "compile_value"]

ANY_KEY: Final = "*"
"""The case of a branch that is taken where no other fits."""
ERROR_KEY: Final = "error"
"""The key of the branch after a failure that does not fail the run."""

_OPTIONS: Final = (
    *("retries", "backoff", "timeout", "heartbeat_timeout", "queue", "executor", "at_most_once", "compensate"),
)


_CHILD_OPTIONS: Final = frozenset({"queue", "timeout", "compensate"})
"""Those that a workflow has too, as a child run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """See the module's docstring."""

    id: str
    call: str
    """Registered name of what it calls: a step, or"""
    is_workflow: bool
    input: Value | None
    is_by_name: bool
    """`input` is an object by parameter name; else the value of the only parameter."""
    targets: tuple[str, ...] = ()
    """Where it goes on, without a branch."""
    cases: Mapping[str, tuple[str, ...]] | None = None
    """Where it goes on, by the key of the branch."""
    branch: Reference | None = None
    on_error: str | None = None
    goes_on: bool = False
    """After a failure the run goes on."""
    for_each: Value | None = None
    limit: int = 1
    max_visits: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """As `step.options` takes them, or for a workflow those of a child run."""
    notes: str = ""

    @property
    def follows(self) -> tuple[str, ...]:
        """All nodes that may come next, each once."""
        if self.cases is None:
            return self.targets
        return tuple(dict.fromkeys(target for targets in self.cases.values() for target in targets))

    def iter_values(self) -> Iterator[tuple[str, Value]]:
        """Its values, each with the field it stands in."""
        for name, value in (("input", self.input), ("for_each", self.for_each), ("branch", self.branch)):
            if value is not None:
                yield name, value


def compile_node(id: str, given: NodeDefinition, problems: Problems) -> Node:
    """The node; what is wrong with it goes to `problems`."""
    compiler = _Compiler(id, given, problems)
    call = compiler.call()
    cases = compiler.cases()
    for_each, limit = compiler.for_each()
    return Node(
        id=id,
        call=call,
        is_workflow=given.workflow is not None,
        input=None if given.input is None else compile_value(given.input, problems, node=id, field="input"),
        is_by_name=given.input is None or isinstance(given.input, dict),
        targets=() if isinstance(given.next, dict) else compiler.targets(given.next, "next"),
        cases=cases,
        branch=compiler.branch(),
        on_error=given.on_error,
        goes_on=given.after_error == "continue",
        for_each=for_each,
        limit=limit,
        max_visits=compiler.max_visits(),
        options=compiler.options(),
        notes=given.notes,
    )


def compile_value(data: Any, problems: Problems, *, node: str | None = None, field: str) -> Value | None:
    """The value; None where something in it is no reference, which goes to `problems`."""
    try:
        return parse_value(data)
    except ReferenceProblem as error:
        problems.add(error.problem, error.fix, node=node, field=field)
        return None


class _Compiler:
    """Of one node, field by field."""

    def __init__(self, id: str, given: NodeDefinition, problems: Problems) -> None:
        self._id = id
        self._given = given
        self._problems = problems
        self._check_id()

    def _add(self, field: str, problem: str, fix: str) -> None:
        self._problems.add(problem, fix, node=self._id, field=field)

    def _check_id(self) -> None:
        try:
            check_step_name(self._id, "node id")
        except InvalidName as error:
            self._add("", f"The id {error.problem}", error.fix)
            return
        if len(self._id.encode()) > LONGEST_ID:
            self._add("", f"The id is over {LONGEST_ID} bytes long", "Use a short one, and say more in notes.")
        if "[" in self._id or "]" in self._id:
            self._add("", "The id has a bracket, which parts it from the number of an item", "Use another sign.")

    def call(self) -> str:
        """What it calls."""
        given = self._given
        name = given.workflow if given.function is None else given.function
        field = "workflow" if given.function is None else "function"
        if name is None or (given.function is not None and given.workflow is not None):
            problem = "It has neither a function nor a workflow" if name is None else "It has a function and a workflow"
            self._add("", problem, "Give one of them: the registered name of what the node calls.")
            return name or ""
        try:
            return check_name(field, name)
        except InvalidName as error:
            self._add(field, error.problem, error.fix)
            return name

    def targets(self, given: Targets, field: str) -> tuple[str, ...]:
        """The ids in one place of `next`."""
        ids = [] if given is None else [given] if isinstance(given, str) else given
        twice = find_twice(ids)
        if twice is not None:
            self._add(field, f"It leads to {shorten(twice)} twice", "Name each node once.")
        return tuple(dict.fromkeys(ids))

    def cases(self) -> dict[str, tuple[str, ...]] | None:
        """`next` by the key of the branch."""
        given = self._given.next
        if not isinstance(given, dict):
            if self._given.branch is not None:
                fix = 'Let next be an object, such as {"yes": "ship", "no": null}.'
                self._add("branch", "It has a branch, and no keys in next to choose from", fix)
            return None
        if not given:
            self._add("next", "It has a branch without keys", 'Add some, such as {"yes": "ship", "no": null}.')
        if self._given.for_each is not None and self._given.branch is None and given.keys() - {ANY_KEY, ERROR_KEY}:
            fix = "Say in branch what decides, such as $output[0]."
            self._add("branch", "The result of a for_each is a list, which is no key", fix)
        return {key: self.targets(targets, f"next.{key}") for key, targets in given.items()}

    def branch(self) -> Reference | None:
        """What decides between the cases."""
        if self._given.branch is None:
            return None
        value = compile_value(self._given.branch, self._problems, node=self._id, field="branch")
        if isinstance(value, Reference):
            return value
        if value is not None:
            self._add("branch", f"{shorten(self._given.branch)} is no reference", "Write one, such as $output.verdict.")
        return None

    def for_each(self) -> tuple[Value | None, int]:
        """The list, and how many of its items at once."""
        given = self._given
        if given.for_each is None:
            for name in ("mode", "limit"):
                if getattr(given, name) is not None:
                    self._add(name, f"It has {name} without for_each", "Add for_each, or remove it.")
            return None, 1
        value = compile_value(given.for_each, self._problems, node=self._id, field="for_each")
        if isinstance(value, Template) or (isinstance(value, Literal) and isinstance(value.value, str)):
            fix = "Write a reference, such as $input.items, or a list."
            self._add("for_each", f"{shorten(given.for_each)} is a text, not a list", fix)
        return value, self._limit()

    def _limit(self) -> int:
        given = self._given
        if given.limit is not None and not 1 <= given.limit <= MOST_LIMIT:
            self._add("limit", f"{given.limit} is not from 1 to {MOST_LIMIT}", "Choose another.")
        if given.mode == "sequential":
            if given.limit not in {None, 1}:
                self._add("limit", "It has a limit, and is sequential", "Remove one of them.")
            return 1
        return DEFAULT_LIMIT if given.limit is None else given.limit

    def max_visits(self) -> int | None:
        """How often it may be visited."""
        given = self._given.max_visits
        if given is not None and not 1 <= given <= MOST_VISITS:
            self._add("max_visits", f"{given} is not from 1 to {MOST_VISITS:,}", "Choose another.")
        return given

    def options(self) -> dict[str, Any]:
        """The options of the step's call."""
        given = {name: value for name in _OPTIONS if (value := getattr(self._given, name)) is not None}
        unknown = [name for name in given if name not in _CHILD_OPTIONS]
        if self._given.workflow is not None and unknown:
            problem = f"It calls a workflow, which has no {list_names(unknown)}"
            self._add(unknown[0], problem, "Remove it, or set it on the steps of that workflow.")
        settled = {}
        for name, value in given.items():
            try:
                settled[name] = self._option(name, value)
            except InvalidDuration as error:
                fix = "Give seconds, or text such as '250ms', '30s' or '1h30m'."
                self._add(name, f"{shorten(error.value)} is no duration", fix)
            except InvalidName as error:
                self._add(name, error.problem, error.fix)
            except InvalidDefinition as error:
                self._add(name, error.problem, error.fix)
        return settled

    def _option(self, name: str, value: Any) -> Any:
        if name == "retries" and not 0 <= value <= MOST_RETRIES:
            raise InvalidDefinition(f"{value} is not from 0 to {MOST_RETRIES:,}", "", "Choose another.")
        if name in {"timeout", "heartbeat_timeout"} and parse_duration(value) == 0:
            raise InvalidDefinition(f"{shorten(value)} leaves no time at all", "", "Remove it for no limit.")
        if name in {"queue", "executor"}:
            return check_name(name, value)
        if name == "backoff":
            if isinstance(value, Growth):
                return exponential(value.first, factor=value.factor, cap=value.cap, jitter=value.jitter)
            return fixed(value)
        return value
