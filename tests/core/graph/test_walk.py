"""The walk: which node comes next, whatever ends first (SPEC G2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.core.graph.shape import Shape, find_cycle
from outlast.core.graph.walk import Exhausted, Walk

Choose = Callable[[str, int], Sequence[str]]
"""Where a node's visit of this number, from 0, goes on."""


@dataclass
class Story:
    """What a walk did."""

    visits: list[str] = field(default_factory=list)
    """As they began."""
    running_then: list[frozenset[str]] = field(default_factory=list)
    """For each: what else was under way."""
    exhausted: bool = False


def walk(
    entries: Sequence[str],
    targets: Mapping[str, Sequence[str]],
    choose: Choose,
    pick: Callable[[list[str]], int] = lambda _: 0,
    limit: int = 5,
) -> Story:
    """Walk to the end; `pick` says which of the visits under way ends next."""
    shape = Shape(entries, targets)
    one = Walk(shape, dict.fromkeys(targets, limit))
    story, counts, running = Story(), Counter[str](), []

    def begin(names: Sequence[str]) -> None:
        for name in names:
            story.running_then.append(frozenset(other for other, _ in running))
            story.visits.append(name)
            running.append((name, counts[name]))
            counts[name] += 1

    try:
        begin(one.begin(entries))
        while running:
            name, number = running.pop(pick([name for name, _ in running]))
            begin(one.end(name, choose(name, number)))
    except Exhausted:
        story.exhausted = True
    else:
        assert one.is_over
        assert not one._waiting, "a token is left behind"
    return story


FIRST = lambda names: 0  # noqa: E731
LAST = lambda names: len(names) - 1  # noqa: E731


def all_of(targets: Mapping[str, Sequence[str]]) -> Choose:
    return lambda name, _: targets[name]


def test_a_join_fires_once_and_after_all() -> None:
    """A node that two branches lead to is visited once, when both have ended."""  # SPEC G2
    targets = {"a": "bc", "b": "d", "c": "e", "e": "d", "d": ""}
    for pick in (FIRST, LAST):
        story = walk("a", targets, all_of(targets), pick)
        assert sorted(story.visits) == ["a", "b", "c", "d", "e"]
        assert story.visits[-1] == "d"
        assert story.running_then[-1] == frozenset()


def test_a_join_does_not_wait_for_a_branch_not_taken() -> None:
    """Where only one branch was taken, the join waits for that one alone."""  # SPEC G2
    targets = {"a": "bc", "b": "d", "c": "d", "d": ""}
    story = walk("a", targets, lambda name, _: "b" if name == "a" else targets[name])
    assert story.visits == ["a", "b", "d"]


def test_an_entry_node_that_others_lead_to_is_a_join() -> None:
    """One that is begun at and led to is visited once for both."""
    targets = {"a": "b", "b": ""}
    assert walk("ab", targets, all_of(targets)).visits == ["a", "b"]
    assert walk("b", targets, all_of(targets)).visits == ["b"]


def test_a_cycle_comes_round_until_its_branch_leaves_it() -> None:
    """The head of a cycle is visited again each time that it is led to."""  # SPEC G2
    targets = {"a": "b", "b": "ac", "c": ""}
    story = walk("a", targets, lambda name, n: ("a" if n < 2 else "c") if name == "b" else targets[name])
    assert story.visits == ["a", "b", "a", "b", "a", "b", "c"]


def test_a_round_is_over_before_the_next_begins() -> None:
    """Two branches within a cycle meet at its head: it is visited once for both, when both have ended."""
    targets = {"h": "xyz", "x": "h", "y": "h", "z": ""}
    choose: Choose = lambda name, n: ("xy" if n < 2 else "z") if name == "h" else targets[name]  # noqa: E731
    for pick in (FIRST, LAST):
        story = walk("h", targets, choose, pick)
        assert Counter(story.visits) == {"h": 3, "x": 2, "y": 2, "z": 1}
        rounds = [running for name, running in zip(story.visits, story.running_then, strict=True) if name == "h"]
        assert rounds == [frozenset()] * 3


