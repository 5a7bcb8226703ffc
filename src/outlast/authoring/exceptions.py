"""Exceptions as data, and back (SPEC R8). Layer: authoring.

An exception is recorded with all that people and programs may ask of it. Where that is enough to make the same one
again (same class, args, attributes and text), it is raised as itself; else it arrives as `StepFailed`, which carries
everything. What always holds: the answer is the same live and on replay, for it is given once, when the error is
recorded, and is part of the record (`data.whole`). No constructor of an author's class runs.

A replay may have to import the module of an error that it is to raise as itself. That module was loaded where the run
was when the error was recorded, and nothing but its own code runs: whoever can write to a journal can run any step.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import sys
from datetime import timedelta
from pathlib import Path
from traceback import TracebackException
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.authoring.codec import decoder, encode
from outlast.core.events import NOTHING, ErrorRecord
from outlast.core.retry import find_retry_after, is_retryable
from outlast.errors import OutlastError, StepFailed

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["encode_error", "rebuild_error", "settle_error", "to_step_failed"]

MAX_DATA = 256 * 1024
MAX_MESSAGE = 8 * 1024
MAX_MEMBERS = 100
MAX_CAUSES = 8


class _Data(msgspec.Struct, omit_defaults=True):
    """What `ErrorRecord.data` holds."""

    args: list[msgspec.Raw] = []
    attributes: dict[str, msgspec.Raw] = {}
    types: dict[str, str] = {}
    """`module:name` of the type of an argument (by its index) or attribute that is more than plain JSON."""
    whole: bool = False
    """All of the exception is here: it can be made again."""
    final: bool = False
    """No attempt may follow: the author raised NonRetryable, or the like."""
    retry_after: int | None = None
    """µs, as the error asked for."""


_decode_data = msgspec.json.Decoder(_Data | None).decode
_encode_data = msgspec.json.Encoder().encode
_decode_plain = decoder(Any)


# --- recording --------------------------------------------------------------------------------------------------------


def encode_error(error: BaseException, *, expected: bool | None = None) -> ErrorRecord:
    """The record of an exception. Never raises for what an author's class may do; does not change the exception.

    `expected` is what the class or the exception says of itself (`expected = True`), unless it is given.
    """
    return _record(error, expected, MAX_CAUSES)


def _record(error: BaseException, expected: bool | None, causes: int) -> ErrorRecord:
    cls = type(error)
    cause = error.__cause__ if causes > 0 else None
    members = error.exceptions[:MAX_MEMBERS] if isinstance(error, BaseExceptionGroup) and causes > 0 else ()
    code = _ask(error, "code")
    return ErrorRecord(
        type=cls.__qualname__,
        module=cls.__module__,
        message=_cut(_text_of(error)),
        traceback=_show_traceback(error),
        code=_cut(code) if isinstance(code, str) else "",
        expected=_ask(error, "expected") is True if expected is None else expected,
        data=_data_of(error),
        cause=None if cause is None else _record(cause, None, causes - 1),
        members=tuple(_record(member, None, causes - 1) for member in members),
    )


def _ask(error: BaseException, name: str) -> object:
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - an author's own property
        return None


def _text_of(error: BaseException) -> str:
    try:
        text = error.message if isinstance(error, BaseExceptionGroup) else str(error)
    except Exception as broken:  # noqa: BLE001 - an author's own __str__
        text = f"<{type(broken).__name__} in __str__>"
    return text.encode(errors="backslashreplace").decode()


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE // 2]} ... {text[-MAX_MESSAGE // 2 :]}"


def _data_of(error: BaseException) -> msgspec.Raw:
    data = _Data(final=not is_retryable(error), retry_after=find_retry_after(error))
    attributes = _write_attributes(error, data)
    args = _write_args(error, data)
    data.whole = attributes and args and _is_same(error, data)
    raw = _encode_data(data)
    if len(raw) > MAX_DATA:
        raw = _encode_data(_Data(final=data.final, retry_after=data.retry_after))
    return NOTHING if raw == b"{}" else msgspec.Raw(raw)


def _write_attributes(error: BaseException, data: _Data) -> bool:
    """Whether all can be read back as they are."""
    whole = True
    for name, value in _attributes_of(error).items():
        raw, kind, exact = _write(value)
        whole = whole and exact
        if raw is not None:
            data.attributes[name] = raw
        if kind:
            data.types[name] = kind
    return whole


def _attributes_of(error: BaseException) -> dict[str, object]:
    if isinstance(error, OutlastError):  # they are its args
        return {}
    found = {name: value for name, value in vars(error).items() if not name.startswith("__outlast_")}  # our own marks
    for cls in type(error).__mro__:
        slots = vars(cls).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(error, slot):
                found[slot] = getattr(error, slot)
    if isinstance(error, ImportError | NameError | AttributeError):  # they keep these outside of args and __dict__
        found |= {name: value for name in ("name", "path") if (value := getattr(error, name, None)) is not None}
    return found


def _write_args(error: BaseException, data: _Data) -> bool:
    """Whether all can be read back as they are."""
    written = [_write(arg) for arg in _args_of(error)]
    if any(raw is None for raw, _, _ in written):
        return False
    data.args = [raw for raw, _, _ in written if raw is not None]
    data.types.update({str(index): kind for index, (_, kind, _) in enumerate(written) if kind})
    return all(exact for _, _, exact in written)


def _args_of(error: BaseException) -> tuple[object, ...]:
    """What its class is to be called with. An OSError keeps its file names out of its args."""
    if isinstance(error, BaseExceptionGroup):
        return ()
    if isinstance(error, OSError) and not isinstance(error, OutlastError):
        reduced: Any = OSError.__reduce__(error)
        args: tuple[object, ...] = reduced[1]
        return args
    return error.args


def _is_same(error: BaseException, data: _Data) -> bool:
    """Whether the record gives the same exception again."""
    try:
        cls = _find_error(type(error).__module__, type(error).__qualname__)
        if cls is None or cls is not type(error):
            return False
        other = _make(cls, data)
        return bool(str(other) == str(error) and other.args == error.args)
    except Exception:  # noqa: BLE001 - whatever an author's class does: then it cannot be made again
        return False


def _write(value: object) -> tuple[msgspec.Raw | None, str, bool]:
    """A value as JSON, the name of the type that reads it back, and whether what is read is the same value."""
    try:
        raw = msgspec.Raw(encode(value, limit=MAX_DATA))
    except Exception:  # noqa: BLE001 - JSON cannot carry it, or a user's own code fails
        return None, "", False
    cls = type(value)
    if cls in _PLAIN:
        return raw, "", True
    try:
        plain = _decode_plain(raw)
        if type(plain) is cls and plain == value:
            return raw, "", True
        if _find_class(cls.__module__, cls.__qualname__) is cls and decoder(cls)(raw) == value:
            return raw, f"{cls.__module__}:{cls.__qualname__}", True
    except Exception:  # noqa: BLE001, S110 - not decodable, not comparable
        pass
    return raw, "", False


_PLAIN = frozenset({str, int, bool, type(None)})


# --- tracebacks -------------------------------------------------------------------------------------------------------

MAX_TRACEBACK = 16 * 1024
"""Characters. Of a longer one the middle is left out: how it began and, more so, where it ended say most."""

_ORIGIN = "__outlast_traceback__"
"""Attribute of an exception made again: the traceback that was recorded with it."""

_MACHINERY = tuple(
    f"{Path(file).parent}/" for file in (Path(__file__).parent, asyncio.__file__, concurrent.futures.__file__) if file
)


def _show_traceback(error: BaseException) -> str:
    """As Python prints it, causes and groups included, but without the engine's frames above the author's."""
    try:
        found = TracebackException(type(error), error, _skip_machinery(error.__traceback__), compact=True)
        text = "".join(found.format())
    except Exception as broken:  # noqa: BLE001 - an author's own __str__ or __notes__
        text = f"<no traceback of {type(error).__qualname__}: {type(broken).__name__}>\n"
    origin = _ask(error, _ORIGIN)
    if isinstance(origin, str):
        text = f"{origin}\nThat was the step. In the body it was raised again:\n\n{text}"
    if len(text) > MAX_TRACEBACK:
        text = f"{text[: MAX_TRACEBACK // 4]}\n  ... left out ...\n{text[-MAX_TRACEBACK * 3 // 4 :]}"
    return text.encode(errors="backslashreplace").decode()


def _skip_machinery(first: TracebackType | None) -> TracebackType | None:
    """The traceback from the author's first frame on; all of it where there is none."""
    frame = first
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_MACHINERY):
        frame = frame.tb_next
    return frame or first


