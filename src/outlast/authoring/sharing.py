"""How runs and queued steps are shared out, as authors say it: a limit, and fairness. Layer: authoring.

The same words, under the same names, go to `@app.workflow(…)` and `app.queue(…)`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.errors import InvalidSetting

__all__ = ["ATTRIBUTE", "UNSHARED", "RunLimits", "check_sharing", "find_group"]

ATTRIBUTE = "attributes."
"""`fair_by=attributes.tenant`: by the run's attribute of this name."""
LARGEST_LIMIT = 1_000_000
LONGEST_GROUP = 200


class RunLimits(msgspec.Struct, frozen=True):
    """What `@app.workflow` was told of its runs, checked."""

    limit: int | None = None
    """Runs of it that workers may have in hand at once, all workers together."""
    fair_by: str = ""
    """`user`, `workflow` or `attributes.NAME`: each of these gets as many places as the others, while both wait."""

    @property
    def is_shared(self) -> bool:
        """Its runs are claimed by themselves, as they are to be shared out."""
        return self.limit is not None or bool(self.fair_by)


UNSHARED = RunLimits()


def check_sharing(limit: int | None, fair_by: str | None) -> RunLimits:
    """Raises InvalidSetting."""
    given: Any = limit
    is_whole = isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= LARGEST_LIMIT
    if given is not None and not is_whole:
        raise InvalidSetting("limit", limit, f"a whole number from 1 to {LARGEST_LIMIT}")
    by: Any = fair_by
    if by is not None and by not in ("user", "workflow") and not (isinstance(by, str) and by.startswith(ATTRIBUTE)):
        raise InvalidSetting("fair_by", fair_by, f'"user", "workflow" or "{ATTRIBUTE}NAME"')
    return RunLimits(limit, fair_by or "")


def find_group(fair_by: str, *, user: str | None, workflow: str, attributes: bytes | msgspec.Raw) -> str:
    """Whom a run is for, where it is shared out among groups: those without are one, too."""
    if not fair_by:
        return ""
    value: Any = None
    if fair_by.startswith(ATTRIBUTE):
        value = (msgspec.json.decode(attributes) or {}).get(fair_by.removeprefix(ATTRIBUTE))
    else:
        value = user if fair_by == "user" else workflow
    text = "-" if value is None else f"={value}"[:LONGEST_GROUP]
    return text.replace("\0", "\ufffd")  # which not every store can keep in a text
