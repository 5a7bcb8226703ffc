"""Random structured programs over every asyncio tool. Each seed is a program, the dice it runs under, and a cancel.

    python -m tests.core.loop_fuzz all FROM TO    a line per seed and family of programs: hash of the trace, outcome, …
    python -m tests.core.loop_fuzz show SEED      the program and its trace, for a person

The same lines in every process: the loop is deterministic.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

from outlast.core.machine import Machine
from tests.core.loop_programs import BY_HASH, PROGRAMS
from tests.core.loop_runs import MAY_FAIL, Dice, Recording, as_body, evict_at, iter_cuts, record
from tests.core.machines import step

Node = tuple[Any, ...]
"""A construct's name, and what it is made of."""

# What each construct is made of: `number`, `seconds` and `coin` are values, `one` is a program, `few` a list of them.
GRAMMAR: dict[str, tuple[str, ...]] = {
    "step": ("number",),
    "failing": ("number",),
    "sequence": ("few",),
    "gather": ("few",),
    "gather_all": ("few",),
    "group": ("few",),
    "timeout": ("seconds", "one"),
    "wait_for": ("seconds", "one"),
    "wait_first": ("few",),
    "wait_some": ("few",),
    "completed": ("few",),
    "completed_tasks": ("few",),
    "shield": ("one",),
    "sleep": ("seconds",),
    "pause": (),
    "semaphore": ("one",),
    "held_semaphore": ("one",),
    "lock": ("one",),
    "condition": ("coin",),
    "queue": ("few",),
    "event": ("number", "coin"),
    "background": ("one", "one", "coin"),
    "finally_": ("one", "leaf"),
    "catch": ("one",),
    "cancel_self": ("one",),
    "generator": ("one",),
    "barrier": ("few",),
}
LEAVES = ("step", "failing", "sleep", "pause", "event")
WEIGHTS = {"step": 4, "sequence": 6, "catch": 6, "failing": 1, "cancel_self": 1}
"""How often a construct is drawn, beside 2 for the others: such that most programs do not end at once."""
DIFFERS = {"group", "condition", "barrier"}
"""asyncio 3.13 changed what these do: `TaskGroup`, and `Condition.wait`, by which a `Barrier` waits."""


def make_program(rng: random.Random, depth: int, without: frozenset[str]) -> Node:
    """A random program of at most this depth."""
    names = [name for name in GRAMMAR if name not in without] if depth > 0 else LEAVES
    name = rng.choices(names, [WEIGHTS.get(name, 2) for name in names])[0]
    return (name, *(_make_part(part, rng, depth - 1, without) for part in GRAMMAR[name]))


def _make_part(part: str, rng: random.Random, depth: int, without: frozenset[str]) -> Any:
    match part:
        case "number":
            return rng.randrange(1000)
        case "seconds":
            return rng.randrange(1, 6)
        case "coin":
            return rng.random() < 0.5
        case "few":
            return [make_program(rng, depth, without) for _ in range(rng.randrange(2, 5))]
        case "leaf":
            return make_program(rng, 0, without)
        case _:
            return make_program(rng, depth, without)


def list_constructs(node: Node) -> set[str]:
    """The names of all constructs in it."""
    parts = [part for child in node[1:] for part in (child if isinstance(child, list) else [child])]
    return {node[0]}.union(*(list_constructs(part) for part in parts if isinstance(part, tuple)))


