"""The driver npu.py, tested in a whole cluster: `pytest examples/drivers/test_npu.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples.drivers.npu import Npu

from dray.testing import Cluster

MANIFESTS = Path(__file__).with_name("npu.yaml")


@pytest.mark.dray(check=True)
def test_partitions_that_are_in_use_never_overlap(cluster: Cluster) -> None:
    with cluster.driver(Npu(), node="gpu-0"):
        cluster.apply(MANIFESTS)
        cluster.wait_for_pod("small")
        # The whole NPU has cores that the first pod uses.
        cluster.wait_for(lambda: "PodScheduled" in str(cluster.get("pod", "large")), "a decision")
        assert not cluster.get("pod", "large")["spec"].get("nodeName")
        cluster.delete("pod", "small")
        cluster.wait_for_pod("large")
