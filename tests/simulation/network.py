"""Requests on their way to the store: they come late, twice, or not at all, and so do their answers.

A request names what it does when it arrives and what its sender does when the answer comes or does not. Each send is a
copy. A sender that gives one up does not take it back: the copy is still under way, and nobody hears its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from outlast.errors import StoreError

__all__ = ["CLIENT", "Network", "Request", "immediately"]

CLIENT = -1

T = TypeVar("T")


def immediately(call: Coroutine[Any, Any, T]) -> T:
    """The result of a call of the in-memory store, which waits for nothing. An event loop would only be in the way."""
    try:
        call.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the in-memory store waited")


@dataclass(eq=False)
class Request:
    """One request, however many copies of it there are."""

    name: str
    sender: int
    """Number of the worker, or `CLIENT`."""
    call: Callable[[], Coroutine[Any, Any, object]]
    on_answer: Callable[[Any], None] = lambda _: None
    """With what the store answered, or the `StoreError` that it raised."""
    on_silence: Callable[[], None] = lambda: None
    """No answer came; the request may have been carried out, or may be later."""


@dataclass(eq=False)
class Copy:
    request: Request
    heard: bool = True


@dataclass
class Network:
    """All copies under way, by age."""

    copies: list[Copy] = field(default_factory=list)

    def send(self, request: Request) -> None:
        self.copies.append(Copy(request))

    def deliver(self, number: int) -> None:
        """It arrives, and so does the answer."""
        copy = self.copies.pop(number)
        answer = _carry_out(copy.request)
        if copy.heard:
            copy.request.on_answer(answer)

    def lose_answer(self, number: int) -> None:
        """It arrives; the answer does not."""
        copy = self.copies.pop(number)
        _carry_out(copy.request)
        if copy.heard:
            copy.request.on_silence()

    def lose(self, number: int) -> None:
        """It never arrives."""
        copy = self.copies.pop(number)
        if copy.heard:
            copy.request.on_silence()

    def give_up(self, number: int) -> None:
        """Its sender stops waiting. It arrives all the same, some time."""
        copy = self.copies[number]
        if copy.heard:
            copy.heard = False
            copy.request.on_silence()


def _carry_out(request: Request) -> object:
    try:
        return immediately(request.call())
    except StoreError as error:
        return error
