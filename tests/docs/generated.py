"""The parts of the pages that are made from the code, so that they cannot say anything else.

    python tests/docs/generated.py      writes them anew

In a page such a part stands between `<!-- generated: NAME -->` and `<!-- end -->`. `test_generated.py` compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from outlast.core.states import to_mermaid  # noqa: E402
from tests.docs.reference import make_commands, make_errors, make_names  # noqa: E402
from tests.docs.routes import make_refusals, make_routes  # noqa: E402

__all__ = ["PARTS", "list_generated", "with_parts"]

PARTS: dict[str, Callable[[], str]] = {
    "states": lambda: f"```mermaid\n{to_mermaid()}\n```",
    "commands": make_commands,
    "errors": make_errors,
    "routes": make_routes,
    "refusals": make_refusals,
    **make_names(),
}
"""By name: what stands there."""

_PART = re.compile(r"(<!-- generated: ([\w .]+) -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)


def list_generated() -> list[Path]:
    """Pages with such parts."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    return sorted(page for page in pages if _PART.search(page.read_text(encoding="utf-8")))


def with_parts(text: str) -> str:
    """The page with its parts as the code says now. Raises KeyError for a part nobody makes."""
    return _PART.sub(lambda match: f"{match[1]}{PARTS[match[2]]()}\n{match[3]}", text)


if __name__ == "__main__":
    for page in list_generated():
        before = page.read_text(encoding="utf-8")
        after = with_parts(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page.relative_to(ROOT)} is changed")
