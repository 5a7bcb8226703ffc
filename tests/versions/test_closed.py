"""A stored plan is data: whoever can write into a store cannot have their code run by it."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.core.program.access import NotInterpretable, get_attribute, known, load_class
from outlast.core.program.language import Program
from outlast.core.program.running import Interpreter


class World:
    """Nothing outside."""

    def step(self, name: str) -> Any:
        raise NotInterpretable(name)

    workflow = step

    def stop(self, reason: str) -> None:
        """Nothing goes on."""

    def attribute(self, value: Any, name: str) -> Any:
        return get_attribute(value, name)


def constant(value: Any) -> dict[str, Any]:
    return {"t": "Constant", "value": value}


def attribute(value: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        value = {"t": "Attribute", "value": value, "attr": name}
    return value


def call(func: dict[str, Any], *args: dict[str, Any]) -> dict[str, Any]:
    return {"t": "Call", "func": func, "args": list(args)}


LIST = {"t": "List", "elts": []}
FUNCTION = {"t": "Function", "args": [], "body": []}
HOSTILE = {
    "eval": call({"t": "Known", "path": "builtins.eval"}, constant("1")),
    "import": call({"t": "Known", "path": "builtins.__import__"}, constant("os")),
    "open": call({"t": "Known", "path": "builtins.open"}, constant("/etc/passwd")),
    "getattr": call({"t": "Known", "path": "builtins.getattr"}, constant(""), constant("__class__")),
    "type": {"t": "Known", "path": "builtins.type"},
    "a command": call({"t": "Known", "path": "os.system"}, constant("true")),
    "a thread": {"t": "Known", "path": "asyncio.to_thread"},
    "a server": {"t": "Known", "path": "asyncio.start_server"},
    "a path of two": {"t": "Known", "path": "asyncio.tasks.sys"},
    "a class with effects": call({"t": "Class", "module": "subprocess", "name": "Popen"}, constant("true")),
    "a class of a module": {"t": "Class", "module": "os", "name": "path.os"},
    "a class": attribute(constant(""), "__class__"),
    "its bases": attribute(LIST, "__class__", "__mro__"),
    "a function's globals": attribute(FUNCTION, "__globals__"),
    "a function's inside": attribute(FUNCTION, "_interpreter"),
    "a method's function": attribute(LIST, "append", "__self__"),
    "format": call(attribute(constant("{0.__class__}"), "format"), LIST),
    "a function's code": attribute({"t": "Known", "path": "asyncio.sleep"}, "func_code"),
    "a template": {"t": "JoinedStr", "values": [{"t": "FormattedValue", "value": attribute(LIST, "__doc__")}]},
    "an unknown kind": {"t": "Exec", "value": constant("1")},
    "an error's traceback": attribute(call({"t": "Known", "path": "builtins.ValueError"}), "__traceback__", "tb_frame"),
    "an error's inside": attribute(call({"t": "Known", "path": "builtins.ValueError"}), "with_traceback"),
    "a part of a class": {"t": "Subscript", "value": {"t": "Known", "path": "builtins.list"}, "slice": constant(0)},
}


@pytest.mark.parametrize("tree", HOSTILE.values(), ids=HOSTILE)
async def test_a_plan_touches_only_what_the_language_has(tree: dict[str, Any]) -> None:
    """No name, class, attribute or kind of node beyond it, however it is written."""  # SPEC V3
    body = {"t": "Function", "args": ["ctx"], "is_async": True, "body": [{"t": "Return", "value": tree}]}
    with pytest.raises((NotInterpretable, KeyError)):
        await Interpreter(Program(body), World()).run(None)


async def test_what_stops_a_plan_cannot_be_caught_by_it() -> None:
    """A handler of everything is none for that."""
    catch = {"t": "ExceptHandler", "body": [{"t": "Return", "value": constant("caught")}]}
    tried = {"t": "Try", "body": [{"t": "Expr", "value": HOSTILE["eval"]}], "handlers": [catch]}
    body = {"t": "Function", "args": ["ctx"], "is_async": True, "body": [tried]}
    with pytest.raises(NotInterpretable, match=r"builtins\.eval"):
        await Interpreter(Program(body), World()).run(None)


def test_names_are_looked_up_among_those_of_the_language() -> None:
    """asyncio's errors and tools, datetime's values; nothing that starts a process or reads a file."""
    assert known("asyncio.TimeoutError") is TimeoutError
    for path in ("asyncio.run", "asyncio.subprocess", "datetime.sys", "builtins.exec", "builtins", ""):
        with pytest.raises(NotInterpretable):
            known(path)
    with pytest.raises(NotInterpretable, match="gone"):
        load_class("no.such.module", "Thing")
