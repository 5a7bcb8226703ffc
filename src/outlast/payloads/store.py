"""What a store is sent and gives back besides entries: messages, tasks, waits and versions, their payloads packed.
Layer: payloads.

Entries, and what goes with them in a commit, are packed by `seal_progress`, before they are sent for the first time:
what is sent again must be the same bytes, and observers are shown what lies in the store. Journals are unpacked by who
reads them (`Payloads.decode_events`), for it matters who: who moves a run must be able to read all of it, who looks at
it need not. So are definitions of versions (`open_definition`). What always holds: messages that hold nothing of a
user's are in the clear, so that a run can be cancelled and set aside by a process without keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from outlast.core.events import decode_events
from outlast.errors import KeyNotFound, PayloadDamaged, PayloadUnreadable
from outlast.payloads.sealing import describe_unreadable
from outlast.stores.store import ALL_WAITS, LOST_MESSAGE, REOPENING, TASK_MESSAGE

if TYPE_CHECKING:
    from outlast.payloads.sealed import Sealed
    from outlast.payloads.sealing import Payloads
    from outlast.stores.store import (
        ClaimedTask,
        Claiming,
        Inbox,
        Message,
        NewMessage,
        Progress,
        Sent,
        Sharing,
        Store,
        TaskOutcome,
        TaskRow,
        VersionRow,
        WaitQuery,
        WaitRow,
    )

__all__ = ["UNREADABLE", "open_definition", "problems_of", "seal_progress", "show_definition", "with_payloads"]

CLEAR = frozenset({"cancel", "resume", *REOPENING, LOST_MESSAGE})
"""Kinds of message that hold nothing of a user's."""

UNREADABLE = "unreadable"
"""Kind, in memory alone, of a message that cannot be read here. It stays in the inbox as it is."""


def with_payloads(store: Store, payloads: Payloads) -> Store:
    """The store, as who does not care for payloads uses it."""
    return cast("Store", _SealedStore(store, payloads))


def problems_of(inbox: Inbox) -> list[PayloadUnreadable]:
    """Why messages of it cannot be read here."""
    told = (message.payload for message in inbox.messages if message.kind == UNREADABLE)
    read = (msgspec.json.decode(payload, type=tuple[bool, list[str]]) for payload in told)
    return [(KeyNotFound if lacks_key else PayloadDamaged)(*fields) for lacks_key, fields in read]


def open_definition(row: VersionRow, payloads: Payloads) -> bytes:
    """What a version is made from. Raises PayloadUnreadable."""
    return payloads.open(row.workflow, row.definition, _of_version(row.version)) if row.definition else b""


def show_definition(row: VersionRow, payloads: Payloads) -> bytes | Sealed:
    """The same for who only looks at it."""
    try:
        return open_definition(row, payloads)
    except PayloadUnreadable as error:
        return describe_unreadable(row.definition, error)


def seal_progress(progress: Progress, payloads: Payloads) -> Progress:
    """As it is to be stored: its events, what it sends, its tasks, and the starts of its children.

    Raises whatever a codec does."""
    replace = msgspec.structs.replace
    effects = progress.effects
    if effects is not None and (effects.sends or effects.tasks or effects.children or effects.waits_opened):
        effects = replace(
            effects,
            sends=tuple(
                replace(send, message=_seal_message(payloads, send.to, send.message)) for send in effects.sends
            ),
            tasks=tuple(
                replace(task, arguments=payloads.seal(progress.uid, task.arguments, _of_task(task.key)))
                for task in effects.tasks
            ),
            children=tuple(seal_progress(child, payloads) for child in effects.children),
            waits_opened=tuple(
                replace(wait, policy=payloads.seal(progress.uid, wait.policy, _of_wait(wait.key)))
                for wait in effects.waits_opened
            ),
        )
    events = progress.events
    if events and payloads.changes(events):
        events = payloads.encode_events(progress.uid, decode_events(events))
    if events is progress.events and effects is progress.effects:
        return progress
    return replace(progress, events=events, effects=effects)


