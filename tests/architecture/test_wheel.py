"""What is installed is what was tested: the built wheel, in a fresh environment, works."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, list_files

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(300)]


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed; on failure, all it said."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `make build` makes it."""
    folder = tmp_path_factory.mktemp("dist")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("outlast-*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Every file of the package that git has is in the wheel, SQL and `py.typed` too; no test is."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("LICENSE")]
    ours = {str(path.relative_to("src")) for path in list_files() if path.is_relative_to("src")}
    assert packed == ours
    assert licences


def test_the_wheel_runs_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    """With its core dependencies alone, `outlast --version` answers, and `import outlast` works."""
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    run(*pip, "--require-hashes", "-r", ROOT / "requirements" / "run.lock", cwd=tmp_path)
    run(*pip, "--no-deps", "--no-index", wheel, cwd=tmp_path)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert version in run(tmp_path / "venv" / "bin" / "outlast", "--version", cwd=tmp_path)
    assert run(python, "-c", "import outlast; print(outlast.__name__)", cwd=tmp_path).strip() == "outlast"
    run(python, "-m", "pip", "check", cwd=tmp_path)
