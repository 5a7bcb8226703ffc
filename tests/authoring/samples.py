"""Values of all the kinds that the codec carries, for the tests beside this."""

import datetime as dt
import enum
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple, TypedDict
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Row(TypedDict, total=False):
    id: str
    when: dt.datetime


@dataclass
class Item:
    sku: str
    price: Decimal
    tags: set[str] = field(default_factory=set)
    parent: "Item | None" = None


@dataclass(frozen=True, slots=True)
class Order:
    id: str
    items: list[Item]
    note: str | None = None


class Payment(msgspec.Struct, frozen=True):
    order: Order
    by: Color
    codes: frozenset[int] = frozenset()


@attrs.define
class Parcel:
    weight: float
    labels: tuple[str, ...] = ()


class Address(pydantic.BaseModel):
    street: str = pydantic.Field(alias="streetName")
    since: dt.date | None = None
    tags: set[str] = set()

    @pydantic.computed_field
    def label(self) -> str:
        return self.street.upper()


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: dt.datetime
    home: Address


class Name(str):
    __slots__ = ()


ITEM = Item("a", Decimal("1.10"), {"x", "y"})
ORDER = Order("A-17", [ITEM, Item("b", Decimal(2), parent=ITEM)])
ROME = ZoneInfo("Europe/Rome")
