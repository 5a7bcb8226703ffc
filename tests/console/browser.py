"""The Chromium of this machine, found, or installed from the distribution's packages where that is allowed."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

import pytest

__all__ = ["FLAGS", "find_chromium"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox",  # the tests may run as root, in a container
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@functools.cache
def find_chromium() -> str:
    """Its path. In CI it is a failure that there is none; on a desk the tests are skipped."""
    given = os.environ.get("OUTLAST_TEST_CHROMIUM")
    found = given or next(filter(None, map(shutil.which, NAMES)), None) or _install()
    if found is None:
        message = "No Chromium is here: install one, or name it in OUTLAST_TEST_CHROMIUM."
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


def _install() -> str | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
        subprocess.run(command, check=False, capture_output=True, timeout=300)
    return shutil.which("chromium")
