"""Steps that write down what they do and what they undo."""

from __future__ import annotations

import pytest

from outlast import Outlast, RunFailed, current_step


class Shop:
    """Steps that write down what they do and undo."""

    def __init__(self, app: Outlast, diary: list[str]) -> None:
        @app.step(name="charge", retries=0)
        async def charge(amount: int, note: str = "") -> str:
            diary.append(f"charge {amount}")
            return f"receipt {amount}"

        @charge.compensation
        async def refund(amount: int, note: str, receipt: str) -> None:
            diary.append(f"refund {amount} {receipt} for {current_step().compensating_for}")

        @app.step(name="boom", retries=0)
        async def boom() -> None:
            raise ValueError("boom")

        self.charge, self.refund, self.boom = charge, refund, boom


async def fails(run) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        await run.result(timeout=10)
    return caught.value
