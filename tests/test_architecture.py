"""The rules of the tree that a tool can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tools import make_map

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "src" / "dray").rglob("*.py"))


def module_id(path: Path) -> str:
    return str(path.relative_to(ROOT / "src"))


def test_imports_point_down_and_the_core_is_pure() -> None:
    result = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_module_says_what_it_owns(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), "a module starts with a docstring"


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_all_is_sorted_and_complete(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    exported = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    ]
    if not exported:
        return
    names = list(exported[0])
    assert names == sorted(names)
    defined = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    missing = {name for name in defined if not name.startswith("_")} - set(names)
    assert not missing, f"public and not in __all__: {sorted(missing)}"


def test_only_the_schema_builder_knows_lightkube() -> None:
    offenders = [module_id(p) for p in MODULES if "import lightkube" in p.read_text("utf-8")]
    assert offenders == []


def test_the_map_of_modules_is_current() -> None:
    assert make_map.TARGET.read_text("utf-8") == make_map.page(), "run `make generate`"


def test_help_does_not_import_the_commands() -> None:
    code = (
        "import sys, dray.cli.main; print(sorted(m for m in sys.modules if m.startswith('dray')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.strip() == "['dray', 'dray.cli', 'dray.cli.lazy_group', 'dray.cli.main']"
