"""The decision as a library: from plain objects to assignments or reasons."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from dray.api import features as gates
from dray.api.ids import ClaimKey, DeviceId
from dray.api.types.meta import JsonObject
from dray.scheduling import unschedulable, wake_events
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, decide
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable
from tests.unit.scheduler.world import (
    DRIVER,
    claim,
    device_class,
    exactly,
    gpu_slice,
    node,
    pod,
)
from tests.unit.scheduling.objects import NOW, build, convert, devices, outcome, pods

PREEMPTING = gates.with_gates(gates.DEFAULT, {"DrayPreemption": True})
GROUPS = gates.with_gates(
    gates.DEFAULT, {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
)


def fleet(**gpus: int) -> list[JsonObject]:
    """A device class, and nodes with so many GPUs."""
    bodies = [device_class()]
    for name, count in gpus.items():
        bodies += [node(name), gpu_slice(name, count)]
    return bodies


def holders(state: SchedulingState, pool: str, device: str) -> tuple[ClaimKey, ...]:
    return state.inventory.holders_of(DeviceId(DRIVER, pool, device))


def test_a_pod_gets_a_node_and_devices() -> None:
    state = build(*fleet(one=1, two=2), claim("x", exactly(count=2)))
    [decision] = decide(state, pods(pod("p", "x")), now=NOW)
    assert isinstance(decision, NodeAssignment)
    assert (decision.node, devices(decision)) == ("two", ["two/gpu-0", "two/gpu-1"])
    assert [assigned.claim.key for assigned in decision.fit.claims] == [ClaimKey("default", "x")]
    assert [assigned.consumer.uid for assigned in decision.fit.claims] == ["pod p"]


def test_a_decision_counts_with_those_before_until_they_are_released() -> None:
    state = build(*fleet(one=1), claim("x"), claim("y"))
    first, second = pods(pod("p", "x"), pod("q", "y"))
    [assignment, rejected] = decide(state, [first, second], now=NOW)
    assert isinstance(assignment, NodeAssignment)
    assert isinstance(rejected, Unschedulable)
    assert holders(state, "one", "gpu-0") == (ClaimKey("default", "x"),)
    state.release(assignment)
    assert holders(state, "one", "gpu-0") == ()
    [decision] = decide(state, [second], now=NOW)
    assert outcome(decision) == ("one", ["one/gpu-0"])


def test_a_pod_that_does_not_fit_gets_the_reasons() -> None:
    full = node("full", None, cpu="1")
    cordoned = {**node("cordoned"), "spec": {"unschedulable": True}}
    state = build(*fleet(small=1), full, cordoned, claim("x", exactly(count=2)))
    [decision] = decide(state, pods(pod("p", "x", requests={"cpu": "2"})), now=NOW)
    assert isinstance(decision, Unschedulable)
    assert {reason.text: count for reason, count in decision.reasons.items()} == {
        "cannot allocate all claims": 1,
        "Insufficient cpu": 1,
        "node(s) were unschedulable": 1,
    }
    assert decision.nodes == 3
    assert decision.category == "devices"
    assert [waiting.key for waiting in decision.claims] == [ClaimKey("default", "x")]
    assert {wake_events.DEVICES, wake_events.NODES, wake_events.POD_REMOVED} <= decision.wake_events
    assert unschedulable.message(decision, 3) == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 cannot allocate all claims, "
        "1 node(s) were unschedulable. preemption: 0/3 nodes are available: "
        "3 Preemption is not helpful for scheduling."
    )


@pytest.mark.parametrize(
    ("bodies", "message"),
    [
        ([], 'could not find ResourceClaim "default/x"'),
        (
            [claim("x", {"name": "r", "exactly": {"deviceClassName": "none"}})],
            "request r: device class none does not exist",
        ),
    ],
)
def test_a_pod_whose_claim_is_not_ready_waits_for_it(
    bodies: list[JsonObject], message: str
) -> None:
    [decision] = decide(build(*fleet(one=1), *bodies), pods(pod("p", "x")), now=NOW)
    assert isinstance(decision, Unschedulable)
    assert decision.before_nodes == message
    assert decision.wake_events


def test_a_pod_with_scheduling_gates_waits_for_them() -> None:
    gated = pod("p", schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}])
    [decision] = decide(build(node("one")), pods(gated), now=NOW)
    assert isinstance(decision, Unschedulable)
    assert decision.is_gated
    assert decision.before_nodes == "waiting for scheduling gates: [example.com/a example.com/b]"


def test_pods_that_have_ended_use_nothing() -> None:
    ended = {**pod("old", requests={"cpu": "64"}, nodeName="one"), "status": {"phase": "Failed"}}
    running = {**ended, "status": {"phase": "Running"}}
    waiting = pods(pod("p", requests={"cpu": "1"}))
    assert outcome(decide(build(node("one"), ended), waiting, now=NOW)[0]) == ("one", [])
    assert outcome(decide(build(node("one"), running), waiting, now=NOW)[0]) == "room"


def test_a_pod_must_have_a_uid_and_no_node() -> None:
    state = build(node("one"))
    [placed] = pods(pod("p", nodeName="one"))
    with pytest.raises(ValueError, match="pod default/p has a node already"):
        decide(state, [placed], now=NOW)
    [nameless] = pods({**pod("q"), "metadata": {"name": "q", "uid": ""}})
    with pytest.raises(ValueError, match="pod default/q has no uid"):
        decide(state, [nameless], now=NOW)


# Gangs.


def group(name: str, minimum: int) -> JsonObject:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }


def member(name: str, claim_name: str = "", **spec: Any) -> JsonObject:
    return pod(name, claim_name, schedulingGroup={"podGroupName": "pg"}, **spec)


def test_a_gang_is_placed_as_a_whole() -> None:
    bodies = [*fleet(one=1, two=1), group("pg", 2), claim("x"), claim("y")]
    state = build(*bodies, features=GROUPS)
    decisions = decide(state, pods(member("a", "x"), member("b", "y")), now=NOW)
    assert sorted(map(outcome, decisions), key=str) == [
        ("one", ["one/gpu-0"]),
        ("two", ["two/gpu-0"]),
    ]


def test_a_gang_that_does_not_fit_reserves_nothing() -> None:
    bodies = [*fleet(one=1), group("pg", 2), claim("x"), claim("y")]
    state = build(*bodies, features=GROUPS)
    decisions = decide(state, pods(member("a", "x"), member("b", "y")), now=NOW)
    message = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    assert [getattr(decision, "group_message", "") for decision in decisions] == [message] * 2
    assert holders(state, "one", "gpu-0") == ()
    assert not state.nodes.node_of("pod a")


def test_a_gang_revises_the_nodes_of_its_first_pods() -> None:
    # The first pod prefers the emptier node, which is the only one where the second one fits.
    bodies = [*fleet(small=1, large=2), group("pg", 2), claim("x"), claim("y", exactly(count=2))]
    bodies[1]["status"]["allocatable"]["cpu"] = "8"
    state = build(*bodies, features=GROUPS)
    a, b = member("a", "x", requests={"cpu": "1"}), member("b", "y", requests={"cpu": "1"})
    assert list(map(outcome, decide(state, pods(a, b), now=NOW))) == [
        ("small", ["small/gpu-0"]),
        ("large", ["large/gpu-0", "large/gpu-1"]),
    ]


def test_a_gated_pod_does_not_count_for_its_gang() -> None:
    state = build(*fleet(one=2), group("pg", 2), features=GROUPS)
    gated = member("b", schedulingGates=[{"name": "example.com/wait"}])
    first, second = decide(state, pods(member("a"), gated), now=NOW)
    assert isinstance(first, Unschedulable)
    assert first.group_message.startswith("waiting for minCount pods from a gang")
    assert isinstance(second, Unschedulable)
    assert second.is_gated
    [third, _] = decide(state, pods(member("a"), member("b")), now=NOW)
    assert outcome(third) == ("one", [])


# Preemption.


def running(name: str, node_name: str, priority: int, *gpus: str) -> list[JsonObject]:
    """A pod with a claim that holds these devices of its node."""
    held = claim(name, exactly(count=len(gpus)))
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": node_name, "device": device} for device in gpus
    ]
    held["status"] = {
        "allocation": {
            "devices": {"results": results},
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": [node_name]}
                        ]
                    }
                ]
            },
        },
        "reservedFor": [{"resource": "pods", "name": name, "uid": f"pod {name}"}],
    }
    return [held, pod(name, name, nodeName=node_name, priority=priority)]


def test_the_victims_are_as_few_and_as_unimportant_as_possible() -> None:
    state = build(
        *fleet(one=2, two=2),
        *running("low-1", "one", 1, "gpu-0"),
        *running("low-2", "one", 1, "gpu-1"),
        *running("low-3", "two", 1, "gpu-0", "gpu-1"),
        claim("x", exactly(count=2)),
        features=PREEMPTING,
    )
    before = holders(state, "two", "gpu-0")
    [decision] = decide(state, pods(pod("urgent", "x", priority=10)), now=NOW)
    assert isinstance(decision, Unschedulable)
    assert decision.preemption is not None
    assert decision.preemption.node == "two"
    assert [victim.metadata.name for victim in decision.preemption.victims] == ["low-3"]
    assert holders(state, "two", "gpu-0") == before, "nothing is removed by thinking about it"


def test_nobody_is_evicted_for_a_pod_that_may_not_preempt() -> None:
    bodies = [*fleet(one=1), *running("low", "one", 1, "gpu-0"), claim("x"), claim("y")]
    equal, never = (
        pod("equal", "x", priority=1),
        pod("never", "y", priority=10, preemptionPolicy="Never"),
    )
    state = build(*bodies, features=PREEMPTING)
    for decision in decide(state, pods(equal, never), now=NOW):
        assert isinstance(decision, Unschedulable)
        assert decision.preemption is None


def test_what_is_freed_is_kept_from_pods_of_lower_priority_and_nothing_else() -> None:
    bodies = [*fleet(one=2), *running("low", "one", 1, "gpu-0", "gpu-1"), claim("x"), claim("y")]
    decider = Decider(build(*bodies, claim("z"), features=PREEMPTING))
    [urgent] = decider.decide(pods(pod("urgent", "x", priority=10)), NOW)
    assert isinstance(urgent, Unschedulable)
    assert urgent.preemption is not None
    [without_devices] = decider.decide(pods(pod("other", priority=5)), NOW)
    assert outcome(without_devices) == ("one", [])


# The end of a search.


def after(calls: int) -> Callable[[], bool]:
    """Stops at the n-th time it is called."""
    count = itertools.count(1)
    return lambda: next(count) > calls


def test_should_stop_ends_a_decision() -> None:
    state = build(*fleet(one=2), claim("x"), claim("y"))
    waiting = pods(pod("p", "x"), pod("q", "y"))
    decisions = decide(state, waiting, now=NOW, should_stop=lambda: True)
    assert [getattr(decision, "is_retried", False) for decision in decisions] == [True, True]
    assert holders(state, "one", "gpu-0") == ()
    assert [type(decision) for decision in decide(state, waiting, now=NOW)] == [NodeAssignment] * 2


def test_should_stop_ends_the_search_for_devices() -> None:
    # It is called once per device: the fourth call is in the middle of the search.
    state = build(*fleet(one=8), claim("x", exactly(count=8)))
    [decision] = decide(state, pods(pod("p", "x")), now=NOW, should_stop=after(4))
    assert isinstance(decision, Unschedulable)
    assert decision.error.endswith("node one: timed out trying to allocate devices")
    assert decision.is_retried
    assert holders(state, "one", "gpu-0") == ()


@pytest.mark.parametrize("calls", range(0, 24))
def test_a_stopped_gang_leaves_no_reservation(calls: int) -> None:
    claims = [claim(f"c{number}", exactly(count=1 + number % 2)) for number in range(4)]
    bodies = [*fleet(one=2, two=2, three=1), group("pg", 4), *claims]
    state = build(*bodies, features=GROUPS)
    members = pods(*(member(f"p{number}", f"c{number}") for number in range(4)))
    decisions = decide(state, members, now=NOW, should_stop=after(calls))
    is_placed = all(isinstance(decision, NodeAssignment) for decision in decisions)
    for pool, device in (("one", "gpu-0"), ("two", "gpu-0"), ("three", "gpu-0")):
        assert is_placed or holders(state, pool, device) == ()
    assert is_placed or not any(state.nodes.node_of(waiting.metadata.uid) for waiting in members)


def test_a_stopped_decision_does_not_spoil_what_is_cached() -> None:
    is_late = True
    names = [f"node-{number:03}" for number in range(300)]
    bodies = [device_class(), *map(node, names), gpu_slice(names[-1], 1), claim("x")]
    decider = Decider(build(*bodies), should_stop=lambda: is_late)
    waiting = pods(pod("p", "x"))
    [decision] = decider.decide(waiting, NOW)
    assert isinstance(decision, Unschedulable)
    assert decision.is_retried
    is_late = False
    [decision] = decider.decide(waiting, NOW)
    assert outcome(decision) == (names[-1], [f"{names[-1]}/gpu-0"])


def test_a_node_whose_search_was_stopped_is_tried_again() -> None:
    alternatives = [{"name": "any", "deviceClassName": DRIVER}]
    waiting = claim("x", {"name": "gpu", "firstAvailable": alternatives})
    answers = iter([False, True])
    decider = Decider(build(*fleet(one=1), waiting), should_stop=lambda: next(answers, False))
    [decision] = decider.decide(pods(pod("p", "x")), NOW)
    assert isinstance(decision, Unschedulable)
    assert decision.is_retried
    assert outcome(decider.decide(pods(pod("p", "x")), NOW)[0]) == ("one", ["one/gpu-0"])


def test_devices_and_nodes_that_come_later_are_used() -> None:
    state = build(*fleet(one=0), claim("x"))
    decider, waiting = Decider(state), pods(pod("p", "x"))
    assert outcome(decider.decide(waiting, NOW)[0]) == "devices"
    state.put(convert(node("two")))
    assert outcome(decider.decide(waiting, NOW)[0]) == "devices"
    state.put(convert(gpu_slice("two", 1)))
    assert outcome(decider.decide(waiting, NOW)[0]) == ("two", ["two/gpu-0"])


def test_without_the_gate_no_code_of_preemption_runs() -> None:
    claims = map(claim, "abcd")
    state = build(*fleet(one=2), *claims, group("pg", 1), features=GROUPS)
    waiting = pods(pod("a", "a"), member("b", "b"), pod("c", "c"), member("d", "d", priority=9))
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        decisions = decide(state, waiting, now=NOW)
    finally:
        sys.setprofile(None)
    assert {type(decision) for decision in decisions} == {NodeAssignment, Unschedulable}
    assert any("node_choice" in file for file in files)
    assert not [file for file in files if "/preemption/" in file]
