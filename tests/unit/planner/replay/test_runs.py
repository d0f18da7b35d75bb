"""Runs over small traces, their summaries and charts."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import pytest

from dray.planner.policies.by_name import POLICIES
from dray.planner.policies.interface import FirstGpu
from dray.planner.policies.rooms import NodeRoom, PodRequest
from dray.planner.replay import chart, runs, summaries
from dray.planner.traces import arrivals
from dray.planner.traces.openb import Trace, TraceNode, TracePod

NODES = [TraceNode("n0", 8000, 100, 2, "T4"), TraceNode("n1", 8000, 100, 2, "T4")]


def pod(name: str, parts: int, arrives: int | None = None, leaves: int | None = None) -> TracePod:
    gpus, part = (1, parts) if parts <= 1000 else (parts // 1000, 1000)
    return TracePod(name, PodRequest(1000, 10, gpus, part), arrives, leaves)


TRACE = Trace(NODES, [pod("a", 500), pod("b", 1000), pod("c", 2000)])


def test_every_pod_arrives_once_and_then_pods_are_drawn_up_to_the_demand() -> None:
    pods = arrivals.shuffled(TRACE, 3.0, seed=1)
    assert {each.name for each in pods[:3]} == {"a", "b", "c"}
    requested = sum(each.request.parts for each in pods)
    assert 12_000 - 2000 < requested <= 12_000
    assert arrivals.shuffled(TRACE, 3.0, seed=1) == pods
    assert arrivals.shuffled(TRACE, 3.0, seed=2) != pods


def test_pods_are_left_out_where_the_trace_requests_more_than_the_demand() -> None:
    for seed in range(20):
        pods = arrivals.shuffled(TRACE, 0.5, seed)
        assert sum(each.request.parts for each in pods) <= 2000


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_is_repeatable_and_counts_what_it_drops(policy: str) -> None:
    run = runs.replay(TRACE, policy, seed=3, demand=2.0)
    assert runs.replay(TRACE, policy, seed=3, demand=2.0) == run
    assert run.pods == len(run.placements)
    assert run.dropped == sum(placement.node is None for placement in run.placements)
    parts = {each.name: each.request for each in TRACE.pods}
    used: Counter[tuple[str, int]] = Counter()
    for placement in run.placements:
        request = parts[placement.pod]
        assert len(placement.gpus) == (request.gpus if placement.node else 0)
        for gpu in placement.gpus:
            used[placement.node or "", gpu] += request.part
    assert max(used.values()) <= 1000
    assert run.final == sum(used.values()) / 40


def test_all_policies_get_the_same_pods() -> None:
    orders = [
        [placement.pod for placement in runs.replay(TRACE, policy, 5).placements]
        for policy in POLICIES
    ]
    assert all(order == orders[0] for order in orders)


def test_a_sample_is_the_first_at_each_percent() -> None:
    pods = [TracePod(f"p{number}", PodRequest(0, 0, 1, 10)) for number in range(400)]
    run = runs.replay(Trace(NODES, pods), "first-fit", 1, demand=1.0)
    assert [(s.at, s.allocated) for s in run.samples] == [(n, n) for n in range(101)]
    assert run.allocated_at(50) == 50


def test_pods_leave_at_the_times_of_the_trace() -> None:
    pods = [
        pod("a", 2000, 0, 100),
        pod("b", 2000, 10, 20),
        pod("c", 2000, 15, 60),  # no room until b leaves, and it does not wait
        pod("d", 2000, 20, 60),  # takes the room of b, which leaves at that moment
        pod("e", 1000, 90, 90),
    ]
    run = runs.replay(Trace(NODES, pods), "first-fit", 1, has_departures=True)
    placed = {placement.pod: placement.node for placement in run.placements}
    assert placed == {"a": "n0", "b": "n1", "c": None, "d": "n1", "e": "n1"}
    assert run.samples[-1] == runs.Sample(100.0, 0.0, 0.0)
    assert run.peak == 100
    (line,) = summaries.summaries([run], has_departures=True)
    # Half for 100 s, half for the 50 s of b and d, and a quarter for the second of e.
    assert line.mean == pytest.approx(50 + 25 + 0.25)
    assert line.peak == 100


def test_departures_need_times() -> None:
    with pytest.raises(ValueError, match="pod a has no creation_time"):
        runs.replay(TRACE, "first-fit", 1, has_departures=True)


class LastFit(FirstGpu):
    """The last node in the list."""

    def score(self, node: NodeRoom, request: PodRequest) -> int:
        return node.index


def test_a_policy_can_be_ones_own() -> None:
    run = runs.replay(TRACE, LastFit(), 1, demand=0.3)
    assert run.policy == "LastFit"
    assert run.placements[0].node == "n1"


def test_a_trace_needs_a_pod_with_a_gpu() -> None:
    with pytest.raises(ValueError, match="no pod of the trace requests a GPU"):
        runs.replay(Trace(NODES, [TracePod("a", PodRequest(1, 1))]), "fgd", 1)


def test_a_summary_has_the_mean_and_the_extremes_of_the_seeds() -> None:
    made = [runs.replay(TRACE, "random", seed, demand=2.0) for seed in (1, 2, 3)]
    (line,) = summaries.summaries(made)
    reached = [run.final for run in made]
    assert (line.lowest, line.highest) == (min(reached), max(reached))
    assert line.mean == pytest.approx(sum(reached) / 3)
    assert line.seeds == [1, 2, 3]


def test_charts_have_a_line_for_each_policy_and_for_the_demand() -> None:
    trace = Trace(NODES, [pod(f"p{n}", 300, n * 1000, n * 1000 + 5000) for n in range(20)])
    policies = ["best-fit", "fgd"]
    still = [runs.replay(trace, policy, 1, demand=1.5) for policy in policies]
    timed = [runs.replay(trace, policy, 1, has_departures=True) for policy in policies]
    for text in (
        chart.against_demand(summaries.mean_curves(still), "GPUs"),
        chart.over_time(timed),
    ):
        root = ElementTree.fromstring(text)
        space = {"svg": "http://www.w3.org/2000/svg"}
        lines = root.findall("svg:polyline", space)
        assert len(lines) == 3
        words = [each.text for each in root.findall("svg:text", space)]
        assert {"best-fit", "fgd", "requested"} <= set(words)
        points = [point.split(",") for line in lines for point in line.attrib["points"].split()]
        assert all(0 <= float(x) <= 760 and 0 <= float(y) <= 440 for x, y in points)
