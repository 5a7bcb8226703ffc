"""Routes that answer what runs wait for: signals, gates and approvals, and the list of them. Layer: http.

What always holds: who decides an approval is who is signed in, unless an admin says in whose name; and who may not see
a run learns of it only that it asks them something.
"""

from __future__ import annotations

from outlast.core.waits.approval import Approvers, Policy, User, find_objection
from outlast.core.waits.events import WaitKind
from outlast.errors import RunNotFound
from outlast.http.access import Caller
from outlast.http.reach import find_row, find_run, handle_of
from outlast.http.refusals import NotAllowed
from outlast.http.route import Call, Nothing, Reply
from outlast.http.routes.runs import read_wait
from outlast.http.shapes import DecisionAnswer, DecisionRequest, Done, FindRun, SignalRequest, WaitFilters, WaitQuery
from outlast.run.records import WaitInfo, WaitPage

__all__ = ["decide_approval", "list_waits", "send_signal"]

PATIENCE = "30s"
"""How long a decision is waited for where nothing is said."""


async def list_waits(call: Call[WaitFilters, Nothing]) -> WaitPage:
    """List what runs wait for that somebody can answer, longest first.

    Who is no admin gets what their own runs wait for, and the approvals that they may decide; so a page may have fewer
    than `limit`, and still a next one.
    """
    query = call.query
    page = await call.app.waits(
        kind=query.kind, name=query.name, workflow=query.workflow, after=query.after, limit=query.limit
    )
    return WaitPage(tuple(wait for wait in page.waits if _is_for(call.caller, wait)), page.next)


def _is_for(caller: Caller, wait: WaitInfo) -> bool:
    if caller.may_see(wait.user):
        return True
    if wait.kind is not WaitKind.APPROVAL:
        return False
    policy = Policy(approvers=Approvers(wait.approvers or Approvers.ANY), scope=wait.scope)
    return not find_objection(policy, wait.user, caller.id or "", tuple(caller.scopes))


async def send_signal(call: Call[FindRun, SignalRequest]) -> Done:
    """Send a run a signal, which it gets now or when it comes to wait for it. With a `key` it counts once.

    Without one the header `Idempotency-Key` is taken for it.
    """
    run, _ = await find_run(call)
    await run.signal(call.body.name, call.body.value, key=call.idempotency_key(call.body.key))
    return Done(id=run.id, uid=run.uid)


async def decide_approval(call: Call[WaitQuery, DecisionRequest]) -> Reply[DecisionAnswer]:
    """Decide an approval. Answers 200 once the run has judged that it counts; 202 if it has not come to that yet.

    Also who does not own the run may decide, if the approval is open and lets them: every attempt is on record. `wait`
    is 30 seconds, if it is not given. With a `key`, or the header `Idempotency-Key`, the same request again asks about
    the same attempt.
    """
    body, by, wait_s = call.body, _who(call), read_wait(call.query.wait or PATIENCE)
    row = await find_row(call)
    run = handle_of(call.app, row)
    if not call.caller.may_see(row.user) and not _asks((await run.status()).waits, body.reason):
        raise RunNotFound(run.id)
    try:
        key = call.idempotency_key(body.key)
        decided = await call.unless_gone(run.approve(body.reason, body.value, by=by, timeout=wait_s, key=key))
    except TimeoutError:
        return Reply(DecisionAnswer(id=run.id, uid=run.uid, reason=body.reason, is_judged=False), 202)
    answer = DecisionAnswer(
        id=run.id,
        uid=run.uid,
        reason=body.reason,
        is_judged=True,
        value=decided.value,
        by=decided.by.id,
        at=decided.at,
    )
    return Reply(answer, 200)


def _asks(waits: tuple[WaitInfo, ...], reason: str) -> bool:
    """Whether an approval that goes by this reason is open."""
    return any(wait.kind is WaitKind.APPROVAL and reason in {wait.key, wait.name, wait.question} for wait in waits)


def _who(call: Call[WaitQuery, DecisionRequest]) -> User:
    """In whose name it is decided."""
    caller, by = call.caller, call.body.by
    if by is None:
        return User(caller.id or "", tuple(sorted(caller.scopes)) if caller.id else ())
    if not caller.is_admin:
        raise NotAllowed(caller.name, f"decide in the name of {by.id!r}", "to be that user, or the scope 'admin'")
    return User(by.id, by.scopes)
