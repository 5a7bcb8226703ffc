"""Finding the user's code: `MODULE`, `MODULE:WORKFLOW`, or the file of a graph. Layer: cli.

MODULE is a dotted name (`shop.orders`, looked up from the current folder first) or a path to a `.py` file. WORKFLOW is
the name of a variable in it, or the registered name of a workflow of its app, or `app.NAME` where it has several apps.
A graph's functions are in the module that `--module` names, or the file itself in its field `module`.
What always holds: what cannot be found is told with what could have been meant; an error of the user's own code keeps
its traceback, without our lines.
"""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from outlast.app import Outlast
from outlast.authoring.graph.files import GRAPH_SUFFIXES, read_graph
from outlast.authoring.module import Module
from outlast.authoring.workflow import Workflow
from outlast.cli.exits import CommandError, ExitCode
from outlast.core.graph.definition import GraphDefinition
from outlast.errors import OutlastError

__all__ = ["Target", "add_graph", "graph_module", "load_app", "load_function", "load_workflow", "load_workflows"]

AnyWorkflow = Workflow[..., Any]


class Target(NamedTuple):
    """A workflow, and the app that knows it."""

    app: Outlast
    workflow: AnyWorkflow


def load_workflow(target: str, module_of_graph: str | None = None) -> Target:
    """The workflow that `MODULE:WORKFLOW` names; of `MODULE` alone, its only one; or the graph in a file.

    Raises CommandError for what cannot be found, or where there are several, and for a module that cannot be imported;
    InvalidDefinition for a file that holds no graph.
    """
    if Path(target).suffix.lower() in GRAPH_SUFFIXES:
        return _load_graph(target, module_of_graph)
    if module_of_graph is not None:
        raise _wrong("Only a graph's functions are in another module", target, "Leave out --module.")
    place, _, name = target.partition(":")
    module = _load_module(place)
    apps = _find_apps(module)
    if name:
        return _named_workflow(module, apps, place, name)
    found = [Target(app, workflow) for app in apps.values() for workflow in app.iter_workflows()]
    if len(found) != 1:
        problem = "There are several workflows" if found else "There is no workflow"
        names = (workflow.name for _, workflow in found)
        todo = f"Name one, as in {place}:{found[0].workflow.name}." if found else "Decorate one with @app.workflow."
        raise _wrong(problem, _list(names, place), todo)
    return found[0]


def load_workflows(target: str) -> list[Target]:
    """The workflow that `MODULE:WORKFLOW` names; of `MODULE` alone, all of its apps; or the graph in a file.

    A graph that does not name its module comes with an app that has no functions. Raises as `load_workflow`.
    """
    if Path(target).suffix.lower() in GRAPH_SUFFIXES:
        if _read_graph(target).module is not None:
            return [_load_graph(target, None)]
        alone = Outlast("memory://")
        return [Target(alone, add_graph(alone, target))]
    place, _, name = target.partition(":")
    module = _load_module(place)
    apps = _find_apps(module)
    if name and name not in apps:
        return [_named_workflow(module, apps, place, name)]
    asked = [apps[name]] if name else list(apps.values())
    found = [Target(app, workflow) for app in asked for workflow in app.iter_workflows()]
    if not found:
        raise _wrong("There is no workflow", place, "Decorate one with @app.workflow.")
    return found


def load_app(target: str) -> Outlast:
    """The app of `MODULE`, or the one that `MODULE:app` names. Raises CommandError likewise."""
    place, _, name = target.partition(":")
    module = _load_module(place)
    apps = _find_apps(module)
    if name:
        if name not in apps:
            raise _wrong(f"There is no app {name!r}", _list(apps, place), _suggest(name, apps))
        return apps[name]
    if len(apps) != 1:
        first = next(iter(apps))  # there is one, see _find_apps
        raise _wrong("There are several apps", _list(apps, place), f"Name one, as in {place}:{first}.")
    return next(iter(apps.values()))


def load_function(target: str, name: str) -> Callable[..., Any]:
    """A function that the target's module has under this name. Raises CommandError likewise."""
    place = target.partition(":")[0]
    module = _load_module(place)
    found = getattr(module, name, None)
    if callable(found):
        return cast(Callable[..., Any], found)
    known = [known for known, value in vars(module).items() if callable(value)]
    raise _wrong(f"There is no function {name!r}", place, _suggest(name, known))


# --- graphs -----------------------------------------------------------------------------------------------------------


def _load_graph(place: str, module: str | None) -> Target:
    named = _read_graph(place).module
    if module is None and named is None:
        todo = "Name the module with --module, or in the file, as in module: shop.py."
        raise _wrong("The graph does not say where its functions are", place, todo)
    app = load_app(module or graph_module(place, named or ""))
    return Target(app, add_graph(app, place))


def add_graph(app: Outlast, place: str) -> AnyWorkflow:
    """Make the graph in a file a workflow of the app. Raises CommandError for a file that cannot be read."""
    _read_graph(place)
    return app.graph_from(place)


def _read_graph(place: str) -> GraphDefinition:
    try:
        return read_graph(Path(place))
    except OSError as error:
        raise _wrong(f"The graph cannot be read, {error.strerror}", place, "Correct the path.") from None


def graph_module(place: str, module: str) -> str:
    """Where the functions of the graph in this file are, as it says itself: a path is meant from where the file is."""
    path, colon, name = module.partition(":")
    is_path = path.endswith(".py") or "/" in path
    return f"{Path(place).parent / path if is_path else path}{colon}{name}"


