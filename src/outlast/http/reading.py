"""Reading requests: queries and bodies, within limits. Layer: http.

What always holds: nothing is read past its limit; what is deep, or no UTF-8, or no JSON, is refused before anything
looks into it; and a parameter or field nobody knows is told, not passed over.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec

from outlast.authoring.schema import explain
from outlast.authoring.values import MAX_DEPTH, is_too_deep
from outlast.http.refusals import (
    BodyTooLarge,
    HeadersTooLarge,
    InvalidRequest,
    MalformedRequest,
    WrongMediaType,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

__all__ = ["check_headers", "read_body", "read_query"]

S = TypeVar("S", bound=msgspec.Struct)

LARGEST_HEADERS = 32 * 1024
MOST_PARAMETERS = 100
_INTEGER = re.compile(r"-?[0-9]{1,18}")


def check_headers(scope: Scope) -> None:
    """Raises HeadersTooLarge."""
    size = sum(len(name) + len(value) for name, value in scope["headers"])
    if size + len(scope.get("query_string", b"")) > LARGEST_HEADERS:
        raise HeadersTooLarge(LARGEST_HEADERS)


def read_query(raw: bytes, kind: type[S]) -> S:
    """The query as `kind`: a field that is a tuple may be given several times. Raises InvalidRequest."""
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except UnicodeDecodeError:
        raise MalformedRequest("query", "it is not UTF-8") from None
    except ValueError:
        raise InvalidRequest("query", f"at most {MOST_PARAMETERS} parameters", "there are more") from None
    types = {one.encode_name: one.type for one in msgspec.structs.fields(kind)}
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name not in types:
            known = ", ".join(types) or "none"
            raise InvalidRequest(f"query parameter {name[:100]!r}", f"one of these: {known}", "it is unknown")
        parts = _parts(types[name])
        if any(get_origin(part) is tuple for part in parts):
            given.setdefault(name, []).append(value)
        elif name in given:
            raise InvalidRequest(f"query parameter {name!r}", "one value", "it is given twice")
        else:
            given[name] = _read_value(parts, value)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _invalid("query parameter ", error) from None


def _parts(annotation: Any) -> tuple[Any, ...]:
    """Of a union, or something annotated, all it is made of."""
    inner = () if get_origin(annotation) is tuple else get_args(annotation)
    return tuple(part for one in inner for part in _parts(one)) or (annotation,)


def _read_value(parts: tuple[Any, ...], text: str) -> str | int:
    """A number where one is wanted. msgspec's own lax reading takes numbers for times, and `null` for nothing."""
    return int(text) if int in parts and _INTEGER.fullmatch(text) else text


async def read_body(request: Request, kind: Any, limit: int) -> Any:
    """The JSON body as `kind`; an empty body is an empty object."""
    path = request.scope["path"][:200]
    data = await _read_bytes(request, path, limit)
    if not data:
        data = b"{}"
    else:
        found = request.headers.get("content-type", "")
        if found.partition(";")[0].strip().lower() != "application/json":
            raise WrongMediaType(path, found[:100])
    if is_too_deep(data):
        raise MalformedRequest("body", f"it nests over {MAX_DEPTH} deep")
    try:
        data.decode()  # also the parts that are passed on as they are
        return msgspec.json.decode(data, type=kind)
    except UnicodeDecodeError:
        raise MalformedRequest("body", "it is not UTF-8") from None
    except msgspec.ValidationError as error:
        raise _invalid("", error) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedRequest("body", f"it is no JSON: {error}") from None


async def _read_bytes(request: Request, path: str, limit: int) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and len(announced) < 20 and int(announced) > limit:
        raise BodyTooLarge(path, limit)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise BodyTooLarge(path, limit)
        parts.append(part)
    return b"".join(parts)


def _invalid(prefix: str, error: msgspec.ValidationError) -> InvalidRequest:
    path, expected, problem = explain(error)
    where = path.removeprefix("$").removeprefix(".") or "body"
    return InvalidRequest(f"{prefix}{where}", expected, problem)
