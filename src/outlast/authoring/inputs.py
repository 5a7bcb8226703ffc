"""Input from outside: what a run is started with, by a program, a command line or a request. Layer: authoring.

What always holds: input is checked before anything is stored (SPEC R2), and is written in one way however it was given,
so that the same id can be told to have the same input (SPEC R3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.authoring.codec import encode
from outlast.authoring.schema import Misfit, describe_type, invalid_input
from outlast.errors import InvalidInput

if TYPE_CHECKING:
    import inspect

    from outlast.authoring.signature import Arguments

__all__ = ["decode_input", "encode_input"]

_decode_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def encode_input(arguments: Arguments, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """The input of a run that is about to start, as JSON by parameter name.

    Raises InvalidInput, naming the field and what was expected, NotEncodable, and ValueTooLarge.
    """
    try:
        call = arguments.bind(args, kwargs)
    except TypeError as error:
        misfit = _find_misfit(arguments, args, kwargs) or Misfit("$", str(arguments.signature), str(error))
        raise invalid_input(arguments.function, misfit) from error
    return _normalise(arguments, encode(call, _what(arguments), root=""))


def decode_input(arguments: Arguments, data: bytes | str) -> bytes:
    """As `encode_input`, for input that comes as JSON.

    It is an object by parameter name; or, for a function of one parameter, that one's value as it is, unless it can be
    read as the object.
    """
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    parts = _parse_parts(arguments, raw)
    misfit = Misfit("$", _show(arguments), "it is no object") if parts is None else _find_misfit(arguments, (), parts)
    only = arguments.names[0] if len(arguments.names) == 1 else None
    if misfit is None:
        try:
            return _normalise(arguments, raw)
        except InvalidInput as error:
            if only is None:
                raise
            refused = error
        try:  # the value itself may have a field of the parameter's name
            return _normalise(arguments, _wrap(only, raw))
        except InvalidInput:
            raise refused from refused.__cause__
    if only is not None:
        return _normalise(arguments, _wrap(only, raw))
    raise invalid_input(arguments.function, misfit)


def _wrap(name: str, raw: bytes) -> bytes:
    return b'{"%s":%s}' % (name.encode(), raw)


def _what(arguments: Arguments) -> str:
    return f"the input of {arguments.function}"


def _show(arguments: Arguments) -> str:
    return f"an object with {', '.join(arguments.names)}" if arguments.names else "an empty object"


def _parse_parts(arguments: Arguments, raw: bytes) -> Mapping[str, msgspec.Raw] | None:
    try:
        return _decode_parts(raw)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_input(arguments.function, Misfit("$", "JSON", str(error))) from error


def _normalise(arguments: Arguments, raw: bytes) -> bytes:
    try:
        call = arguments.parse(raw)
    except (UnicodeDecodeError, RecursionError) as error:
        raise invalid_input(arguments.function, Misfit("$", "JSON", str(error))) from error
    return encode(call, _what(arguments), root="")


def _find_misfit(arguments: Arguments, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Misfit | None:
    """The first parameter that is unknown, given twice or missing."""
    parameters = arguments.signature.parameters
    by_position = set(arguments.names[: len(args)])
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in kwargs:
        if name in by_position:
            return Misfit(f"$.{name}", "one value", "it is given twice")
        if name not in parameters and not (takes_any and args):
            return Misfit(f"$.{name}", _show(arguments), "there is no such parameter")
    for name, parameter in parameters.items():
        if name not in by_position and name not in kwargs and _is_required(parameter):
            return Misfit(f"$.{name}", describe_type(arguments.hint_of(parameter)), "it is missing")
    return None


def _is_required(parameter: inspect.Parameter) -> bool:
    variadic = parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    return parameter.default is parameter.empty and not variadic
