"""What of the standard library, and of some others, a body should leave to its steps. Layer: core.

What always holds: a path that stands in no table is not complained of.
"""

from __future__ import annotations

from typing import Final

__all__ = ["TODO", "rule_of"]

TODO: Final = {
    "clock": "Use ctx.now(), or read it in a step.",
    "random": "Use ctx.random or ctx.uuid(), or draw it in a step.",
    "environment": "Read it in a step, or make it part of the input.",
    "io": "Do it in a step.",
    "thread": "Do it in a step: a plain def runs in a thread.",
    "order": "Iterate over sorted(…), or keep a list or dict.",
    "global": "Keep it in a variable of the body or in ctx.set_state(), or change it in a step.",
    "cleanup": "Do it in a step.",
    "swallow": "Catch Exception, or raise it again.",
    "unawaited": "Await it, or remove it.",
}

_CLOCK: Final = frozenset(
    {
        "datetime.date.today",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "time.asctime",
        "time.clock_gettime",
        "time.clock_gettime_ns",
        "time.ctime",
        "time.gmtime",
        "time.localtime",
        "time.monotonic",
        "time.monotonic_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.process_time",
        "time.process_time_ns",
        "time.strftime",
        "time.thread_time",
        "time.time",
        "time.time_ns",
    }
)
_RANDOM: Final = frozenset(
    {"os.getrandom", "os.urandom", "uuid.uuid1", "uuid.uuid4", "uuid.uuid6", "uuid.uuid7", "uuid.uuid8"}
)
_RANDOM_PREFIXES: Final = ("random.", "secrets.", "numpy.random.")
_SEEDED: Final = "random.Random"
"""With a seed it is as good as any value; without one it is not."""
_ENVIRONMENT: Final = frozenset(
    {
        "os.cpu_count",
        "os.environ",
        "os.environb",
        "os.get_terminal_size",
        "os.getcwd",
        "os.getenv",
        "os.getlogin",
        "os.getpid",
        "os.getppid",
        "os.getuid",
        "os.path.abspath",
        "os.path.expanduser",
        "os.path.expandvars",
        "os.path.realpath",
        "os.uname",
        "pathlib.Path.cwd",
        "pathlib.Path.home",
        "socket.getfqdn",
        "socket.gethostname",
        "sys.argv",
        "sys.platform",
    }
)
_ENVIRONMENT_PREFIXES: Final = ("platform.", "getpass.", "locale.", "os.environ.")
_IO: Final = frozenset(
    {
        "builtins.breakpoint",
        "builtins.input",
        "builtins.open",
        "builtins.print",
        "io.open",
        "os.path.exists",
        "os.path.getmtime",
        "os.path.getsize",
        "os.path.isdir",
        "os.path.isfile",
        "time.sleep",
    }
)
_IO_PREFIXES: Final = (
    "aiohttp.",
    "asyncpg.",
    "boto3.",
    "ftplib.",
    "glob.",
    "http.client.",
    "httpx.",
    "imaplib.",
    "poplib.",
    "psycopg.",
    "redis.",
    "requests.",
    "shelve.",
    "shutil.",
    "smtplib.",
    "socket.",
    "sqlite3.",
    "ssl.",
    "subprocess.",
    "sys.stderr.",
    "sys.stdin.",
    "sys.stdout.",
    "tempfile.",
    "urllib.request.",
    "webbrowser.",
)
# What of `os` works on files and processes; the rest is harmless, or stands above.
_OS_IO: Final = frozenset(
    """access chdir chmod chown close dup execv execve fork fsync kill link listdir lstat makedirs mkdir mkfifo open
    popen read readlink remove removedirs rename renames replace rmdir scandir sendfile spawnv stat symlink system
    truncate unlink utime waitpid walk write""".split()  # noqa: SIM905 - a table to be read, not a wall of quotes
)
_PATH_IO: Final = frozenset(
    """absolute chmod exists expanduser glob hardlink_to is_dir is_file is_symlink iterdir lchmod lstat mkdir open
    owner read_bytes read_text readlink rename replace resolve rglob rmdir samefile stat symlink_to touch unlink walk
    write_bytes write_text""".split()  # noqa: SIM905 - likewise
)
_THREADS: Final = frozenset(
    {
        "asyncio.create_subprocess_exec",
        "asyncio.create_subprocess_shell",
        "asyncio.loop().add_reader",
        "asyncio.loop().add_signal_handler",
        "asyncio.loop().add_writer",
        "asyncio.loop().call_soon_threadsafe",
        "asyncio.loop().run_in_executor",
        "asyncio.new_event_loop",
        "asyncio.open_connection",
        "asyncio.run",
        "asyncio.run_coroutine_threadsafe",
        "asyncio.start_server",
        "asyncio.to_thread",
    }
)
_THREAD_PREFIXES: Final = ("concurrent.futures.", "multiprocessing.", "signal.", "threading.")
_ORDER: Final = frozenset({"asyncio.Future", "builtins.hash", "builtins.id", "builtins.object().__hash__"})

_EXACT: Final = {
    **dict.fromkeys(_CLOCK, "clock"),
    **dict.fromkeys(_RANDOM, "random"),
    **dict.fromkeys(_ENVIRONMENT, "environment"),
    **dict.fromkeys(_IO, "io"),
    **dict.fromkeys(_THREADS, "thread"),
    **dict.fromkeys(_ORDER, "order"),
}
_PREFIXES: Final = (
    *((prefix, "random") for prefix in _RANDOM_PREFIXES),
    *((prefix, "environment") for prefix in _ENVIRONMENT_PREFIXES),
    *((prefix, "io") for prefix in _IO_PREFIXES),
    *((prefix, "thread") for prefix in _THREAD_PREFIXES),
)
_HARMLESS: Final = frozenset(
    {
        "concurrent.futures.CancelledError",
        "concurrent.futures.TimeoutError",
        "http.client.HTTPException",
        "shutil.Error",
        "socket.error",
        "socket.gaierror",
        "socket.timeout",
        "subprocess.CalledProcessError",
        "subprocess.CompletedProcess",
        "subprocess.SubprocessError",
        "subprocess.TimeoutExpired",
    }
)
_ERRORS: Final = ("Error", "Exception", "Warning")


def rule_of(path: str, *, is_called: bool, has_arguments: bool) -> str:
    """The rule that something breaks which is named, or called, by this dotted path; none: it is harmless."""
    if path in _HARMLESS or path.endswith(_ERRORS):
        return ""
    if path == _SEEDED or path.startswith(f"{_SEEDED}()"):
        return "random" if is_called and not has_arguments and path == _SEEDED else ""
    if path in {"os.environ", "sys.argv", "sys.platform"}:
        return "environment"
    if not is_called:
        return ""  # a name handed on: as an exception's type, as an annotation, to a step
    if path in {"time.gmtime", "time.localtime", "time.ctime"} and has_arguments:
        return ""  # they only convert then
    exact = _EXACT.get(path)
    if exact is not None:
        return exact
    family, _, name = path.rpartition(".")
    if family == "os" and name in _OS_IO:
        return "io"
    if family in {"pathlib.Path()", "pathlib.PosixPath()"} and name in _PATH_IO:
        return "io"
    return next((rule for prefix, rule in _PREFIXES if path.startswith(prefix)), "")