class Player:
    """Plays a program in a body: one method for each construct."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.the_semaphore = asyncio.Semaphore(2)
        self.the_lock = asyncio.Lock()
        self.the_condition = asyncio.Condition()
        self.the_queue: asyncio.Queue[Node] = asyncio.Queue(2)
        self.events = [asyncio.Event() for _ in range(3)]
        self.tasks: list[asyncio.Task[Any]] = []

    async def play_all(self, program: Node) -> None:
        try:
            await self.play(program)
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    async def play(self, node: Node) -> Any:
        return await getattr(self, node[0])(*node[1:])

    def create(self, node: Node) -> asyncio.Task[Any]:
        return asyncio.create_task(self.play(node))

    async def step(self, number: int) -> Any:
        return await step(self.machine, "step", number)

    async def failing(self, number: int) -> Any:
        return await step(self.machine, "failing", number, MAY_FAIL)

    async def sequence(self, nodes: list[Node]) -> None:
        for node in nodes:
            await self.play(node)

    async def gather(self, nodes: list[Node]) -> None:
        await asyncio.gather(*map(self.play, nodes))

    async def gather_all(self, nodes: list[Node]) -> None:
        for outcome in await asyncio.gather(*map(self.play, nodes), return_exceptions=True):
            if isinstance(outcome, BaseException):
                await step(self.machine, "gathered", type(outcome).__name__)

    async def group(self, nodes: list[Node]) -> None:
        async with asyncio.TaskGroup() as group:
            for node in nodes:
                group.create_task(self.play(node))
            await step(self.machine, "in group")

    async def timeout(self, seconds: int, node: Node) -> None:
        async with asyncio.timeout(seconds):
            await self.play(node)

    async def wait_for(self, seconds: int, node: Node) -> None:
        await asyncio.wait_for(self.play(node), seconds)

    async def wait_first(self, nodes: list[Node]) -> None:
        pending = {self.create(node) for node in nodes}
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await step(self.machine, "first", task.cancelled() or task.exception() is None)

    async def wait_some(self, nodes: list[Node]) -> None:
        tasks = {self.create(node) for node in nodes}
        done, pending = await asyncio.wait(tasks, timeout=3, return_when=asyncio.FIRST_EXCEPTION)
        for task in pending:
            task.cancel()
        for task in done:
            if not task.cancelled():
                task.exception()
        if pending:
            await asyncio.wait(pending)

    async def completed(self, nodes: list[Node]) -> None:
        for task in asyncio.as_completed(list(map(self.play, nodes)), timeout=7):
            await task
            await step(self.machine, "completed")

    async def completed_tasks(self, nodes: list[Node]) -> None:
        for task in asyncio.as_completed(list(map(self.create, nodes)), timeout=7):
            await task
            await step(self.machine, "completed")

    async def shield(self, node: Node) -> None:
        await asyncio.shield(self.play(node))

    async def sleep(self, seconds: int) -> None:
        await asyncio.sleep(seconds)

    async def pause(self) -> None:
        await asyncio.sleep(0)

    async def semaphore(self, node: Node) -> None:
        async with self.the_semaphore:
            await self.play(node)

    async def held_semaphore(self, node: Node) -> None:
        await self.the_semaphore.acquire()
        try:
            await asyncio.sleep(0)
            await self.play(node)
        finally:
            self.the_semaphore.release()

    async def lock(self, node: Node) -> None:
        async with asyncio.Lock() if self.the_lock.locked() else self.the_lock:
            await self.play(node)

    async def condition(self, notifies: bool) -> None:
        async with asyncio.timeout(4), self.the_condition:
            if notifies:
                self.the_condition.notify(1)
            else:
                await self.the_condition.wait()

    async def queue(self, nodes: list[Node]) -> None:
        async def fill() -> None:
            for node in nodes:
                await self.the_queue.put(node)

        filling = asyncio.create_task(fill())
        for _ in nodes:
            await self.play(await asyncio.wait_for(self.the_queue.get(), 5))
        await filling

    async def event(self, number: int, sets: bool) -> None:
        event = self.events[number % 3]
        if sets:
            event.set()
        else:
            async with asyncio.timeout(2):
                await event.wait()

    async def background(self, behind: Node, before: Node, cancels: bool) -> None:
        task = self.create(behind)
        self.tasks.append(task)
        try:
            await self.play(before)
        finally:
            if cancels:
                task.cancel()

    async def finally_(self, node: Node, last: Node) -> None:
        try:
            await self.play(node)
        finally:
            await self.play(last)

    async def catch(self, node: Node) -> None:
        try:
            await self.play(node)
        except Exception as error:
            await step(self.machine, "caught", type(error).__name__)

    async def cancel_self(self, node: Node) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await self.play(node)

    async def generator(self, node: Node) -> None:
        async def numbers() -> AsyncIterator[int]:
            try:
                yield 1
                await self.play(node)
                yield 2
            finally:
                await step(self.machine, "generator ends")

        async for _ in numbers():
            pass

    async def barrier(self, nodes: list[Node]) -> None:
        barrier = asyncio.Barrier(len(nodes))

        async def meet(node: Node) -> None:
            try:
                await self.play(node)
            finally:
                async with asyncio.timeout(6):
                    await barrier.wait()

        await asyncio.gather(*map(meet, nodes))


def make_case(seed: int, without: frozenset[str] = frozenset()) -> tuple[Node, Dice]:
    """The program of a seed, and how it is run."""
    rng = random.Random(seed)
    program = ("sequence", [make_program(rng, 4, without) for _ in range(rng.randrange(1, 4))])
    cancel_at = rng.randrange(3, 12) if rng.random() < 0.4 else None
    return program, Dice(seed + 1, failures=0.3, cancel_at=cancel_at)


def run_case(program: Node, dice: Dice) -> Recording:
    """Record the case, and compare it with its replays: of the whole, and of what three cuts leave. Evict it there."""
    body = as_body(lambda machine: Player(machine).play_all(program))
    recording = record(body, dice)
    lengths = {len(recording.journal), *random.Random(dice.seed).choices(range(1, len(recording.journal) + 1), k=3)}
    for asked, expected in iter_cuts(recording, body, iter(sorted(lengths))):
        assert asked == expected
    for length in lengths:
        assert evict_at(recording, body, length) == (0, [])
    return recording


def iter_lines(seeds: range) -> Iterator[str]:
    """A line for each seed of each family: `random` programs, `plain` ones that are the same on every Python, and those
    of loop_programs."""
    for family, without in {"random": frozenset[str](), "plain": frozenset(DIFFERS)}.items():
        for seed in seeds:
            program, dice = make_case(seed, without)
            recording = run_case(program, dice)
            constructs = ",".join(sorted(list_constructs(program)))
            yield f"{family} {seed} {digest(recording.text)} {recording.outcome} {recording.stimuli} {constructs}"
    for name, program_of in {**PROGRAMS, **BY_HASH}.items():
        for seed in range(3):
            yield f"{name} {seed} {digest(record(as_body(program_of), Dice(seed)).text)}"


def digest(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()[:12]


def main(what: str, *numbers: str) -> None:
    warnings.simplefilter("ignore")  # programs that cancel themselves leave coroutines behind
    if what == "show":
        program, dice = make_case(int(numbers[0]))
        print(program, dice, run_case(program, dice).text, sep="\n")
        return
    for line in iter_lines(range(*map(int, numbers))):
        print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
