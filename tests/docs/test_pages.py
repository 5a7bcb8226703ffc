"""The pages are true: every block of code in them runs, and shows what they say it shows."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, list_pages, read_blocks
from tests.docs.running import Reader, fits

# A reader has time, and types quickly: two commands while a run sleeps. A busy machine does not.
AT_ITS_PACE = {'ctx.sleep("5s")': 'ctx.sleep("100ms")', 'patience: str = "5s"': 'patience: str = "8s"'}

# Commands that measure are for a machine that does nothing else.
MEASURED = ROOT / "docs" / "figures.md"
PAGES = [
    page
    for page in list_pages()
    if page != MEASURED and any(block.language in {"python", "console"} for block in read_blocks(page))
]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[\w-]+)?\)")


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Pages configure logging as a program would."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
async def test_every_block_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """Whoever copies the blocks of a page, in order, sees what the page says."""
    with Reader(tmp_path, AT_ITS_PACE) as reader:
        for block in read_blocks(page):
            await reader.read(block)


async def test_a_page_leaves_no_module_behind(tmp_path: Path) -> None:
    """What one page calls `shop`, and its tests import, is not what another finds under that name."""
    for number in range(2):
        page, folder = ROOT / f"page-{number}.md", tmp_path / str(number)
        folder.mkdir()
        with Reader(folder, {}) as reader:
            await reader.read(Block(page, 1, "python", f"number = {number}\n", {"file": "shelf.py"}))
            await reader.read(Block(page, 2, "python", f"import shelf\nassert shelf.number == {number}\n"))
            assert {"shelf", "page"} <= sys.modules.keys()
        assert not {"shelf", "page"} & sys.modules.keys()


def test_a_block_that_is_not_run_says_why() -> None:
    """Code that cannot be run here is the exception, and has a reason."""
    blocks = [block for page in PAGES for block in read_blocks(page)]
    left_out = [block for block in blocks if "not run" in block.told]
    assert all(len(block.told["not run"]) > 10 for block in left_out)
    assert len(left_out) < len(blocks) / 4


def test_every_link_leads_somewhere() -> None:
    """No page links to a file that is not there."""
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in list_pages()
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("shown", "printed", "is_true"),
    [
        ("charge  succeeded  12ms", "charge succeeded 3s", True),
        ("run 01a22d2d-8117-79ef-9eaf-2a02220a4252 …", "run 01a22d2f-8fb4-774b-86f5-232df82123e5 goes on", True),
        ("run 01a22d2d-8117-79ef-9eaf-2a02220a4252 …", "run 01a22d2f-8fb4-774b-86f5-232df82123e5 goes\non", False),
        ("one\n…\nfour", "one\ntwo\nthree\nfour", True),
        ("Run A-17 is completed in 2.1s", "Run A-17 is failed in 2.1s", False),
        ("one", "one\ntwo", False),
        ("started 2", "started 3", False),
    ],
)
def test_what_is_shown_is_compared(shown: str, printed: str, is_true: bool) -> None:
    """Times and ids may differ, and `…` stands for what is left out; a word or a number more does not pass."""
    assert fits(shown, printed) is is_true
