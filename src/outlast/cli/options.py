"""Options that commands share, and how their text is read. Layer: cli.

What always holds: `--store` and `--json` mean the same before and after the command's name; what cannot be read is a
usage error that says what was expected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from outlast.core.durations import format_duration, parse_duration
from outlast.errors import InvalidDuration

if TYPE_CHECKING:
    from outlast.cli.output import Output
    from outlast.run.options import AttributeValue

__all__ = ["Settings", "attributes_option", "read_attribute", "read_duration", "read_moment", "shared_options"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Settings:
    """What was said for all commands."""

    store: str | None = None
    """A URL; None: the module's own, else `$OUTLAST_URL`, else sqlite:///outlast.db."""
    as_json: bool = False
    is_process: bool = False
    """This process is the command's own: it may start itself anew and take over signals."""

    def output(self) -> Output:
        """Where the command prints."""
        from outlast.cli.output import Output  # this module is imported by `outlast --version` too

        return Output(as_json=self.as_json)


def shared_options(command: F) -> F:
    """`--store` and `--json`."""
    command = click.option(
        "--json", is_flag=True, expose_value=False, callback=_set("as_json"), help="Print JSON, and nothing else."
    )(command)
    return click.option(
        "--store",
        metavar="URL",
        expose_value=False,
        callback=_set("store"),
        help="sqlite:///FILE or postgresql://HOST/DATABASE; default: the module's, else $OUTLAST_URL, else sqlite:///outlast.db.",
    )(command)


def _set(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value:
            setattr(ctx.ensure_object(Settings), field, value)

    return keep


# --- how text is read: functions for click's `type=`, which says which option it was about ---------------------------


def read_duration(text: str) -> str:
    """`30s`, `1h30m`; a bare number is seconds. As its shortest text."""
    given = text.strip()
    try:
        return format_duration(parse_duration(float(given) if given.replace(".", "", 1).isdecimal() else given))
    except InvalidDuration:
        raise click.BadParameter(f"{text!r} is not a duration: write 250ms, 30s, 1h30m or 3d.") from None


def read_moment(text: str) -> int | datetime:
    """An event's number, or an instant in ISO 8601; one without a zone is UTC, as all that is printed here."""
    given = text.strip()
    if given.removeprefix("-").isdecimal():
        return int(given)
    try:
        at = datetime.fromisoformat(given)
    except ValueError:
        problem = f"{text!r} is neither an event's number nor a time such as 2026-07-01T12:00:00Z."
        raise click.BadParameter(problem) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def read_attribute(text: str) -> tuple[str, AttributeValue]:
    """`name=value`. The value is JSON where it is a scalar of JSON, else text: `n=5`, `ok=true`, `region=eu`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE, such as region=eu.")
    try:
        return name, _decode_scalar(value.encode(errors="surrogateescape"))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return name, value


_decode_scalar = msgspec.json.Decoder(str | int | float | bool | None).decode


def attributes_option(help: str) -> Callable[[F], F]:
    """`--attribute name=value`, as often as wanted."""
    return click.option(
        "--attribute", "attributes", metavar="NAME=VALUE", type=read_attribute, multiple=True, help=help
    )
