"""Bodies that go on as a next round."""

from __future__ import annotations

from outlast import Context, Outlast, current_step

__all__ = ["PATIENCE_S", "declare_counting", "declare_reading"]

PATIENCE_S = 20


def declare_counting(app: Outlast, ids: list[str]) -> None:
    @app.step(name="count", retries=0)
    async def count(n: int) -> int:
        ids.append(current_step().invocation_id)
        return n + 1

    @app.workflow(name="counting")
    async def counting(ctx: Context, most: int, n: int = 0) -> int:
        n = await count(n)
        if n < most:
            await ctx.continue_as_new(most, n)
        return n


def declare_reading(app: Outlast) -> None:
    @app.workflow(name="reading")
    async def reading(ctx: Context, most: int, seen: list[int] | None = None) -> list[int]:
        """One signal in each round."""
        seen = [*(seen or []), await ctx.wait_for("number", int)]
        if len(seen) < most:
            await ctx.continue_as_new(most, seen)
        return seen
