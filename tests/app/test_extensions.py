"""Extensions add to the context and wrap bodies, and what they do is on record like the body's own (SPEC N2)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from outlast import Context, EffectInBody, Extension, Graph, InvalidDefinition, Module, Outlast, RunFailed, ref
from outlast.authoring.runs.extension import Body

DIARY = Module("diary")
SAID: list[str] = []


@DIARY.step
async def note(text: str) -> str:
    SAID.append(text)
    return text


class Pen:
    """What the diary adds: this run's own."""

    def __init__(self, ctx: Context) -> None:
        self.id = ctx.uuid()
        self.pages = 0

    async def write(self, text: str) -> str:
        self.pages += 1
        return await note(f"{self.pages}: {text}")


class Diary(Extension[Pen]):
    """Brings a step, adds a pen, and notes how bodies begin and end."""

    module = DIARY

    def extend(self, ctx: Context, /) -> Pen:
        return Pen(ctx)

    async def wrap(self, ctx: Context, body: Body, /) -> Any:
        await ctx.use(Diary).write(f"{ctx.workflow} begins")
        try:
            return await body()
        finally:
            if not ctx.evicting:
                await ctx.use(Diary).write(f"{ctx.workflow} ends")


class Loud(Extension[None]):
    """Changes the output, and adds nothing."""

    async def wrap(self, ctx: Context, body: Body, /) -> Any:
        return f"{await body()}!"


@pytest.fixture(autouse=True)
def _quiet() -> None:
    SAID.clear()


def make_app(url: str, *extensions: Extension[Any]) -> Outlast:
    app = Outlast(url, extensions=extensions)

    @app.workflow(name="tale")
    async def tale(ctx: Context, fails: bool = False) -> str:
        pen = ctx.use(Diary)
        await pen.write(f"tale {pen.id}")
        if fails:
            raise ValueError("no more ink")
        return "told"

    @app.workflow(name="frame")
    async def frame(ctx: Context) -> str:
        return f"frame of {await tale()}"

    return app


@pytest.mark.parametrize("max_hot", [0, 10])
async def test_what_an_extension_does_is_on_record(max_hot: int) -> None:
    """Its steps run once, also where the body is replayed for every event, and what it draws stays the same."""
    app = make_app("memory://", Diary(), Loud())
    async with app.worker(max_hot=max_hot):
        run = await app.start("tale")
        assert await run.result(timeout=10) == "told!"
        identity = SAID[1].removeprefix("2: tale ")
        assert ["1: tale begins", f"2: tale {identity}", "3: tale ends"] == SAID
        assert [step.key for step in (await run.status()).steps] == ["diary:note", "diary:note#1", "diary:note#2"]


async def test_each_run_is_wrapped_by_itself() -> None:
    """A child as its parent, a graph as a body; the first extension is the outermost."""
    app = make_app("memory://", Loud(), Diary())
    sent = app.graph(Graph("sent", input={"text": str}).node("say", note, input={"text": ref.input.text}))
    async with app.worker():
        assert await (await app.start("frame")).result(timeout=10) == "frame of told!!"
        assert [text for text in SAID if "tale " not in text or "begins" in text] == [
            "1: frame begins",
            "1: tale begins",
            "2: frame ends",
        ]
        await (await app.start(sent, {"text": "by a graph"})).result(timeout=10)
        assert SAID[-3:] == ["1: sent begins", "by a graph", "2: sent ends"]


async def test_a_body_that_fails_is_wrapped_to_its_end() -> None:
    """Steps of a finally run, and the error is the body's own."""
    app = make_app("memory://", Diary())
    async with app.worker():
        run = await app.start("tale", True)
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout=10)
        assert isinstance(caught.value.__cause__, ValueError)
        assert SAID[-1] == "3: tale ends"


async def test_a_run_without_its_extension_is_set_aside(tmp_path) -> None:
    """It is not failed: a person gives the extension to the workers and resumes it."""
    url = f"sqlite:///{tmp_path}/store.db"
    async with make_app(url).worker() as _, make_app(url) as app:
        run = await app.start("tale")
        async with asyncio.timeout(10):
            while (await run.status()).status != "suspended":
                await asyncio.sleep(0.01)
        info = await run.status()
        assert info.waiting_on.startswith("EXTENSION_MISSING")
    async with make_app(url, Diary()).worker(), make_app(url) as app:
        run = await app.get_run(run.id)
        await run.resume("EXTENSION_MISSING")
        assert await run.result(timeout=10) == "told"


async def test_an_extension_may_do_in_a_body_what_a_body_may() -> None:
    """It runs on the body's loop: what is refused there is refused to it."""

    class Hasty(Extension[None]):
        async def wrap(self, ctx: Context, body: Body, /) -> Any:
            await asyncio.to_thread(time.sleep, 0)
            return await body()

    app = make_app("memory://", Hasty(), Diary())
    async with app.worker():
        run = await app.start("tale")
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout=10)
        assert isinstance(caught.value.__cause__, EffectInBody)


def test_what_is_no_extension_is_refused() -> None:
    """Also two of one class, of which `ctx.use` could find only one."""
    with pytest.raises(InvalidDefinition, match="this is str"):
        Outlast("memory://", extensions=["diary"])  # type: ignore[list-item]
    with pytest.raises(InvalidDefinition, match="two extensions of the class Diary"):
        Outlast("memory://", extensions=[Diary(), Diary()])
