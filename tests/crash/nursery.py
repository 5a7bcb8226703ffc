"""Makes worker processes in milliseconds: a process that has imported everything, and forks.

It has one thread, no event loop and no store, so its children begin as fresh interpreters would. A request is a line of
JSON on standard input, the answer a line on standard output.
"""

from __future__ import annotations

import os
import sys
import traceback

import msgspec

from tests.crash.worker_main import Settings, main

__all__ = ["Request"]


class Request(msgspec.Struct, omit_defaults=True):
    """`spawn` a worker, whose output goes to `log`: its pid. Or `poll` one: its wait status, or null while it lives."""

    spawn: Settings | None = None
    log: str = ""
    poll: int = 0


def _spawn(settings: Settings, log: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        main(settings)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _serve() -> None:
    ended: dict[int, int] = {}
    for line in sys.stdin:
        request = msgspec.json.decode(line, type=Request)
        answer: int | None
        if request.spawn is not None:
            answer = _spawn(request.spawn, request.log)
        else:
            if request.poll not in ended:
                pid, status = os.waitpid(request.poll, os.WNOHANG)
                if pid:
                    ended[pid] = status
            answer = ended.get(request.poll)
        print(msgspec.json.encode(answer).decode(), flush=True)


if __name__ == "__main__":
    _serve()
