"""The table of a run's states (SPEC R1)."""

from __future__ import annotations

from itertools import product

import pytest

from outlast.core.states import ENDED, TRANSITIONS, RunStatus, StepStatus, is_ended, is_legal, to_mermaid

TERMINAL = {"completed", "failed", "cancelled", "compensated", "compensation_failed"}


# SPEC R1
def test_the_statuses_are_those_of_the_specification():
    """Nine statuses, five of them terminal, called as everybody knows them."""
    assert {str(status) for status in RunStatus} == TERMINAL | {"queued", "running", "suspended", "compensating"}
    assert {status for status in RunStatus if is_ended(status)} == TERMINAL


# SPEC S4
def test_a_step_that_waits_for_its_next_attempt_is_retrying():
    """A step is called what people see: retrying is not failed."""
    assert {str(status) for status in StepStatus} == {
        "pending",
        "started",
        "retrying",
        "succeeded",
        "failed",
        "cancelled",
    }


def test_every_status_has_its_row():
    """The table knows each status, and says why each way is taken."""
    assert set(TRANSITIONS) == set(RunStatus)
    assert all(why for ways in TRANSITIONS.values() for why in ways.values())


def test_terminal_states_absorb_but_for_the_doors():
    """Out of the five only a retry, of the run or its parent, and a parent's unwind lead (invariant 7)."""
    doors = {(before, after) for before in ENDED for after in TRANSITIONS[before]}
    assert doors == {
        ("failed", "queued"),
        ("failed", "running"),
        ("cancelled", "running"),
        ("completed", "compensating"),
    }


def test_every_status_can_be_reached_and_left_for_good():
    """From queued one can get everywhere, and from everywhere to an end."""

    def reach(start):
        seen, todo = set(), [start]
        while todo:
            status = todo.pop()
            if status not in seen:
                seen.add(status)
                todo += TRANSITIONS[status]
        return seen

    assert reach(RunStatus.QUEUED) == set(RunStatus)
    assert all(reach(status) & ENDED for status in RunStatus)


@pytest.mark.parametrize(("before", "after"), list(product(RunStatus, RunStatus)))
def test_legal_is_what_the_table_says(before, after):
    """Staying is legal, and what the table lists; nothing else."""
    assert is_legal(before, after) == (before == after or after in TRANSITIONS[before])


def test_the_diagram_shows_the_table():
    """One line for each way in the table, one into it, and one out of each terminal state."""
    lines = [line.strip() for line in to_mermaid().splitlines()]
    ways = sum(map(len, TRANSITIONS.values()))
    assert lines[:2] == ["stateDiagram-v2", "[*] --> queued: start"]
    assert len(lines) == 2 + ways + len(ENDED)
    assert "running --> completed: the body returned" in lines
    assert {line for line in lines if line.endswith("--> [*]")} == {f"{status} --> [*]" for status in TERMINAL}
