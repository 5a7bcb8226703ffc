"""Log lines of a command, on standard error. Layer: cli.

What always holds: a program that set up logging itself keeps its set-up; and standard output is never logged to.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import TextIO

import click

__all__ = ["LOG_LEVELS", "log_level_option", "set_up_logging"]

LOG_LEVELS = ("debug", "info", "warning", "error")

log_level_option = click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    default=None,
    help="What is logged to standard error.",
)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at that moment: a live view replaces it while it is on."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def _is_news(record: logging.LogRecord) -> bool:
    """False for what a view of the run shows anyhow: that a step or the run failed, or is suspended."""
    is_of_run = getattr(record, "run", None) is not None
    return not (is_of_run and record.name == "outlast" and _IN_VIEW.match(record.getMessage()))


_IN_VIEW = re.compile(r"(?:step .* of )?run .+? (?:failed|is suspended)")


def set_up_logging(level: str | None, *, default: str, is_viewed: bool = False) -> None:
    """Log to standard error, unless somebody logs already.

    `is_viewed`: a view shows how runs fare, so that the log need not, unless a level was asked for.
    """
    root = logging.getLogger()
    if not root.handlers:
        handler = _Stderr()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        if is_viewed and level is None:
            handler.addFilter(_is_news)
        root.addHandler(handler)
    logging.getLogger("outlast").setLevel((level or default).upper())
