"""Checks workflows as they are declared: what `outlast check` calls. Layer: authoring."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from typing import Any

from outlast.authoring.workflow import Workflow
from outlast.core.check.changed import find_changed_globals
from outlast.core.check.checking import check_body
from outlast.core.check.findings import Finding

__all__ = ["check_workflow"]

_OK = re.compile(r"#\s*outlast:\s*ok\b")


def check_workflow(workflow: Workflow[..., Any]) -> list[Finding] | None:
    """What its body, and the functions it calls, had better not do; None where there is no source to be read."""
    reading = workflow.read()
    if reading.plan is None:
        return None
    return check_body(workflow.name, reading.functions, reading.plan, _Texts())


class _Texts:
    """Source files, as they are now."""

    def is_allowed(self, file: str, first: int, last: int) -> bool:
        """Whether one of these lines says `# outlast: ok`."""
        return any(_OK.search(linecache.getline(file, line)) for line in range(first, last + 1))

    def changed_globals(self, file: str) -> frozenset[str]:
        """Globals that some function of this file changes."""
        return _changed_globals("".join(linecache.getlines(file)))


@functools.lru_cache(maxsize=64)
def _changed_globals(text: str) -> frozenset[str]:
    try:
        return find_changed_globals(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
