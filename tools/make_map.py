"""Writes docs/modules.md: every module with the first line of its docstring.

`python -m tools.make_map`, or `make generate`. A test holds the file against the tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TARGET = ROOT / "docs" / "modules.md"
HEAD = """# Every module, and what it owns

Made from the first lines of the docstrings by `make generate`. Packages stand in the order of
the layers: what comes first never imports what comes later.
"""
LAYERS = (
    *("api", "cel", "validation", "allocator", "partitions", "scheduling", "explain", "store"),
    *("client", "protocol", "driverkit", "apiserver", "scheduler", "controllers", "node"),
    *("drivers", "cluster", "testing", "bench", "cli"),
)


def page() -> str:
    sections = [HEAD, *map(_section, _packages())]
    return "\n".join(sections)


def _packages() -> Iterator[Path]:
    yield SOURCE / "dray"
    for root in (SOURCE / "dray" / name for name in LAYERS):
        yield from sorted({path.parent for path in root.rglob("*.py")})


def _section(package: Path) -> str:
    name = ".".join(package.relative_to(SOURCE).parts)
    lines = [f"## {name}\n", _first_line(package / "__init__.py") + "\n"]
    modules = [path for path in sorted(package.glob("*.py")) if path.name != "__init__.py"]
    if modules:
        lines += ["| module | owns |", "|---|---|"]
    lines += [f"| `{path.stem}` | {_first_line(path)} |" for path in modules]
    return "\n".join(lines) + "\n"


def _first_line(path: Path) -> str:
    if not path.exists():
        return ""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return text.split("\n")[0].replace("|", "\\|").rstrip(".") if text else ""


def main() -> None:
    TARGET.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
