"""What pyproject.toml and the tree say about the project."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import dray

ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = "Programming Language :: Python :: "


@dataclass(frozen=True)
class Project:
    """The facts that what is published repeats."""

    version: str
    pythons: tuple[str, ...]
    """Versions of Python that dray is tested with, oldest first."""
    programs: Mapping[str, str]
    """Where the function of each program is."""
    description: str
    licence: str


def read() -> Project:
    """Return the facts of this tree."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return Project(
        version=dray.__version__,
        pythons=tuple(
            each.removeprefix(PYTHON) for each in table["classifiers"] if each.startswith(PYTHON)
        ),
        programs=table["scripts"],
        description=table["description"],
        licence=table["license"],
    )
