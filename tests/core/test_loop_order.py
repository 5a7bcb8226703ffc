"""The order of commands: the same whatever the completion order, the process, the hash seed and the Python (SPEC P1).

OUTLAST_FUZZ is how many random programs each process plays; 100 by default.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlast.core.events import StepCancelled, StepStarted, StepSucceeded
from outlast.errors import NonDeterminism
from tests.core.loop_fuzz import DIFFERS, GRAMMAR, list_constructs, make_case, run_case
from tests.core.loop_programs import BY_ADDRESS, PROGRAMS
from tests.core.loop_runs import Dice, as_body, evict_at, iter_cuts, record
from tests.core.machines import replay, step

ROOT = Path(__file__).resolve().parents[2]
SEEDS = int(os.environ.get("OUTLAST_FUZZ", "100"))
HASH_SEEDS = ("0", "4711")
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"

GROUPS = (("3.11", "3.12"), ("3.13", "3.14", "3.15"))
"""asyncio itself is the same within each."""

Lines = dict[tuple[str, str], list[str]]
"""What was printed, by Python and hash seed."""


# SPEC P1
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_a_replay_takes_the_same_path_from_every_cut(program) -> None:
    """Cut the journal behind any event: a fresh body asks for the rest, in the same order, whoever ended first."""
    body = as_body(program)
    texts = set()
    for seed in range(3):
        recording = record(body, Dice(seed))
        assert recording.outcome == "RunCompleted", recording.text
        texts.add(recording.text)
        for asked, expected in iter_cuts(recording, body, range(1, len(recording.journal) + 1)):
            assert asked == expected
    assert len(texts) > 1 or recording.stimuli < 4, "the completion order was never another"


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_a_cancelled_run_replays_to_the_same_clean_up(program) -> None:
    """A cancel anywhere in the run leads to the same clean-up steps, in the same order, from every cut."""
    body = as_body(program)
    for cancel_at in range(1, 8, 3):
        recording = record(body, Dice(cancel_at, cancel_at=cancel_at))
        for asked, expected in iter_cuts(recording, body, range(1, len(recording.journal) + 1)):
            assert asked == expected


# SPEC P2
def test_each_step_of_a_failing_task_group_ends_once() -> None:
    """The branches beside the failing one are cancelled: a step has succeeded or was given up, never both or neither,
    and none that had succeeded is called again."""
    for seed in range(20):
        journal = record(as_body(PROGRAMS["task_group_with_a_failing_branch"]), Dice(seed)).journal
        started = [event.key for event in journal if isinstance(event, StepStarted)]
        ended = [event.key for event in journal if isinstance(event, StepSucceeded | StepCancelled)]
        assert sorted(ended) == sorted(started)
        assert len(set(started)) == len(started)
        called = [bytes(event.arguments) for event in journal if isinstance(event, StepStarted) and "work" in event.key]
        assert len(set(called)) == len(called) == 12
        assert any(isinstance(event, StepCancelled) for event in journal) == (ended[-2] != "bad")


# SPEC P7
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_a_body_can_be_evicted_after_each_stimulus(program) -> None:
    """Wherever it is parked, every coroutine of it ends, and asks for nothing."""
    body = as_body(program)
    recording = record(body, Dice(5))
    for length in range(1, len(recording.journal) + 1):
        assert evict_at(recording, body, length) == (0, [])


@pytest.mark.parametrize("program", BY_ADDRESS.values(), ids=list(BY_ADDRESS))
def test_a_body_that_goes_by_addresses_is_found_or_takes_the_same_path(program) -> None:
    """What is left to the author is never followed: the replay asks for the same, or is a NonDeterminism."""
    body = as_body(program)
    recording = record(body, Dice(1))
    for attempt in range(20):
        litter = [bytearray(attempt * 97) for _ in range(attempt)]  # so that objects lie elsewhere each time
        try:
            ((asked, expected),) = iter_cuts(recording, body, iter([len(recording.journal)]))
        except NonDeterminism:
            continue
        assert asked == expected == []
        del litter


def test_a_set_in_another_order_is_a_difference() -> None:
    """A body that iterates a set by another order than on record is a NonDeterminism that shows both sides."""
    hashes = [1, 2, 3, 4, 5]

    class Thing:
        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            return hashes[self.number]

    async def program(machine) -> None:
        for thing in {Thing(number) for number in range(5)}:
            await step(machine, "each", thing.number)

    body = as_body(program)
    journal = record(body, Dice(1)).journal
    hashes.reverse()
    with pytest.raises(NonDeterminism, match=r"each\(\[0\]\).*each\(\[4\]\)"):
        replay(body, journal)


@pytest.mark.slow
def test_random_programs_replay_to_the_same_path() -> None:
    """Whatever a body is made of, a replay of its journal, whole or cut, asks for the same in the same order."""
    seen: set[str] = set()
    outcomes = set()
    for seed in range(SEEDS):
        program, dice = make_case(seed)
        outcomes.add(run_case(program, dice).outcome)
        seen |= list_constructs(program)
    assert seen == set(GRAMMAR)
    assert outcomes >= {"RunCompleted", "RunFailed", "RunCancelled"}


# --- other processes --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lines(other_pythons) -> Lines:
    """What each Python says under each hash seed: two processes at a time."""
    pythons = {OWN: Path(sys.executable), **other_pythons}
    cases = [(version, hash_seed) for version in pythons for hash_seed in HASH_SEEDS]
    with ThreadPoolExecutor(max_workers=2) as pool:
        outputs = pool.map(lambda case: play(pythons[case[0]], case[1]), cases)
        return dict(zip(cases, outputs, strict=True))


def play(python: Path, hash_seed: str) -> list[str]:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [str(python), "-m", "tests.core.loop_fuzz", "all", "0", str(SEEDS)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert len(printed) > 2 * SEEDS
    return printed


def without_strings(printed: list[str]) -> list[str]:
    return [line for line in printed if not line.startswith("set_of_strings")]


# SPEC P1
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_processes_take_the_same_path(lines: Lines) -> None:
    """The same stimuli give the same commands in another process, with other addresses and another hash seed."""
    for version in {version for version, _ in lines}:
        first, second = (without_strings(lines[version, hash_seed]) for hash_seed in HASH_SEEDS)
        assert first == second


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_pythons_of_one_group_take_the_same_path(lines: Lines) -> None:
    """Within {3.11, 3.12}, and from 3.13 on, a journal of one Python replays on another."""
    compared = 0
    for group in GROUPS:
        for hash_seed in HASH_SEEDS:
            first, *others = [lines[version, hash_seed] for version in group if (version, hash_seed) in lines] or [[]]
            assert all(other == first for other in others)
            compared += len(others)
    if not compared:
        pytest.skip("no two Pythons of one group are here (make pythons)")


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_between_the_groups_only_what_asyncio_changed_differs(lines: Lines) -> None:
    """3.13 changed `TaskGroup` and `Condition.wait`. A program with neither takes the same path on every Python, and so
    does every program of loop_programs."""
    old, new = (next((lines[version, "0"] for version in group if (version, "0") in lines), None) for group in GROUPS)
    if old is None or new is None:
        pytest.skip("the Pythons here are of one group (make pythons)")
    different = [line.split() for line, other in zip(old, new, strict=True) if line != other]
    assert [words[:2] for words in different if words[0] != "random"] == []
    assert [words[:2] for words in different if not DIFFERS & set(words[-1].split(","))] == []
