"""A verdict as Markdown."""

from __future__ import annotations

import os
import platform
from collections import Counter

from tests.chaos.storm import Verdict

__all__ = ["write_report"]


def write_report(verdict: Verdict) -> str:
    """A section for docs/chaos.md."""
    plan = verdict.plan
    words = [
        (
            f"Seed {plan.seed}: `{command_of(verdict)}`, {plan.workers} workers with leases of {plan.lease_s:g} s, on "
            f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()}, "
            f"PostgreSQL {verdict.server}; {verdict.took_s:.0f} s in all."
        ),
        "",
        *_table("fault", verdict.faults),
        *_table("asked for", verdict.load),
        *_table("seen", verdict.seen),
        *_table("runs, and how they ended", verdict.runs),
        (
            f"After the last fault (all workers but one killed at once) everything had ended within "
            f"{verdict.ended_after_s:.1f} s; two leases and the back-offs then due allow {verdict.allowed_s:.1f} s."
        ),
        "",
    ]
    if verdict.is_late:
        words += ["**That is late.**", ""]
    if verdict.problems:
        words += [f"**{len(verdict.problems)} things were wrong:**", "", *(f"- {text}" for text in verdict.problems)]
    else:
        words.append(
            "Nothing was wrong: no run was lost, no result lost or recorded twice, every effect stood under the one "
            "invocation id of its step, and every journal replays to the same end."
        )
    return "\n".join(words) + "\n"


def command_of(verdict: Verdict) -> str:
    """What makes the same storm again, as far as the operating system allows."""
    plan = verdict.plan
    return f'make chaos ARGS="--seed {plan.seed} --minutes {plan.seconds / 60:g}"'


def _table(title: str, counts: Counter[str]) -> list[str]:
    rows = [f"| {name} | {count:,} |" for name, count in sorted(counts.items())]
    return [f"| {title} | |", "| :-- | --: |", *rows, ""]
