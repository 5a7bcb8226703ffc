"""Spans through OpenTelemetry's own SDK (SPEC O5): one trace from the caller to the last attempt, in every process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import StatusCode

from outlast import Context, Outlast, RunFailed, current_step
from outlast.core.instants import to_us
from outlast.core.trace import Trace, run_span

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traces:
    """A provider, and what it was told."""

    def __init__(self, **settings: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(**settings)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> dict[str, Any]:
        """By name; the last of each."""
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def traces() -> Traces:
    return Traces()


def make_app(url: str = "memory://", **settings: Any) -> Outlast:
    app = Outlast(url, **settings)
    tracer = (
        otel.get_tracer("users") if "tracer_provider" not in settings else settings["tracer_provider"].get_tracer("u")
    )

    @app.step(name="charge", retries=1, backoff=0)
    async def charge(amount: int) -> str:
        with tracer.start_as_current_span("call the bank"):
            await asyncio.sleep(0)
        if current_step().attempt == 1:
            raise ConnectionError("no line")
        otel.get_current_span().set_attribute("bank", "mine")
        return current_step().traceparent

    @app.step(name="pack")
    def pack() -> str:
        with tracer.start_as_current_span("fold a box"):
            return current_step().traceparent

    @app.workflow(name="wrap")
    async def wrap(ctx: Context) -> str:
        return await pack()

    @app.workflow(name="fulfil")
    async def fulfil(ctx: Context, amount: int) -> list[str]:
        parents = [await charge(amount), await pack(), await wrap()]
        await ctx.sleep(0.01)
        if amount < 0:
            raise ValueError("no such amount")
        return parents

    return app


def parse(traceparent: str) -> Trace:
    trace = Trace.parse(traceparent)
    assert trace is not None
    return trace


async def trace_of(app: Outlast, uid: str) -> str:
    row = await app._store.find_uid(uid)
    assert row is not None
    return row.trace


def tree_of(spans: Sequence[Any]) -> dict[str, str | None]:
    """Name of each span's parent."""
    names = {span.get_span_context().span_id: span.name for span in spans}
    return {span.name: None if span.parent is None else names.get(span.parent.span_id, "elsewhere") for span in spans}


# SPEC O5 C4
async def test_all_that_a_run_does_is_one_trace(traces) -> None:
    """From the caller's span through the start, the run, its steps and attempts to what a step's code calls; a child
    hangs on its parent's step. Each names run, workflow and step."""
    app = make_app(tracer_provider=traces.provider)
    with traces.provider.get_tracer("caller").start_as_current_span("a request") as request:
        async with app.worker():
            run = await app.start("fulfil", 3, id="A-17", user="ada")
            traceparents = await run.result(timeout=20)
    spans: Any = traces.exporter.get_finished_spans()
    assert {span.get_span_context().trace_id for span in spans} == {request.get_span_context().trace_id}
    assert tree_of(spans) == {
        "a request": None,
        "start fulfil": "a request",
        "run fulfil": "start fulfil",
        "step charge": "run fulfil",
        "attempt charge": "step charge",
        "call the bank": "attempt charge",
        "step wrap": "run fulfil",
        "run wrap": "step wrap",
        "step pack": "run wrap",
        "attempt pack": "step pack",
        "fold a box": "attempt pack",
        "wait sleep": "run fulfil",
    }
    found = traces.spans
    run_attributes = dict(found["run fulfil"].attributes or {})
    assert run_attributes["outlast.run.id"] == "A-17"
    assert (run_attributes["outlast.status"], run_attributes["outlast.user"]) == ("completed", "ada")
    attempts = [span for span in spans if span.name == "attempt charge"]
    assert [span.status.status_code for span in attempts] == [StatusCode.ERROR, StatusCode.UNSET]
    assert [event.name for event in attempts[0].events] == ["exception"]
    assert dict(attempts[1].attributes or {})["bank"] == "mine"
    assert [parse(each).span_id for each in traceparents[:1]] == [f"{attempts[1].context.span_id:016x}"]
    assert [link.attributes["outlast.link"] for link in found["run wrap"].links] == ["parent"]
    assert all(span.end_time >= span.start_time for span in spans)


# SPEC O5
async def test_spans_have_the_times_on_record(traces) -> None:
    """A step lasts from when the body asked for it, a sleep as long as it was slept, the run as long as all of it."""
    app = make_app(tracer_provider=traces.provider)
    async with app.worker():
        run = await app.start("fulfil", 3)
        await run.result(timeout=20)
        timeline = await run.timeline()
    found = traces.spans
    sleep = found["wait sleep"]
    assert sleep.end_time - sleep.start_time >= 10_000_000
    assert found["run fulfil"].start_time == to_us(timeline[0].at, "a time") * 1000
    assert found["run fulfil"].start_time <= found["step charge"].start_time <= sleep.start_time


