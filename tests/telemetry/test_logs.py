"""What a log line carries, and how errors are told (SPEC R8, O5)."""

from __future__ import annotations

import contextlib
import importlib
import logging

import pytest
from msgspec import Raw

from outlast import Context, Outlast
from outlast.core.events import ErrorRecord, RunStarted
from outlast.telemetry.logs import ENGINE, fields, log_run_failed, log_step_failed, one_line

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STARTED = RunStarted(1, "u-1", "A-17", "fulfil", "v1", Raw(b"null"), 7, "3.11", trace=TRACE)
BUG = ErrorRecord("KeyError", "'x'", traceback="Traceback (most recent call last):\n  File shop.py\nKeyError: 'x'\n")
DECLINED = ErrorRecord("CardDeclined", "no\nfunds", traceback="Traceback …", expected=True)


@pytest.fixture(autouse=True)
def _all_levels(caplog):
    caplog.set_level(logging.DEBUG, logger="outlast")


# SPEC R8
def test_an_expected_error_is_one_line(caplog):
    """A declined card is not a bug: no traceback, and no more than a warning."""
    log_step_failed(STARTED, "charge", 6, DECLINED, will_retry=False)
    (record,) = caplog.records
    assert record.getMessage() == "step charge of run A-17 failed, attempt 6: CardDeclined: no funds"
    assert record.levelno == logging.WARNING


# SPEC R8
def test_any_other_error_comes_with_its_traceback(caplog):
    """What its author did not expect is an error, with all there is to find it."""
    log_step_failed(STARTED, "charge", 6, BUG, will_retry=False)
    (record,) = caplog.records
    assert record.getMessage().startswith("step charge of run A-17 failed, attempt 6: KeyError: 'x'\nTraceback")
    assert record.getMessage().endswith("KeyError: 'x'")
    assert record.levelno == logging.ERROR


# SPEC S4
def test_a_failure_that_is_retried_is_a_warning(caplog):
    """Nothing has failed for good yet; the line says that another attempt follows."""
    log_step_failed(STARTED, "charge", 1, BUG, will_retry=True)
    (record,) = caplog.records
    assert "it is retried" in record.getMessage()
    assert record.levelno == logging.WARNING


# SPEC O5
def test_every_line_carries_run_step_attempt_and_trace(caplog):
    """As attributes of the record: a JSON formatter finds them, and a filter can rely on them."""
    log_step_failed(STARTED, "charge", 2, BUG, will_retry=True)
    log_run_failed(ENGINE, STARTED, BUG)
    ENGINE.info("nothing in particular", extra=fields(None))
    carried = [(record.run, record.step, record.attempt, record.trace) for record in caplog.records]
    assert carried == [("A-17", "charge", 2, TRACE), ("A-17", None, None, TRACE), (None, None, None, None)]


def test_a_failed_run_is_an_error_unless_it_was_expected(caplog):
    """The level says whose problem it is."""
    log_run_failed(ENGINE, STARTED, BUG)
    log_run_failed(ENGINE, STARTED, DECLINED)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_a_peers_text_cannot_look_like_a_line_of_ours():
    """Line breaks and endless text of an error's message do not get into a line."""
    assert one_line("a\nERROR outlast: b\r\n\tc") == "a ERROR outlast: b c"
    assert len(one_line("x" * 9000)) == 500


async def test_a_handler_that_raises_costs_no_run(capsys):
    """A line that cannot be written is the log's trouble: the step's failure is recorded, and its place given back."""

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("no room for logs")

    app = Outlast("memory://")

    @app.step(name="fails")
    async def fails() -> None:
        raise ValueError("no")

    @app.workflow(name="fails-twice")
    async def fails_twice(ctx: Context) -> str:
        for _ in range(2):
            with contextlib.suppress(ValueError):
                await fails.options(retries=0)()
        return "done"

    broken = Broken(logging.WARNING)
    logging.getLogger("outlast").addHandler(broken)
    try:
        async with app.worker(concurrency=1):
            run = await app.start(fails_twice)
            assert await run.result(timeout=10) == "done"
    finally:
        logging.getLogger("outlast").removeHandler(broken)
    assert "no room for logs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("outlast.engine.writer", "outlast.writer"),
        ("outlast.engine.heartbeat", "outlast.lease"),
        ("outlast.stores.sqlite.writer", "outlast.stores.sqlite"),
        ("outlast.stores.sqlite.session", "outlast.stores.sqlite"),
        ("outlast.stores.sqlite.checkpoint", "outlast.stores.sqlite"),
        ("outlast.stores.sqlite.hints", "outlast.stores.sqlite"),
        ("outlast.telemetry.observer", "outlast.telemetry"),
    ],
)
def test_no_logger_of_the_engine_lets_a_broken_filter_out(module, name, capsys):
    """A thread that keeps the lease, or the writer of all runs, must not end for a line that cannot be written."""

    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError("no room for logs")

    log = importlib.import_module(module)._log
    logging.getLogger(name).addFilter(refuse)
    try:
        log.error("something")
    finally:
        logging.getLogger(name).removeFilter(refuse)
    assert "no room for logs" in capsys.readouterr().err
