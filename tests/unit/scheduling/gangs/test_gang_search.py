"""A gang that fits in any way is placed, and one that is not holds nothing."""

from __future__ import annotations

import pytest

from dray.api import features as gates
from dray.api.features import Features
from dray.api.ids import ClaimKey
from dray.api.types.meta import JsonObject
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, Decision, decide
from dray.scheduling.gangs import effort
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable
from tests.properties.gangs import on_nodes
from tests.unit.scheduler.test_podgroups import GROUPS, group, member
from tests.unit.scheduler.world import DRIVER, claim, device_class, gpu, gpu_slice, node
from tests.unit.scheduling.objects import NOW, build, outcome, pods

SEARCHING = gates.with_gates(GROUPS, {"DrayGangSearch": True})
RACK = "example.com/rack"


def fleet(**cards: int) -> list[JsonObject]:
    """Nodes with GPUs, each of which can be used as a whole or as two halves."""
    bodies = []
    for kind in ("whole", "half"):
        bodies.append(device_class(kind, f'device.attributes["{DRIVER}"].kind == "{kind}"'))
    for name, count in cards.items():
        pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
        names = [f"gpu-{number}" for number in range(count)]
        counters = [{"name": card, "counters": {"halves": {"value": "2"}}} for card in names]
        devices = [
            gpu(
                f"{card}{half}",
                attributes={"kind": {"string": "half" if half else "whole"}},
                consumesCounters=[
                    {"counterSet": card, "counters": {"halves": {"value": "1" if half else "2"}}}
                ],
            )
            for card in names
            for half in ("", "-a", "-b")
        ]
        shared = gpu_slice(name, 0, {}, pool=pool, sharedCounters=counters)
        del shared["spec"]["devices"]
        shared["metadata"]["name"] = f"{name}-counters"
        bodies += [node(name), gpu_slice(name, 0, *devices, pool=pool), shared]
    return bodies


def whole_or_half(name: str) -> JsonObject:
    kinds = [{"name": kind, "deviceClassName": kind} for kind in ("whole", "half")]
    return claim(name, {"name": "gpu", "firstAvailable": kinds})


def of(kind: str, name: str, count: int = 1) -> JsonObject:
    return claim(name, {"name": "gpu", "exactly": {"deviceClassName": kind, "count": count}})


def is_untouched(state: SchedulingState, *claims: str) -> bool:
    is_used = any(found.usages for found in state.nodes)
    reserved = [state.claims.reserved(ClaimKey("default", name)) for name in claims]
    return not is_used and not any(reserved)


def messages(decisions: list[Decision]) -> set[str]:
    return {found.group_message for found in decisions if isinstance(found, Unschedulable)}


@pytest.mark.parametrize("features", [GROUPS, SEARCHING], ids=["off", "on"])
def test_a_pod_that_took_a_whole_gpu_takes_half_of_it_for_the_others(features: Features) -> None:
    # https://github.com/kubernetes/kubernetes/issues/138765
    state = build(*fleet(one=1), group("pg", 2), *map(whole_or_half, "xy"), features=features)
    waiting = pods(member("a", claim_name="x"), member("b", claim_name="y"))
    decisions = decide(state, waiting, now=NOW)
    if features is SEARCHING:
        assert [outcome(found) for found in decisions] == [
            ("one", ["one/gpu-0-a"]),
            ("one", ["one/gpu-0-b"]),
        ]
    else:
        assert messages(decisions) == {"minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"}
        assert is_untouched(state, "x", "y")


def test_devices_are_revised_on_several_nodes_for_pods_of_several_kinds() -> None:
    state = build(
        *fleet(one=2, two=1),
        group("pg", 5),
        *map(whole_or_half, "abcd"),
        of("whole", "e"),
        features=SEARCHING,
    )
    decisions = decide(state, pods(*(member(name, claim_name=name) for name in "abcde")), now=NOW)
    taken = [device for found in decisions for device in outcome(found)[1]]
    assert len(set(taken)) == 5
    assert sum(device.endswith(("-a", "-b")) for device in taken) == 4


def test_a_gang_that_does_not_fit_in_any_way_holds_nothing() -> None:
    bodies = [*fleet(one=1, two=1), group("pg", 5), *map(whole_or_half, "abcde")]
    state = build(*bodies, features=SEARCHING)
    waiting = pods(*(member(name, claim_name=name) for name in "abcde"))
    assert messages(decide(state, waiting, now=NOW)) == {
        "minCount (5) cannot be satisfied: 2 scheduled, 0 remaining"
    }
    assert is_untouched(state, *"abcde")