# SPEC O5
async def test_a_failed_run_is_an_error_with_its_exception(traces) -> None:
    """Type and message in the status, and the exception as an event, as tracing systems show it."""
    app = make_app(tracer_provider=traces.provider)
    async with app.worker():
        run = await app.start("fulfil", -1)
        with pytest.raises(RunFailed):
            await run.result(timeout=20)
    span = traces.spans["run fulfil"]
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError: no such amount")
    (event,) = span.events
    assert (event.attributes or {})["exception.type"] == "ValueError"
    assert "Traceback" in str((event.attributes or {})["exception.stacktrace"])


# SPEC O5
async def test_a_run_goes_on_in_the_trace_that_is_named(traces) -> None:
    """`start(trace=…)` is the run's parent, whatever is current; a run started in a step is part of that step."""
    app = make_app(tracer_provider=traces.provider)

    @app.step(name="order")
    async def order() -> str:
        return (await app.start("wrap")).uid

    @app.workflow(name="shop")
    async def shop(ctx: Context) -> str:
        return await order()

    async with app.worker():
        with traces.provider.get_tracer("caller").start_as_current_span("a request"):
            run = await app.start("shop", trace=CALLER)
        uid = await run.result(timeout=20)
        wrapped = await app.get_run(uid)
        await wrapped.result(timeout=20)
    spans: list[Any] = [span for span in traces.exporter.get_finished_spans() if span.name != "a request"]
    assert {f"{span.context.trace_id:032x}" for span in spans} == {CALLER.split("-")[1]}
    assert f"{traces.spans['run shop'].parent.span_id:016x}" == CALLER.split("-")[2]
    tree = tree_of(spans)
    assert (tree["run wrap"], tree["start wrap"], tree["attempt order"]) == (
        "start wrap",
        "attempt order",
        "step order",
    )


# SPEC O5 L5
async def test_processes_agree_about_their_spans(tmp_path) -> None:
    """Started in one process, begun in a second without tracing, ended in a third: one trace, each span once."""
    url, first, third = f"sqlite:///{tmp_path}/x.db", Traces(), Traces()
    app = make_app(url, tracer_provider=first.provider)
    async with app:
        run = await app.start("fulfil", 3)
    bare = make_app(url)
    async with bare.worker():
        again = await bare.get_run(run.id)
        while "pack" not in {step.key for step in (await again.status()).steps}:
            await asyncio.sleep(0.001)
    async with make_app(url, tracer_provider=third.provider).worker(), bare:
        again = await bare.get_run(run.id)
        await again.result(timeout=20)
    spans: list[Any] = [*first.exporter.get_finished_spans(), *third.exporter.get_finished_spans()]
    assert len({span.context.span_id for span in spans}) == len(spans)
    assert len({span.context.trace_id for span in spans}) == 1
    assert tree_of(spans)["run fulfil"] == "start fulfil"
    assert f"{third.spans['run fulfil'].context.span_id:016x}" == run_span(run.uid)


# SPEC O5 Q1 X3
async def test_queued_steps_and_compensations_are_part_of_the_trace(tmp_path) -> None:
    """An attempt in another worker is below its step's span; a compensation is linked to the step it undoes."""
    owner, other = Traces(), Traces()

    def make(traces: Traces) -> Outlast:
        app = Outlast(f"sqlite:///{tmp_path}/x.db", tracer_provider=traces.provider)

        @app.step(name="render", queue="gpu", retries=0)
        async def render() -> str:
            return current_step().traceparent

        @render.compensation
        async def wipe(result: str) -> None: ...

        @app.workflow(name="film")
        async def film(ctx: Context) -> str:
            await render()
            raise ValueError("no film")

        return app

    async with make(owner).worker() as _, make(other).worker(queues=["gpu"]), make(Traces()) as client:
        run = await client.start("film", trace=CALLER)
        with pytest.raises(RunFailed):
            await run.result(timeout=20)
    spans: list[Any] = [*owner.exporter.get_finished_spans(), *other.exporter.get_finished_spans()]
    assert {f"{span.context.trace_id:032x}" for span in spans} == {CALLER.split("-")[1]}
    tree = tree_of(spans)
    assert (tree["attempt render"], tree["step render"]) == ("step render", "run film")
    assert "attempt render" in other.spans
    assert "attempt render" not in owner.spans
    (undo,) = [span for name, span in owner.spans.items() if name.startswith("step") and name != "step render"]
    forward = owner.spans["step render"].context.span_id
    assert [link.context.span_id for link in undo.links] == [forward]


