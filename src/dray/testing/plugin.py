"""The pytest plugin: the fixture `cluster`, and the marker `dray` with its options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dray.testing.clusters import Cluster

MARKER = "dray"
OPTIONS = ("fleet", "nodes", "feature_gates", "check")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(fleet, nodes, feature_gates, check): which cluster the fixture `cluster` is, "
        "and whether its invariants are checked when the test ends",
    )


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A whole cluster for this test alone, configured with `@pytest.mark.dray(fleet="h100")`."""
    from dray.testing.clusters import Cluster

    options = _options(request)
    is_checked = options.pop("check", False)
    with Cluster(**options) as running:
        yield running
        if is_checked:
            running.check()


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Merge the options of all markers on the test, its class and its module; the nearest wins."""
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        unknown = [repr(argument) for argument in marker.args]
        unknown += [name for name in marker.kwargs if name not in OPTIONS]
        if unknown:
            raise pytest.UsageError(
                f"pytest.mark.{MARKER} takes {', '.join(OPTIONS)} by name, not {unknown[0]}"
            )
        options |= marker.kwargs
    return options
