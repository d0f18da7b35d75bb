"""The projects of `dray driver new`, one for each combination of its options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import run

OPTIONS = {
    "exclusive": [],
    "parted": ["--partitions"],
    "shared": ["--shared"],
    "parted-shared": ["--partitions", "--shared"],
}


@pytest.fixture(scope="package")
def projects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("projects")
    made = {name: folder / f"{name}-driver" for name in OPTIONS}
    for name, options in OPTIONS.items():
        result = run("driver", "new", name, *options, "--directory", str(made[name]))
        assert result.exit_code == 0, result.output
    return made
