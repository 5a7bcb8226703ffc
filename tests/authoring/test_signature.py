"""Arguments of calls: stored by name, compared, read again (SPEC S11, S12)."""

# pyright: reportArgumentType=false, reportUndefinedVariable=false
# (wrong calls, defaults and names are the cases)

import datetime as dt
import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.authoring.inputs import encode_input
from outlast.authoring.signature import Arguments
from outlast.errors import InvalidDefinition, InvalidInput, NotEncodable, ResultInvalid, ValueTooLarge

if TYPE_CHECKING:
    from outlast.authoring.context import Context

T = TypeVar("T")


@dataclass
class Item:
    sku: str
    price: Decimal = Decimal(1)


@dataclass
class Order:
    id: str
    items: list[Item]
    tags: set[str] = field(default_factory=set)


class Options(TypedDict, total=False):
    depth: int
    wide: bool


async def charge(order: Order, note: str = "none", *, times: int = 1) -> str: ...
async def plain(a, b=2, c=None): ...
def every(a: int, /, b: str, *rest: float, flag: bool = False, **more: Decimal) -> None: ...
def nothing() -> None: ...
def pack(item: str) -> str: ...
def loose(items: list[str], any: Any = None) -> None: ...
def generic(value: T, more: Iterable[T] = ()) -> T: ...
def optioned(path: str, **options: Unpack[Options]) -> None: ...
def implicit(order: Order = None, when: dt.datetime = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)) -> None: ...
def mutable(items: list[int] = [1, 2], by: dict[str, str] = {"a": "x"}) -> None: ...  # noqa: B006 - authors do
async def body(ctx: "Context", order: Order, *, dry: bool = False) -> str: ...


ORDER = Order("A-17", [Item("a", Decimal("1.5"))], {"x"})


def through(function, *args, **kwargs):
    """The call, as the function gets it: stored, and read again."""
    arguments = Arguments(function)
    return arguments.decode_call(arguments.encode_call(args, kwargs)[0])


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "stored"),
    [
        (pack, ("x",), {}, {"item": "x"}),
        (pack, (), {"item": "x"}, {"item": "x"}),
        (plain, (1,), {}, {"a": 1, "b": 2, "c": None}),
        (plain, (1,), {"c": 3}, {"a": 1, "b": 2, "c": 3}),
        (nothing, (), {}, {}),
        (every, (1, "b"), {}, {"a": 1, "b": "b", "rest": [], "flag": False, "more": {}}),
        (
            every,
            (1, "b", 2.5, 3.5),
            {"flag": True, "x": Decimal(1)},
            {"a": 1, "b": "b", "rest": [2.5, 3.5], "flag": True, "more": {"x": "1"}},
        ),
        (every, (1,), {"b": "b", "a": Decimal(2)}, {"a": 1, "b": "b", "rest": [], "flag": False, "more": {"a": "2"}}),
        (optioned, ("p",), {"depth": 2}, {"path": "p", "options": {"depth": 2}}),
        (mutable, (), {}, {"items": [1, 2], "by": {"a": "x"}}),
        (implicit, (), {}, {"order": None, "when": "2020-01-01T00:00:00Z"}),
    ],
)
def test_a_call_is_stored_by_name_with_defaults_applied(function, args, kwargs, stored):
    """However it was written, and in the order of the parameters."""
    data, _ = Arguments(function).encode_call(args, kwargs)
    assert json.loads(data) == stored
    assert list(json.loads(data)) == list(stored)


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (charge, (ORDER,), {}),
        (charge, (ORDER, "note"), {"times": 3}),
        (charge, (), {"order": ORDER, "times": 3}),
        (plain, (1, [2], {"x": 3}), {}),
        (every, (1, "b", 2.5, 3.5), {"flag": True, "x": Decimal("1.10")}),
        (every, (1,), {"b": "b", "a": Decimal(2), "b2": Decimal(3)}),
        (nothing, (), {}),
        (generic, (1, [2, 3]), {}),
        (optioned, ("p",), {"depth": 2, "wide": True}),
        (implicit, (), {}),
        (mutable, ([3],), {}),
    ],
)
def test_a_function_gets_the_arguments_it_was_called_with(function, args, kwargs):
    """As its annotations say, and bound as Python binds them."""
    got_args, got_kwargs = through(function, *args, **kwargs)
    signature = inspect.signature(function)
    expected, got = signature.bind(*args, **kwargs), signature.bind(*got_args, **got_kwargs)
    expected.apply_defaults()
    got.apply_defaults()
    assert got.arguments == expected.arguments
    for value, other in zip(got.arguments.values(), expected.arguments.values(), strict=True):
        assert type(value) is type(other)


