"""Every error outlast raises, by whose problem it is. Any layer may import this module; it imports nothing of ours.

    OutlastError
    ├── DefinitionError              the code must change
    │   ├── InvalidDefinition        a step, workflow or graph that cannot be used as declared
    │   ├── InvalidDuration · InvalidName                              (also ValueError)
    │   ├── InvalidInput             a workflow's input, a step's arguments  (also ValueError)
    │   ├── NotEncodable             a value that JSON cannot carry    (also TypeError)
    │   ├── ValueTooLarge            a value over the limit            (also ValueError)
    │   ├── ResultInvalid            a result that is not what its function promises
    │   ├── FunctionNotFound         a step or workflow nobody here registered
    │   ├── VersionNotActive         a draft, or a version that was declined
    │   └── NotInBody · NotInStep · EffectInBody
    ├── RunError                     this run; others are fine
    │   ├── RunNotFound · RunExists · RunConflict · RunEnded · RunNotEnded · RunNotFailed · WaitNotFound
    │   ├── RunFailed · RunCancelled · RunSuspended
    │   ├── GraphFailed              a graph met a value it can do nothing with
    │   ├── NonDeterminism · VersionConflict · VersionNotFound · Poisoned
    │   ├── PayloadUnreadable: KeyNotFound · PayloadDamaged
    │   ├── StepFailed · StepLeaseExpired · StepInterrupted
    │   ├── StepTimeout · HeartbeatTimeout                             (also TimeoutError)
    │   └── ApprovalForbidden · ApprovalInvalid · ApprovalResolved
    ├── StoreError                   the store, or a worker's claim on it
    │   ├── StoreUnavailable · StoreBusy · StoreFull · StoreReadOnly · StoreCorrupt · StoreRefused
    │   ├── SchemaTooNew · SchemaTooOld
    │   └── Fenced · InboxFull
    └── ConfigError                  the settings
        └── InvalidSetting · ExtraMissing · AppNotOpen · WorkerNotFound
    BodyStopped (BaseException)      control flow in a body: no `except Exception` may swallow it
    └── BodySpins · BodyBlocked · BodyDeadlock · ExtensionMissing
    NonRetryable · ExpectedError     for authors to raise and derive from; not the engine's

What always holds: a class has a stable `code`, for programs; a field for each value in its message; and a message of
three parts: what happened, to what, and what to do. Fields are the constructor's arguments, in order, and `args` are
the fields, so that every error here survives `copy`, `pickle` (process pools) and the journal.
"""

from __future__ import annotations

from outlast.errors.authors import ExpectedError, NonRetryable
from outlast.errors.body import BodyBlocked, BodyDeadlock, BodySpins, BodyStopped, ExtensionMissing
from outlast.errors.definition import (
    DefinitionError,
    EffectInBody,
    FunctionNotFound,
    InvalidDefinition,
    InvalidDuration,
    InvalidInput,
    InvalidName,
    NotEncodable,
    NotInBody,
    NotInStep,
    ResultInvalid,
    ValueTooLarge,
    VersionNotActive,
)
from outlast.errors.described import OutlastError
from outlast.errors.run import (
    GraphFailed,
    KeyNotFound,
    NonDeterminism,
    PayloadDamaged,
    PayloadUnreadable,
    Poisoned,
    RunCancelled,
    RunConflict,
    RunEnded,
    RunError,
    RunExists,
    RunFailed,
    RunNotEnded,
    RunNotFailed,
    RunNotFound,
    RunSuspended,
    VersionConflict,
    VersionNotFound,
    WaitNotFound,
)
from outlast.errors.step import (
    ApprovalForbidden,
    ApprovalInvalid,
    ApprovalResolved,
    HeartbeatTimeout,
    StepFailed,
    StepInterrupted,
    StepLeaseExpired,
    StepTimeout,
)
from outlast.errors.store import (
    AppNotOpen,
    ConfigError,
    ExtraMissing,
    Fenced,
    InboxFull,
    InvalidSetting,
    SchemaTooNew,
    SchemaTooOld,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
    WorkerNotFound,
)

__all__ = [
    "AppNotOpen",
    "ApprovalForbidden",
    "ApprovalInvalid",
    "ApprovalResolved",
    "BodyBlocked",
    "BodyDeadlock",
    "BodySpins",
    "BodyStopped",
    "ConfigError",
    "DefinitionError",
    "EffectInBody",
    "ExpectedError",
    "ExtensionMissing",
    "ExtraMissing",
    "Fenced",
    "FunctionNotFound",
    "GraphFailed",
    "HeartbeatTimeout",
    "InboxFull",
    "InvalidDefinition",
    "InvalidDuration",
    "InvalidInput",
    "InvalidName",
    "InvalidSetting",
    "KeyNotFound",
    "NonDeterminism",
    "NonRetryable",
    "NotEncodable",
    "NotInBody",
    "NotInStep",
    "OutlastError",
    "PayloadDamaged",
    "PayloadUnreadable",
    "Poisoned",
    "ResultInvalid",
    "RunCancelled",
    "RunConflict",
    "RunEnded",
    "RunError",
    "RunExists",
    "RunFailed",
    "RunNotEnded",
    "RunNotFailed",
    "RunNotFound",
    "RunSuspended",
    "SchemaTooNew",
    "SchemaTooOld",
    "StepFailed",
    "StepInterrupted",
    "StepLeaseExpired",
    "StepTimeout",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreRefused",
    "StoreUnavailable",
    "ValueTooLarge",
    "VersionConflict",
    "VersionNotActive",
    "VersionNotFound",
    "WaitNotFound",
    "WorkerNotFound",
]

# Journals, pickles and tracebacks name a class by its module: by this one, so that the files here can be rearranged.
for _name in __all__:
    globals()[_name].__module__ = __name__