# SPEC O5
@pytest.mark.parametrize(("sampler", "made"), [(ParentBased(TraceIdRatioBased(0)), 0), (ALWAYS_OFF, 0)])
async def test_a_run_that_is_not_sampled_makes_no_spans(sampler, made) -> None:
    """Decided once, at its start, and heeded everywhere; the context is handed on all the same."""
    traces = Traces(sampler=sampler)
    app = make_app(tracer_provider=traces.provider)
    async with app.worker():
        run = await app.start("fulfil", 3)
        traceparents = await run.result(timeout=20)
        own = await trace_of(app, run.uid)
    assert len(traces.exporter.get_finished_spans()) == made
    assert {each.split("-")[1] for each in traceparents} == {own.split("-")[1]}
    assert {each[-2:] for each in traceparents} == {"00"}


# --- what breaks ------------------------------------------------------------------------------------------------------


class Broken(SpanExporter, SpanProcessor):
    """Fails or hangs, as an exporter and as a processor."""

    def __init__(self, *, hangs: bool) -> None:
        self.gate = threading.Event()
        self.hangs = hangs
        self.called = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.called.set()
        if self.hangs:
            self.gate.wait(30)
        raise RuntimeError("no exporter")

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if not self.hangs:
            raise RuntimeError("no processor")

    def on_end(self, span: ReadableSpan) -> None:
        self.export([span])


# SPEC O5
@pytest.mark.parametrize("hangs", [False, True])
async def test_an_exporter_that_fails_or_hangs_touches_no_run(hangs, monkeypatch, caplog) -> None:
    """Runs go on at their pace; what the exporter did not take is lost, and the app closes all the same."""
    monkeypatch.setattr("outlast.run.telemetry.CLOSE_S", 0.05)
    provider, broken = TracerProvider(), Broken(hangs=hangs)
    provider.add_span_processor(broken)
    app = make_app(tracer_provider=provider)

    @app.step(name="quiet", retries=0)
    async def quiet() -> str:
        return current_step().traceparent

    @app.workflow(name="quietly")
    async def quietly(ctx: Context) -> str:
        return await quiet()

    async with app.worker(), asyncio.timeout(20):
        runs = [await app.start("quietly") for _ in range(20)]
        for run in runs:
            assert await run.result()
    broken.gate.set()
    assert broken.called.is_set() or not hangs
    said = [record for record in caplog.records if record.name == "outlast.telemetry"]
    assert len(said) <= 2


class OtherTracer(otel.Tracer):
    """A tracer of another make: it draws its ids itself."""

    def __init__(self, inner: otel.Tracer) -> None:
        self._inner = inner

    def start_span(self, *args: Any, **more: Any) -> Any:
        return self._inner.start_span(*args, **more)

    def start_as_current_span(self, *args: Any, **more: Any) -> Any:
        return self._inner.start_as_current_span(*args, **more)


class OtherProvider(otel.TracerProvider):
    def __init__(self, inner: TracerProvider) -> None:
        self._inner = inner

    def get_tracer(self, *args: Any, **more: Any) -> otel.Tracer:
        return OtherTracer(self._inner.get_tracer(*args, **more))


async def test_a_tracer_of_another_make_keeps_the_trace_together(traces) -> None:
    """Where ids cannot be chosen, the spans of a run stand beside each other, below what started it."""
    app = make_app(tracer_provider=OtherProvider(traces.provider))
    async with app.worker():
        await (await app.start("wrap")).result(timeout=20)
    spans: Any = traces.exporter.get_finished_spans()
    assert len({span.context.trace_id for span in spans}) == 1
    tree = tree_of(spans)
    assert {name: tree[name] for name in ("run wrap", "step pack", "attempt pack", "fold a box")} == {
        "run wrap": "start wrap", "step pack": "start wrap", "attempt pack": "start wrap", "fold a box": "attempt pack",
    }  # fmt: skip


# SPEC O5
async def test_without_opentelemetry_the_context_is_there_all_the_same() -> None:
    """Every run has a `traceparent` from its creation, and hands it on to steps, children and runs it starts."""
    app = make_app()

    @app.step(name="order")
    async def order() -> str:
        return (await app.start("wrap")).uid

    @app.workflow(name="shop")
    async def shop(ctx: Context) -> str:
        return await order()

    async with app.worker():
        run = await app.start("fulfil", 3)
        traceparents = await run.result(timeout=20)
        own = await trace_of(app, run.uid)
        assert parse(own).span_id == run_span(run.uid)
        assert traceparents[:2] == [own, own]
        assert {parse(each).trace_id for each in traceparents} == {parse(own).trace_id}
        ordered = await (await app.start("shop", trace=CALLER)).result(timeout=20)
        assert await trace_of(app, ordered) == CALLER


@pytest.mark.process
def test_nothing_is_imported_that_nobody_set_up() -> None:
    """A process without OpenTelemetry does not pay for it, nor need it."""
    program = """
import sys
from outlast import Context, Outlast
app = Outlast("memory://")
@app.workflow
async def greet(ctx: Context) -> str:
    return "hello"
assert app.run_sync(greet) == "hello"
print([name for name in sys.modules if name.startswith(("opentelemetry", "prometheus", "cryptography", "sqlalchemy"))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