def test_branches_within_a_cycle_do_not_wait_for_each_other() -> None:
    """A join in one branch of a round waits for its own branch, not for the other, which is slow."""
    targets = {
        "h": ["a", "slow"],
        "a": ["a1", "a2"],
        "a1": ["am"],
        "a2": ["am"],
        "am": ["t"],
        "slow": ["t"],
        "t": ["h"],
    }
    targets["t"] = ["h", "out"]
    targets["out"] = []
    choose: Choose = lambda name, _: ["out"] if name == "t" else targets[name]  # noqa: E731
    story = walk(["h"], targets, choose, lambda names: min(range(len(names)), key=lambda at: names[at] == "slow"))
    joined = dict(zip(story.visits, story.running_then, strict=True))
    assert "slow" in joined["am"]
    assert joined["t"] == frozenset()


def test_a_node_with_one_way_in_is_visited_for_each_token() -> None:
    """A node that only a cycle leads to is visited in each round."""
    targets = {"h": ["log", "h", "end"], "log": [], "end": []}
    story = walk(["h"], targets, lambda name, n: (["log", "h"] if n < 2 else ["end"]) if name == "h" else [])
    assert Counter(story.visits) == {"h": 3, "log": 2, "end": 1}


def test_a_cycle_within_a_cycle_comes_to_rest_first() -> None:
    """The outer round ends when the inner cycle has."""
    targets = {"h": ["i", "c"], "i": ["u"], "u": ["i", "e"], "e": ["h", "out"], "c": ["h"], "out": []}

    def choose(name: str, n: int) -> Sequence[str]:
        if name == "u":
            return ["i"] if n % 2 == 0 else ["e"]
        if name == "e":
            return ["h"] if n < 1 else ["out"]
        return ["i"] if name == "h" and n == 1 else targets[name]

    for pick in (FIRST, LAST):
        story = walk(["h"], targets, choose, pick)
        assert Counter(story.visits) == {"h": 2, "i": 4, "u": 4, "e": 2, "c": 1, "out": 1}
        rounds = [running for name, running in zip(story.visits, story.running_then, strict=True) if name == "h"]
        assert set(rounds) == {frozenset()}


def test_a_join_within_a_cycle_waits_for_what_comes_from_outside() -> None:
    """Where two ways lead into a cycle, a join in it does not go before both have."""
    targets = {"b1": ["m"], "b2": ["h"], "h": ["m"], "m": ["h", "out"], "out": []}
    choose: Choose = lambda name, n: ["h"] if (name, n) == ("m", 0) else targets[name][-1:]  # noqa: E731
    for pick in (FIRST, LAST):
        story = walk(["b2", "b1"], targets, choose, pick)
        assert not {"b1", "b2"} & story.running_then[story.visits.index("m")]
        assert story.visits[2:] == ["m", "h", "m", "out"]


def test_a_join_deep_within_cycles_waits_for_what_comes_from_outside() -> None:
    """However many cycles lie around it."""
    targets = {"e": ["h"], "h": ["i"], "i": ["j"], "j": ["i", "h", "out"], "out": []}
    targets |= {"b1": ["c1"], "c1": ["d1"], "d1": ["j"], "b2": ["c2"], "c2": ["d2"], "d2": ["j"]}
    choose: Choose = lambda name, n: ["out"] if name == "j" else targets[name]  # noqa: E731
    for entries in (["e", "b1", "b2"], ["e", "b2", "b1"]):
        for pick in (FIRST, LAST):
            story = walk(entries, targets, choose, pick)
            assert story.running_then[story.visits.index("j")] == frozenset()


def test_a_limit_on_visits_is_kept() -> None:
    """A cycle that does not end is stopped at the limit, with the node's name."""  # SPEC G2
    targets = {"a": "b", "b": "a"}
    shape = Shape("a", targets)
    one = Walk(shape, {"b": 3})
    assert one.begin("a") == ["a"]
    for _ in range(3):
        assert one.end("a", "b") == ["b"]
        assert one.end("b", "a") == ["a"]
    with pytest.raises(Exhausted) as caught:
        one.end("a", "b")
    assert (caught.value.node, caught.value.limit) == ("b", 3)


