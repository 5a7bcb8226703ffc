"""Exceptions as authors write them, and their way through the journal, for the tests beside this."""

import enum
from dataclasses import dataclass

import msgspec

from outlast.authoring.exceptions import encode_error, rebuild_error
from outlast.core.events import ErrorRecord
from outlast.errors import ExpectedError, NonRetryable


class Reason(enum.Enum):
    POOR = "poor"


@dataclass
class Card:
    number: str


class Declined(Exception):
    """Its constructor takes what its args do not have: the usual shape of an author's exception."""

    code = "CARD_DECLINED"
    expected = True

    def __init__(self, reason, card, *, amount):
        super().__init__(f"declined: {reason.value}")
        self.reason = reason
        self.card = card
        self.amount = amount


class Silent(Exception):
    def __init__(self, a, b):  # does not call super
        self.total = a + b

    def __str__(self):
        return f"total {self.total}"


class Slotted(Exception):
    __slots__ = ("limit",)

    def __init__(self, limit):
        super().__init__(limit)
        self.limit = limit


class WithResponse(Exception):
    def __init__(self, text, response):
        super().__init__(text)
        self.response = response


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("boo")

    @property
    def code(self):
        raise RuntimeError("boo")


class OutOfStock(ExpectedError):
    pass


class Final(NonRetryable):
    pass


class Shy(Exception):
    retryable = False


def caught(function, *args, **kwargs):
    """What the call raises, with its traceback."""
    try:
        function(*args, **kwargs)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def through(error, **options):
    """As the body gets it: recorded, stored as JSON, read again, and made again."""
    stored = msgspec.json.encode(encode_error(error))
    return rebuild_error(msgspec.json.decode(stored, type=ErrorRecord), **options)


def raise_it(error):
    raise error


def make_local():
    class Local(Exception):
        pass

    return Local("x")