def test_more_pods_than_needed_are_placed_where_they_fit() -> None:
    bodies = [*fleet(one=1, two=1), group("pg", 3), *map(whole_or_half, "abcde")]
    state = build(*bodies, features=SEARCHING)
    waiting = pods(*(member(name, claim_name=name) for name in "abcde"))
    decisions = decide(state, waiting, now=NOW)
    assert sum(isinstance(found, NodeAssignment) for found in decisions) == 4


def test_a_search_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "TRIALS_LIMIT", 2)
    bodies = [*fleet(one=1), group("pg", 2), *map(whole_or_half, "xy")]
    state = build(*bodies, features=SEARCHING)
    waiting = pods(member("a", claim_name="x"), member("b", claim_name="y"))
    assert messages(decide(state, waiting, now=NOW)) == {
        "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining; "
        "the search was ended after 2 trials"
    }
    assert is_untouched(state, "x", "y")


def test_a_gang_that_is_abandoned_at_any_step_holds_nothing() -> None:
    claims = [*map(whole_or_half, "abcd"), of("whole", "e")]
    state = build(*fleet(one=2, two=1), group("pg", 5), *claims, features=SEARCHING)
    waiting = pods(*(member(name, claim_name=name) for name in "abcde"))
    for pod in waiting:
        state.put_pod(pod)
    steps_taken = 0
    is_complete = False
    while not is_complete:
        steps_taken += 1
        steps = Decider(state).steps_for(waiting[0], NOW)
        step = next(steps)
        try:
            for _ in range(steps_taken):
                step = steps.send(None if step is None else step.run())
        except StopIteration:
            is_complete = True
        else:
            steps.close()
            assert is_untouched(state, *"abcde")
    assert steps_taken > 20
    assert not is_untouched(state, *"abcde")


def in_racks(**racks: str) -> list[JsonObject]:
    bodies = fleet(**dict.fromkeys(racks, 1))
    for body in bodies:
        if body["kind"] == "Node":
            body["metadata"]["labels"][RACK] = racks[body["metadata"]["name"]]
    return bodies


def in_one_rack(minimum: int) -> JsonObject:
    return group("pg", minimum, schedulingConstraints={"topology": [{"key": RACK}]})


def test_pods_of_a_gang_with_a_topology_constraint_are_together() -> None:
    bodies = [*in_racks(a1="a", b1="b", b2="b"), in_one_rack(2), of("whole", "x"), of("whole", "y")]
    state = build(*bodies, features=SEARCHING)
    waiting = pods(member("a", claim_name="x"), member("b", claim_name="y"))
    assert {outcome(found)[0] for found in decide(state, waiting, now=NOW)} == {"b1", "b2"}


def test_a_gang_without_room_in_one_domain_waits() -> None:
    bodies = [*in_racks(a1="a", b1="b"), in_one_rack(2), of("whole", "x"), of("whole", "y")]
    state = build(*bodies, features=SEARCHING)
    waiting = pods(member("a", claim_name="x"), member("b", claim_name="y"))
    assert messages(decide(state, waiting, now=NOW)) == {
        f"minCount (2) cannot be satisfied on nodes with equal labels {RACK}"
    }
    assert is_untouched(state, "x", "y")


def test_pods_that_come_later_go_where_their_gang_is() -> None:
    bodies = [*in_racks(a1="a", b1="b", b2="b"), in_one_rack(1), of("whole", "x")]
    running = member("a", nodeName="b1")
    state = build(*bodies, running, features=SEARCHING)
    [decision] = decide(state, pods(member("b", claim_name="x")), now=NOW)
    assert outcome(decision)[0] in {"b1", "b2"}
    state.put_pod(pods(member("c", nodeSelector={RACK: "a"}))[0])
    [refused] = decide(state, pods(member("c", nodeSelector={RACK: "a"})), now=NOW)
    assert isinstance(refused, Unschedulable)


