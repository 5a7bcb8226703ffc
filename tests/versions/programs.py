"""Bodies for `test_programs`: some written, some drawn."""

from __future__ import annotations

from random import Random

HEAD = """
import asyncio, functools, contextlib, enum
from dataclasses import dataclass
from datetime import timedelta
from outlast import Context, ExpectedError, Module

app = Module("")
LIMIT = 3
TABLE = {"a": 1, "b": (2, 3)}

class Refused(ExpectedError):
    pass

class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"

@dataclass
class Parcel:
    item: str
    weight: int = 1

@app.step(retries=0)
async def add(a: int, b: int = 1) -> int:
    return a + b

@app.step(retries=0)
async def fail(text: str) -> str:
    raise Refused(text)

@app.step(retries=0)
async def pack(item: str, weight: int = 2) -> Parcel:
    return Parcel(item, weight)

@app.step(retries=0)
async def weigh(parcel: Parcel) -> int:
    return parcel.weight

def total(*numbers: int, start: int = 0) -> int:
    result = start
    for number in numbers:
        result += number
    return result

async def twice(ctx, n):
    first = await add(n)
    return await add(first, b=n)

def calls(items):
    return [pack(item) for item in items if item != "b"]
"""

_BODY = "\n@app.workflow\nasync def body(ctx: Context, n: int, items: list[str]) -> object:\n"


def body_of(*lines: str) -> str:
    return _BODY + "".join(f"    {line}\n" for line in "\n".join(lines).splitlines())


