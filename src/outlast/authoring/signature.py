"""How a function is called: its arguments as JSON, by name, and back. Layer: authoring.

A call is stored as one object: each parameter's value by its name, with defaults applied, so that a journal can be
read without the code and an argument that moved stays itself. What always holds: `f(x)` and `f(x=x)` are the same call,
and a default that has changed since makes no difference.

The object is an instance of a Struct made for the function: msgspec then binds, encodes and decodes at C speed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import GenericAlias
from typing import Any, TypeAlias, Unpack, get_args, get_origin

import msgspec

from outlast.authoring.codec import FLAT, MAX_VALUE, Returns, encode, encode_flat, is_same_json
from outlast.authoring.hooks import decode_unknown
from outlast.authoring.schema import check_type, explain, invalid_input, json_schema, resolve_annotation
from outlast.authoring.values import look_into
from outlast.errors import InvalidDefinition, OutlastError

__all__ = ["Arguments", "Explicit"]

Explicit: TypeAlias = int | frozenset[str]
"""Which parameters a call gave itself: the first so many, or these."""

_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})
_astuple = msgspec.structs.astuple
_decode_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Arguments:
    """The parameters of one function. Made when it is declared; its annotations are resolved at the first use.

    `skip_first` leaves out a workflow's context. `namespace` holds names that its annotations may use beside its
    globals. Raises InvalidDefinition for a parameter that cannot be stored.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        skip_first: bool = False,
        namespace: Mapping[str, Any] | None = None,
    ) -> None:
        self.fn = fn
        self.function = name or fn.__qualname__
        self._what = f"the arguments of {self.function}"
        self._namespace = namespace
        parameters = list(inspect.signature(fn).parameters.values())[1 if skip_first else 0 :]
        self.signature = inspect.Signature(parameters)
        for parameter in parameters:
            if parameter.name.startswith("__"):
                problem = f"Parameter {parameter.name!r} begins with two underscores"
                raise InvalidDefinition(problem, self.function, "Rename it.")
        self.names = tuple(parameter.name for parameter in parameters)
        kinds = {parameter.kind for parameter in parameters}
        self._positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
        self._others = [p for p in parameters if p not in self._positional]
        self._is_simple = kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        self._has_flat_defaults = self._is_simple and all(
            parameter.default is parameter.empty or type(parameter.default) in FLAT for parameter in parameters
        )
        """A call whose own arguments are flat is flat altogether."""
        self._count = len(self._positional)
        self._struct: type[msgspec.Struct] | None = None
        self._decode: Callable[[bytes | msgspec.Raw], msgspec.Struct] = self._decode_first
        self._returns: Returns | None = None

    # --- the declaration ----------------------------------------------------------------------------------------------

    @property
    def returns(self) -> Returns:
        """The codec of its results. Raises InvalidDefinition for an annotation that cannot be decoded."""
        if self._returns is None:
            annotation = self.fn.__annotations__.get("return", inspect.Parameter.empty)
            self._returns = Returns(self.function, self._resolve("return", annotation))
        return self._returns

    @property
    def positional_count(self) -> int:
        """How many parameters it passes by position; a variadic one is not counted."""
        return len(self._positional)

    @property
    def keyword_only(self) -> dict[str, None]:
        """Names of the parameters that it passes by name."""
        return {p.name: None for p in self._others if p.kind is p.KEYWORD_ONLY}

    def prepare(self, *, strict: bool = True) -> bool:
        """Resolve and check all annotations and defaults now. Raises InvalidDefinition.

        A name that is not defined is one too; with `strict=False` it may be defined later, and the answer is False.
        """
        try:
            self._make_struct()
            _ = self.returns
        except InvalidDefinition as error:
            if strict or not isinstance(error.__cause__, NameError):
                raise
            return False
        return True

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of a call, as an object by parameter name: for forms and for OpenAPI."""
        return json_schema(self._make_struct())

    def _make_struct(self) -> type[msgspec.Struct]:
        if self._struct is None:
            fields = [self._field(parameter) for parameter in self._positional]
            struct = msgspec.defstruct(self.function, fields)
            if self._others:
                fields = [self._field(parameter) for parameter in self._others]
                struct = msgspec.defstruct(self.function, fields, bases=(struct,), kw_only=True)
            look_into(struct)
            self._decode = msgspec.json.Decoder(struct, dec_hook=decode_unknown).decode
            self._struct = struct
        return self._struct

    def _field(self, parameter: inspect.Parameter) -> tuple[str, Any, Any]:
        """Name, type and default, as msgspec wants them."""
        hint = self.hint_of(parameter)
        where = f"{self.function}, parameter {parameter.name!r}"
        field: Any = msgspec.NODEFAULT
        if parameter.kind is parameter.VAR_POSITIONAL:
            hint, field = GenericAlias(tuple, (Any if get_origin(hint) is Unpack else hint, ...)), ()
        elif parameter.kind is parameter.VAR_KEYWORD:
            hint = get_args(hint)[0] if get_origin(hint) is Unpack else GenericAlias(dict, (str, hint))
            field = msgspec.field(default_factory=dict)
        elif parameter.default is not parameter.empty:
            hint = hint if hint is Any or parameter.default is not None else hint | None
            field = _default(where, hint, parameter.default)
        check_type(hint, where)
        return parameter.name, hint, field

    def hint_of(self, parameter: inspect.Parameter) -> Any:
        """The parameter's type; Any where it says none."""
        return self._resolve(parameter.name, parameter.annotation)

    def _resolve(self, name: str, annotation: Any) -> Any:
        if annotation is inspect.Parameter.empty:
            return Any
        return resolve_annotation(self.fn, name, annotation, self._namespace)

    # --- calls --------------------------------------------------------------------------------------------------------

    def encode_call(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int = MAX_VALUE
    ) -> tuple[bytes, Explicit]:
        """The call as JSON, and which parameters it gave itself.

        Raises TypeError for a call that the signature does not allow, NotEncodable, and ValueTooLarge.
        """
        record = self.bind(args, kwargs)
        if self._has_flat_defaults and not kwargs and FLAT.issuperset(map(type, args)):
            flat = encode_flat(record, limit)
            if flat is not None:
                return flat, len(args)
        data = encode(record, self._what, root="", limit=limit)
        if self._is_simple:
            return data, frozenset((*self.names[: len(args)], *kwargs)) if kwargs else len(args)
        return data, frozenset(self.signature.bind(*args, **kwargs).arguments)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> msgspec.Struct:
        """The call as a record of all its parameters. Raises TypeError, in Python's own words."""
        struct = self._struct or self._make_struct()
        if self._is_simple:
            try:
                return struct(*args, **kwargs)
            except TypeError:
                pass  # for Python's own words, below
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.function}() {error}") from None
        return struct(**bound.arguments)

    def decode_call(self, data: bytes | msgspec.Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the function with. Raises InvalidInput for arguments that are not as annotated.

        A parameter that the journal does not know yet gets its default; one that is gone is left out.
        """
        try:
            values: tuple[Any, ...] = _astuple(self._decode(data))
        except msgspec.MsgspecError as error:
            raise invalid_input(self.function, explain(error)) from error
        count = self._count
        if count == len(values):
            return values, {}
        if self._is_simple:
            return values[:count], dict(zip(self.names[count:], values[count:], strict=True))
        return self._spread(values[:count], values[count:])

    def parse(self, data: bytes | msgspec.Raw) -> msgspec.Struct:
        """The record of a call, from its JSON. Raises InvalidInput."""
        try:
            return self._decode(data)
        except msgspec.MsgspecError as error:
            raise invalid_input(self.function, explain(error)) from error

    def decode_part(self, name: str, data: bytes | msgspec.Raw) -> Any:
        """The value of one parameter. Raises LookupError where there is none of that name, and InvalidInput."""
        parameter = self.signature.parameters[name]
        try:
            return msgspec.json.decode(data, type=self.hint_of(parameter), dec_hook=decode_unknown)
        except msgspec.MsgspecError as error:
            raise invalid_input(self.function, explain(error)) from error

    def _decode_first(self, data: bytes | msgspec.Raw) -> msgspec.Struct:
        self._make_struct()
        return self._decode(data)

    def _spread(self, args: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        kwargs: dict[str, Any] = {}
        for parameter, value in zip(self._others, others, strict=True):
            if parameter.kind is parameter.VAR_POSITIONAL:
                args += value
            elif parameter.kind is parameter.VAR_KEYWORD:
                kwargs.update(value)
            else:
                kwargs[parameter.name] = value
        return args, kwargs

    def same_call(self, recorded: bytes | msgspec.Raw, new: bytes, explicit: Explicit) -> bool:
        """Whether the new call is the recorded one, in the parameters that it gives itself."""
        if bytes(recorded) == new:
            return True
        before, now = _decode_parts(recorded), _decode_parts(new)
        given = self.names[:explicit] if isinstance(explicit, int) else explicit
        return all(name in before and is_same_json(before[name], now[name]) for name in given)


def _default(where: str, hint: Any, default: object) -> Any:
    """As a field's default; InvalidDefinition if it cannot be stored."""
    check_type(hint, where)
    try:
        msgspec.json.decode(encode(default, root="default"), type=hint, dec_hook=decode_unknown)
    except (OutlastError, msgspec.MsgspecError) as error:
        problem = f"The default {default!r} cannot be stored: {error}"
        raise InvalidDefinition(problem, where, "Give it a default of its type, or None.") from error
    if type(default) in _ATOMS:
        return default
    return msgspec.field(default_factory=lambda: default)
