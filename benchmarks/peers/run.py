"""`make bench-peers`: outlast beside other engines that keep their runs in the same database.

    python benchmarks/peers/run.py [--quick] [--only outlast dbos absurd] [--on postgres sqlite] [--sequences 10x256]
                                   [--json FILE]
    python benchmarks/table.py FILE docs/figures-peers.md

DBOS Transact and Absurd, each with its defaults and with the best settings we know, on the same PostgreSQL; DBOS also
on SQLite. Everything is measured in a process of its own on a database of its own, the contenders in turns, round by
round. All of it takes about half an hour on a machine that does nothing else. Peers are installed in .venv-peers, from
requirements/peers.lock; one that is not there is left out. The exit status is 0 unless something failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(ROOT), str(ROOT / "src"), str(HERE)]

import msgspec  # noqa: E402
from protocol import FAN, Answer, Order  # noqa: E402

from benchmarks.children import Plan, say  # noqa: E402
from benchmarks.figures import Report, Table, percentile, ratio, spread  # noqa: E402
from benchmarks.machine import describe_machine  # noqa: E402
from benchmarks.places import describe_store, find_postgres, new_database  # noqa: E402
from benchmarks.table import Figures, draw  # noqa: E402

PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
NEEDS_POSTGRES = {"absurd"}
LEAST = {"dbos": 35.0, "absurd": 10.0}
"""Times the steps a second of the peer at its best, with 256 runs of 10 steps at once: the targets."""
SEQUENCES = [(steps, concurrency) for steps in (1, 10) for concurrency in (1, 16, 64, 256)]
LONG_STEPS = 1000
QUEUED_AT_ONCE = 16
ASLEEP = 1000
PICK_UPS = 60
LIMIT_S = 240.0
"""For one process."""


class Contender(msgspec.Struct, frozen=True):
    """An engine with its settings."""

    engine: str
    is_tuned: bool = False

    @property
    def name(self) -> str:
        """As the tables call it."""
        return self.engine if self.engine == "outlast" else f"{self.engine}, {'tuned' if self.is_tuned else 'default'}"

    @property
    def command(self) -> list[str]:
        """Its process, without the order."""
        python = sys.executable if self.engine == "outlast" else str(PEERS_PYTHON)
        return [python, str(HERE / f"{self.engine}_contender.py")]


class Sizes(msgspec.Struct, frozen=True):
    """How much of each is done."""

    rounds: int = 3
    seconds: float = 3.0
    sequences: tuple[tuple[int, int], ...] = tuple(SEQUENCES)
    long_steps: int = LONG_STEPS
    asleep: int = ASLEEP
    pick_ups: int = PICK_UPS
    settle_s: float = 5.0
    is_whole: bool = True
    """All that there is to measure, not the sequences alone."""


QUICK = Sizes(1, 0.2, ((10, 16),), 20, 20, 3, 0.2)


class Failed(Exception):
    """A contender ended before it answered."""


class Session:
    """One run of the program: what is measured of whom, on what."""

    def __init__(self, contenders: list[Contender], plan: Plan, sizes: Sizes) -> None:
        self.plan = plan
        self.sizes = sizes
        self.report = Report("peers", {"store": describe_store(plan)}, {}, [])
        self._settings: dict[str, str] = {}
        self._contenders = contenders
        self.store = "PostgreSQL" if plan.postgres else "SQLite"

    # --- what is measured ---

    def measure(self) -> Report:
        """All of it."""
        self._measure_sequences()
        if self.sizes.is_whole:
            self._measure_the_rest()
        self.report.settings |= self._settings
        return self.report

    def _measure_the_rest(self) -> None:
        self._measure_one("a run of many steps", Order("", "sequence", steps=self.sizes.long_steps, most=1))
        queued = Order("", "queued", steps=FAN, concurrency=QUEUED_AT_ONCE, seconds=self.sizes.seconds)
        self._measure_one("queued steps", queued)
        self._measure_pick_up()
        self._measure_asleep()

    def _measure_sequences(self) -> None:
        """Runs of steps, one after another, as many at once as the table says."""
        rates: dict[tuple[int, int], dict[str, list[float]]] = {}
        rows, memory = [], []
        for steps, concurrency in self.sizes.sequences:
            order = Order("", "sequence", steps=steps, concurrency=concurrency, seconds=self.sizes.seconds)
            answers = self._play_rounds(f"{steps} steps, {concurrency} at once", order)
            of_case = rates[steps, concurrency] = {
                name: [each.runs * steps / each.seconds for each in taken] for name, taken in answers.items()
            }
            figures = {name: spread(taken, "steps/s") for name, taken in of_case.items()}
            self._keep(f"sequence/{steps}/{concurrency}", figures)
            most = {name: f"{max(each.resident for each in taken) / 1e6:.0f}" for name, taken in answers.items()}
            rows.append([f"{steps} × {concurrency}", *(str(figures.get(name, "failed")) for name in self._names)])
            memory.append([f"{steps} × {concurrency}", *(most.get(name, "failed") for name in self._names)])
        self._add_table("steps a second", ["steps × runs at once", *self._names], rows)
        self._add_table("most memory of the process, MB", ["steps × runs at once", *self._names], memory)
        self._compare(rates)

    def _compare(self, rates: dict[tuple[int, int], dict[str, list[float]]]) -> None:
        """With each peer at its best in that case."""
        rows = []
        for (steps, concurrency), of_case in rates.items():
            for engine, least in LEAST.items():
                peers = [taken for name, taken in of_case.items() if name.startswith(engine)]
                if not peers or "outlast" not in of_case:
                    continue
                best = max(peers, key=lambda taken: spread(taken, "").median)
                target = least if (steps, concurrency) == (10, 256) and self.plan.postgres else None
                times = ratio(of_case["outlast"], best, target=target, is_floor=True)
                self._keep(f"times/{steps}/{concurrency}", {engine: times})
                rows.append([f"{steps} × {concurrency}, {engine}", str(times), times.verdict])
        if rows:
            self._add_table("outlast beside each peer at its best", ["steps × runs at once, peer", "×", "target"], rows)

    def _measure_one(self, what: str, order: Order) -> None:
        """Of a case that stands alone."""
        answers = self._play_rounds(what, order)
        rows = []
        for name, taken in answers.items():
            rate = spread([each.runs * order.steps / each.seconds for each in taken], "steps/s")
            cpu = spread([1e6 * each.cpu_seconds / (each.runs * order.steps) for each in taken], "µs/step")
            self._keep(what, {f"{name}/steps": rate, f"{name}/cpu": cpu})
            rows.append([name, str(rate), str(cpu)])
        title = f"{what}: {order.steps} steps, {order.concurrency} run{'s' if order.concurrency > 1 else ''} at once"
        self._add_table(title, ["engine", "steps/s", "CPU of the process, µs/step"], rows)

    def _measure_pick_up(self) -> None:
        """Start in one process, first step in another, which has nothing else to do."""
        rows = []
        for contender in self._contenders:
            say(f"{self.store}: pick-up, {contender.name}")
            try:
                with self._new_url() as url:
                    answer = self._pick_up(contender, url)
            except Failed as error:
                self.report.problems.append(f"{self.store}, pick-up: {error}")
                continue
            p50 = spread([1000 * percentile(answer.latencies, 0.5)], "ms")
            p99 = spread([1000 * percentile(answer.latencies, 0.99)], "ms")
            self._keep("pick-up", {f"{contender.name}/p50": p50, f"{contender.name}/p99": p99})
            rows.append([contender.name, str(p50), str(p99)])
        self._add_table(
            f"pick-up by another process, {self.sizes.pick_ups} runs one at a time",
            ["engine", "p50, ms", "p99, ms"],
            rows,
        )

    def _measure_asleep(self) -> None:
        """What runs that sleep take of the process's memory."""
        rows = []
        asleep = self.sizes.asleep
        order = Order("", "asleep", most=asleep, concurrency=asleep, settle_s=self.sizes.settle_s)
        for name, [answer] in self._play_rounds("asleep", order, rounds=1).items():
            each = spread([(answer.resident - answer.before) / order.most / 1000], "kB")
            self._keep("asleep", {name: each})
            rows.append([name, f"{answer.resident / 1e6:.0f}", str(each)])
        title = f"memory while {order.most:,} runs sleep for a day"
        self._add_table(title, ["engine", "of the process, MB", "for each run, kB"], rows)

    # --- how ---

    @property
    def _names(self) -> list[str]:
        return [contender.name for contender in self._contenders]

    def _play_rounds(self, what: str, order: Order, rounds: int = 0) -> dict[str, list[Answer]]:
        """In turns. Who fails is left out of this case, which is a problem of the report."""
        answers: dict[str, list[Answer]] = {contender.name: [] for contender in self._contenders}
        for number in range(rounds or self.sizes.rounds):
            say(f"{self.store}: {what}, round {number + 1}")
            for contender in self._contenders:
                if contender.name not in answers:
                    continue
                try:
                    with self._new_url() as url:
                        answers[contender.name].append(self._play(contender, url, order))
                except Failed as error:
                    del answers[contender.name]
                    self.report.problems.append(f"{self.store}, {what}: {error}")
        return answers

    def _play(self, contender: Contender, url: str, order: Order) -> Answer:
        with _Process(contender, url, order) as process:
            answer = process.hear_answer()
        self._settings[f"{contender.name} {answer.version}"] = answer.settings
        return answer

    def _pick_up(self, contender: Contender, url: str) -> Answer:
        with _Process(contender, url, Order("", "worker", concurrency=16)) as worker:
            worker.hear()
            client = Order("", "client", most=self.sizes.pick_ups)
            with _Process(contender, url, client) as process:
                return process.hear_answer()

    @contextmanager
    def _new_url(self) -> Iterator[str]:
        if self.plan.postgres:
            with new_database(self.plan.postgres) as url:
                yield url
        else:
            with tempfile.TemporaryDirectory(dir=self.plan.folder) as folder:
                yield f"sqlite:///{folder}/bench.db"

    def _keep(self, where: str, figures: dict) -> None:
        self.report.figures.update({f"{self.store}/{where}/{name}": figure for name, figure in figures.items()})

    def _add_table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        self.report.tables.append(Table(f"{self.store}: {title}", columns, rows))


