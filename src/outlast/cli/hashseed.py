"""One hash seed for every process that runs bodies. Layer: cli.

Python orders a set of strings by a seed that differs in each process, so a body that iterates one would take another
path on replay. `outlast run` and `outlast worker` therefore start themselves anew, once, with `PYTHONHASHSEED=0`,
before anything of the user's is imported or standard input is read: process id, files and signals stay the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import click

from outlast.cli.options import Settings

__all__ = ["fix_hash_seed", "is_wanted", "reexec_option"]

SEED = "0"

reexec_option = click.option(
    "--no-reexec",
    is_flag=True,
    help="Do not start this process anew to fix PYTHONHASHSEED (also: OUTLAST_NO_REEXEC=1).",
)


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether to start anew, by what the environment says: a seed that is given stays."""
    if environment.get("OUTLAST_NO_REEXEC", "").lower() not in {"", "0", "false", "no", "off"}:
        return False
    return environment.get("PYTHONHASHSEED", "random") == "random"


def _is_possible() -> bool:
    """Whether it would change anything: `-E` and `-I` make Python deaf to its environment."""
    return bool(sys.flags.hash_randomization and not sys.flags.ignore_environment and sys.executable)


def fix_hash_seed(settings: Settings, /, *, no_reexec: bool) -> None:
    """Start this process anew with a fixed seed, if it is ours and has none; then this does not return."""
    if no_reexec or not settings.is_process or not is_wanted(os.environ) or not _is_possible():
        return
    os.environ["PYTHONHASHSEED"] = SEED
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves, with the same arguments
