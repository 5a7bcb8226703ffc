"""Random bodies in which every reference to a step is to a step of its own, so that none can be lost unseen."""

from __future__ import annotations

from random import Random

HEAD = """
import asyncio, functools
from outlast import Context, Module
app = Module("")
def make(number):
    @app.step(name=f"s{number}")
    async def step(*args, **kwargs): ...
    return step
"""


class Maker:
    """Writes one body."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.count = 0
        self._helpers: list[str] = []
        self._plain = 0
        """Inside so many lambdas and plain functions: nothing can be awaited there."""

    def module(self) -> str:
        """A module with a workflow called `body`."""
        body = self._block(2, "    ")
        steps = "\n".join(f"s{number} = make({number})" for number in range(self.count))
        return "\n".join([HEAD, steps, *self._helpers, "@app.workflow\nasync def body(ctx: Context, a, b, c):", body])

    def _pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def step(self) -> str:
        """A reference to a step that is named nowhere else."""
        self.count += 1
        return f"s{self.count - 1}"

    def _callee(self) -> str:
        step = self.step()
        return self._pick(step, step, f"{step}.options(name='n{self.count}')", f"functools.partial({step}, 1)")

    def _call(self, depth: int) -> str:
        """Something to await."""
        form = self._random.randrange(14 if depth else 4)
        inner = depth - 1
        match form:
            case 0 | 1 | 2:
                return f"{self._callee()}({self._value(inner)})"
            case 3:
                return f"ctx.map({self.step()}, a)"
            case 4:
                return f"asyncio.gather({self._call(inner)}, {self._call(inner)})"
            case 5:
                return f"asyncio.gather(*[{self._call(inner)} for x in a if {self._value(inner)}])"
            case 6:
                return f"asyncio.wait_for({self._call(inner)}, 5)"
            case 7:
                return f"ctx.map(lambda x: {self._plain_call(inner)}, a)"
            case 8:
                return f"({self._call(inner)} if {self._value(inner)} else {self._call(inner)})"
            case 9:
                return f"unknown({self._call(inner)})"
            case 10:
                return self._helper(inner)
            case 11:
                return f"{{'k': {self.step()}}}['k'](a)"
            case 12:
                return f"asyncio.shield({self._call(inner)})"
            case _:
                return f"(lambda x: {self._plain_call(inner)})(b)"

    def _plain_call(self, depth: int) -> str:
        self._plain += 1
        call = self._call(depth)
        self._plain -= 1
        return call

    def _helper(self, depth: int) -> str:
        name = f"helper{len(self._helpers)}"
        self._helpers.append("")
        place = len(self._helpers) - 1
        is_async = self._random.random() < 0.7
        plain, self._plain = self._plain, 0
        body = self._block(depth, "    ") if is_async else f"    return {self._plain_call(depth)}"
        self._plain = plain
        self._helpers[place] = f"{'async ' if is_async else ''}def {name}(ctx, a, b, c):\n{body}"
        return f"{name}(ctx, a, b, c)"

    def _value(self, depth: int) -> str:
        if depth <= 0 or self._plain:
            return self._pick("a", "b", "1", "'t'", "None")
        inner = depth - 1
        match self._random.randrange(12):
            case 0 | 1 | 2:
                return f"await {self._call(inner)}"
            case 3:
                return f"(w := await {self._call(inner)})"
            case 4:
                over = "a" if self._random.random() < 0.5 else f"await {self._call(inner)}"
                return f"[await {self._call(inner)} for x in {over}]"
            case 5:
                return f"{{x: await {self._call(inner)} for x in a}}"
            case 6:
                return f"(await {self._call(inner)} and await {self._call(inner)})"
            case 7:
                return f"(await {self._call(inner)} if {self._value(inner)} else {self._value(inner)})"
            case 8:
                return f'f"{{await {self.step()}(a)}} {{b!r}}"'
            case 9:
                return f"other({self.step()}, *[{self._value(inner)}])"
            case 10:
                return f"(await {self._call(inner)})[0].x"
            case _:
                return f"({self._value(inner)}, {self._value(inner)})"

    def _block(self, depth: int, indent: str) -> str:
        return "\n".join(self._statement(depth, indent) for _ in range(self._random.randint(1, 3)))

    def _statement(self, depth: int, indent: str) -> str:
        if depth <= 0:
            return f"{indent}{self._pick('x = ', '', 'return ', 'b.c = ', 'c[0] = ', 'b += ')}{self._value(2)}"
        if self._random.random() < 0.5:
            return self._compound(depth - 1, indent)
        return self._flowing(depth - 1, indent)

    def _compound(self, depth: int, indent: str) -> str:
        """A statement with blocks in it."""

        def block() -> str:
            return self._block(depth, indent + "    ")

        match self._random.randrange(8):
            case 0:
                return f"{indent}if {self._value(2)}:\n{block()}\n{indent}elif {self._value(2)}:\n{block()}"
            case 1:
                return f"{indent}for x in {self._value(2)}:\n{block()}\n{indent}else:\n{block()}"
            case 2:
                return f"{indent}while {self._value(2)}:\n{block()}\n{indent}    break"
            case 3:
                parts = f"{indent}try:\n{block()}\n{indent}except ValueError:\n{block()}"
                return f"{parts}\n{indent}else:\n{block()}\n{indent}finally:\n{block()}"
            case 4:
                task = f"{indent}    t = group.create_task({self._call(1)})"
                return f"{indent}async with asyncio.TaskGroup() as group:\n{task}\n{block()}"
            case 5:
                name = f"f{self.count}"
                body = f"{indent}async def {name}(a, b, c):\n{block()}"
                return f"{body}\n{indent}await {name}(a, b, c)" if self._random.random() < 0.7 else body
            case 6:
                head = f"{indent}match {self._value(1)}:\n{indent}    case {{'k': v}} if {self._value(1)}:"
                return "\n".join([head, self._block(depth, indent + "        ")])
            case _:
                return f"{indent}async with {self._call(0)} as x, asyncio.timeout(5):\n{block()}"

    def _flowing(self, depth: int, indent: str) -> str:
        """Statements between which calls are made and awaited."""

        def beside() -> str:
            return self._block(depth, indent)

        match self._random.randrange(8):
            case 0:
                made = [f"calls = [{self._call(1)}]", f"calls.append({self._call(1)})", "await asyncio.gather(*calls)"]
                return "\n".join(f"{indent}{line}" for line in made)
            case 1:
                return f"{indent}t = asyncio.create_task({self._call(1)})\n{beside()}\n{indent}await t"
            case 2:
                return f"{indent}alias = {self.step()}\n{beside()}\n{indent}await alias(a)"
            case 3:
                return f"{indent}coro = {self._call(1)}\n{beside()}\n{indent}await coro"
            case 4:
                return f"{indent}class C:\n{indent}    x = {self.step()}"
            case 5:
                return f"{indent}for x in asyncio.as_completed([{self._call(1)}]):\n{indent}    await x\n{beside()}"
            case _:
                return f"{indent}{self._pick('x = ', '', 'a, *b = ', 'assert not ', 'raise ')}{self._value(2)}"
