"""A plain `def` workflow, for code that knows nothing of asyncio: it pays back a list of customers, and tells them.

    pip install 'outlast[sync]'
    python refunds.py ada bob eve

Kill it in the middle and call it again: who has been paid is not paid twice. While it waits it holds no thread.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

from outlast import Context, Outlast, current_step

app = Outlast("sqlite:///refunds.db")


@app.step(retries=3, backoff="1s")
def pay_back(customer: str, cents: int) -> str:
    """Give the bank an id for the payment: it takes each once, however often the step is tried."""
    payment = current_step().invocation_id
    with closing(sqlite3.connect("bank.db")) as bank, bank:
        bank.execute("create table if not exists payments (id text primary key, customer text, cents int)")
        bank.execute("insert or ignore into payments values (?, ?, ?)", (payment, customer, cents))
    return payment


@app.step
def tell(customer: str, payment: str) -> str:
    return f"dear {customer}, your money is on its way: {payment}"


def settle(ctx: Context, customer: str) -> str:
    """One customer: two steps, one after the other."""
    payment = ctx.wait(pay_back(customer, 1200))
    return ctx.wait(tell(customer, payment))


@app.workflow
def refunds(ctx: Context, customers: list[str]) -> list[str]:
    """All customers at once; then a while to object, and it is done."""
    letters = ctx.gather(*(lambda customer=customer: settle(ctx, customer) for customer in customers))
    ctx.wait(ctx.milestone("everybody is paid"))
    ctx.wait(ctx.sleep("200ms"))
    return letters


if __name__ == "__main__":
    people = sys.argv[1:] or ["ada", "bob"]
    for letter in app.run_sync(refunds, people, id=f"refunds to {', '.join(people)}"):
        print(letter)
