"""A graph's input as the arguments of a workflow. Layer: authoring.

To Python a graph has two parameters, its input and the entry nodes to begin at. On record stands the input itself, as
whoever started the run gave it; and where entry nodes were chosen, `{"$entry": ["refund"], "$input": …}`. What always
holds: the two cannot be taken for each other, since an input with a field `$entry` is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from outlast.authoring.codec import MAX_VALUE, is_same_json
from outlast.authoring.context import Context
from outlast.authoring.inputs import decode_input, encode_input
from outlast.authoring.schema import Misfit, invalid_input
from outlast.authoring.signature import Arguments, Explicit
from outlast.core.graph.inputs import make_input_type
from outlast.core.graph.problems import list_names, shorten

if TYPE_CHECKING:
    from outlast.core.graph.compiling import CompiledGraph

__all__ = ["GraphArguments", "make_signature"]

ENTRY: Final = "$entry"
INPUT: Final = "$input"

_decode_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_one = msgspec.json.Decoder(msgspec.Raw).decode


class GraphArguments(Arguments):
    """See the module's docstring. `fn` is what `make_signature` gives."""

    def __init__(self, fn: Callable[..., Any], graph: CompiledGraph, name: str) -> None:
        super().__init__(fn, name=name, skip_first=True)
        self._entries = graph.entries
        self._plain = Arguments(fn, name=name, skip_first=True)
        """By parameter name, as those of any workflow."""

    # --- a run that is about to start ---------------------------------------------------------------------------------

    def encode_start(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """One value, and the entry nodes; or the value's fields by name. Raises InvalidInput."""
        return self._strip(encode_input(self._plain, self._arrange(args, kwargs), {}))

    def decode_start(self, data: bytes) -> bytes:
        """The same from JSON, as it is on record. Raises InvalidInput."""
        return self._strip(decode_input(self._plain, self._dress(data)))

    # --- a child run, and a replay ------------------------------------------------------------------------------------

    def encode_call(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int = MAX_VALUE
    ) -> tuple[bytes, Explicit]:
        """The input as a body gives it. Raises InvalidInput, TypeError, NotEncodable and ValueTooLarge."""
        data, _ = self._plain.encode_call(self._arrange(args, kwargs), {}, limit)
        return self._strip(data), 1

    def parse(self, data: bytes | msgspec.Raw) -> msgspec.Struct:
        """What is on record, checked. Raises InvalidInput."""
        return self._plain.parse(self._dress(bytes(data)))

    def decode_call(self, data: bytes | msgspec.Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The input and the entry nodes that are on record. Raises InvalidInput."""
        return self._plain.decode_call(self._dress(bytes(data)))

    def same_call(self, recorded: bytes | msgspec.Raw, new: bytes, explicit: Explicit) -> bool:  # noqa: ARG002
        """Whether the new input is the recorded one: as it was given, defaults are no part of it."""
        return is_same_json(recorded, new)

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the input alone."""
        schema = self._plain.json_schema()
        definitions = schema.get("$defs", {})
        target = definitions.get(schema.get("$ref", "").rpartition("/")[2], schema)
        found: dict[str, Any] = target["properties"]["input"]
        while "$ref" in found:
            found = definitions[found["$ref"].rpartition("/")[2]]
        return found

    # --- one form and the other ---------------------------------------------------------------------------------------

    def _arrange(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """By position."""
        if args and kwargs:
            raise invalid_input(self.function, Misfit("$", "one value", "it is given by position and by name"))
        given = args or ((dict(kwargs),) if kwargs else ())
        if given and isinstance(given[0], Mapping) and ENTRY in given[0]:
            expected = "the entry nodes as an argument of their own"
            raise invalid_input(self.function, Misfit(f"$.{ENTRY}", expected, "it is a field of the input"))
        return (given[0], self._check_entry(given[1]), *given[2:]) if len(given) > 1 else given

    def _check_entry(self, given: object) -> list[str]:
        entry: list[Any] = [given] if isinstance(given, str) or not isinstance(given, Sequence) else [*given]
        wrong = [name for name in entry if name not in self._entries]
        if wrong:
            expected = f"some of its entry nodes, {list_names([*self._entries])}"
            raise invalid_input(self.function, Misfit("$.entry", expected, f"got {shorten(wrong[0])}"))
        return entry

    def _strip(self, data: bytes) -> bytes:
        """From parameter names to what is on record."""
        parts = _decode_parts(data)
        if bytes(parts["entry"]) == b"[]":
            return bytes(parts["input"])
        return b'{"%s":%s,"%s":%s}' % (ENTRY.encode(), parts["entry"], INPUT.encode(), parts["input"])

    def _dress(self, data: bytes) -> bytes:
        """And back. Raises InvalidInput for what is no JSON, and for entry nodes that are none."""
        try:
            value = bytes(_decode_one(data))  # all of it is one value: it cannot reach out of where it is put
            parts = _decode_parts(value) if value[:1] == b"{" else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise invalid_input(self.function, Misfit("$", "JSON", str(error))) from error
        if ENTRY not in parts:
            return b'{"input":%s}' % value
        if unknown := parts.keys() - {ENTRY, INPUT}:
            expected = f"{INPUT} beside {ENTRY}, and nothing else"
            raise invalid_input(self.function, Misfit(f"$.{min(unknown)}", expected, "it is no part of that"))
        entry = self._check_entry(msgspec.json.decode(parts[ENTRY]))
        return b'{"input":%s,"entry":%s}' % (bytes(parts.get(INPUT, b"null")), msgspec.json.encode(entry))


def make_signature(graph: CompiledGraph) -> Callable[..., Any]:
    """A function whose parameters are the graph's: its input, of the declared fields, and the entry nodes."""
    kind = make_input_type(graph.fields)

    async def body(ctx: Context, input: Any, entry: list[str]) -> Any:  # noqa: ARG001
        raise AssertionError("run_body runs it")

    body.__annotations__ = {"ctx": Context, "input": kind, "entry": list[str], "return": Any}
    if graph.fields is None:
        body.__defaults__ = (None, [])
    elif any(field.is_required for field in graph.fields):
        body.__defaults__ = ([],)
    else:
        body.__defaults__ = (kind(), [])
    return body
