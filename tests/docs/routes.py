"""Reference of the HTTP API, made from its table of routes."""

from __future__ import annotations

import inspect
import re

from outlast.errors import OutlastError
from outlast.http import refusals
from outlast.http.problems import status_of
from outlast.http.route import Nothing, Route
from outlast.http.routes.table import ROUTES

__all__ = ["make_refusals", "make_routes"]


def make_routes() -> str:
    """One row for each route: what it takes, gives, and how it can fail beside what any may."""
    lines = ["| | takes | gives | errors of its own |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(_tell_route, ROUTES)])


def _tell_route(route: Route) -> str:
    query, body, answer = route.types
    fields = [f"`?{name}`" for name in query.__struct_fields__]
    takes = ", ".join([*([] if body is Nothing else [f"`{body.__name__}`"]), *fields])
    shown = re.sub(r"\b(?:\w+\.)+", "", str(answer)) if hasattr(answer, "__args__") else getattr(answer, "__name__", "")
    gives = "" if answer is None or answer is type(None) else f"`{shown}`" + (", streamed" if route.is_stream else "")
    statuses = ", ".join(map(str, route.statuses))
    codes = ", ".join(f"`{error.code}`" for error in sorted(route.errors, key=lambda error: str(error.code)))
    path = route.path.removeprefix("/api/v1")
    return f"| `{route.method} {path}`<br>{route.text[0]} | {takes} | {statuses} {gives} | {codes} |"


def make_refusals() -> str:
    """The errors that are HTTP's own."""
    lines = ["| status and code | when |", "|---|---|"]
    found = [getattr(refusals, name) for name in refusals.__all__ if name != "Refusal"]
    ordered = sorted(found, key=lambda one: (status_of(one), str(one.code)))
    return "\n".join([*lines, *(f"| {status_of(one)} `{one.code}` | {_about(one)} |" for one in ordered)])


def _about(error: type[OutlastError]) -> str:
    return re.sub(r"\s*\n\s*", " ", inspect.getdoc(error) or "")
