"""`JsonLinesMirror`: lines that are whole, whoever dies and whoever else writes (SPEC O4)."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from outlast import InvalidSetting, JsonLinesMirror
from outlast.mirrors import json_lines
from tests.mirrors.conftest import journal


def places(mirror: JsonLinesMirror) -> list[tuple[str, int]]:
    """What its files hold, in their order."""
    found = [json.loads(line) for path in mirror.files() for line in path.read_bytes().splitlines()]
    return [(line["uid"], line["seq"]) for line in found]


# SPEC O4
async def test_an_entry_is_a_line_with_its_events(tmp_path, entries) -> None:
    """As JSON, with the events as the store has them."""
    mirror = JsonLinesMirror(tmp_path / "deep" / "x.jsonl")
    await mirror.write(entries)
    first, *_ = [json.loads(line) for line in mirror.path.read_text().splitlines()]
    assert (first["uid"], first["seq"], first["at"], first["writer"]) == ("u1", 0, 10, "w")
    assert first["events"] == json.loads(entries[0].events)
    assert [event["event"] for event in first["events"]] == ["RunStarted", "StepStarted"]


# SPEC O4
@pytest.mark.parametrize("torn", [b"{", b'{"uid":"u1","seq":9,"at":1,"wri', b"x" * 200_000])
async def test_a_line_that_was_torn_is_cut_off(tmp_path, entries, torn) -> None:
    """Its process died while it wrote: the next one, whoever it is, goes on behind the last whole line."""
    path = tmp_path / "x.jsonl"
    await JsonLinesMirror(path).write(entries[:1])
    with path.open("ab") as file:
        file.write(torn)
    mirror = JsonLinesMirror(path)
    assert await mirror.positions(["u1"]) == {"u1": 1}
    await mirror.write(entries[1:])
    assert places(mirror) == [("u1", 0), ("u1", 1), ("u1", 2)]


async def test_a_file_of_nothing_but_a_torn_line_begins_anew(tmp_path, entries) -> None:
    """There is no whole line before it."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"uid":')
    mirror = JsonLinesMirror(path)
    await mirror.write(entries)
    assert places(mirror) == [("u1", 0), ("u1", 1), ("u1", 2)]


# SPEC O4
async def test_a_write_that_fails_half_way_leaves_nothing(tmp_path, entries, monkeypatch) -> None:
    """The disk is full: what was written of the batch is taken back, since all of it comes again."""
    mirror = JsonLinesMirror(tmp_path / "x.jsonl")
    await mirror.write(entries[:1])

    def fill(file, data) -> None:
        file.write(data[: len(data) // 2])
        raise OSError(28, "no space left")

    monkeypatch.setattr(json_lines, "_write_all", fill)
    with pytest.raises(OSError, match="no space"):
        await mirror.write(entries[1:])
    monkeypatch.undo()
    assert places(mirror) == [("u1", 0)]
    await mirror.write(entries[1:])
    assert places(mirror) == [("u1", 0), ("u1", 1), ("u1", 2)]


# SPEC O4
async def test_a_large_file_is_rotated(tmp_path) -> None:
    """Numbers grow; what was rotated is still known, so that nothing is copied twice."""
    mirror = JsonLinesMirror(tmp_path / "x.jsonl", rotate_at=600)
    for number in range(12):
        await mirror.write(journal(f"u{number}"))
    files = mirror.files()
    assert len(files) >= 11
    assert [path.name for path in files[:2]] == ["x.jsonl.1", "x.jsonl.2"]
    assert files[9].name == "x.jsonl.10"
    assert sorted(places(mirror)) == sorted((f"u{number}", seq) for number in range(12) for seq in range(3))
    assert await JsonLinesMirror(tmp_path / "x.jsonl").positions(["u0", "u11", "other"]) == {"u0": 3, "u11": 3}
    with pytest.raises(InvalidSetting):
        JsonLinesMirror("x", rotate_at=0)


# SPEC O4
def test_many_writers_share_a_file(tmp_path) -> None:
    """Each line is whole, and none is lost, though the file is rotated under them."""
    path = tmp_path / "x.jsonl"

    def work(name: str) -> None:
        mirror = JsonLinesMirror(path, rotate_at=5000)
        for number in range(40):
            asyncio.run(mirror.write(journal(f"{name}-{number}")))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = places(JsonLinesMirror(path))
    assert sorted(found) == sorted(
        (f"{name}-{number}", seq) for name in "abc" for number in range(40) for seq in range(3)
    )


async def test_positions_are_where_the_first_gap_is(tmp_path, entries, monkeypatch) -> None:
    """What came behind a gap, or twice, does not hide it; what this mirror writes itself is known at once."""
    mirror = JsonLinesMirror(tmp_path / "x.jsonl")
    other = journal("u2", 5)
    await mirror.write([*entries, other[0], other[3], other[3], other[5]])
    assert await mirror.positions(["u1", "u2", "u3"]) == {"u1": 3, "u2": 1}
    await mirror.write(other[1:3])
    monkeypatch.setattr(Path, "open", None)  # it is not read again
    assert await mirror.positions(["u2"]) == {"u2": 4}
