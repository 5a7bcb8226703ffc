"""Modules: names, and who knows them."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.errors import InvalidDefinition, InvalidName


async def charge() -> None: ...
async def refund() -> None: ...
async def invoice(ctx: Context) -> None: ...


def test_a_module_names_what_is_declared_in_it() -> None:
    """What `Module("billing")` declares is called `billing:…`, wherever it is looked up."""  # SPEC N1
    app, billing = Module(""), Module("billing")
    step = billing.step(charge)
    workflow = billing.workflow(name="bill")(invoice)
    app.include(billing)
    assert (step.name, workflow.name) == ("billing:charge", "billing:bill")
    assert app.find_step("billing:charge") is step
    assert app.find_workflow("billing:bill") is workflow
    assert app.find_step("charge") is None
    assert app.find_step("billing:bill") is None
    assert app.find_workflow("billing:charge") is None
    assert app.functions() == ("billing:charge", "billing:bill")
    assert list(app.iter_workflows()) == [workflow]


def test_a_bare_name_means_the_modules_own_first() -> None:
    """In a module its own function is meant before one of the same name outside."""  # SPEC N1
    app, billing = Module(""), Module("billing")
    own, outer, lone = billing.step(charge), app.step(charge), app.step(refund)
    app.include(billing)
    assert app.find_step("charge") is outer
    assert app.find_step("charge", "billing") is own
    assert app.find_step("refund", "billing") is lone
    assert billing.find_step("charge") is own
    assert app.find_step("billing:charge", "billing") is own


def test_what_is_declared_after_the_include_is_known_as_well() -> None:
    """The order of imports makes no difference, at any depth."""
    app, outer, inner = Module(""), Module("outer"), Module("inner")
    app.include(outer)
    outer.include(inner)
    step = inner.step(charge)
    assert app.find_step("inner:charge") is outer.find_step("inner:charge") is step
    app.include(inner)
    app.include(inner)
    assert app.functions() == ("inner:charge",)


def declare(module: Module, name: str, *, workflow: bool = False) -> Any:
    async def body(ctx: Any) -> None: ...

    return module.workflow(name=name)(body) if workflow else module.step(name=name)(body)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kinds", [(False, False), (False, True), (True, True)])
def test_one_name_means_one_function(late: bool, kinds: tuple[bool, bool]) -> None:
    """A second function of the same name is refused where it appears, naming both places; nothing is half declared."""
    app, one, two = Module(""), Module("billing"), Module("billing")
    first = declare(one, "charge", workflow=kinds[0])
    app.include(one)
    line = declare.__code__.co_firstlineno + 1
    acts = [lambda: app.include(two), lambda: declare(two, "charge", workflow=kinds[1])]
    first_act, second_act = acts if late else reversed(acts)
    first_act()
    with pytest.raises(InvalidDefinition, match=r"two functions called 'billing:charge'") as caught:
        second_act()
    assert str(caught.value).count(f"test_module.py:{line}, in declare") == 2
    assert (app.find_step("billing:charge") or app.find_workflow("billing:charge")) is first
    assert two.functions() == (() if late else ("billing:charge",))


def test_a_module_that_is_loaded_again_declares_itself_anew() -> None:
    """Reloading a file runs the same `def` again: the new function takes the old one's place."""
    app = Module("")
    source = "@app.step\nasync def again(): ...\n"
    for _ in range(2):
        namespace: dict[str, Any] = {"app": app, "__name__": "again_module"}
        exec(compile(source, "again.py", "exec"), namespace)
    assert app.find_step("again") is namespace["again"]
    with pytest.raises(InvalidDefinition, match=r"again\.py:3.*The other one is again\.py:1"):
        exec(compile("\n\n" + source, "again.py", "exec"), namespace)


def test_modules_cannot_include_each_other_in_a_circle() -> None:
    """A circle has no order of names; anything but a module is a mistake."""
    one, two = Module("one"), Module("two")
    one.include(two)
    for other in (one, two):
        with pytest.raises(InvalidDefinition, match="is this one, or includes it"):
            two.include(one) if other is two else one.include(one)
    with pytest.raises(InvalidDefinition, match="Only a Module can be included, and this is str"):
        one.include("two")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a#b", "x" * 600, "a\0", 3])
def test_a_modules_name_is_checked(name: Any) -> None:
    """It is part of every name in it."""
    with pytest.raises(InvalidName, match="module name"):
        Module(name)
