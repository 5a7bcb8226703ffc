"""The store, and the settings. Layer: errors."""

from __future__ import annotations

from outlast.errors.described import OutlastError

__all__ = [
    "AppNotOpen",
    "ConfigError",
    "ExtraMissing",
    "Fenced",
    "InboxFull",
    "InvalidSetting",
    "SchemaTooNew",
    "SchemaTooOld",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreRefused",
    "StoreUnavailable",
    "WorkerNotFound",
]


class StoreError(OutlastError):
    """The store. `store` is its URL without the password; drivers' own exceptions are the `__cause__`."""


class StoreUnavailable(StoreError):
    """It cannot be reached. Workers hold their work and try again."""

    code = "STORE_UNAVAILABLE"
    template = "The store cannot be reached, {detail}", "{store}", "Check that it is up and that the URL is right."
    store: str
    detail: str


class StoreBusy(StoreError):
    """It did not answer in time, or another writer held it too long."""

    code = "STORE_BUSY"
    template = "The store is busy, {detail}", "{store}", "Try again; if it lasts, look for long transactions."
    store: str
    detail: str


class StoreFull(StoreError):
    """There is no room for another row."""

    code = "STORE_FULL"
    template = "The store is full, {detail}", "{store}", "Free some disk, or prune old runs."
    store: str
    detail: str


class StoreReadOnly(StoreError):
    """It can be read, but not written."""

    code = "STORE_READ_ONLY"
    template = "The store cannot be written, {detail}", "{store}", "Check permissions, and that it is not a standby."
    store: str
    detail: str


class StoreCorrupt(StoreError):
    """What it holds is not what was written."""

    code = "STORE_CORRUPT"
    template = "The store is damaged, {detail}", "{store}", "Stop all workers and restore a backup."
    store: str
    detail: str


class StoreRefused(StoreError):
    """It will not take one entry of one run, whoever sends it."""

    code = "STORE_REFUSED"
    template = (
        "The store refused an entry, {detail}",
        "{store}, run {run!r}",
        "See the cause, mend it, then resume the run.",
    )
    store: str
    run: str
    detail: str


class SchemaTooNew(StoreError):
    """Newer code has migrated the store."""

    code = "SCHEMA_TOO_NEW"
    template = "The schema is {found}, this release knows up to {known}", "{store}", "Upgrade outlast here."
    store: str
    found: int
    known: int


class SchemaTooOld(StoreError):
    """The store was not migrated yet, or an older worker still uses it."""

    code = "SCHEMA_TOO_OLD"
    template = "The schema is {found}, this release needs {needed}", "{store}", "Run `outlast migrate`."
    store: str
    found: int
    needed: int


class Fenced(StoreError):
    """This worker lost its lease: nothing that it sends is written any more."""

    code = "FENCED"
    template = "The worker lost its lease", "{worker}", "It drops its work and registers anew by itself."
    worker: str


class InboxFull(StoreError):
    """Too many messages wait for one run."""

    code = "INBOX_FULL"
    template = (
        "{waiting} messages wait unread, the limit is {limit}",
        "run {id!r}",
        "Send slower, or see why the run does not read.",
    )
    id: str
    waiting: int
    limit: int


class ConfigError(OutlastError):
    """Settings that cannot work."""


class InvalidSetting(ConfigError, ValueError):
    """A setting with a value it cannot have."""

    code = "INVALID_SETTING"
    template = "Invalid setting {value!r}", "{setting}", "Expected {expected}."
    setting: str
    value: object
    expected: str


class ExtraMissing(ConfigError, ImportError):
    """A feature whose packages are not installed."""

    code = "EXTRA_MISSING"
    template = "{feature} needs packages that are not installed", "outlast[{extra}]", "pip install 'outlast[{extra}]'."
    feature: str
    extra: str


class WorkerNotFound(ConfigError, LookupError):
    """A worker that was named, and that holds no lease."""

    code = "WORKER_NOT_FOUND"
    template = (
        "No worker of this id is alive",
        "worker {id!r}",
        "See who is: app.workers(). One that died or lost its lease has nothing to drain: others take its work over.",
    )
    id: str


class AppNotOpen(ConfigError):
    """A call that needs the app to be open, here: in the event loop that opened it."""

    code = "APP_NOT_OPEN"
    template = "{problem}", "{call}", "{fix}"
    call: str
    problem: str = "The app is not open"
    fix: str = "Use it inside `async with app:` or `async with app.worker():`."
