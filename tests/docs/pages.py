"""Pages of documentation as the tests see them: blocks of code in the order in which a reader meets them.

A block may be told what to do with it in a comment right before it, which no reader sees:

    <!-- file: shop.py -->      save it under this name instead of running it
    <!-- exit: 1 -->            the commands end with this status
    <!-- not run: why -->       it cannot be run here
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ROOT", "Block", "Command", "list_pages", "read_blocks", "read_commands"]

ROOT = Path(__file__).resolve().parents[2]

_DIRECTIVE = re.compile(r"<!-- (file|exit|not run): (.*?) -->")
_FENCE = re.compile(r"^( *)```(\w*)\s*$")


@dataclass
class Block:
    """One block of code."""

    page: Path
    line: int
    """Of its first line, from 1."""
    language: str
    text: str
    told: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass
class Command:
    """A line after a `$`, and what is shown below it."""

    text: str
    shown: str


def list_pages() -> list[Path]:
    """All of them, from the root."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")])


def read_blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order. Raises ValueError for one that never ends."""
    blocks: list[Block] = []
    open_block: Block | None = None
    indent, told = 0, {}
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if open_block is None and fence:
            indent = len(fence[1])
            open_block, told = Block(page, number + 1, fence[2], "", told), {}
        elif open_block is not None and fence and not fence[2]:
            blocks.append(open_block)
            open_block = None
        elif open_block is not None:
            open_block.text += f"{line[indent:]}\n"
        elif line.strip():
            told = dict(_DIRECTIVE.findall(line))
    if open_block is not None:
        raise ValueError(f"{open_block}: the block never ends")
    return blocks


def read_commands(block: Block) -> list[Command]:
    """The commands of a `console` block, each with what it shows. A line that ends with a backslash goes on."""
    commands: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:], ""))
        elif commands and commands[-1].text.endswith("\\") and not commands[-1].shown:
            commands[-1].text += f"\n{line}"
        elif commands:
            commands[-1].shown += f"{line}\n"
    return commands
