"""A new project passes the conformance suite, as its README says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dray.conformance.checks import catalogue
from tests import rounds
from tests.cli.driver_new.conftest import OPTIONS
from tests.cluster import test_conformance_suite as suite

pytestmark = [pytest.mark.slow, pytest.mark.random]


@pytest.mark.parametrize("name", OPTIONS if rounds.CHOSEN.is_long else ("parted-shared",))
def test_a_new_driver_passes(
    name: str, projects: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = projects[name]
    monkeypatch.setenv("PYTHONPATH", os.fspath(folder / "src"))
    package = f"{name}-driver".replace("-", "_")
    results = suite.checked(f"-m {package}")
    assert suite.failures(results) == {}
    assert {result.check.id for result in results} == {check.id for check in catalogue.CHECKS}
    readme = (folder / "README.md").read_text("utf-8")
    printed = re.search(r'dray conformance --command "(.*)"', readme)
    assert printed is not None
    program, *options = printed[1].split()
    assert (program, " ".join(options)) == (f"{name}-driver", suite.OPTIONS)