class _Process:
    """A contender at work. It is killed when it takes too long, and when the context is left."""

    def __init__(self, contender: Contender, url: str, order: Order) -> None:
        order = Order(**{**asdict(order), "url": url, "is_tuned": contender.is_tuned})
        self._name = f"{contender.name}, {order.subject}"
        paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")] if contender.engine == "outlast" else []
        self._process = subprocess.Popen(
            [*contender.command, json.dumps(asdict(order))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        self._alarm = threading.Timer(LIMIT_S, self._process.kill)
        self._alarm.daemon = True
        self._alarm.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._alarm.cancel()
        self._process.kill()
        self._process.communicate()

    def hear(self) -> str:
        """The next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        if not line:
            raise Failed(f"{self._name} ended with status {self._process.wait()} (its limit was {LIMIT_S:g} s)")
        return line

    def hear_answer(self) -> Answer:
        """The last line."""
        return Answer(**json.loads(self.hear()))


def main() -> int:
    """Measure, print, keep."""
    options = _parse()
    postgres = options.postgres or find_postgres()
    folder = Path(tempfile.gettempdir())
    began = time.monotonic()
    taken = Figures(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=_describe_command(options),
        is_quick=options.quick,
        machine=describe_machine(folder),
        reports=[],
    )
    print(f"machine  {taken.machine}\n", flush=True)
    urls = {"postgres": postgres, "sqlite": ""}
    for url in (urls[name] for name in options.on):
        if url is None:
            print("SKIPPED  PostgreSQL: none answers here", flush=True)
            continue
        contenders = [each for each in _list_contenders(options.only) if url or each.engine not in NEEDS_POSTGRES]
        with tempfile.TemporaryDirectory(prefix="outlast-bench-", dir=folder) as name:
            session = Session(contenders, Plan(name, options.quick, url), _size(options))
            load = os.getloadavg()
            report = session.measure()
        report.subject = f"peers on {session.store}"
        report.load, report.seconds = load, time.monotonic() - began
        taken.reports.append(report)
        print(draw(report), flush=True)
        if options.json:  # after each: the next takes its time
            Path(options.json).write_bytes(msgspec.json.format(msgspec.json.encode(taken), indent=1) + b"\n")
    return 1 if any(report.problems for report in taken.reports) else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="outlast beside other engines, on the same database.")
    parser.add_argument("--quick", action="store_true", help="a smoke test of this program; its figures mean nothing")
    parser.add_argument("--only", nargs="+", choices=["outlast", *LEAST], help="these engines")
    parser.add_argument("--on", nargs="+", choices=["postgres", "sqlite"], default=["postgres", "sqlite"], help="where")
    parser.add_argument("--sequences", nargs="+", metavar="STEPSxRUNS", type=_sequence, help="these alone, as 10x256")
    parser.add_argument("--json", metavar="FILE", help="keep the figures; benchmarks/table.py makes Markdown of them")
    parser.add_argument("--postgres", metavar="URL", help="a server for it; default: one that answers here")
    return parser.parse_args()


def _sequence(text: str) -> tuple[int, int]:
    """10x256: steps of a run, and runs at once."""
    steps, _, concurrency = text.partition("x")
    return int(steps), int(concurrency)


def _describe_command(options: argparse.Namespace) -> str:
    """What was measured, without where to."""
    parts = ["--quick"] if options.quick else []
    for name in ("only", "on", "sequences"):
        given = getattr(options, name)
        if given and given != ["postgres", "sqlite"]:
            words = (each if isinstance(each, str) else f"{each[0]}x{each[1]}" for each in given)
            parts.append(f"--{name} {' '.join(words)}")
    return "make bench-peers" + (f' ARGS="{" ".join(parts)}"' if parts else "")


def _size(options: argparse.Namespace) -> Sizes:
    if options.quick:
        return QUICK
    return Sizes(sequences=tuple(options.sequences), is_whole=False) if options.sequences else Sizes()


def _list_contenders(only: list[str] | None) -> list[Contender]:
    wanted = only or ["outlast", *LEAST]
    contenders = [Contender("outlast")] if "outlast" in wanted else []
    for engine in LEAST:
        if engine not in wanted:
            continue
        if PEERS_PYTHON.exists():
            contenders += [Contender(engine), Contender(engine, is_tuned=True)]
        else:
            print(f"SKIPPED  {engine}: there is no .venv-peers; `make bench-peers` makes it", flush=True)
    return contenders


if __name__ == "__main__":
    sys.exit(main())
