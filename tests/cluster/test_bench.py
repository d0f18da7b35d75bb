"""The cluster benchmark on a small scale: its figures are about what it says."""

from __future__ import annotations

import asyncio

from dray.bench import cluster


def test_every_pod_is_bound_and_every_hopeless_one_is_told_once() -> None:
    scale = cluster.Scale(nodes=2, pods=10, hopeless=3, quiet_seconds=0.1)
    report = asyncio.run(cluster.run(scale))
    assert (report.nodes, report.pods, report.events) == (2, 10, 3)
    assert report.created_per_s >= report.pods_per_s > 0
    assert report.readyz_p99_ms >= report.readyz_p50_ms >= 0
