"""What the ledger says, beside what the journal said at each death and says at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from ledger import read

from outlast import AttemptInfo, RunInfo

Check = tuple[str, bool]
"""A statement, and whether it holds."""


class Record(NamedTuple):
    """The journal at one moment."""

    info: RunInfo
    attempts: list[AttemptInfo]

    @property
    def finished(self) -> set[str]:
        """Keys of the steps whose end was on record: a success, or a failure for good."""
        return {step.key for step in self.info.steps if step.status in {"succeeded", "failed"}}

    @property
    def under_way(self) -> set[str]:
        """Of those that were on record as begun, and not as ended."""
        return {step.key for step in self.info.steps if step.status == "started"}


class Ledger:
    """What the steps wrote down themselves, by step."""

    def __init__(self, path: Path) -> None:
        lines = read(path)
        self.processes = list(dict.fromkeys(line["pid"] for line in lines))
        self.runners: defaultdict[str, list[int]] = defaultdict(list)
        """Which process began it, from 0, once for each time."""
        self.done: Counter[str] = Counter()
        """How often its work came to its end."""
        self.names: defaultdict[str, set[str]] = defaultdict(set)
        """Its invocation ids."""
        for line in lines:
            key = str(line["step"])
            self.names[key].add(str(line["invocation"]))
            if line["what"] == "began":
                self.runners[key].append(self.processes.index(line["pid"]))
            else:
                self.done[key] += 1

    def ran_after(self, death: int, keys: set[str]) -> set[str]:
        """Which of these a later process than number `death` ran."""
        return {key for key in keys if any(runner > death for runner in self.runners[key])}


def prove(path: Path, first: Record, second: Record, last: Record) -> list[Check]:
    """`first` and `second` are the journal after each death. Each statement says enough to be checked by hand."""
    ledger = Ledger(path)
    return [
        _completed(ledger, last),
        _not_again(ledger, 0, first, least=6),
        _not_again(ledger, 1, second, least=21),
        *_under_way(ledger, first),
        _refused_twice(ledger, last),
        _one_name_each(ledger),
        _all_on_record(ledger, last),
    ]


def _completed(ledger: Ledger, last: Record) -> Check:
    count = len(ledger.processes)
    return f"the run is completed, by the third of {count} processes", count == 3 and last.info.status == "completed"


def _not_again(ledger: Ledger, death: int, then: Record, *, least: int) -> Check:
    again = ledger.ran_after(death, then.finished)
    text = f"of {len(then.finished)} steps that had finished at kill {death + 1}, {len(again) or 'none'} ran again"
    return text, len(then.finished) >= least and not again


def _under_way(ledger: Ledger, first: Record) -> list[Check]:
    """The honest part: a step that is under way when its process dies is begun again, and may have done its work."""
    again = ledger.ran_after(0, first.under_way)
    twice = {key for key, times in ledger.done.items() if times > 1}
    return [
        (
            f"{len(first.under_way)} steps were under way at kill 1; {len(again)} began again",
            first.under_way == again != set(),
        ),
        (
            f"{len(twice)} of those had done their work, and died before it was on record; no other did its work twice",
            twice <= again,
        ),
    ]


def _refused_twice(ledger: Ledger, last: Record) -> Check:
    outcomes = [str(attempt.status) for attempt in last.attempts if attempt.key == "fetch_rates"]
    tried = len(ledger.runners["fetch_rates"])
    return f"the bank was asked {tried} times: {', '.join(outcomes)}", outcomes == [
        "failed",
        "failed",
        "succeeded",
    ] and tried == 3


def _one_name_each(ledger: Ledger) -> Check:
    names = [ids for ids in ledger.names.values() if len(ids) == 1]
    text = f"{len(names)} steps, {len(set().union(*names))} invocation ids: whoever was asked twice could tell"
    return text, len(names) == len(ledger.names) == len(set().union(*names))


def _all_on_record(ledger: Ledger, last: Record) -> Check:
    """An attempt is on record before it touches the world: so there are no more executions than attempts."""
    attempts = Counter(attempt.key for attempt in last.attempts)
    count = sum(map(len, ledger.runners.values()))
    text = f"all {count} executions are attempts on record"
    return text, all(len(runners) <= attempts[key] for key, runners in ledger.runners.items())