@given(
    st.lists(st.integers(), max_size=4),
    st.dictionaries(st.sampled_from(["a", "b", "c", "flag", "x", "y"]), st.integers(), max_size=4),
)
def test_calls_bind_as_python_binds_them(args, kwargs):
    """What Python would take is taken and comes back the same; what it would refuse is refused, as TypeError."""

    def positional(a, b=2, c=3, /): ...
    def simple(a, b=2, *, c=3, flag=4): ...
    def variadic(a, *b, c=3, **x): ...

    for function in (positional, simple, variadic):
        signature = inspect.signature(function)
        try:
            expected = signature.bind(*args, **kwargs)
        except TypeError:
            with pytest.raises(TypeError, match=function.__name__):
                Arguments(function).encode_call(tuple(args), kwargs)
            with pytest.raises(InvalidInput):
                encode_input(Arguments(function), tuple(args), kwargs)
            continue
        expected.apply_defaults()
        got_args, got_kwargs = through(function, *args, **kwargs)
        got = signature.bind(*got_args, **got_kwargs)
        got.apply_defaults()
        assert got.arguments == expected.arguments


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing a required argument: 'order'"),
        ((ORDER, "x", 3), {}, "too many positional arguments"),
        ((ORDER,), {"order": ORDER}, "multiple values for argument 'order'"),
        ((ORDER,), {"nope": 1}, "unexpected keyword argument 'nope'"),
    ],
)
def test_a_wrong_call_is_pythons_own_type_error(args, kwargs, message):
    """In Python's words, with the function's name."""
    with pytest.raises(TypeError, match=message) as caught:
        Arguments(charge, name="billing:charge").encode_call(args, kwargs)
    assert str(caught.value).startswith("billing:charge() ")
    assert not isinstance(caught.value, InvalidInput)


# SPEC S12
def test_an_argument_that_cannot_be_encoded_is_named_at_the_call():
    """By its path from the parameter on, and its type."""
    with pytest.raises(NotEncodable) as caught:
        Arguments(charge).encode_call((Order("a", [Item("x"), Item("y", 1j)]),), {})
    assert caught.value.path == "order.items[1].price"
    assert caught.value.type == "complex"
    assert caught.value.what == "the arguments of charge"
    with pytest.raises(ValueTooLarge, match="the arguments of pack"):
        Arguments(pack).encode_call(("x" * 100,), {}, limit=50)


def test_recorded_arguments_that_do_not_fit_are_told():
    """Naming the field, what was expected and what came."""
    with pytest.raises(InvalidInput) as caught:
        Arguments(charge).decode_call(b'{"order":{"id":"a","items":[{"sku":1}]}}')
    error = caught.value
    assert (error.function, error.field, error.expected, error.problem) == (
        "charge",
        "order.items[0].sku",
        "str",
        "got int",
    )


def test_a_journal_is_read_by_newer_code():
    """A new parameter with a default gets it, a parameter that is gone is left out."""
    assert Arguments(plain).decode_call(b'{"a":1,"gone":2}') == ((1, 2, None), {})


def test_default_objects_are_not_shared_with_calls():
    """A step that changes a default it was given changes it for itself alone."""
    (items, _), _ = through(mutable)
    items.append(3)
    assert through(mutable)[0][0] == [1, 2]


# SPEC S11
@pytest.mark.parametrize(
    ("function", "recorded", "new", "same"),
    [
        (plain, ((1,), {}), ((), {"a": 1}), True),
        (plain, ((1, 2, None), {}), ((1,), {}), True),
        (plain, ((1,), {}), ((1, 2), {}), True),
        (plain, ((1,), {}), ((1, 3), {}), False),
        (plain, ((1, 3), {}), ((1,), {}), True),
        (plain, ((1,), {"c": 4}), ((1,), {"c": 5}), False),
        (plain, ({"x": 1, "y": 2},), ({"y": 2, "x": 1},), True),
        (plain, ((1,), {}), ((True,), {}), False),
        (loose, (({"a", "b", "c"},), {}), (({"c", "b", "a"},), {}), True),
        (every, ((1, "b", 2.0), {}), ((1, "b", 2.0), {}), True),
        (every, ((1, "b", 2.0), {}), ((1, "b", 3.0), {}), False),
        (every, ((1, "b"), {"flag": True}), ((1, "b"), {}), True),
        (every, ((1, "b"), {"x": Decimal(1)}), ((1, "b"), {"x": Decimal(2)}), False),
    ],
)
def test_only_what_a_call_gives_itself_is_compared(function, recorded, new, same):
    """`f(x)` is `f(x=x)`, and a default that was changed since is no difference."""
    arguments = Arguments(function)
    one, other = (call if len(call) == 2 else (call, {}) for call in (recorded, new))
    before, _ = arguments.encode_call(*one)
    now, explicit = arguments.encode_call(*other)
    assert arguments.same_call(before, now, explicit) is same


