"""Reference made from the code: signatures, docstrings, the docstrings of fields, help texts, messages."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

import outlast
from outlast import errors
from outlast.cli.main import cli
from outlast.errors.described import Described

__all__ = ["make_commands", "make_errors", "make_names"]

WIDTH = 100

# What a page shows of each class. Methods in the order of the source.
CLASSES: dict[str, tuple[str, ...]] = {
    "Outlast": (
        *(
            "start",
            "get_run",
            "runs",
            "waits",
            "prune",
            "workers",
            "held_steps",
            "drain",
            "queues",
            "metrics_text",
            "mirrors",
            "mirror_catch_up",
            "workflows",
            "rehearse",
            "versions",
            "get_version",
            "draft",
            "activate",
            "decline",
            "worker",
            "work_until_idle",
            "run_sync",
            "sync",
            "asgi",
            "executor",
            "on_store",
            "queue",
        ),
    ),
    "Module": ("step", "workflow", "graph", "graph_from", "include"),
    "Graph": ("node", "workflow", "output", "define", "to_json"),
    "GraphWorkflow": ("graph", "definition", "to_json"),
    "Step": ("options", "fn"),
    "Workflow": ("fn", "version", "plan"),
    "Extension": ("extend", "wrap"),
    "Context": (
        *("run_id", "uid", "workflow", "user", "attributes", "evicting", "get_run", "use"),
        *("now", "uuid", "random", "patched"),
        *(
            "do",
            "call",
            "map",
            "start",
            "continue_as_new",
            "keep",
            "compensate",
            "sleep",
            "sleep_until",
            "wait_for",
            "suspend",
            "approval",
            "wait",
            "gather",
            "milestone",
            "set_state",
            "state",
        ),
    ),
    "Run": (
        *(
            "result",
            "status",
            "history",
            "timeline",
            "state_at",
            "events",
            "cancel",
            "resume",
            "signal",
            "approve",
            "retry",
            "fork",
            "delete",
        ),
    ),
    "SyncClient": ("start", "get_run", "call"),
    "StepInfo": ("invocation_id", "deadline", "lost", "heartbeat"),
}
RECORDS = (
    *(
        "StepOptions",
        "CallOptions",
        "NodeOptions",
        "StartOptions",
        "FailedStep",
        "RunIdentity",
        "RunInfo",
        "StepSummary",
        "AttemptInfo",
    ),
    *("User", "Decided", "AuditRecord", "WaitInfo", "WaitPage"),
    *(
        "TimelineItem",
        "RunSnapshot",
        "RunSummary",
        "RunPage",
        "WorkerInfo",
        "HeldStep",
        "QueueInfo",
        "WorkflowInfo",
        "VersionInfo",
        "WorkSummary",
    ),
)
FUNCTIONS = ("current_step", "exponential", "fixed")


def make_names() -> dict[str, Callable[[], str]]:
    """By the name of the part."""
    return {
        **{name: functools.partial(_tell_class, getattr(outlast, name), members) for name, members in CLASSES.items()},
        **{name: functools.partial(_tell_fields, getattr(outlast, name)) for name in RECORDS},
        **{name: functools.partial(_tell_function, getattr(outlast, name), name) for name in FUNCTIONS},
    }


# --- classes ----------------------------------------------------------------------------------------------------------


def _tell_class(cls: type, members: tuple[str, ...]) -> str:
    owner = {
        "Outlast": "app",
        "Context": "ctx",
        "Module": "module",
        "Step": "step",
        "Workflow": "workflow",
        "SyncClient": "client",
        "Extension": "extension",
    }
    prefix = owner.get(cls.__name__, "run" if cls.__name__ == "Run" else "current_step()")
    return "\n".join(_tell_function(inspect.getattr_static(cls, name), f"{prefix}.{name}") for name in members)


def _tell_function(function: Any, name: str) -> str:
    inner = function.fget if isinstance(function, property) else function
    shown = name if isinstance(function, property) else f"{name}({_signature(inner)})"
    before = "await " if inspect.iscoroutinefunction(inner) else ""
    return f"- `{before}{shown}`: {_paragraphs(inspect.getdoc(inner) or '')}"


def _signature(function: Any) -> str:
    """As one calls it: without `self` and annotations."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    bare = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
    return str(inspect.Signature(bare)).strip("()").replace("<inspect._empty>", "…").replace("/, ", "")


