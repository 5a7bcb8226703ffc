"""The plans that are kept, and where.

python tests/plans/kept.py      writes them anew
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).parent / "expected"
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from outlast.authoring.workflow import Workflow  # noqa: E402
from outlast.core.plan.mermaid import to_mermaid  # noqa: E402
from outlast.core.plan.plan import Plan  # noqa: E402
from tests.plans import hard, hard_parallel  # noqa: E402
from tests.plans.outline import outline  # noqa: E402

AnyWorkflow = Workflow[..., Any]


def list_hard() -> list[AnyWorkflow]:
    """The bodies of `hard`."""
    return list(hard.app.iter_workflows())


def list_examples() -> list[AnyWorkflow]:
    """Those of the examples."""
    found = []
    for path in sorted((ROOT / "examples").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if ".workflow" in text:
            found += load(path).iter_workflows()
    return found


def load(path: Path) -> Any:
    """The app of an example."""
    name = f"kept_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    known, folder = set(sys.modules), str(path.parent)
    sys.path.insert(0, folder)  # for what it imports from beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
        for other in set(sys.modules) - known:
            if str(getattr(sys.modules[other], "__file__", "")).startswith(folder):
                del sys.modules[other]
    return module.app


def plan_of(workflow: AnyWorkflow) -> Plan:
    """Its plan."""
    assert workflow.plan is not None
    return workflow.plan


def kept() -> dict[str, str]:
    """By file name: what each file is to say."""
    texts = {f"{workflow.name}.txt": outline(plan_of(workflow)) for workflow in list_hard()}
    for workflow in list_examples():
        name = f"example_{workflow.name}"
        if f"{name}.txt" in texts:  # another example has one of this name
            name = f"example_{workflow.fn.__module__.removeprefix('kept_')}_{workflow.name}"
        texts[f"{name}.txt"] = outline(plan_of(workflow))
        texts[f"{name}.mmd"] = to_mermaid(plan_of(workflow)) + "\n"
    for workflow in (hard.nested_loops, hard.trying, hard.matching, hard_parallel.groups):
        texts[f"{workflow.name}.mmd"] = to_mermaid(plan_of(workflow)) + "\n"
    return texts


if __name__ == "__main__":
    for name, text in kept().items():
        path = EXPECTED / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} is changed")