TWINS = {
    "a row": body_of("x = await add(n)", "y = await add(x, b=LIMIT)", "return {'x': x, 'y': [y, TABLE['b'][1]]}"),
    "branches": body_of(
        "if await add(n) > 3 and len(items) < 5:\n    x = 'small'\nelif n:\n    x = 'n'\nelse:\n    x = None",
        "return x if not items else f'{x!r:>8} {n:03d} {items[0]}'",
    ),
    "loops": body_of(
        "found = []",
        "for i, item in enumerate(items):",
        "    if item == 'b':\n        continue",
        "    found.append(await add(i))",
        "else:\n    found += [await add(99)]",
        "while (n := n - 1) > 0:\n    found.append(await add(n, n))\n    if n == 1:\n        break",
        "return found",
    ),
    "groups": body_of(
        "first, *rest = await asyncio.gather(add(1), *[add(i) for i in range(n)], return_exceptions=True)",
        "async with asyncio.TaskGroup() as group:",
        "    tasks = [group.create_task(pack(item)) for item in items]",
        "return [first, rest, [task.result().weight for task in tasks]]",
    ),
    "as they come": body_of(
        "results = []",
        "for future in asyncio.as_completed([pack(item) for item in items]):\n    results.append((await future).item)",
        "done, pending = await asyncio.wait([asyncio.create_task(add(i)) for i in range(3)],"
        " return_when=asyncio.FIRST_COMPLETED)",
        "return results, len(done), len(pending)",
    ),
    "errors": body_of(
        "try:\n    await fail('no')",
        "except (ValueError, Refused) as error:\n    text = str(error)",
        "else:\n    text = 'none'",
        "finally:\n    await add(5)",
        "try:\n    [][n]\nexcept IndexError:\n    await add(6)",
        "with contextlib.suppress(Refused):\n    await fail('quiet')",
        "try:\n    raise Refused('mine') from None",
        "except Refused:\n    try:\n        raise\n    except Refused as e:\n        text += e.args[0]",
        "return text",
    ),
    "an error that ends it": body_of("await add(1)", "await fail('loud')"),
    "a group that fails": body_of(
        "try:",
        "    async with asyncio.TaskGroup() as group:",
        "        group.create_task(fail('x'))\n        group.create_task(add(1))",
        "except BaseExceptionGroup as group:\n    return len(group.exceptions)",
    ),
    "functions": body_of(
        "async def inner(m, *, factor=2):\n    return await add(m * factor, n)",
        "double = lambda value: total(value, value, start=n)",
        "parcels = await asyncio.gather(*calls(items))",
        "more = functools.partial(add, 7)",
        "return [await twice(ctx, n), await inner(3), double(4), [p.item for p in parcels], await more(b=1),"
        " sorted(items, key=lambda item: -ord(item))]",
    ),
    "the context": body_of(
        "await ctx.milestone('begun')",
        "await ctx.set_state('items', items)",
        "await ctx.sleep('5s')",
        "parcels = await ctx.map(pack, items, limit=2)",
        "weights = await ctx.map(lambda parcel: weigh(parcel), parcels)",
        "new = ctx.patched('new')",
        "await asyncio.sleep(1.5)",
        "ctx.log.info('quiet')",
        "return [sum(weights), new, ctx.run_id, str(ctx.uuid()), ctx.random.random(), ctx.now(), ctx.state['items']]",
    ),
    "time": body_of(
        "try:\n    async with asyncio.timeout(2):\n        await ctx.sleep(60)",
        "except TimeoutError:\n    await add(1)",
        "try:\n    await asyncio.wait_for(asyncio.Event().wait(), 3)\nexcept asyncio.TimeoutError:\n    pass",
        "return str(timedelta(hours=n))",
    ),
    "data": body_of(
        "parcel = await pack('x', weight=n)",
        "parcel.weight += 2",
        "other = Parcel('y')",
        "kinds = {p.item: p for p in (parcel, other)}",
        "return [kinds['x'].weight, Size.LARGE.value, {**TABLE, 'c': not n}, {i % 2 for i in range(5)} == {0, 1},"
        " 'abc'.upper()[::-1], isinstance(parcel, Parcel), [*items, *'xy'], -n ** 2 // 3, 1 < n <= 3 != 5]",
    ),
    "queues": body_of(
        "queue = asyncio.Queue()",
        "async def work():\n    seen = []\n    while (item := await queue.get()) is not None:\n"
        "        seen.append((await pack(item)).item)\n    return seen",
        "workers = [asyncio.create_task(work()) for _ in range(2)]",
        "for item in items:\n    queue.put_nowait(item)",
        "for _ in workers:\n    await queue.put(None)",
        "return await asyncio.gather(*workers)",
    ),
    "tuned": body_of(
        "x = await add.options(name='plus', timeout='5s')(n)",
        "y = await ctx.call('add', {'a': 1, 'b': x}, name='by name')",
        "return x, y",
    ),
    "returns in finally": body_of("try:\n    await fail('x')\nfinally:\n    return await add(n)"),
    "shadows": body_of(
        "add_ = [add for add in items]",
        "x = [y for x in [[1, 2], [3]] for y in x if y != 2]",
        "del items[0]",
        "assert items, 'none left'",
        "return add_, x, await add(len(items))",
    ),
    "what is drawn": body_of(
        "first = next(ctx.random.random() for _ in range(5))",
        "rest = (item for item in items if item != 'b')",
        "items = []",
        "return [first, ctx.random.random(), any(i > 1 for i in range(3)), list(rest),"
        " sum(x + y for x in range(n) for y in range(x) if y)]",
    ),
    "raised again by a helper": body_of(
        "def again():\n    raise",
        "try:\n    await fail('x')",
        "except Refused:",
        "    await add(1)",
        "    try:\n        again()\n    except Refused as error:\n        return error.args",
    ),
    "nothing to raise again": body_of("raise"),
    "more of what a step gave": body_of("(await pack('x')).weight += await add(1)", "return await add(2)"),
    "an unpacking that fails": body_of("a, b = [1, 2, 3]", "return a"),
    "parts": body_of(
        "box = {'a': 1, 'l': [1, 2, 3]}",
        "box['b'] = await add(n)",
        "box['a'] += await add(1)",
        "parcel = await pack('x')\nparcel.weight = 7",
        "first, *middle, last = [1, 2, 3, 4]",
        "(a, b), c = (1, 2), 3",
        "del box['l'][0], c",
        "either = n and a or b",
        "seen = [(latest := item) for item in items] + [latest]",
        "return box, seen, parcel.weight, first, middle, last, a, b, either, [x + y for x, y in [(1, 2)]],"
        " [x for x, *_ in [(1, 2, 3)]]",
    ),
    "an annotation alone": body_of("x: int", "x = await add(n)", "return x"),
    "deleted twice": body_of("gone = await add(1)", "del gone", "del gone", "return 1"),
    "used when it is gone": body_of("gone = await add(1)", "del gone", "return gone"),
    "too little to unpack": body_of("a, b, c = [1, await add(1)]", "return a"),
    "too little beside a star": body_of("a, b, *c = [await add(1)]", "return a"),
    "an assertion that says nothing": body_of("await add(1)", "assert n > 100"),
    "an assertion that says why": body_of("await add(1)", "assert n > 100, f'{n} is few'"),
    "out of a loop": body_of(
        "for item in items:\n    try:\n        return [item, await add(n)]\n    finally:\n        await add(2)",
    ),
    "the second of two handlers": body_of(
        "try:\n    await fail('x')\nexcept ValueError:\n    return 1\nexcept Refused:\n    return await add(2)",
    ),
    "parameters": body_of(
        "def listed(a, b=2, *rest, c=3, **more):\n    return [a, b, rest, c, more]",
        "def plain(a, *, b):\n    return [a, b]",
        "wrong = []",
        "for call in (lambda: plain(1), lambda: plain(1, 2, b=3), lambda: plain(1, a=2, b=3),"
        " lambda: plain(1, b=2, c=3), lambda: plain(b=1, **{'b': 2})):",
        "    try:\n        call()\n    except TypeError:\n        wrong.append(await add(len(wrong)))",
        "return listed(1), listed(1, 4, 5, 6, c=7, d=8), listed(b=1, a=2), wrong",
    ),
    "a name that is not there": body_of("if n > 100:\n    x = 1", "return x"),
}


