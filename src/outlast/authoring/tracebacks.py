"""Tracebacks as text: the author's frames, at a length that can be stored. Layer: authoring."""

from __future__ import annotations

import asyncio
import concurrent.futures
from pathlib import Path
from traceback import TracebackException
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["MAX_TRACEBACK", "show_traceback"]

MAX_TRACEBACK = 16 * 1024
"""Characters. Of a longer one the middle is left out: how it began and, more so, where it ended say most."""

_MACHINERY = tuple(
    f"{Path(file).parent}/" for file in (Path(__file__).parent, asyncio.__file__, concurrent.futures.__file__) if file
)


def show_traceback(error: BaseException) -> str:
    """As Python prints it, causes and groups included, but without the engine's frames above the author's."""
    try:
        found = TracebackException(type(error), error, _skip_machinery(error.__traceback__), compact=True)
        text = "".join(found.format())
    except Exception as broken:  # noqa: BLE001 - an author's own __str__ or __notes__
        text = f"<no traceback of {type(error).__qualname__}: {type(broken).__name__}>\n"
    if len(text) > MAX_TRACEBACK:
        text = f"{text[: MAX_TRACEBACK // 4]}\n  ... left out ...\n{text[-MAX_TRACEBACK * 3 // 4 :]}"
    return text.encode(errors="backslashreplace").decode()


def _skip_machinery(first: TracebackType | None) -> TracebackType | None:
    """The traceback from the author's first frame on; all of it where there is none."""
    frame = first
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_MACHINERY):
        frame = frame.tb_next
    return frame or first
