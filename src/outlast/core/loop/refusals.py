"""What a body's loop refuses: I/O, threads, signals, processes, settings, and being driven by hand. Layer: core.

What always holds: each method of `AbstractEventLoop` that `BodyLoop` does not have raises `EffectInBody`, which names
the method and says what to do. asyncio's own answer is a NotImplementedError without a text.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NoReturn

from outlast.errors import EffectInBody

__all__ = ["DRIVEN_BY_HAND", "RefusingLoop", "is_in_loop", "refuse_in_body"]

DRIVEN_BY_HAND: Final = "A body has a loop already: await it, or in a plain def body give it to ctx.wait()."
"""What to do instead of driving a coroutine oneself."""


def _refuse(name: str, *todo: str) -> Any:
    def method(self: object, *args: object, **kwargs: object) -> NoReturn:  # noqa: ARG001 - any call is refused
        raise EffectInBody(f"loop.{name}()", *todo)

    method.__name__ = name
    method.__qualname__ = f"BodyLoop.{name}"
    return method


class RefusingLoop(asyncio.AbstractEventLoop):
    """A loop that refuses everything. Its methods are spelt out so that a type checker sees that none is abstract."""

    run_forever = _refuse("run_forever")
    run_until_complete = _refuse("run_until_complete", DRIVEN_BY_HAND)
    stop = _refuse("stop")
    close = _refuse("close")
    shutdown_asyncgens = _refuse("shutdown_asyncgens")
    shutdown_default_executor = _refuse("shutdown_default_executor")
    run_in_executor = _refuse("run_in_executor")
    set_default_executor = _refuse("set_default_executor")
    set_exception_handler = _refuse("set_exception_handler")
    set_task_factory = _refuse("set_task_factory")
    set_debug = _refuse("set_debug")
    add_signal_handler = _refuse("add_signal_handler")
    remove_signal_handler = _refuse("remove_signal_handler")
    subprocess_exec = _refuse("subprocess_exec")
    subprocess_shell = _refuse("subprocess_shell")
    getaddrinfo = _refuse("getaddrinfo")
    getnameinfo = _refuse("getnameinfo")
    create_connection = _refuse("create_connection")
    create_server = _refuse("create_server")
    create_unix_connection = _refuse("create_unix_connection")
    create_unix_server = _refuse("create_unix_server")
    create_datagram_endpoint = _refuse("create_datagram_endpoint")
    connect_accepted_socket = _refuse("connect_accepted_socket")
    connect_read_pipe = _refuse("connect_read_pipe")
    connect_write_pipe = _refuse("connect_write_pipe")
    start_tls = _refuse("start_tls")
    sendfile = _refuse("sendfile")
    add_reader = _refuse("add_reader")
    remove_reader = _refuse("remove_reader")
    add_writer = _refuse("add_writer")
    remove_writer = _refuse("remove_writer")
    sock_accept = _refuse("sock_accept")
    sock_connect = _refuse("sock_connect")
    sock_recv = _refuse("sock_recv")
    sock_recv_into = _refuse("sock_recv_into")
    sock_recvfrom = _refuse("sock_recvfrom")
    sock_recvfrom_into = _refuse("sock_recvfrom_into")
    sock_sendall = _refuse("sock_sendall")
    sock_sendfile = _refuse("sock_sendfile")
    sock_sendto = _refuse("sock_sendto")

    # Questions that asyncio and other libraries put to any loop.

    def get_exception_handler(self) -> None:
        """None was set, and none can be."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """There is none but the loop's own."""
        self.call_exception_handler(context)

    def get_task_factory(self) -> None:
        """None was set, and none can be; anyio asks."""

    def get_debug(self) -> bool:
        """Never: a body's callbacks are no slower while somebody debugs the host."""
        return False


# A method that a later Python adds is refused as well, until somebody has thought about it.
for _name in vars(asyncio.AbstractEventLoop).keys() - vars(RefusingLoop).keys():
    if not _name.startswith("_"):
        setattr(RefusingLoop, _name, _refuse(_name))


def is_in_loop() -> bool:
    """Whether a loop is running in this thread, a body's or any other."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_in_body(call: str) -> None:
    """Raises EffectInBody in a body: it has a loop of its own; what helps there is a step, not another app."""
    if isinstance(asyncio.get_running_loop(), RefusingLoop):
        raise EffectInBody(call)
