import asyncio

from outlast import Context, Outlast, current_step

app = Outlast("sqlite:///shop.db")


@app.step(retries=3, timeout="30s")
async def charge(order: str, amount: int) -> str:
    return f"receipt for {order}, {amount}, {current_step().invocation_id}"


@app.step
def pack(item: str) -> str:  # a plain function runs in a thread
    return f"parcel of {item}"


@app.workflow
async def fulfil(ctx: Context, order: str, items: list[str]) -> list[str]:
    await charge(order, 30)  # recorded once, never run again
    async with asyncio.TaskGroup() as group:  # real asyncio, the same on every replay
        parcels = [group.create_task(pack(item)) for item in items]
    await ctx.sleep("5s")  # or "30d": it costs one row, no memory
    return [parcel.result() for parcel in parcels]


if __name__ == "__main__":
    print(app.run_sync(fulfil, "A-17", ["book", "lamp"], id="A-17"))