# --- making it again --------------------------------------------------------------------------------------------------


def settle_error(record: ErrorRecord) -> ErrorRecord:
    """The record as the owner of a run may journal it, where another process made it.

    A class that is not loaded here becomes a StepFailed for good: a replay, wherever it runs, gives the same answer.
    """
    data = _decode_data(record.data)
    if data is not None and data.whole and _find_error(record.module, record.type) is None:
        data.whole = False
        record = msgspec.structs.replace(record, data=msgspec.Raw(_encode_data(data)))
    if record.cause is not None:
        record = msgspec.structs.replace(record, cause=settle_error(record.cause))
    if record.members:
        record = msgspec.structs.replace(record, members=tuple(map(settle_error, record.members)))
    return record


def rebuild_error(record: ErrorRecord, *, step: str = "", attempts: int = 1) -> Exception:
    """The recorded exception: as itself where the record allows it, else a StepFailed of this step with everything.

    A group comes back as an ExceptionGroup of its members, each made so. The cause comes with it.
    """
    error = _rebuild(record, step, attempts)
    if record.traceback:
        object.__setattr__(error, _ORIGIN, record.traceback)  # not setattr: an author's class may be frozen
    if record.cause is not None:
        error.__cause__ = rebuild_error(record.cause, step=step, attempts=attempts)
    return error