def test_a_changed_default_is_no_difference_and_a_new_parameter_is():
    """Code may gain a parameter with a default; giving it is another call."""

    def before(a, b=1): ...
    def after(a, b=2, c=3): ...

    recorded, _ = Arguments(before).encode_call((1,), {})
    arguments = Arguments(after)
    assert arguments.same_call(recorded, *arguments.encode_call((1,), {}))
    assert not arguments.same_call(recorded, *arguments.encode_call((1,), {"c": 3}))


# --- declarations -----------------------------------------------------------------------------------------------------


def test_the_context_of_a_body_is_left_out():
    """It is no input; its annotation may be one that only a type checker imports."""
    arguments = Arguments(body, skip_first=True)
    assert arguments.prepare()
    assert arguments.names == ("order", "dry")
    assert arguments.decode_call(arguments.encode_call((ORDER,), {})[0]) == ((ORDER,), {"dry": False})


def misspelled(order: "Ordr") -> None: ...  # noqa: F821 - on purpose
def misreturned(order: Order) -> "Ordr": ...  # noqa: F821 - on purpose
def unsupported(order: list[complex]) -> None: ...
def unions(when: dt.datetime | str) -> None: ...
def bad_default(limit: int = "x") -> None: ...
def sentinel(limit: Any = object()) -> None: ...  # noqa: B008 - authors do
def dunder(__order: Order) -> None: ...  # noqa: PYI063 - old style, on purpose
def bad_rest(*rest: complex) -> None: ...
def bad_result() -> complex: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (misspelled, "parameter 'order'.*Ordr"),
        (misreturned, "return annotation.*Ordr"),
        (unsupported, "complex.*parameter 'order'"),
        (unions, "parameter 'when'"),
        (bad_default, "default 'x'.*parameter 'limit'"),
        (sentinel, "default.*object.*parameter 'limit'"),
        (bad_rest, "complex.*parameter 'rest'"),
        (bad_result, "complex.*its result"),
        (dunder, "'__order'"),
    ],
)
def test_a_signature_that_can_never_work_is_refused(function, problem):
    """When it is declared, or its names can be resolved: not when a run needs it."""
    with pytest.raises(InvalidDefinition, match=problem):
        Arguments(function).prepare()


def test_a_name_may_be_defined_later():
    """A class below the function in its module is found at the first use; until then nothing is wrong."""
    arguments = Arguments(misspelled)
    assert arguments.prepare(strict=False) is False
    with pytest.raises(InvalidDefinition):
        arguments.encode_call((1,), {})
    misspelled.__globals__["Ordr"] = Order
    try:
        assert arguments.prepare(strict=False) is True
        assert arguments.decode_call(arguments.encode_call((ORDER,), {})[0]) == ((ORDER,), {})
    finally:
        del misspelled.__globals__["Ordr"]
    with pytest.raises(InvalidDefinition):
        Arguments(unsupported).prepare(strict=False)


def test_names_of_an_enclosing_function_are_found():
    """What a nested function closes over, and what its declaration passes along."""

    @dataclass
    class Local:
        x: int

    def closing(value: "Local") -> None:
        _ = Local

    def passing(value: "Local") -> "Local": ...

    assert Arguments(closing).prepare()
    arguments = Arguments(passing, namespace={"Local": Local})
    assert arguments.decode_call(arguments.encode_call((Local(1),), {})[0]) == ((Local(1),), {})
    assert arguments.returns.settle(Local(2))[1] == Local(2)


def test_results_are_decoded_by_the_return_annotation():
    """One object knows the whole function."""
    assert Arguments(pack).returns.settle("x") == (b'"x"', "x")
    with pytest.raises(ResultInvalid, match="pack"):
        Arguments(pack).returns.settle(3)
    assert Arguments(plain).returns.settle((1, 2)) == (b"[1,2]", [1, 2])


def test_a_call_has_a_json_schema():
    """An object by parameter name: what a form asks for."""
    schema = Arguments(charge).json_schema()
    call = schema["$defs"]["charge"]
    assert call["required"] == ["order"]
    assert call["properties"]["note"] == {"type": "string", "default": "none"}
