"""Benchmarks of clusters and nodes on a small scale: their figures are about what they say."""

from __future__ import annotations

import asyncio

from dray.bench import cluster, node
from tests.cluster.site import needs_sandbox


def test_every_pod_is_bound_and_every_hopeless_one_is_told_once() -> None:
    scale = cluster.Scale(nodes=2, pods=10, hopeless=3, quiet_seconds=0.1)
    report = asyncio.run(cluster.run(scale))
    assert (report.nodes, report.pods, report.events) == (2, 10, 3)
    assert report.created_per_s >= report.pods_per_s > 0
    assert report.readyz_p99_ms >= report.readyz_p50_ms >= 0


@needs_sandbox
def test_bench_node_measures_starts_and_nodes() -> None:
    report = asyncio.run(node.run(node.Scale(single=2, together=3, nodes=5)))
    assert 0 < report.start_p50_ms <= report.start_max_ms
    assert 0 < report.claim_p50_ms <= report.claim_max_ms
    assert report.together_s > 0
    assert report.nodes == 5
