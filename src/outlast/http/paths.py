"""Paths: which segments a request names, and which route that is. Layer: http.

A run's id may be any text, `a/b` and `..` too. So paths are taken apart before they are decoded, and never joined:
`/runs/a%2Fb/history` is the history of `a/b`. What always holds: nothing here ever touches a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from urllib.parse import quote, unquote

from outlast.http.refusals import HeadersTooLarge, MalformedRequest, MethodNotAllowed, RouteNotFound

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["Paths", "base_of", "quote_segment", "root_of", "segments_of"]

LONGEST_PATH = 8192


class Routed(Protocol):
    """What a route has to say of itself."""

    @property
    def method(self) -> str:
        """GET, POST …"""
        ...

    @property
    def path(self) -> str:
        """`/api/v1/runs/{id}`."""
        ...


T = TypeVar("T", bound=Routed)


def quote_segment(text: str) -> str:
    """One segment of a path, whatever is in it."""
    return quote(text, safe="~:@!$'()*,")


def root_of(scope: Scope) -> str:
    """Where this app is mounted: '' or '/prefix'."""
    return str(scope.get("root_path", "")).rstrip("/")


def base_of(scope: Scope) -> str:
    """The same as it stands in URLs and headers."""
    return quote(root_of(scope), safe="/~:@!$'()*,")


def segments_of(scope: Scope) -> tuple[str, ...]:
    """The decoded segments of the path below the mount. Raises MalformedRequest for bad UTF-8."""
    path, root = scope["path"], root_of(scope)
    if len(path) > LONGEST_PATH:
        raise HeadersTooLarge(LONGEST_PATH)
    below = path[len(root) :] if root and (path == root or path.startswith(f"{root}/")) else path
    if below in {"", "/"}:
        return ("",)
    raw_parts = _raw_parts(scope, below)
    if raw_parts is None:
        return tuple(below.split("/")[1:])
    try:
        return tuple(unquote(part, errors="strict") for part in raw_parts)
    except UnicodeDecodeError:
        raise MalformedRequest("path", "it is not UTF-8") from None


def _raw_parts(scope: Scope, below: str) -> list[str] | None:
    """The segments as they were sent, below the mount; None where the server does not pass them on, or changed them."""
    raw: bytes | None = scope.get("raw_path")
    if not raw:
        return None
    parts = raw.partition(b"?")[0].decode("latin-1").split("/")
    for start in range(1, len(parts)):
        if "/" + unquote("/".join(parts[start:])) == below:
            return parts[start:]
    return None


class Paths(Generic[T]):
    """The routes, found by path and method."""

    def __init__(self, routes: Iterable[T]) -> None:
        self._shapes: dict[tuple[str, ...], dict[str, T]] = {}
        for route in routes:
            shape = tuple(route.path.split("/")[1:])
            self._shapes.setdefault(shape, {})[route.method] = route

    def find(self, method: str, segments: tuple[str, ...]) -> tuple[T, dict[str, str]]:
        """The route, and what its parameters are. Raises RouteNotFound or MethodNotAllowed."""
        for shape, methods in self._shapes.items():
            given = _fit(shape, segments)
            if given is not None:
                route = methods.get("GET" if method == "HEAD" else method)
                if route is None:
                    allowed = ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else ())}))
                    raise MethodNotAllowed(method[:20], _show(segments), allowed)
                return route, given
        raise RouteNotFound(_show(segments))


def _fit(shape: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    if len(shape) != len(segments):
        return None
    given: dict[str, str] = {}
    for part, segment in zip(shape, segments, strict=True):
        if part.startswith("{") and segment:
            given[part[1:-1]] = segment
        elif part != segment:
            return None
    return given


def _show(segments: tuple[str, ...]) -> str:
    shown = "/" + "/".join(map(quote_segment, segments))
    return shown if len(shown) <= 200 else f"{shown[:200]}…"
