"""The start of the round as which a run goes on, in the entry that ends the round before. Layer: engine.

What always holds: what came from outside is in exactly one round. What the body had not taken, and what was read and
not fed to it, is in the next round's entry 0; what was not read yet, the store moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from outlast.core.events import CancelRequested, DecisionMade, SignalReceived, encode_events
from outlast.core.lineage.rounds import Heard, keep_known
from outlast.engine.ids import new_mark, new_seed
from outlast.engine.versions.serving import python_version
from outlast.stores.store import Effects, NewRun, Progress
from outlast.telemetry.logs import fields

if TYPE_CHECKING:
    from outlast.core.machine import Machine
    from outlast.engine.hot import HotRun

__all__ = ["start_round"]

MANY_LEFT = 1000
"""Messages that a round leaves to the next: each is copied into every round that follows, until somebody takes it."""


def start_round(run: HotRun, machine: Machine, uid: str) -> Progress:
    """Of the run whose body has just ended with `goes_on`: a run of its own, due now."""
    old, goes_on = run.started, machine.goes_on
    assert old is not None
    assert goes_on is not None
    now = run.now_us()
    waiting = [event for event in run.queue if isinstance(event, SignalReceived | DecisionMade | CancelRequested)]
    left: list[Heard] = [msgspec.structs.replace(event, at=now) for event in [*machine.list_left(), *waiting]]
    if len(left) >= MANY_LEFT:
        text = "run %s goes on with %d messages that no round has taken, the latest %r: have its body take them"
        run.home.log.warning(text, run.name, len(left), _name(left[-1]), extra=fields(old))
    heard = {event.message for event in left}
    started = msgspec.structs.replace(
        old,
        at=now,
        uid=uid,
        version=goes_on.version,
        input=msgspec.Raw(goes_on.input),
        seed=new_seed(),
        python=python_version(),
        due=0,
        parent_key=run.answer_key,
        forked_from="",
        forked_at="",
        continues=old.uid,
        origin=old.origin or old.uid,
        known=keep_known(message for message in run.known if message not in heard),
    )
    new = NewRun(
        id=started.id,
        workflow=started.workflow,
        version=started.version,
        priority=started.priority,
        deadline=started.deadline,
        parent=started.parent or None,
        root=started.root or uid,
        user=started.user,
        attributes=bytes(started.attributes),
        trace=started.trace,
        origin=started.origin,
        continues=old.uid,
    )
    # CRASH: before it lands, this round is taken over, and ends anew; behind it, the next is due for anybody.
    # [test_killed_at[round-not-submitted]] [test_killed_at[mail-moved]] [test_killed_at[rounds-commit]]
    return Progress(uid, 0, now, new_mark(), 0, encode_events([started, *left]), Effects(start=new))


def _name(event: Heard) -> str:
    return event.reason if isinstance(event, CancelRequested) else event.name
