"""Walk many schedules of the engine: `make simulate ARGS="--schedules 100000 --seed 7"`.

The last lines say how many, of which seeds, and what they met; each failure is told with the seed that makes it happen
again, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.engine.exploring import explore, seeds_of, walk


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="make simulate", description="Random schedules of the engine, with faults.")
    parser.add_argument("--schedules", type=int, default=10_000, help="how many (default: 10,000)")
    parser.add_argument("--seed", default="1", help="all of them follow from it (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first of them (default: 0)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--most-failures", type=int, default=10, help="stop after so many (default: 10)")
    parser.add_argument("--walk", metavar="SEED", help="only this one, such as 1/17")
    options = parser.parse_args()
    if options.walk is not None:
        found = walk(options.walk)
        print(found if found.problems else f"seed {found.seed!r}: all is well, {dict(found.met)}")
        return 1 if found.problems else 0
    seeds = seeds_of(options.seed, options.schedules, options.first)
    findings = explore(
        seeds,
        most_failures=options.most_failures,
        seconds=options.seconds,
        on_failure=lambda failed: print(failed, flush=True),
    )
    print(f"seed {options.seed}, from number {options.first}: {findings}")
    return 1 if findings.failures else 0


if __name__ == "__main__":
    sys.exit(main())
