"""What `make check` does: format, lint, layers, types. Runs all of them, then says which failed.

The type checkers take most of the time, so they run beside the others. Each prints only when it has something to say.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CHECKS = {
    "types (pyright)": ["pyright"],
    "types (mypy)": ["mypy"],
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "--output-format", "concise", "."],
    "layers": ["importlinter"],
}
# import-linter has no `python -m` of its own, and looks for the package on the path.
RUN_LAYERS = """
import sys
sys.path.insert(0, "src")
from importlinter.cli import lint_imports
sys.exit(lint_imports(no_logo=True))
"""


def run_check(command: list[str]) -> tuple[int, float, str]:
    """Exit status, seconds and output of one check."""
    how = ["-c", RUN_LAYERS] if command == ["importlinter"] else ["-m", *command]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, *how], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, time.monotonic() - began, done.stdout


def main() -> int:
    """Run all, print as each ends; 1 if any failed."""
    failed = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = {name: pool.submit(run_check, command) for name, command in CHECKS.items()}
        for name, future in futures.items():
            status, seconds, output = future.result()
            print(f"{'ok' if status == 0 else 'FAILED':7}{name} ({seconds:.1f} s)", flush=True)
            if status:
                failed.append(name)
                print(output.strip(), flush=True)
    print(f"check: {'failed: ' + ', '.join(failed) if failed else 'all good'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