def _paragraphs(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip().replace("\n\n", "\0")).replace("\0", " ")


# --- records ----------------------------------------------------------------------------------------------------------


def _tell_fields(cls: type) -> str:
    lines = ["| name | type | |", "|---|---|---|"]
    for name, kind, default, about in _iter_fields(cls):
        shown = f"{kind} = {default}" if default else kind
        lines.append(f"| `{name}` | `{_escape(shown)}` | {_escape(about)} |")
    return "\n".join(lines)


def _iter_fields(cls: type) -> Iterator[tuple[str, str, str, str]]:
    """Name, annotation, default and docstring of each field; those of its bases first."""
    for base in cls.__dict__.get("__orig_bases__", ()):
        if base.__module__.startswith("outlast"):
            yield from _iter_fields(base)
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign):
            continue
        about = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            about = _paragraphs(str(after.value.value))
        default = "" if node.value is None else ast.unparse(node.value)
        yield ast.unparse(node.target), ast.unparse(node.annotation), default, about


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


# --- errors -----------------------------------------------------------------------------------------------------------

GROUPS = (
    (errors.DefinitionError, "The code must change"),
    (errors.RunError, "This run; others are fine"),
    (errors.StoreError, "The store, or a worker's claim on it"),
    (errors.ConfigError, "The settings"),
    (errors.BodyStopped, "What stops a body: a `BaseException`, so that no `except Exception` swallows it"),
)


def make_errors() -> str:
    """One table for each group of the tree, in the order of the tree's own list."""
    return "\n\n".join(_tell_group(base, title) for base, title in GROUPS)


def _tell_group(base: type[Described], title: str) -> str:
    lines = [f"### {base.__name__}", "", f"{title}.", "", "| class and code | when, and what it says |", "|---|---|"]
    for name in errors.__all__:
        cls = getattr(errors, name)
        if not issubclass(cls, base) or cls is base:
            continue
        also = [one.__name__ for one in cls.__bases__ if one.__module__ == "builtins"]
        codes = f"`{name}`<br>`{_code(cls)}`" + (f"<br>also a `{also[0]}`" if also else "")
        about = _paragraphs(inspect.getdoc(cls) or "")
        reserved = "" if name in _list_made() else " (Reserved: nothing in this release makes it.)"
        lines.append(f"| {codes} | {_escape(about)}{reserved}{_message(cls)} |")
    return "\n".join(lines)


@functools.cache
def _list_made() -> frozenset[str]:
    """Names of error classes that something outside `outlast.errors` makes."""
    trees = [
        ast.parse(path.read_text(encoding="utf-8"))
        for path in Path(outlast.__file__).parent.rglob("*.py")
        if path.parent.name != "errors"
    ]
    return frozenset(name for tree in trees for name in _iter_made(tree))


def _iter_made(tree: ast.Module) -> Iterator[str]:
    """Events have some of the same names: so only those that the module has from `outlast.errors` count."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "outlast.errors":
            names.update({alias.asname or alias.name: alias.name for alias in node.names})
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield names[node.func.id]


def _code(cls: type[Described]) -> str:
    """Of a class, not of an instance that has a code of its own."""
    return str(vars(cls).get("code", "") or cls.code)


def _message(cls: type[Described]) -> str:
    template = getattr(cls, "template", None)
    if template is None:
        return ""
    what, where, todo = (re.sub(r"\s*\n\s*", " ", part) for part in template)
    text = re.sub(r"{(\w+)[^}]*}", r"‹\1›", f"{what}: {where}. {todo}")
    return f"<br>*{_escape(text)}*"


# --- commands ---------------------------------------------------------------------------------------------------------


def make_commands() -> str:
    """The help of each command, as it prints it."""
    settings: dict[str, Any] = {**cli.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(cli, info_name="outlast", **settings)
    parts = [_tell_command(cli, context, "outlast")]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        inner = click.Context(command, parent=context, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
        parts.append(_tell_command(command, inner, f"outlast {name}"))
    return "\n\n".join(parts)


def _tell_command(command: click.Command, context: click.Context, title: str) -> str:
    command._help_option = None  # made by whoever called the command in this process, for a context of its own
    return f"## {title}\n\n```text\n{command.get_help(context).rstrip()}\n```"
