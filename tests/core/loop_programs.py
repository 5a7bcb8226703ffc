"""Twenty-two bodies whose order of commands is at risk: each leans on something asyncio orders by memory address, by
hash, or by what the garbage collector does next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from outlast.core.machine import Machine
from tests.core.loop_runs import MAY_FAIL
from tests.core.machines import step


async def work(machine: Machine, number: int, *more: str) -> Any:
    """A step with a clean-up step."""
    try:
        return await step(machine, "work", number, *more)
    finally:
        await step(machine, "clean up", number)


async def task_group_with_a_failing_branch(machine: Machine) -> None:
    async def bad() -> None:
        await step(machine, "bad")
        raise ValueError("bad")

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(12):
                group.create_task(work(machine, number))
            group.create_task(bad())
    except* ValueError:
        pass
    await step(machine, "after")


async def task_group_under_a_timeout(machine: Machine) -> None:
    try:
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(work(machine, number))
    except TimeoutError:
        pass
    await step(machine, "after")


async def wait_for_all(machine: Machine) -> None:
    tasks = {asyncio.create_task(work(machine, number)) for number in range(10)}
    done, _ = await asyncio.wait(tasks)
    for task in done:
        await step(machine, "each", task.result())


async def wait_for_the_first(machine: Machine) -> None:
    pending = {asyncio.create_task(work(machine, number)) for number in range(8)}
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED, timeout=3)
        for task in done:
            await step(machine, "each", task.result())
        for task in pending:
            machine.reach_milestone(f"{task.get_name()} goes on")


async def wait_and_cancel_the_rest(machine: Machine) -> int:
    tasks = [asyncio.create_task(work(machine, number)) for number in range(8)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.wait(pending)
    await step(machine, "after", len(done))
    return len(done)


async def as_completed_of_tasks(machine: Machine) -> None:
    for task in asyncio.as_completed([asyncio.create_task(work(machine, number)) for number in range(8)]):
        await step(machine, "each", await task)


async def as_completed_of_coroutines(machine: Machine) -> None:
    for task in asyncio.as_completed([work(machine, number) for number in range(8)]):
        await step(machine, "each", await task)


async def as_completed_with_a_timeout(machine: Machine) -> None:
    tasks = [asyncio.create_task(work(machine, number)) for number in range(8)]
    try:
        for task in asyncio.as_completed(tasks, timeout=2):
            await task
            await step(machine, "each")
    except TimeoutError:
        await step(machine, "late")


async def wait_for_gatherings(machine: Machine) -> None:
    pairs = [asyncio.gather(work(machine, number), work(machine, number + 100)) for number in range(6)]
    done, _ = await asyncio.wait(pairs)
    for pair in done:
        await step(machine, "each", pair.result())


async def wait_for_futures(machine: Machine) -> None:
    futures = [asyncio.get_running_loop().create_future() for _ in range(8)]

    async def set_all() -> None:
        for number, future in enumerate(futures):
            future.set_result(number)

    setter = asyncio.create_task(set_all())
    done, _ = await asyncio.wait(futures)
    for future in done:
        await step(machine, "each", future.result())
    await setter


async def all_tasks(machine: Machine) -> None:
    tasks = [asyncio.create_task(work(machine, number)) for number in range(8)]
    await asyncio.sleep(0)
    for task in asyncio.all_tasks():
        await step(machine, "seen", tasks.index(task) if task in tasks else -1)
    await asyncio.gather(*tasks)


async def task_names(machine: Machine) -> None:
    task = asyncio.create_task(work(machine, 1))
    await step(machine, "named", task.get_name())
    await task


async def orphan(machine: Machine) -> None:
    """A task nobody holds waits for a future nobody holds: the collector would decide when its `finally` runs."""

    async def wait_for_ever() -> None:
        future = asyncio.get_running_loop().create_future()
        future.itself = future  # type: ignore[attr-defined]
        try:
            await future
        finally:
            machine.reach_milestone("orphan ended")

    asyncio.create_task(wait_for_ever())  # noqa: RUF006 - that is the point
    for number in range(40):
        litter = [[number] for _ in range(60)]
        await step(machine, "litter", len(litter))


async def generator_left_early(machine: Machine) -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(5):
                yield number
        finally:
            machine.reach_milestone("generator closed")

    async for number in numbers():
        await step(machine, "number", number)
        break
    await step(machine, "after")
    await step(machine, "after")


async def queue_with_workers(machine: Machine) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
    results: list[Any] = []

    async def serve(name: int) -> None:
        while True:
            item = await queue.get()
            try:
                results.append(await step(machine, "job", name, item))
            finally:
                queue.task_done()

    workers = [asyncio.create_task(serve(name)) for name in range(3)]
    for item in range(9):
        await queue.put(item)
    await queue.join()
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    await step(machine, "end", len(results))


async def locks_and_conditions(machine: Machine) -> None:
    semaphore, lock, condition, barrier = asyncio.Semaphore(2), asyncio.Lock(), asyncio.Condition(), asyncio.Barrier(4)
    through = 0

    async def pass_all(number: int) -> None:
        nonlocal through
        async with semaphore:
            await step(machine, "semaphore", number)
        async with lock:
            await step(machine, "lock", number)
        async with condition:
            through += 1
            condition.notify_all()
        await barrier.wait()
        await step(machine, "barrier", number)

    async def watch() -> None:
        async with condition:
            await condition.wait_for(lambda: through >= 3)
        await step(machine, "condition")

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        for number in range(4):
            group.create_task(pass_all(number))


async def wait_for_with_timeouts(machine: Machine) -> None:
    async def hurried(number: int) -> Any:
        try:
            return await asyncio.wait_for(step(machine, "hurried", number, MAY_FAIL), 2 + number)
        except TimeoutError:
            return await step(machine, "late", number)

    async def patient(number: int) -> None:
        await step(machine, "patient", number)
        await step(machine, "after", number)

    await asyncio.gather(*map(hurried, range(4)), *map(patient, range(4)), return_exceptions=True)


async def shields(machine: Machine) -> None:
    async def shielded(number: int) -> Any:
        try:
            async with asyncio.timeout(1 + number):
                return await asyncio.shield(step(machine, "shielded", number))
        except TimeoutError:
            return await step(machine, "late", number)

    await asyncio.gather(*map(shielded, range(4)))


async def race_behind_one_stimulus(machine: Machine) -> None:
    """Many tasks are released at once, each through another primitive: their order is how many turns each one takes."""
    event, queue, condition = asyncio.Event(), asyncio.Queue[int](), asyncio.Condition()
    future = asyncio.get_running_loop().create_future()

    async def in_time() -> None:
        async with asyncio.timeout(9):
            await event.wait()

    async def in_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(event.wait())

    async def in_condition() -> None:
        async with condition:
            await condition.wait()

    async def as_completed() -> None:
        for task in asyncio.as_completed([asyncio.create_task(event.wait())]):
            await task

    async def say(name: str, waiting: Any) -> None:
        try:
            await waiting
        except TimeoutError:
            await step(machine, "late", name)
        else:
            await step(machine, "released", name)

    async def release() -> None:
        await step(machine, "go")
        event.set()
        queue.put_nowait(1)
        future.set_result(1)
        async with condition:
            condition.notify_all()

    ways = {
        "event": event.wait(),
        "queue": queue.get(),
        "future": future,
        "wait_for": asyncio.wait_for(event.wait(), 9),
        "timeout": in_time(),
        "group": in_group(),
        "gather": asyncio.gather(event.wait()),
        "wait": asyncio.wait([asyncio.create_task(event.wait())]),
        "condition": in_condition(),
        "shield": asyncio.shield(event.wait()),
        "as_completed": as_completed(),
    }
    await asyncio.gather(*(asyncio.create_task(say(name, waiting)) for name, waiting in ways.items()), release())


async def futures_made_by_hand(machine: Machine) -> None:
    futures: list[asyncio.Future[int]] = [asyncio.Future() for _ in range(8)]
    for number, future in enumerate(futures):
        future.set_result(number)
    for future in set(futures):
        await step(machine, "each", future.result())


async def set_of_strings(machine: Machine) -> None:
    for text in {f"text {number}" for number in range(10)}:
        await step(machine, "each", text)


async def set_of_objects(machine: Machine) -> None:
    class Thing:
        def __init__(self, number: int) -> None:
            self.number = number

    for thing in {Thing(number) for number in range(10)}:
        await step(machine, "each", thing.number)


PROGRAMS = {
    program.__name__: program
    for program in (
        task_group_with_a_failing_branch,
        task_group_under_a_timeout,
        wait_for_all,
        wait_for_the_first,
        wait_and_cancel_the_rest,
        as_completed_of_tasks,
        as_completed_of_coroutines,
        as_completed_with_a_timeout,
        wait_for_gatherings,
        wait_for_futures,
        all_tasks,
        task_names,
        orphan,
        generator_left_early,
        queue_with_workers,
        locks_and_conditions,
        wait_for_with_timeouts,
        shields,
        race_behind_one_stimulus,
    )
}
"""What takes the same path in every process."""

BY_HASH = {"set_of_strings": set_of_strings}
"""What does where PYTHONHASHSEED is the same, as the commands of outlast see to."""

BY_ADDRESS = {"futures_made_by_hand": futures_made_by_hand, "set_of_objects": set_of_objects}
"""What may take another path in each run of the body. `outlast check` warns of it."""
