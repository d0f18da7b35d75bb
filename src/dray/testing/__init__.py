"""For users' tests: a whole cluster with a simulated fleet, ready in milliseconds.

    def test_my_pod_gets_a_gpu(cluster):
        cluster.apply(MANIFESTS)
        cluster.wait_for_pod("trainer", "Running")

With pytest the fixture `cluster` is there as soon as dray is installed; without it, `Cluster` is a
context manager. Slow imports happen when the first cluster is made.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dray.testing.clusters import Cluster
    from dray.testing.drivers import DriverUnderTest
    from dray.testing.explanations import ExplainedPod
    from dray.testing.plugin import cluster

__all__ = ["Cluster", "DriverUnderTest", "ExplainedPod", "cluster"]

_MODULES = {
    "Cluster": "clusters",
    "DriverUnderTest": "drivers",
    "ExplainedPod": "explanations",
    "cluster": "plugin",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