def _rebuild(record: ErrorRecord, step: str, attempts: int) -> Exception:
    if record.members:
        members = [rebuild_error(member, step=step, attempts=attempts) for member in record.members]
        return ExceptionGroup(record.message, members)
    data = _decode_data(record.data) or _Data()
    if data.whole:
        cls = _find_error(record.module, record.type) or _import_error(record.module, record.type)
        if cls is not None:
            try:
                return _make(cls, data)
            except Exception:  # noqa: BLE001, S110 - the class has changed since
                pass
    return _stand_in(record, data, step, attempts)


def _make(cls: type[Exception], data: _Data) -> Exception:
    """Without the class's own `__new__` and `__init__`, which want what only their author knows. Raises anything."""
    args = [_read(raw, data.types.get(str(index))) for index, raw in enumerate(data.args)]
    if issubclass(cls, OutlastError):
        return cls(*args)
    builtin: Any = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    error: Exception = builtin.__new__(cls, *args)
    builtin.__init__(error, *args)
    for name, raw in data.attributes.items():
        object.__setattr__(error, name, _read(raw, data.types.get(name)))
    return error


def _stand_in(record: ErrorRecord, data: _Data, step: str, attempts: int) -> StepFailed:
    shown: dict[str, object] = {name: _decode_plain(raw) for name, raw in data.attributes.items()}
    shown.setdefault("args", [_decode_plain(raw) for raw in data.args])
    error = to_step_failed(record, step=step, attempts=attempts, data=shown)
    if data.final:
        error.retryable = False  # type: ignore[attr-defined]  # as an author's exception says it
    if data.retry_after is not None:
        error.retry_after = timedelta(microseconds=data.retry_after)  # type: ignore[attr-defined]
    return error


def to_step_failed(record: ErrorRecord, *, step: str, attempts: int = 1, data: object = None) -> StepFailed:
    """What is on record of an error, as a StepFailed of this step. `data`: what of the error JSON could carry."""
    return StepFailed(
        type=record.type if record.module in {"", "builtins"} else f"{record.module}.{record.type}",
        message=record.message,
        traceback=record.traceback,
        code=record.code or StepFailed.code,
        data=data,
        step=step,
        attempts=attempts,
        expected=record.expected,
    )


def _read(raw: msgspec.Raw, kind: str | None) -> Any:
    if kind is None:
        return _decode_plain(raw)
    module, _, name = kind.partition(":")
    cls = _find_class(module, name)
    if cls is None:
        raise LookupError(kind)
    return decoder(cls)(raw)


def _find_error(module: str, name: str) -> type[Exception] | None:
    """The class of an error, if its module is loaded. Only an Exception: no step makes a body raise SystemExit."""
    found = _find_class(module, name)
    return found if found is not None and issubclass(found, Exception) else None


def _find_class(module: str, name: str) -> type[Any] | None:
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def _import_error(module: str, name: str) -> type[Exception] | None:
    try:
        importlib.import_module(module)
    except (Exception, SystemExit):  # noqa: BLE001 - gone, or a script
        return None
    return _find_error(module, name)
