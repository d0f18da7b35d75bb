"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.fixture(autouse=True)
def strict(request):
    assert request.config.option.strict_markers

def test_a_cluster_without_a_marker(cluster):
    assert len(cluster.list("nodes")) == 3

@pytest.mark.dray(fleet="h100", nodes=1, check=True)
class TestOfAClass:
    def test_the_marker_of_the_class_counts(self, cluster):
        assert [each["metadata"]["name"] for each in cluster.list("nodes")] == ["h100-0"]

    @pytest.mark.dray(nodes=2)
    def test_the_nearest_marker_wins(self, cluster):
        assert len(cluster.list("nodes")) == 2

@pytest.mark.dray(fleets="h100")
def test_a_misspelt_option(cluster):
    pass

@pytest.mark.dray("h100")
def test_an_option_without_a_name(cluster):
    pass
"""
EXPECTED = (
    "pytest.mark.dray takes fleet, nodes, feature_gates, check by name, not fleets",
    "pytest.mark.dray takes fleet, nodes, feature_gates, check by name, not 'h100'",
)


def test_fixture_and_marker(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS, "utf-8")
    options = ["-q", "-W", "error", "--strict-markers", "-p", "dray.testing.plugin"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed, 2 errors" in ran.stdout, ran.stdout + ran.stderr
    for text in EXPECTED:
        assert text in ran.stdout


def test_loading_the_plugin_loads_nothing_heavy() -> None:
    code = "import sys, dray.testing.plugin; print('dray.cluster.assembly' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_an_unknown_name_is_an_error() -> None:
    import dray.testing

    with pytest.raises(AttributeError, match="has no attribute 'Clusters'"):
        _ = dray.testing.Clusters
