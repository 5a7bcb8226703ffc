"""The SQL of `sql/*.sql`, each statement with its name and a sentence. Layer: stores (postgres).

Parameters are named, `:uid::text[]`; statements over many rows take a column of each as an array, so one prepared
statement serves every size of group. The files write the schema as `outlast`; another is put in its place.
"""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from outlast.stores.sql_files import read_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Row", "Statement", "columns", "in_schema", "load_statements"]

PACKAGE = "outlast.stores.postgres"

Row: TypeAlias = "tuple[Any, ...]"

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_SCHEMA = re.compile(r"\boutlast\.")


class Statement:
    """One statement. Its text has `$1`, `$2` … where the file has names."""

    __slots__ = ("arrange", "name", "parameters", "purpose", "text")

    def __init__(self, name: str, purpose: str, text: str) -> None:
        self.name = name
        self.purpose = purpose
        self.parameters: tuple[str, ...] = tuple(dict.fromkeys(_PARAMETER.findall(text)))
        numbers = {parameter: f"${number}" for number, parameter in enumerate(self.parameters, 1)}
        self.text = _PARAMETER.sub(lambda match: numbers[match[1]], text)
        self.arrange = _arrange(self.parameters)
        """These values in the order of the parameters."""


def _arrange(parameters: Sequence[str]) -> Callable[[Mapping[str, object]], Sequence[object]]:
    if len(parameters) > 1:
        return itemgetter(*parameters)  # a lone step waits for this
    return lambda values: [values[parameter] for parameter in parameters]


def load_statements(name: str) -> dict[str, Statement]:
    """All statements of `sql/<name>.sql`, by name."""
    texts = read_statements(PACKAGE, name)
    return {head: Statement(head, purpose, sql) for head, (purpose, sql) in texts.items()}


def in_schema(sql: str, schema: str) -> str:
    """The SQL for a store whose schema has this name."""
    return _SCHEMA.sub(f'"{schema}".', sql)


def columns(names: str, rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    """Rows as arrays, by the names of their columns; there is at least one row."""
    return dict(zip(names.split(), zip(*rows, strict=True), strict=True))