# --- modules ----------------------------------------------------------------------------------------------------------


def _load_module(place: str) -> ModuleType:
    if not place:
        raise _wrong("No module is named", repr(place), "Give a dotted name or the path to a .py file.")
    path = Path(place)
    is_path = place.endswith(".py") or "/" in place or path.is_dir()
    name = _name_of(path, place) if is_path else _from_here(place)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _broken(place, error) from error
        todo = "Give the path to its .py file, or run this where it can be imported from."
        raise _wrong(f"There is no module {error.name!r}", f"looked for {place!r} from {Path.cwd()}", todo) from None
    except (Exception, SystemExit) as error:
        raise _broken(place, error) from error
    if is_path:
        _check_is_it(module, path)
    return module


def _from_here(name: str) -> str:
    """As `python -m` does it: the current folder comes first."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise _wrong("Not a module", repr(name), "Give a dotted name, or the path to a .py file.")
    _put_first(Path.cwd())
    return name


def _name_of(path: Path, place: str) -> str:
    """The name under which the file can be imported, with the folder it has to be imported from on the path."""
    if not path.exists():
        raise _wrong("There is no such file", f"{place!r}, from {Path.cwd()}", "Correct the path.")
    if path.is_dir() and not (path / "__init__.py").exists():
        raise _wrong("This is a folder, and no package", repr(place), "Give the path to a .py file in it.")
    if not path.is_dir() and path.suffix != ".py":
        raise _wrong("This is no Python file", repr(place), "Give the path to a .py file.")
    full = path.resolve()
    if full.stem == "__init__":
        full = full.parent
    parts, folder = [full.stem], full.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    if any("." in part for part in parts):
        raise _wrong("The file's name has a dot in it", repr(place), "Python cannot import it: rename it.")
    _put_first(folder)
    return ".".join(parts)


def _put_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _check_is_it(module: ModuleType, path: Path) -> None:
    """Another module may have been imported under the file's name: `json.py`, `test.py`."""
    found = Path(getattr(module, "__file__", None) or "")
    if found.resolve() not in {path.resolve(), (path / "__init__.py").resolve()}:
        where = str(found) if found.name else "a built-in module"
        raise _wrong(f"The name {module.__name__!r} is taken", f"{path} and {where}", "Rename your file.")


def _broken(place: str, error: BaseException) -> CommandError:
    """The user's own code raised: told from its first line on."""
    if isinstance(error, OutlastError):
        what, where, todo = error.parts()
        return CommandError(str(error.code), what, where, todo, ExitCode.USAGE)
    frames = traceback.extract_tb(error.__traceback__)
    skipped = 0
    while skipped < len(frames) and (frames[skipped].filename == __file__ or "importlib" in frames[skipped].filename):
        skipped += 1
    tb = error.__traceback__
    for _ in range(skipped):
        tb = tb.tb_next if tb is not None else None
    told = "".join(traceback.format_exception(type(error), error.with_traceback(tb), tb)).rstrip()
    todo = "Correct it: a module is imported before anything is run."
    return CommandError("MODULE_BROKEN", "The module cannot be imported", f"{place}\n\n{told}\n", todo, ExitCode.FAILED)


# --- apps and workflows -----------------------------------------------------------------------------------------------


def _find_apps(module: ModuleType) -> dict[str, Outlast]:
    """The apps in a module, each under its first name; of a module with `Module`s alone, one app made of them."""
    found: dict[str, Outlast] = {}
    parts: list[Module] = []
    for name, value in vars(module).items():
        if isinstance(value, Outlast):
            if not any(value is app for app in found.values()):
                found[name] = value
        elif isinstance(value, Module) and value not in parts:
            parts.append(value)
    if found:
        return found
    if not parts:
        todo = "Make one there: app = Outlast(); or import it there."
        raise _wrong("There is no app", f"module {module.__name__!r}", todo)
    app = Outlast()
    for part in parts:
        app.include(part)
    return {"app": app}


def _named_workflow(module: ModuleType, apps: dict[str, Outlast], place: str, name: str) -> Target:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
    if isinstance(value, Workflow):
        for app in apps.values():
            if app.find_workflow(value.name) is value:
                return Target(app, value)
        raise _wrong("No app knows this workflow", f"{place}:{name}", "Include its module: app.include(module).")
    first, _, rest = name.partition(".")
    owner = getattr(module, first, None) if rest else None
    asked, registered = ([owner], rest) if isinstance(owner, Outlast) else (list(apps.values()), name)
    found = [Target(app, workflow) for app in asked if (workflow := app.find_workflow(registered)) is not None]
    if len(found) == 1:
        return found[0]
    if found:
        known = next(key for key, app in apps.items() if app is found[0].app)
        raise _wrong(f"Several apps have a workflow {name!r}", place, f"Name one, as in {place}:{known}.{name}.")
    names = {workflow.name for app in apps.values() for workflow in app.iter_workflows()}
    if value is not None and not isinstance(value, ModuleType):
        problem = f"{name!r} is no workflow but {_article(type(value).__name__)}"
    else:
        problem = f"There is no workflow {name!r}"
    raise _wrong(problem, _list(names, place), _suggest(name, names))


def _list(names: Iterable[str], place: str) -> str:
    there = sorted(names)
    return f"{place} has {', '.join(there)}" if there else place


def _suggest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"Did you mean {close[0]!r}?" if close else "Correct the name."


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _wrong(what: str, where: str, todo: str) -> CommandError:
    return CommandError("TARGET_NOT_FOUND", what, where, todo, ExitCode.USAGE)
