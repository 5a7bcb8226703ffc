"""Writes into a page what its commands print.

    python tests/docs/transcript.py docs/orders.md

The commands are run as a test of the page runs them, in a folder of their own, which is shown as `…`. What stands below
each of them is replaced by what it printed; a `^C` or `Killed` stands behind what had been printed when it came.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.docs.pages import Block, Command, read_blocks, read_commands  # noqa: E402
from tests.docs.running import INTERRUPTED, KILLED, Reader  # noqa: E402

__all__ = ["Transcriber", "transcribe"]

_STOP = re.compile(rf"^({re.escape(INTERRUPTED)}|{KILLED})$", re.MULTILINE)


class Transcriber(Reader):
    """Notes what is printed, where a reader compares."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {})
        self.printed: dict[tuple[int, str], str] = {}
        """By the first line of the block, and the command."""

    def compare(self, block: Block, command: Command, output: str, stopped_at: int) -> None:
        """Put what was printed in the place of what is shown."""
        lines = [line.rstrip().replace(str(self.folder), "…") for line in output.splitlines()]
        if stop := _STOP.search(command.shown):
            lines.insert(stopped_at, stop[1])
        self.printed[block.line, command.text] = "\n".join(lines)


async def transcribe(text: str, blocks: list[Block]) -> str:
    """The page, as it is true now."""
    with tempfile.TemporaryDirectory() as folder:
        transcriber = Transcriber(Path(folder))
        for block in blocks:
            await transcriber.read(block)
    lines = text.splitlines()
    for block in reversed(blocks):
        if block.language == "console" and "not run" not in block.told:
            first, count = block.line - 1, len(block.text.splitlines())
            lines[first : first + count] = _shown(block, transcriber.printed)
    return "\n".join(lines) + "\n"


def _shown(block: Block, printed: dict[tuple[int, str], str]) -> list[str]:
    shown: list[str] = []
    for command in read_commands(block):
        shown += f"$ {command.text}".splitlines()
        shown += printed[block.line, command.text].splitlines()
    return shown


if __name__ == "__main__":
    for page in (Path(name).resolve() for name in sys.argv[1:]):
        new = asyncio.run(transcribe(page.read_text(encoding="utf-8"), read_blocks(page)))
        page.write_text(new, encoding="utf-8")
