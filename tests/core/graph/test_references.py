"""The language of a graph's values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.core.graph.references import (
    Literal,
    Missing,
    Reference,
    ReferenceProblem,
    iter_references,
    parse_reference,
    parse_value,
)

SCOPE = {
    "input": {"order": {"id": "A", "lines": [1, 2]}, "n": 3, "none": None, "text": "hi", "a.b": {'c"': 1}},
    "nodes": {"charge": {"ok": True}, "my node": [0.5]},
    "item": "x",
    "index": 2,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$input.order.id", "A"),
        ("$input.order.lines[0]", 1),
        ("$input.order.lines[-1]", 2),
        ("$input.n", 3),
        ("$input.none", None),
        ('$input["a.b"]["c\\""]', 1),
        ("$nodes.charge.ok", True),
        ('$nodes["my node"][0]', 0.5),
        ("$item", "x"),
        ("$index", 2),
        ("$input.missing?", None),
        ("$input.missing.more[3]?", None),
        ("$input.none.more?", None),
        ("$input.order.lines[7]?", None),
        ("$nodes.other.x?", None),
        ("$error.message?", None),
        ("order ${input.order.id}: ${input.n}", "order A: 3"),
        ("${input.n}", "3"),
        ("${input.order} ${input.none} [${input.missing?}]", '{"id":"A","lines":[1,2]} null []'),
        ('${input["a.b"]["c\\""]}!', "1!"),
        ("costs $5, $$ and 100$", "costs $5, $ and 100$"),
        ("$$" * 300 + "${input.n}" + "$" * 301, "$" * 300 + "3" + "$" * 151),
        ("$$input.n", "$input.n"),
        ("$${input.n}", "${input.n}"),
        ({"a": ["$item", {"b": "$index"}], "c": 1}, {"a": ["x", {"b": 2}], "c": 1}),
        ([], []),
        (None, None),
    ],
)
def test_values_are_resolved(text, value) -> None:
    """A reference gives what is there, a text with references gives a text, and all else is itself."""  # SPEC G1
    assert parse_value(text).resolve(SCOPE) == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("$input.order.nr", "$input.order has 'id', 'lines', and no 'nr'"),
        ("$input.order.lines[2]", "$input.order.lines has 2, and no 2"),
        ("$input.text.more", "$input.text is a text, and has no 'more'"),
        ("$input.text.more?", "$input.text is a text, and has no 'more'"),
        ("$input.order[0]", "$input.order is an object, and has no 0"),
        ("$input.order.lines.x", "$input.order.lines is a list, and has no 'x'"),
        ("$input.none.more", "$input.none is null, and has no 'more'"),
        ("$nodes.other", "$nodes.other has not run"),
        ("$error", "there is no $error here"),
    ],
)
def test_what_is_missing_is_told(text: str, told: str) -> None:
    """What a reference finds in place of what it was taken for."""
    with pytest.raises(Missing, match="^" + "".join(f"[{sign}]" if sign != "^" else sign for sign in told)):
        parse_value(text).resolve(SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        *("$", "$other", "$input..a", "$input.", "$input.a b", "$input[a]", "$input[", '$input["a', "$input[1.5]"),
        *("$nodes", "$nodes[0]", "$index.x", "${input.a", "a ${} b", "${other}", "$input?.a", "$input.a??"),
        *("$input" + ".a" * 40, "${input}" * 300, '$input["\\ud800"]', "$input[99999999999]"),
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    """The language is closed: what it does not know is an error, with what to write instead."""
    with pytest.raises(ReferenceProblem) as caught:
        parse_value(text)
    assert caught.value.problem
    assert caught.value.fix


def test_what_a_value_refers_to_can_be_read_off() -> None:
    """All references in a value, without resolving it."""
    value = parse_value({"a": "$input.x", "b": ["${item} of ${run.id}", {"c": "$nodes.n.y?"}], "d": "plain"})
    assert list(map(str, iter_references(value))) == ["$input.x", "$item", "$run.id", "$nodes.n.y?"]


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.lists(names | st.integers(-99, 99), max_size=5), names, st.booleans())
@settings(max_examples=50)
def test_a_reference_reads_back_as_written(path, node: str, is_optional: bool) -> None:
    """Whatever names it has, in a text of its own and within another."""
    reference = Reference("nodes", node, tuple(path), is_optional)
    assert parse_reference(str(reference)) == reference
    assert list(iter_references(parse_value(f"a ${{{reference.inner}}} b"))) == [reference]


texts = st.text("ab .{}[]?", max_size=6)


@given(st.recursive(st.integers() | texts, lambda some: st.lists(some) | st.dictionaries(texts, some), max_leaves=6))
@settings(max_examples=40)
def test_values_without_a_dollar_are_themselves(data) -> None:
    """Data with no reference in it is a literal."""
    assert parse_value(data) == Literal(data)
