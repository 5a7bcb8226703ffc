"""What the names in a function mean: looked up in its globals and closure, where it lives. Layer: authoring.

What always holds: looking up runs none of the author's code: attributes are read as they lie there, without
descriptors and without `__getattr__`; nothing is imported.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from outlast.authoring.source.snapshots import Snapshot, find_definition
from outlast.authoring.step import Step
from outlast.authoring.workflow import Workflow
from outlast.core.plan.reading.meaning import (
    ClassMeaning,
    FunctionMeaning,
    KnownMeaning,
    Meaning,
    PartialMeaning,
    StepMeaning,
    ValueMeaning,
    WorkflowMeaning,
)
from outlast.core.program.access import is_plain_class

__all__ = ["LiveScope", "mean"]

_MOST_MEMBERS: Final = 200
_MISSING: Final = object()


class LiveScope:
    """The names of one function."""

    def __init__(self, fn: FunctionType, snapshot: Snapshot | None = None) -> None:
        self.module = fn.__module__ or ""
        self.file = fn.__code__.co_filename
        self._fn = fn
        self._snapshot = snapshot
        self._cells: dict[str, CellType] = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False))

    def find(self, name: str) -> Meaning | None:
        """A variable of the enclosing function, a global, or a builtin."""
        value = self.value(name)
        return None if value is _MISSING else mean(value, self._snapshot)

    def value(self, name: str) -> object:
        """The object itself."""
        cell = self._cells.get(name)
        if cell is not None:
            try:
                return cell.cell_contents
            except ValueError:
                return _MISSING
        value = self._fn.__globals__.get(name, _MISSING)
        return getattr(builtins, name, _MISSING) if value is _MISSING else value

    def find_import(self, module: str, name: str, level: int) -> Meaning | None:
        """What an import statement in the function gives, if the module has been imported by now."""
        package = self._fn.__globals__.get("__package__") or ""
        try:
            full = importlib.util.resolve_name("." * level + module, package) if level else module
        except ImportError:
            return None
        found = sys.modules.get(full)
        if found is None:
            path = f"{full}.{name}" if name else full
            return KnownMeaning(path) if full.partition(".")[0] in sys.stdlib_module_names else None
        if not name:
            return mean(found, self._snapshot)
        inside = vars(found).get(name, sys.modules.get(f"{full}.{name}", _MISSING))
        if inside is _MISSING:
            return None
        return _ModuleMeaning(found, self._snapshot).attribute(name)


class _ObjectMeaning(Meaning):
    """An object that may hold steps: a module, a class, an instance, a dict …"""

    def __init__(self, value: object, snapshot: Snapshot | None) -> None:
        self._value = value
        self._snapshot = snapshot

    def attribute(self, name: str, /) -> Meaning | None:
        """As it lies there; a plain function of its class is bound to it."""
        found = inspect.getattr_static(self._value, name, _MISSING)
        if found is _MISSING:
            return None
        if isinstance(found, staticmethod):
            return mean(found.__func__, self._snapshot)
        bound: Meaning | None = None
        if isinstance(found, classmethod):
            found, bound = found.__func__, self
        elif isinstance(found, FunctionType) and not isinstance(self._value, type) and not self._own(name):
            bound = self
        meaning = mean(found, self._snapshot)
        if bound is not None and isinstance(meaning, FunctionMeaning):
            return _bind(meaning, bound)
        return meaning

    def _own(self, name: str) -> bool:
        """Whether it is in the instance, not in its class."""
        return name in getattr(self._value, "__dict__", {})

    def item(self, key: object, /) -> Meaning | None:
        """Of a dict, list or tuple."""
        value = self._value
        try:
            if type(value) is dict and key in value:
                return mean(value[key], self._snapshot)
            if type(value) in {list, tuple} and isinstance(key, int):
                return mean(value[key], self._snapshot)  # type: ignore[index]
        except (TypeError, IndexError):
            pass
        return None

    def members(self) -> Iterable[Meaning]:
        """What a dict, list, tuple or set holds, if it is not too large."""
        value = self._value
        if type(value) is dict:
            inside: Iterable[object] = value.values()
        elif type(value) in {list, tuple, set, frozenset}:
            inside = value  # type: ignore[assignment]
        else:
            return
        if len(value) <= _MOST_MEMBERS:  # type: ignore[arg-type]
            for member in inside:
                if isinstance(member, Step | Workflow | FunctionType | functools.partial):
                    meaning = mean(member, self._snapshot)
                    if meaning is not None:
                        yield meaning


class _PlainClassMeaning(ClassMeaning, _ObjectMeaning):
    """A class of errors or of data."""

    def __init__(self, cls: type, snapshot: Snapshot | None) -> None:
        ClassMeaning.__init__(self, cls.__module__, cls.__qualname__)
        _ObjectMeaning.__init__(self, cls, snapshot)

    def attribute(self, name: str, /) -> Meaning | None:
        """A function of it; not its constants, which its value has."""
        found = _ObjectMeaning.attribute(self, name)
        return found if isinstance(found, FunctionMeaning | StepMeaning | WorkflowMeaning) else None


class _ModuleMeaning(_ObjectMeaning):
    """A module: what is in it is known by its path, if nothing better."""

    def attribute(self, name: str, /) -> Meaning | None:
        """What it holds under this name."""
        module = self._value
        assert isinstance(module, ModuleType)
        found = vars(module).get(name, _MISSING)
        is_standard = module.__name__.partition(".")[0] in sys.stdlib_module_names
        if found is _MISSING:  # or made at its first use
            return KnownMeaning(f"{module.__name__}.{name}") if is_standard else None
        meaning = mean(found, self._snapshot)
        is_plain = meaning is None or (isinstance(meaning, _ObjectMeaning) and not isinstance(found, ModuleType))
        if is_standard and is_plain:
            return KnownMeaning(f"{_PUBLIC.get(module.__name__, module.__name__)}.{name}")
        return meaning


# Modules whose public name is another one.
_PUBLIC: Final = {
    "posixpath": "os.path",
    "ntpath": "os.path",
    "posix": "os",
    "nt": "os",
    "_io": "io",
    "_thread": "threading",
    "_random": "random",
    "_socket": "socket",
}


def mean(value: object, snapshot: Snapshot | None = None) -> Meaning | None:
    """What an object is, to a reader of plans."""
    if isinstance(value, Step):
        handler = value.settings.on_error
        told = handler.name if isinstance(handler, Step) else ""
        return StepMeaning(value.function.name, value.name, told, value.settings.undo)
    if isinstance(value, Workflow):
        body = mean(value.fn, snapshot)
        called = value.child_settings.name or ""
        return WorkflowMeaning(value.name, called, body if isinstance(body, FunctionMeaning) else None)
    if isinstance(value, functools.partial):
        of = mean(value.func, snapshot)
        return None if of is None else PartialMeaning(of, value.args, tuple(value.keywords))
    if isinstance(value, MethodType):
        meaning = mean(value.__func__, snapshot)
        bound = mean(value.__self__, snapshot) or _ObjectMeaning(value.__self__, snapshot)
        return _bind(meaning, bound) if isinstance(meaning, FunctionMeaning) else meaning
    if isinstance(value, ModuleType):
        return _ModuleMeaning(value, snapshot)
    if isinstance(value, FunctionType):
        return _mean_function(value, snapshot)
    return _mean_other(value, snapshot)


def _bind(meaning: FunctionMeaning, bound: Meaning) -> FunctionMeaning:
    return FunctionMeaning(meaning.name, meaning.definition, meaning.scope, bound, meaning.frame)


def _mean_function(fn: FunctionType, snapshot: Snapshot | None) -> Meaning | None:
    inner = inspect.unwrap(fn)
    if not isinstance(inner, FunctionType):
        return None
    path = _stdlib_path(fn)
    if path:
        return KnownMeaning(path)
    if not _is_authors(inner):
        return KnownMeaning(f"{inner.__module__}.{inner.__qualname__}")
    definition = find_definition(inner, snapshot)
    if definition is None:
        return None
    return FunctionMeaning(inner.__name__, definition, LiveScope(inner, snapshot))


def _mean_other(value: object, snapshot: Snapshot | None) -> Meaning | None:
    path = _stdlib_path(value)
    if path:
        return KnownMeaning(path)
    known = _known_objects().get(id(value))
    if known:
        return KnownMeaning(known)
    if isinstance(value, type) and is_plain_class(value):
        return _PlainClassMeaning(value, snapshot)
    if _is_constant(value):
        return ValueMeaning(value)
    return _ObjectMeaning(value, snapshot)


def _is_constant(value: object) -> bool:
    """What is written out in a module, and holds nothing that acts."""
    if type(value) in {tuple, list, frozenset, set}:
        items: Iterable[object] = value  # type: ignore[assignment]
        return len(value) <= _MOST_MEMBERS and all(map(_is_constant, items))  # type: ignore[arg-type]
    if type(value) is dict:
        return len(value) <= _MOST_MEMBERS and all(_is_constant(part) for pair in value.items() for part in pair)
    return value is None or type(value) in {str, bytes, int, float, bool, complex}


def _stdlib_path(value: Any) -> str:
    """`asyncio.gather` for what the standard library defines; nothing for anything else."""
    known = _asyncio_names().get(id(value))
    if known:
        return known
    if not isinstance(value, FunctionType | BuiltinFunctionType | type):
        return ""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if module is None and isinstance(value, BuiltinFunctionType):  # `random.random`: a method of a hidden instance
        owner = getattr(value, "__self__", None)
        return f"{type(owner).__module__}.{value.__name__}" if owner is not None else ""
    if not isinstance(module, str) or module.partition(".")[0] not in sys.stdlib_module_names:
        return ""
    public = "asyncio" if module.startswith("asyncio.") else _PUBLIC.get(module, module)
    return f"{public}.{name}"


@functools.cache
def _asyncio_names() -> dict[int, str]:
    """asyncio's public names by object: outlast wraps two of them, and none says its public path itself."""
    import asyncio

    return {id(getattr(asyncio, name)): f"asyncio.{name}" for name in dir(asyncio) if not name.startswith("_")}