# --- any graph --------------------------------------------------------------------------------------------------------

NAMES = "abcdefgh"


@st.composite
def graphs(draw: st.DrawFn, acyclic: bool = False) -> tuple[list[str], dict[str, list[list[str]]]]:
    """Entries, and for each node the groups of targets that it chooses between."""
    names = list(NAMES[: draw(st.integers(2, 8))])
    groups: dict[str, list[list[str]]] = {}
    for index, name in enumerate(names):
        there = names[index + 1 :] if acyclic else names
        some = st.lists(st.sampled_from(there), unique=True, max_size=3) if there else st.just([])
        groups[name] = draw(st.lists(some, min_size=1, max_size=3))
    entries = draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=2))
    return entries, groups


def targets_of(groups: dict[str, list[list[str]]]) -> dict[str, list[str]]:
    return {name: [*dict.fromkeys(target for group in some for target in group)] for name, some in groups.items()}


@given(graphs(acyclic=True), st.integers(0, 5), st.lists(st.integers(0, 7)))
@settings(max_examples=60)
def test_without_cycles_each_node_that_is_led_to_is_visited_once(graph, seed: int, picks: list[int]) -> None:
    """As a small interpreter says that goes through the nodes in order: once, after all before it that run."""
    entries, groups = graph
    targets = targets_of(groups)
    chosen = {name: some[seed % len(some)] for name, some in groups.items()}
    reached = set(entries)
    for name in sorted(groups):
        if name in reached:
            reached |= set(chosen[name])
    left = iter(picks)
    story = walk(entries, targets, lambda name, _: chosen[name], lambda names: next(left, 0) % len(names))
    assert Counter(story.visits) == Counter(reached)
    shape = Shape(entries, targets)
    for name, running in zip(story.visits, story.running_then, strict=True):
        if shape.joins >> shape.numbers[name] & 1:
            assert not [other for other in running if shape.is_before(other, name)]


@given(graphs(), st.integers(0, 1000), st.lists(st.integers(0, 7)), st.lists(st.integers(0, 7)))
@settings(max_examples=100)
def test_what_is_visited_does_not_depend_on_what_is_quicker(graph, seed: int, one: list[int], other: list[int]) -> None:
    """Two walks that choose alike visit the same nodes equally often, in whatever order visits end."""
    entries, groups = graph
    targets = targets_of(groups)

    def choose(name: str, n: int) -> Sequence[str]:
        some = groups[name]
        return some[(seed + ord(name) * 7 + n * 3) % len(some)] if n < 3 else []

    stories = []
    for picks in (one, other):
        left = iter(picks)
        stories.append(walk(entries, targets, choose, lambda names, left=left: next(left, 0) % len(names), limit=100))
    assert not any(story.exhausted for story in stories)
    assert Counter(stories[0].visits) == Counter(stories[1].visits)


@given(graphs())
@settings(max_examples=60)
def test_joins_never_wait_for_each_other(graph) -> None:
    """However a graph is made, of two joins at most one waits for the other: so no walk can stand still."""
    entries, groups = graph
    shape = Shape(entries, targets_of(groups))
    waits = {
        str(j): [str(k) for k in range(len(shape.ids)) if k != j and shape.before[j] >> k & 1]
        for j in range(len(shape.ids))
        if shape.joins >> j & 1
    }
    assert find_cycle(waits) == []


def test_a_large_graph_is_arranged_in_time() -> None:
    """The largest graph that is allowed takes no recursion, and seconds at most."""
    count = 5_000
    line = {f"n{i}": [f"n{i + 1}"] if i + 1 < count else ["n0"] for i in range(count)}
    shape = Shape(["n0"], line)
    assert shape.before[0].bit_count() == count
    tangled = {f"n{i}": [f"n{(i * k + 1) % count}" for k in range(2, 12)] for i in range(count)}
    assert Shape(["n0"], tangled).is_too_nested
