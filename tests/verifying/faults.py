"""Faults, each put into a store by SQL: what is done, to which run, and what is to be told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from outlast.core.verifying import Rule
from tests.verifying.world import Events, Tables

__all__ = ["FAULTS", "Fault"]

DAY = 86_400_000_000  # µs


class Fault(NamedTuple):
    """One of them."""

    rule: Rule
    run: str
    """Id of the run that is broken."""
    text: str
    """What is told of it, as a regular expression."""
    make: Callable[[Tables], object]


def _set(run: str, **columns: object) -> Callable[[Tables], object]:
    names = ", ".join(f"{name} = ?" for name in columns)
    return lambda tables: tables.run(f"update runs set {names} where id = ?", *columns.values(), run)


def _renumber(tables: Tables) -> None:
    tables.run("update journal set seq = seq + 1 where run_uid = ? and seq = 3", tables.uid("done"))


def _append(tables: Tables) -> None:
    uid = tables.uid("done")
    tables.run(
        "insert into journal select run_uid, seq + 1, at, writer, 77, ? from journal where run_uid = ? and seq = 3",
        b'[{"event":"StepFailed","at":1,"key":"add","attempt":9,"error":{"type":"E","message":""}}]',
        uid,
    )


def _suspend(events: Events) -> None:
    events.insert(0, {"event": "RunSuspended", "at": events[0]["at"], "code": "DEADLOCK", "reason": ""})


def _share_mark(tables: Tables) -> None:
    mark = "(select mark from journal where run_uid = ? and seq = 0)"
    tables.run(f"update journal set mark = {mark} where run_uid = ?", tables.uid("done"), tables.uid("nap"))


def _child_of(tables: Tables, parent: str) -> str:
    return str(tables.run("select uid from runs where parent = ?", tables.uid(parent))[0][0])


def _task(tables: Tables, run: str, key: str, attempt: int = 1) -> None:
    tables.run(
        "insert into tasks (run_uid, key, attempt, queue, function, arguments, details, due_at, priority)"
        " values (?, ?, ?, 'gpu', 'render', x'', x'', 0, 5)",
        tables.uid(run),
        key,
        attempt,
    )


def _mail(tables: Tables, run: str) -> None:
    tables.run(
        "insert into inbox (run_uid, no, id, kind, payload, sent_at) values (?, 9, 'm', 'signal', x'', 0)",
        tables.uid(run),
    )


JOURNALS: dict[str, Fault] = {
    "a gap": Fault(Rule.JOURNAL, "done", r"entry 4 stands where entry 3", _renumber),
    "the beginning is gone": Fault(
        Rule.JOURNAL,
        "done",
        r"entry 1 stands where entry 0",
        lambda t: t.run("delete from journal where run_uid = ? and seq = 0", t.uid("done")),
    ),
    "no journal at all": Fault(
        Rule.JOURNAL, "nap", r"has no journal", lambda t: t.run("delete from journal where run_uid = ?", t.uid("nap"))
    ),
    "bytes that nobody wrote": Fault(
        Rule.JOURNAL,
        "done",
        r"entry 1 is none that this release can read",
        lambda t: t.run("update journal set events = x'5b31' where run_uid = ? and seq = 1", t.uid("done")),
    ),
    "an empty entry": Fault(
        Rule.JOURNAL, "done", r"entry 2 is empty", lambda t: t.edit("done", lambda e: e.clear(), 2)
    ),
    "a mark twice in a journal": Fault(
        Rule.JOURNAL,
        "done",
        r"mark \d+ is not that of one entry: 0, 1",
        lambda t: t.run(
            "update journal set mark = (select mark from journal where run_uid = ?1 and seq = 0)"
            " where run_uid = ?1 and seq = 1",
            t.uid("done"),
        ),
    ),
    "no mark": Fault(
        Rule.JOURNAL,
        "done",
        r"mark 0 is not that of one entry: 1",
        lambda t: t.run("update journal set mark = 0 where run_uid = ? and seq = 1", t.uid("done")),
    ),
    "a mark in two journals": Fault(Rule.JOURNAL, "nap", r"entry 0 has a mark that another entry has", _share_mark),
    "entries that go back in time": Fault(
        Rule.JOURNAL,
        "done",
        r"entry 1 is \d+ µs older",
        lambda t: t.run("update journal set at = at - 5000000 where run_uid = ? and seq = 1", t.uid("done")),
    ),
    "a second start": Fault(Rule.JOURNAL, "done", r"does not start once", lambda t: t.double("done", "RunStarted")),
    "an event behind the end": Fault(Rule.END, "done", r"StepFailed comes behind its end, RunCompleted", _append),
    "a success twice": Fault(
        Rule.OUTCOME, "done", r"step add succeeded 2 times", lambda t: t.double("done", "StepSucceeded")
    ),
    "a failure twice": Fault(
        Rule.OUTCOME, "undone", r"attempt 1 of step add#1 has 2 outcomes", lambda t: t.double("undone", "StepFailed")
    ),
    "an outcome without a start": Fault(
        Rule.ATTEMPT,
        "done",
        r"attempt 1 of step add has an outcome and no beginning",
        lambda t: t.drop("done", "StepStarted"),
    ),
    "an attempt that is skipped": Fault(
        Rule.ATTEMPT,
        "undone",
        r"attempt 4 of step add#1 follows attempt 2",
        lambda t: t.edit_event("undone", "AttemptStarted", lambda e: e.update(attempt=4), 1),
    ),
    "more attempts than are allowed": Fault(
        Rule.ATTEMPT,
        "undone",
        r"step add#1 has had attempt 3, and 2 are allowed",
        lambda t: t.edit_event("undone", "StepStarted", lambda e: e.update(retries=1), 1),
    ),
    "a decision that counts twice": Fault(
        Rule.OUTCOME, "answered", r"is answered 2 times", lambda t: t.double("answered", "DecisionJudged")
    ),
    "a message that is read twice": Fault(
        Rule.OUTCOME, "answered", r"is recorded 2 times", lambda t: t.double("answered", "DecisionMade")
    ),
    "a timer that fires twice": Fault(
        Rule.TIMER, "blink", r"timer 1 fired twice", lambda t: t.double("blink", "TimerFired")
    ),
    "a timer that fires early": Fault(
        Rule.TIMER,
        "blink",
        r"timer 1 fired \d+ µs early",
        lambda t: t.edit_event("blink", "TimerFired", lambda e: e.update(due=e["at"] + 5)),
    ),
    "something not undone": Fault(
        Rule.UNDO,
        "undone",
        r"step add succeeded, and was not undone",
        lambda t: t.edit_event("undone", "UnwindStarted", lambda e: e.update(keys=[])),
    ),
    "an undoing that never ended": Fault(
        Rule.UNDO,
        "undone",
        r"compensate:add has not succeeded",
        lambda t: t.edit("undone", lambda events: events.pop(0)),
    ),
}
ROWS: dict[str, Fault] = {
    "another status": Fault(
        Rule.ROW, "done", r"its row is failed, its journal says completed", _set("done", status="failed")
    ),
    "an end that is live": Fault(Rule.ROW, "done", r"its row is completed, and has", _set("done", live=1)),
    "another wait": Fault(
        Rule.ROW,
        "nap",
        r"its row waits on 'step charge', its journal says 'sleep until",
        _set("nap", waiting_on="step charge"),
    ),
    "another wait behind a retry": Fault(
        Rule.ROW,
        "gated",
        r"its row waits on 'step charge', its journal says 'approval go on\?'",
        _set("gated", waiting_on="step charge"),
    ),
    "suspended at a gate beside a step": Fault(
        Rule.ROW,
        "gated beside",
        r"its row is suspended, its journal says running",
        _set("gated beside", status="suspended", waiting_on="approval go on?", wake_at=None),
    ),
    "suspended at no gate": Fault(
        Rule.ROW,
        "due",
        r"its row is suspended, its journal says running",
        _set("due", status="suspended", waiting_on="approval go on?"),
    ),
    "a move of a run that is set aside": Fault(
        Rule.ROW,
        "done",
        r"StepStarted comes while it is suspended, DEADLOCK, and was not resumed",
        lambda t: t.edit("done", _suspend, 1),
    ),
    "another workflow": Fault(Rule.ROW, "done", r"its row is of", _set("done", workflow="nap")),
    "a lost row of a wait": Fault(
        Rule.ROW, "ask", r"its row of wait 'ship it\?' is None", lambda t: t.run("delete from waits")
    ),
    "a row of no wait": Fault(
        Rule.ROW,
        "nap",
        r"its row of wait 'ship it\?' is \('approval'",
        lambda t: t.run(
            "insert into waits select ?, key, kind, name, opened_at, deadline, policy from waits"
            " where deadline is not null",
            t.uid("nap"),
        ),
    ),
    "a wait with another deadline": Fault(
        Rule.ROW,
        "ask",
        r"its row of wait",
        lambda t: t.run("update waits set deadline = deadline + 1 where deadline is not null"),
    ),
    "a sleep that never ends": Fault(
        Rule.KEPT, "nap", r"its sleep 1 is due at .*, and its row wakes it never", _set("nap", wake_at=None)
    ),
    "a sleep that ends too late": Fault(
        Rule.KEPT,
        "nap",
        r"its sleep 1 is due",
        lambda t: t.run("update runs set wake_at = wake_at + ? where id = 'nap'", DAY),
    ),
    "an approval that never expires": Fault(Rule.KEPT, "ask", r"its wait ship it\? is due", _set("ask", wake_at=None)),
    "a retry that never comes": Fault(
        Rule.KEPT, "waits", r"its retry of step patient is due", _set("waits", wake_at=None)
    ),
    "a run that nobody will wake": Fault(
        Rule.KEPT, "due", r"nobody owns it and nothing will wake it", _set("due", wake_at=None)
    ),
    "a run whose owner is not there": Fault(
        Rule.KEPT, "nap", r"its owner w9 is not there", _set("nap", owner="w9", wake_at=None)
    ),
    "a suspension without a reason": Fault(
        Rule.KEPT, "stuck", r"is suspended, and does not say why", _set("stuck", waiting_on="")
    ),
    "mail that nobody will read": Fault(
        Rule.KEPT,
        "ask",
        r"has unread messages, and is not due",
        lambda t: (_mail(t, "ask"), _set("ask", wake_at=None)(t)),
    ),
    "mail of an ended run": Fault(Rule.END, "done", r"has unread messages", lambda t: _mail(t, "done")),
    "a task of an ended run": Fault(
        Rule.END, "done", r"its task add is not told to stop", lambda t: _task(t, "done", "add")
    ),
    "a task that is not on record": Fault(
        Rule.ATTEMPT, "nap", r"its task render, attempt 1, is not on record", lambda t: _task(t, "nap", "render")
    ),
    "a task that nobody waits for": Fault(
        Rule.KEPT,
        "waiting family",
        r"its task sum, attempt 1, waits in queue gpu, and nobody waits",
        lambda t: _task(t, "waiting family", "sum"),
    ),
    "a queued step without its task": Fault(
        Rule.KEPT,
        "queued",
        r"attempt 1 of queued step render is open, without a task or a message",
        lambda t: t.run("delete from tasks"),
    ),
    "a queued step without its task, of a run whose row says that it has ended": Fault(
        Rule.KEPT,
        "queued",
        r"attempt 1 of queued step render is open, without a task or a message",
        lambda t: (
            t.run("delete from tasks"),
            _set("queued", status="completed", live=0, finished_at=1, wake_at=None, waiting_on="")(t),
        ),
    ),
    "a child that is gone": Fault(
        Rule.FAMILY,
        "waiting family",
        r"its child nap is not there",
        lambda t: t.run("delete from runs where parent = ? and workflow = 'nap'", t.uid("waiting family")),
    ),
    "a child that is another's": Fault(
        Rule.FAMILY,
        "waiting family",
        r"its child sum is another's",
        lambda t: t.run("update runs set parent = null where parent = ? and workflow = 'sum'", t.uid("waiting family")),
    ),
    "a child that nobody asked for": Fault(
        Rule.FAMILY,
        "done",
        r"it has a child .* that it never asked for",
        lambda t: _set("nap", parent=t.uid("done"))(t),
    ),
    "a child that came to something else": Fault(
        Rule.FAMILY,
        "family",
        r"its child sum came to",
        lambda t: t.edit_event("family", "StepSucceeded", lambda e: e.update(value=4)),
    ),
    "a parent that was not told": Fault(
        Rule.KEPT,
        "waiting family",
        r"its child nap has ended, and it was not told",
        lambda t: t.run(
            "update runs set live = 0, status = 'completed', wake_at = null, waiting_on = '', finished_at = 1"
            " where parent = ? and workflow = 'nap'",
            t.uid("waiting family"),
        ),
    ),
}
FAULTS = JOURNALS | ROWS
