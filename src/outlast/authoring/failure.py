"""What an `on_error` handler is told: which step failed for good, and how (SPEC S9). Layer: authoring."""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.authoring.exceptions import rebuild_error
from outlast.core.events import ErrorRecord

__all__ = ["FailedStep"]


class FailedStep(msgspec.Struct, frozen=True):
    """A step that has used up its attempts. Annotate a handler's parameter with it."""

    name: str
    """What the step was called as."""
    key: str
    """What it is called in its run: the name, and the number of its use."""
    arguments: dict[str, Any]
    """By parameter name, as plain JSON."""
    error: ErrorRecord
    """Type, message, code and traceback of the error."""
    invocation_id: str
    """What the step is called in the world: under it others may have taken note of its effect."""

    @property
    def exception(self) -> Exception:
        """The error as the body gets it: as itself, or as a StepFailed."""
        return rebuild_error(self.error, step=self.key)