@functools.cache
def _known_objects() -> dict[int, str]:
    """Objects of the standard library that bodies should not look at."""
    import os

    return {id(os.environ): "os.environ", id(sys.argv): "sys.argv", id(sys.stdin): "sys.stdin"}


_OURS: Final = "outlast"


def _is_authors(fn: FunctionType) -> bool:
    """Whether it is worth reading: not of the standard library, nor of a package that has no steps."""
    module = fn.__module__ or ""
    top = module.partition(".")[0]
    if top == _OURS or top in sys.stdlib_module_names:
        return False
    if not _is_installed(fn.__code__.co_filename):
        return True
    return any(isinstance(value, Step | Workflow) for value in list(fn.__globals__.values()))


@functools.lru_cache(maxsize=4096)
def _is_installed(file: str) -> bool:
    path = Path(file)
    return any(folder in path.parents for folder in _installed_folders())


@functools.cache
def _installed_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple({Path(paths[key]) for key in ("purelib", "platlib", "stdlib", "platstdlib") if key in paths})


def body_of(fn: Callable[..., Any], snapshot: Snapshot | None) -> FunctionMeaning | None:
    """A workflow's own function; None where its source cannot be had."""
    inner = inspect.unwrap(fn)
    if not isinstance(inner, FunctionType):
        return None
    definition = find_definition(inner, snapshot)
    return None if definition is None else FunctionMeaning(inner.__name__, definition, LiveScope(inner, snapshot))
