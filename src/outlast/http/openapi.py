"""The OpenAPI 3.1 document, made from the routes and the types in their signatures. Layer: http.

What always holds: it says every status that a route can answer with, and with which errors: by code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from outlast import errors
from outlast.errors import OutlastError
from outlast.http import refusals
from outlast.http.problems import MEDIA_TYPE, Problem, status_of
from outlast.http.route import Nothing, Route
from outlast.http.schemas import Schemas, collect_schemas

__all__ = ["describe_api"]

_ALWAYS: tuple[type[OutlastError], ...] = (
    refusals.MalformedRequest,
    refusals.HostRefused,
    refusals.InvalidRequest,
    refusals.HeadersTooLarge,
    refusals.Internal,
    errors.AppNotOpen,
    errors.StoreUnavailable,
    errors.StoreBusy,
)
_UNSAFE: tuple[type[OutlastError], ...] = (refusals.CrossSite, errors.StoreReadOnly)
_WITH_BODY: tuple[type[OutlastError], ...] = (refusals.BodyTooLarge, refusals.WrongMediaType)


def describe_api(routes: Sequence[Route], root: str, version: str) -> dict[str, Any]:
    """The document of the API as it is mounted at `root`."""
    schemas, components = collect_schemas([Problem, *(one for route in routes for one in route.types)])
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for route in routes:
        paths[route.path][route.method.lower()] = _describe_route(route, schemas, components)
    for route in routes:
        components.pop(route.types[0].__name__, None)  # a query's fields are told one by one
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "outlast",
            "version": version or "0",
            "description": "Durable workflows: start runs, follow them, steer them. Errors are problem+json "
            "(RFC 9457), whose `code` is stable.",
        },
        "servers": [{"url": root or "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "outlast_session"},
            },
        },
    }


def _describe_route(route: Route, schemas: Schemas, components: dict[str, Any]) -> dict[str, Any]:
    query, body, answer = route.types
    summary, text = route.text
    told: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.tag],
        "summary": summary,
        "parameters": [*_path_parameters(route), *_query_parameters(query, components)],
        "responses": {
            **{str(status): _describe_answer(route, status, schemas[repr(answer)]) for status in route.statuses},
            **_describe_errors(route, schemas[repr(Problem)]),
        },
        "security": [] if route.is_open else [{"token": []}, {"session": []}],
    }
    if text:
        told["description"] = text
    if route.is_stream:
        told["parameters"].append(_last_event_id())
    if body is not Nothing:
        is_required = any(one.required for one in msgspec.structs.fields(body))
        told["requestBody"] = {
            "required": is_required,
            "content": {"application/json": {"schema": schemas[repr(body)]}},
        }
    return told


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names
    ]


def _query_parameters(query: type[msgspec.Struct], components: dict[str, Any]) -> list[dict[str, Any]]:
    """Each field of the struct: its schema is among the components."""
    schema = components.get(query.__name__, {})
    required = set(schema.get("required", ()))
    told = []
    for name, field in schema.get("properties", {}).items():
        inner = {key: value for key, value in field.items() if key not in {"default", "description"}}
        parameter = {"name": name, "in": "query", "required": name in required, "schema": _given(inner)}
        if "description" in field:
            parameter["description"] = field["description"]
        told.append(parameter)
    return told


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """Without null: a parameter is given as text, or not at all."""
    options = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return options[0] if len(options) == 1 and "anyOf" in schema else schema


def _last_event_id() -> dict[str, Any]:
    text = "The id of the last event seen; it comes before `after`."
    return {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "description": text,
        "schema": {"type": "string"},
    }


def _describe_answer(route: Route, status: int, schema: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if status != 204:
        told["content"] = {route.media_type: {"schema": {"type": "string"} if route.is_stream else schema}}
    if route.is_stream and status == 200:
        told["description"] = f"Server-sent events, whose data is JSON: {schema.get('$ref', '').rpartition('/')[2]}"
    return told


def _describe_errors(route: Route, problem: dict[str, Any]) -> dict[str, Any]:
    """By status, with the codes."""
    codes: dict[int, set[str]] = defaultdict(set)
    for error in _errors_of(route):
        codes[status_of(error)].add(str(error.code))
    return {
        str(status): {
            "description": ", ".join(sorted(names)),
            "content": {MEDIA_TYPE: {"schema": problem}},
        }
        for status, names in sorted(codes.items())
    }


def _errors_of(route: Route) -> tuple[type[OutlastError], ...]:
    _, body, _ = route.types
    more: tuple[type[OutlastError], ...] = ()
    if not route.is_open:
        more += (refusals.NotSignedIn, refusals.NotAllowed)
    if route.method != "GET":
        more += _UNSAFE
    if body is not Nothing:
        more += _WITH_BODY
    if route.is_stream:
        more += (refusals.TooManyStreams,)
    return (*route.errors, *_ALWAYS, *more)