def near(label: str) -> JsonObject:
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": RACK}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_a_pod_goes_near_one_that_was_made_later() -> None:
    claims = [*map(whole_or_half, "xyz")]
    state = build(*in_racks(one="a", two="b"), group("pg", 3), *claims, features=SEARCHING)
    follower = member("a", claim_name="x", affinity=near("leader"))
    leader = member("b", claim_name="y")
    leader["metadata"]["labels"] = {"app": "leader"}
    decisions = decide(state, pods(follower, leader, member("c", claim_name="z")), now=NOW)
    nodes = [outcome(found)[0] for found in decisions]
    assert nodes[0] == nodes[1]


def using_cpu(name: str, cpu: str) -> JsonObject:
    """A GPU that uses CPU of its node."""
    mapping = {"cpu": {"mapping": {"deviceMultiplier": cpu}}}
    return gpu(name, nodeAllocatableResources=mapping)


def test_devices_that_use_too_much_of_the_node_are_passed_over() -> None:
    features = gates.with_gates(SEARCHING, {"DRANodeAllocatableResources": True})
    host = node("one", cpu="4")
    host["status"]["declaredFeatures"] = ["DRANodeAllocatableResources"]
    devices = [using_cpu("a", "3"), using_cpu("b", "2"), using_cpu("c", "1")]
    bodies = [device_class(), host, gpu_slice("one", 0, *devices)]
    claims = [claim("x"), claim("y")]
    state = build(*bodies, group("pg", 2), *claims, features=features)
    requests = {"cpu": "500m"}
    waiting = pods(*(member(name, claim_name=of, requests=requests) for name, of in ("ax", "by")))
    decisions = decide(state, waiting, now=NOW)
    assert sorted(outcome(found)[1] for found in decisions) == [["one/b"], ["one/c"]]
    [found] = state.nodes
    assert found.requested["cpu"] == 4000


def test_members_use_no_more_of_the_node_than_they_have_to() -> None:
    # The first pod takes the device that uses most, and the second one needs what that leaves.
    features = gates.with_gates(SEARCHING, {"DRANodeAllocatableResources": True})
    host = node("one", cpu="4")
    host["status"]["declaredFeatures"] = ["DRANodeAllocatableResources"]
    bodies = [device_class(), host, gpu_slice("one", 0, using_cpu("a", "3"), using_cpu("b", "1"))]
    state = build(*bodies, group("pg", 2), claim("x"), features=features)
    first = member("a", claim_name="x", requests={"cpu": "500m"})
    decisions = decide(state, pods(first, member("b", requests={"cpu": "2"})), now=NOW)
    assert [outcome(found) for found in decisions] == [("one", ["one/b"]), ("one", [])]


def test_a_shared_claim_gets_a_device_that_every_node_of_the_gang_sees() -> None:
    bodies = [device_class(), node("one", cpu="1"), node("two", cpu="1")]
    # Behind the devices of the nodes, so that these are tried first.
    pool = {"name": "zone", "generation": 1, "resourceSliceCount": 1}
    network = gpu_slice("zone", 1, pool=pool)
    del network["spec"]["nodeName"]
    network["spec"]["allNodes"] = True
    bodies += [gpu_slice("one", 1), gpu_slice("two", 1), network]
    state = build(*bodies, group("pg", 2), claim("x"), features=SEARCHING)
    waiting = pods(*(member(name, claim_name="x", requests={"cpu": "1"}) for name in ("a", "b")))
    decisions = decide(state, waiting, now=NOW)
    assert [outcome(found)[1] for found in decisions] == [["zone/gpu-0"]] * 2
    assert {outcome(found)[0] for found in decisions} == {"one", "two"}


def test_all_members_in_the_way_are_moved_if_the_latest_cannot_be() -> None:
    # The last pod finds both of its nodes taken. The pod before it cannot make room, since its
    # other node has the only place for the first one; the second pod can.
    nodes = {"a": ["n4"], "b": ["n1", "n2"], "c": ["n3", "n4"], "d": ["n1", "n3"]}
    bodies = [device_class(), group("pg", 4), *map(claim, nodes)]
    for name in ("n1", "n2", "n3", "n4"):
        bodies += [node(name), gpu_slice(name, 1)]
    state = build(*bodies, features=SEARCHING)
    members = [member(name, claim_name=name, affinity=on_nodes(*of)) for name, of in nodes.items()]
    decisions = decide(state, pods(*members), now=NOW)
    assert [outcome(found)[0] for found in decisions] == ["n4", "n2", "n3", "n1"]
