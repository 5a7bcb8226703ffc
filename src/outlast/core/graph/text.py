"""A graph's text, JSON or YAML, as plain data: strictly, and within limits. Layer: core.

What always holds: the data is what JSON can say, in one way: no key twice, no NaN, no half a surrogate pair, nothing
nested deeper than `limits.NESTING`, and no more of it than `limits` allow. So whoever reads on checks none of that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from outlast.core.graph.limits import LONGEST_TEXT, MOST_VALUES, NESTING
from outlast.core.graph.problems import find_twice, shorten
from outlast.errors import InvalidDefinition

__all__ = ["Data", "decode_text", "read_json", "to_plain"]

Data: TypeAlias = dict[str, "Data"] | list["Data"] | str | int | float | bool | None


def decode_text(raw: bytes | str, where: str) -> str:
    """The text of a definition. `where` is for messages. Raises InvalidDefinition for bad UTF-8, or too much of it."""
    if len(raw) > LONGEST_TEXT:
        fix = "Take it apart: a node may be a workflow, which may be a graph."
        raise InvalidDefinition(f"It has over {LONGEST_TEXT:,} bytes", where, fix)
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"It is not UTF-8: byte {error.start} is 0x{raw[error.start]:02x}"
        raise InvalidDefinition(problem, where, "Save it as UTF-8.") from None


def read_json(text: str, where: str) -> Data:
    """The value of a JSON text. Raises InvalidDefinition."""

    def refuse(constant: str) -> NoReturn:
        raise InvalidDefinition(f"It has {constant}, which is no JSON", where, "Write a number, a text or null.")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            twice = find_twice(key for key, _ in items)
            raise InvalidDefinition(f"The key {shorten(twice)} is there twice", where, "Rename one, or remove it.")
        return found

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=refuse)
    except RecursionError:
        raise _too_deep(where) from None
    except ValueError as error:  # a JSONDecodeError; or an integer of thousands of digits
        problem = f"It cannot be read as JSON: {error}"
        raise InvalidDefinition(problem, where, "Correct it, or name the file .yaml if it is YAML.") from None
    return to_plain(value, where)


def _too_deep(where: str) -> InvalidDefinition:
    return InvalidDefinition(f"It nests over {NESTING} deep", where, "Pass deep data as the run's input.")


def to_plain(value: object, where: str) -> Data:
    """A copy of what a program passed, or a parser read. Raises InvalidDefinition for what JSON could not say."""
    return _Copy(where).of(value, 0)


class _Copy:
    """One copy; it knows how much there was so far."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._values = 0
        self._bytes = 0

    def of(self, value: object, depth: int) -> Data:
        self._values += 1
        if self._values > MOST_VALUES:
            raise self._refused(f"It has over {MOST_VALUES:,} values", "Pass large data as the run's input.")
        if depth > NESTING:
            raise _too_deep(self._where)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return self._whole(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise self._refused(f"It has {value}, which is no JSON", "Write a number, a text or null.")
            return value
        if isinstance(value, Mapping):
            return {self._key(key): self.of(part, depth + 1) for key, part in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            return [self.of(part, depth + 1) for part in value]
        problem = f"It has {shorten(value)}, of type {type(value).__name__}, which is no JSON"
        raise self._refused(problem, "Use texts, numbers, true, false, null, lists and objects.")

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise self._refused(f"It has the key {shorten(key)}, which is no text", "Write it in quotes.")
        return self._text(key)

    def _text(self, text: str) -> str:
        try:
            self._bytes += len(text.encode())
        except UnicodeEncodeError:
            problem = f"The text {shorten(text)} has half a surrogate pair"
            raise self._refused(problem, "Decode it properly first.") from None
        if self._bytes > LONGEST_TEXT:
            raise self._refused(f"It has over {LONGEST_TEXT:,} bytes of text", "Pass large data as the run's input.")
        return str(text)

    def _whole(self, number: int) -> int:
        if not -(2**63) <= number < 2**64:
            raise self._refused("It has an integer of over 64 bits", "Write it as a text.")
        return int(number)

    def _refused(self, problem: str, fix: str) -> InvalidDefinition:
        return InvalidDefinition(problem, self._where, fix)