class _SealedStore:
    """Passes everything on but what carries payloads. Its methods are `Store`'s."""

    def __init__(self, store: Store, payloads: Payloads) -> None:
        self._store = store
        self._payloads = payloads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def send(self, to: str, message: NewMessage) -> Sent:
        return await self._store.send(to, _seal_message(self._payloads, to, message))

    async def read_inbox(self, uid: str, *, after: int = 0, limit: int = 500) -> Inbox:
        """A message that cannot be read here comes as `UNREADABLE`."""
        inbox = await self._store.read_inbox(uid, after=after, limit=limit)
        if all(message.kind in CLEAR for message in inbox.messages):
            return inbox
        opened = tuple(self._open_message(uid, message) for message in inbox.messages)
        return msgspec.structs.replace(inbox, messages=opened)

    def _open_message(self, uid: str, message: Message) -> Message:
        if message.kind in CLEAR:
            return message
        try:
            payload = self._payloads.open(uid, message.payload, _of_message(message.kind))
        except PayloadUnreadable as error:
            told = msgspec.json.encode((isinstance(error, KeyNotFound), error.args))
            return msgspec.structs.replace(message, kind=UNREADABLE, payload=told)
        return message if payload is message.payload else msgspec.structs.replace(message, payload=payload)

    async def list_waits(self, query: WaitQuery = ALL_WAITS) -> list[WaitRow]:
        """Of what is waited for, what cannot be read here is left out."""
        return [self._open_wait(row) for row in await self._store.list_waits(query)]

    def _open_wait(self, row: WaitRow) -> WaitRow:
        wait = row.wait
        try:
            policy = self._payloads.open(row.run, wait.policy, _of_wait(wait.key))
        except PayloadUnreadable:
            policy = b"{}"
        if policy is wait.policy:
            return row
        return msgspec.structs.replace(row, wait=msgspec.structs.replace(wait, policy=policy))

    async def claim_tasks(
        self, claiming: Claiming, functions: Sequence[str], lease_us: int, sharing: Sharing | None = None
    ) -> list[ClaimedTask]:
        """Arguments whose key is not here are left as they lie, and their task says what it lacks. Damaged ones are
        left as well: decoding them fails, and says why."""
        claimed = []
        for task in await self._store.claim_tasks(claiming, functions, lease_us, sharing):
            arguments, lacks = task.arguments, ""
            try:
                arguments = self._payloads.open(task.run, task.arguments, _of_task(task.key))
            except KeyNotFound as problem:
                lacks = problem.needs
            except PayloadUnreadable:
                pass
            claimed.append(msgspec.structs.replace(task, arguments=arguments, lacks=lacks))
        return claimed

    async def renew_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int, bytes]], lease_us: int
    ) -> list[tuple[str, str, int]]:
        seal = self._payloads.seal
        sealed = [
            (uid, key, attempt, seal(uid, progress, _of_progress(key)) if progress else progress)
            for uid, key, attempt, progress in held
        ]
        return await self._store.renew_tasks(worker_id, sealed, lease_us)

    async def list_tasks(self, uid: str) -> list[TaskRow]:
        """Progress that cannot be read here is left out."""
        return [self._open_task(uid, row) for row in await self._store.list_tasks(uid)]

    def _open_task(self, uid: str, row: TaskRow) -> TaskRow:
        if not row.progress:
            return row
        try:
            progress = self._payloads.open(uid, row.progress, _of_progress(row.key))
        except PayloadUnreadable:
            progress = b""
        return msgspec.structs.replace(row, progress=progress)

    async def complete_tasks(self, worker_id: str, outcomes: Sequence[TaskOutcome]) -> list[bool]:
        place = _of_message(TASK_MESSAGE)
        sealed = [
            msgspec.structs.replace(outcome, payload=self._payloads.seal(outcome.run, outcome.payload, place))
            for outcome in outcomes
        ]
        return await self._store.complete_tasks(worker_id, sealed)

    async def save_versions(self, rows: Sequence[VersionRow]) -> int:
        seal = self._payloads.seal
        sealed = [
            msgspec.structs.replace(row, definition=seal(row.workflow, row.definition, _of_version(row.version)))
            if row.definition
            else row
            for row in rows
        ]
        return await self._store.save_versions(sealed)


def _seal_message(payloads: Payloads, to: str, message: NewMessage) -> NewMessage:
    if message.kind in CLEAR:
        return message
    payload = payloads.seal(to, message.payload, _of_message(message.kind))
    return message if payload is message.payload else msgspec.structs.replace(message, payload=payload)


def _of_message(kind: str) -> bytes:
    return b"message " + kind.encode()


def _of_wait(key: str) -> bytes:
    return b"policy of a wait\0" + key.encode()


def _of_task(key: str) -> bytes:
    return b"arguments of a task\0" + key.encode()


def _of_version(version: str) -> bytes:
    return b"definition of a version\0" + version.encode()


def _of_progress(key: str) -> bytes:
    return b"progress of a task\0" + key.encode()
