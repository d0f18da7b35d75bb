"""Benchmarks of clusters and nodes on a small scale: their figures are about what they say."""

from __future__ import annotations

import asyncio

import pytest

from dray.bench import cluster, explain, history, node
from tests.cluster.site import needs_sandbox


def test_every_pod_is_bound_and_every_hopeless_one_is_told_once() -> None:
    scale = cluster.ClusterScale(nodes=2, pods=10, hopeless=3, quiet_seconds=0.1, records=True)
    report = asyncio.run(cluster.run(scale))
    assert (report.nodes, report.pods, report.events) == (2, 10, 3)
    assert report.created_per_s >= report.pods_per_s > 0
    assert report.readyz_p99_ms >= report.readyz_p50_ms >= 0


def test_bench_history_asks_a_record_of_the_size_that_it_was_given() -> None:
    report = history.run(history.HistoryScale(changes=4000, devices=50, questions=5))
    assert (report.changes, report.devices) == (4000, 50)
    assert report.bytes_per_change == pytest.approx(report.file_mb * 1e6 / 4000)
    assert 0 < report.at_p50_ms <= report.at_max_ms
    assert 0 < report.node_at_p50_ms <= report.node_at_max_ms
    assert 40 < report.held <= 50


@needs_sandbox
def test_bench_node_measures_starts_and_nodes() -> None:
    report = asyncio.run(node.run(node.NodeScale(single=2, together=3, nodes=5)))
    assert 0 < report.start_p50_ms <= report.start_max_ms
    assert 0 < report.claim_p50_ms <= report.claim_max_ms
    assert report.together_s > 0
    assert report.nodes == 5


@pytest.mark.slow
def test_bench_explain_asks_every_question_of_a_running_cluster() -> None:
    report = explain.run(explain.ExplainScale(nodes=3, runs=1))
    assert (report.nodes, report.runs) == (3, 1)
    assert report.selector_cpu_s > 0
    assert report.count_cpu_s > 0
    assert report.constraint_cpu_s > 0