UNSTORED = {
    "a decorator inside a body": "@functools.cache\ndef f(x):\n    return x\nreturn f(n)",
    "nonlocal n: Nonlocal has no place in a stored plan": "def f():\n    nonlocal n\n    n = 1\nreturn f()",
    "cached: what it stands for cannot be stored": "return cached(n)",
    "an asynchronous generator": "rest = (await add(i) for i in range(3))\nreturn [i async for i in rest]",
    "b'x': a constant that JSON does not have": "return b'x'",
    "ODD: what it stands for cannot be stored": "return ODD",
    "global LIMIT: Global has no place in a stored plan": "global LIMIT\nLIMIT = 1",
    "class X: pass: ClassDef has no place in a stored plan": "class X:\n    pass\nreturn 1",
    "add.fn: what it does runs no step": "return add.fn(1)",
    "tuned: a step that was tuned outside the body": "return await tuned(n)",
}
"""Bodies that can be run from their source alone, by what is said of them."""

UNSTORED_HEAD = """
@functools.lru_cache
def cached(x):
    return x

ODD = {1: {2}}
tuned = add.options(name="tuned")
"""


def make_source(seed: int) -> str:
    """A body at random, that only does what can be done."""
    maker = _Maker(seed)
    lines = maker.block(2, "    ")
    return HEAD + _BODY + "    v = [n]\n" + lines + "\n    return v\n"


class _Maker:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def number(self, depth: int) -> str:
        forms = ["n", "len(v)", str(self._random.randint(0, 9)), "v[-1]", "sum(v[-2:])"]
        if depth <= 0:
            return self._random.choice(forms)
        inner = depth - 1
        match self._random.randrange(9):
            case 0 | 1 | 2:
                return f"await add({self.number(inner)}, {self.number(0)} % 7)"
            case 3:
                return f"({self.number(inner)} if {self.number(inner)} % 2 else {self.number(inner)})"
            case 4:
                return f"sum([{self.number(inner)} for x in range({self._random.randint(0, 3)})])"
            case 5:
                return f"sum(await asyncio.gather(*[add(x, {self.number(0)}) for x in range(3)]))"
            case 6:
                return f"(await pack('p', weight={self.number(0)})).weight"
            case 7:
                return f"(await twice(ctx, {self.number(0)}))"
            case _:
                return f"total({self.number(inner)}, {self.number(0)}, start={self.number(0)})"

    def block(self, depth: int, indent: str) -> str:
        return "\n".join(self.statement(depth, indent) for _ in range(self._random.randint(1, 3)))

    def statement(self, depth: int, indent: str) -> str:
        if depth <= 0:
            return f"{indent}v.append({self.number(2)})"
        more, inner = indent + "    ", depth - 1
        name = self._name()
        match self._random.randrange(10):
            case 0:
                other = self.block(inner, more)
                return f"{indent}if {self.number(1)} % 3:\n{self.block(inner, more)}\n{indent}else:\n{other}"
            case 1:
                return f"{indent}for {name} in range({self._random.randint(0, 3)}):\n{self.block(inner, more)}"
            case 2:
                error = self._random.choice(["await fail('x')", "{}['k']", f"v.append({self.number(1)})"])
                kept = self.block(inner, more)
                return f"{indent}try:\n{more}{error}\n{indent}except (Refused, KeyError):\n{kept}"
            case 3:
                tasks = "\n".join(f"{more}g.create_task(add({self.number(0)}))" for _ in range(3))
                return f"{indent}async with asyncio.TaskGroup() as g:\n{tasks}\n{self.block(inner, more)}"
            case 4:
                body = self.block(inner, more)
                call = self._random.choice([f"await {name}()", f"await asyncio.gather({name}(), {name}())"])
                return f"{indent}async def {name}():\n{body}\n{indent}{call}"
            case 5:
                begun = f"{indent}{name} = asyncio.create_task(add({self.number(0)}))"
                return "\n".join([begun, self.block(inner, indent), f"{indent}v.append(await {name})"])
            case 6:
                return f"{indent}await ctx.sleep({self._random.randint(1, 5)})\n{self.block(inner, indent)}"
            case 7:
                wait = f"{more}async with asyncio.timeout({self._random.randint(1, 3)}):"
                tried = f"{indent}try:\n{wait}\n{more}    await ctx.sleep(2)\n{indent}except TimeoutError:"
                return "\n".join([tried, self.block(inner, more)])
            case 8:
                return (
                    f"{indent}for f in asyncio.as_completed([add({self.number(0)}), add(5)]):\n{more}v.append(await f)"
                )
            case _:
                return f"{indent}{name} = {self.number(2)}\n{indent}v.append({name})"
