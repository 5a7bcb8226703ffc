"""YAML as plain data: the part of it that is JSON, written more nicely. Layer: core.

Needs the extra `outlast[yaml]`, of which only the scanner is used: it tells what stands there, and nothing is ever
constructed of a tag. What always holds: no anchors and aliases (a few lines of them can stand for terabytes), no tags,
no second document; and `yes`, `no`, `on` and dates are texts, as in YAML 1.2, so that a branch may have a key `no`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from outlast.core.graph.limits import MOST_VALUES, NESTING
from outlast.core.graph.problems import shorten
from outlast.core.graph.text import Data, to_plain
from outlast.errors import ExtraMissing, InvalidDefinition

if TYPE_CHECKING:
    from yaml.events import Event, ScalarEvent

__all__ = ["read_yaml"]

_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, bool | None]] = {"": None, "~": None, "null": None, "true": True, "false": False}


def read_yaml(text: str, where: str) -> Data:
    """The value of a YAML text. Raises InvalidDefinition; ExtraMissing where the library is not installed."""
    try:
        import yaml
    except ImportError:
        raise ExtraMissing("Reading YAML", "yaml") from None
    # libyaml's, where the package has it, is many times quicker.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    reader = _Reader(where)
    try:
        for event in yaml.parse(text, Loader=loader):
            reader.take(event)
    except yaml.YAMLError as error:
        told = " ".join(str(error).split())
        raise InvalidDefinition(f"It cannot be read as YAML: {told}", where, "Correct it.") from None
    except RecursionError:
        raise reader.too_deep() from None
    return to_plain(reader.value, where)


class _Reader:
    """Builds the value from events, without recursion."""

    def __init__(self, where: str) -> None:
        self.value: Any = None
        self._where = where
        self._open: list[list[Any] | dict[str, Any]] = []
        self._keys: list[str | None] = []
        """Of each open container: the key that waits for its value."""
        self._documents = 0
        self._events = 0

    def take(self, event: Event) -> None:
        """One event of the scanner."""
        self._events += 1
        if self._events > 2 * MOST_VALUES:
            raise self._refused(event, f"It has over {MOST_VALUES:,} values", "Pass large data as the run's input.")
        kind = type(event).__name__
        if kind == "AliasEvent" or getattr(event, "anchor", None) is not None:
            raise self._refused(event, "It has an anchor or alias", "Write out what it stands for.")
        if getattr(event, "tag", None) is not None:
            raise self._refused(event, f"It has the tag {shorten(getattr(event, 'tag', None))}", "Remove it.")
        if kind == "DocumentStartEvent":
            self._documents += 1
            if self._documents > 1:
                raise self._refused(event, "It has a second document", "Put each graph in a file of its own.")
        elif kind == "MappingStartEvent":
            self._enter({}, event)
        elif kind == "SequenceStartEvent":
            self._enter([], event)
        elif kind in {"MappingEndEvent", "SequenceEndEvent"}:
            self._open.pop()
            self._keys.pop()
        elif kind == "ScalarEvent":
            self._take_scalar(event)  # type: ignore[arg-type]  # by its name: there are two implementations of each

    def _enter(self, container: list[Any] | dict[str, Any], event: Event) -> None:
        if len(self._open) > NESTING:
            raise self.too_deep()
        self._add(container, event)
        self._open.append(container)
        self._keys.append(None)

    def _take_scalar(self, event: ScalarEvent) -> None:
        if self._open and isinstance(self._open[-1], dict) and self._keys[-1] is None:
            self._take_key(event.value, event)
        else:
            self._add(_resolve(event.value) if event.implicit[0] else event.value, event)

    def _take_key(self, key: str, event: Event) -> None:
        if key in self._open[-1]:
            raise self._refused(event, f"The key {shorten(key)} is there twice", "Rename one, or remove it.")
        self._keys[-1] = key

    def _add(self, value: Any, event: Event) -> None:
        if not self._open:
            self.value = value
            return
        parent = self._open[-1]
        if isinstance(parent, list):
            parent.append(value)
            return
        key = self._keys[-1]
        if key is None:
            raise self._refused(event, "It has a key that is no text", "Write the key as one text.")
        parent[key] = value
        self._keys[-1] = None

    def _refused(self, event: Event, problem: str, fix: str) -> InvalidDefinition:
        mark = event.start_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        return InvalidDefinition(problem, f"{self._where}{line}", fix)

    def too_deep(self) -> InvalidDefinition:
        return InvalidDefinition(f"It nests over {NESTING} deep", self._where, "Pass deep data as the run's input.")


def _resolve(text: str) -> Data:
    """What a plain scalar is, by the core schema of YAML 1.2."""
    word = text.lower() if text in {text.lower(), text.upper(), text.capitalize()} else text
    if word in _WORDS:
        return _WORDS[word]
    if len(text) <= 400:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text):
            return float(text)
    return text
