"""What the runs of `flows` may come to, whatever became of their workers."""

from __future__ import annotations

from typing import Any

__all__ = ["accepted_outputs"]


def accepted_outputs(workflow: str, arguments: list[Any]) -> list[Any]:
    """What a run of it may end with, whatever became of its workers."""
    if workflow in {"chain", "limited"}:
        return [[f"{workflow[0]}{number}!" for number in range(arguments[0])]]
    if workflow == "fan":
        return [[f"{letter}{number}!" for letter in "tgm" for number in range(arguments[0])]]
    if workflow == "plainly":
        width = arguments[0]
        return [[*(f"p{number}!" for number in range(width)), "pt!", *["pf!"] * width, "tidy!"]]
    if workflow == "sleepy":
        return [["before!", outcome, "after!"] for outcome in ("timed out", "in time")]
    if workflow == "graph":
        fan = ",".join(f'"{item}!"' for item in arguments[0])
        return [[f"[{fan}] b!!b!!!", "ill!"]]
    if workflow == "queued":
        done = [*(f"q{number}!" for number in range(arguments[0])), "qt!", "qh!", "qf!"]
        return [[*done, got] for got in ("o!", "interrupted")]
    if workflow == "asking":
        return [["before!", 7, value, user, "after!"] for value, user in ((True, "bob"), (False, "eve"))]
    if workflow in {"guarded", "guarded_by_queue"}:
        return [[got, "after!"] for got in ("o!", "interrupted")]
    if workflow == "family":
        return [["leaf!"] * 3 ** arguments[0]]
    if workflow == "stumbling":
        return [[*range(arguments[0])]]
    if workflow in {"rounds", "hearing"}:
        most = arguments[0]
        return [[f"r{most}!", f"n{most}!"] if workflow == "rounds" else [*range(most)]]
    return {
        "mended": [["before!", f"{arguments[0]}!", "after!"]],
        "waiting": ["w!"],
        "parked": ["woken!"],
        "by_queue": ["s!"],
        "retrying": [["a!", "b!", "c!"]],
    }[workflow]
