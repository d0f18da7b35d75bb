"""What is freed for a pod is kept for it, and nothing else is."""

from __future__ import annotations

import pytest

from dray.api import features as gates
from dray.api.ids import ObjectKey
from dray.api.types.meta import JsonObject
from dray.scheduling import steps
from dray.scheduling.decision import Decider, Decision
from dray.scheduling.podgroups import Gang, GangPlacement
from dray.scheduling.preemption.pod_preemption import VICTIMS_LEAVE
from dray.scheduling.preemption.preemptor import Preemptor
from dray.scheduling.preemption.rechecks import SearchUnfinished
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable
from tests.unit.scheduler.test_podgroups import group
from tests.unit.scheduler.world import claim, exactly, gpu, gpu_slice, node, pod
from tests.unit.scheduling.objects import NOW, build, convert, outcome, pods
from tests.unit.scheduling.preemption.test_pod_preemption import (
    PREEMPTING,
    budget,
    fleet,
    holding,
    leaving,
    running,
    user,
)

URGENT = ObjectKey("default", "urgent")


def nominated(
    *bodies: JsonObject, count: int = 1, cpu: str = "1"
) -> tuple[SchedulingState, Decider]:
    """A state in which victims have to make room for a pod of priority 10."""
    claims = [claim("x", exactly(count=count)), claim("y"), claim("z")]
    state = build(*bodies, *claims, features=PREEMPTING)
    decider = Decider(state)
    assert plan_of(decided(decider, urgent(cpu)))
    return state, decider


def urgent(cpu: str = "1") -> JsonObject:
    return pod("urgent", "x", priority=10, requests={"cpu": cpu})


def decided(decider: Decider, body: JsonObject) -> Decision:
    [decision] = decider.decide(pods(body), NOW)
    return decision


def plan_of(decision: Decision) -> list[str]:
    """The names of the victims."""
    plan = decision.preemption if isinstance(decision, Unschedulable) else None
    return sorted(victim.metadata.name for victim in plan.victims) if plan else []


def remove(state: SchedulingState, name: str) -> None:
    """A victim is gone, and its claim with it."""
    pod_key = ObjectKey("default", name)
    state.drop_pod(pod_key)
    for held in list(state.claims):
        if held.metadata.name == name:
            state.claims.drop(held.key)


def test_freed_devices_are_kept_from_pods_of_lower_and_equal_priority() -> None:
    state, decider = nominated(*fleet(one=2), *running("a", "one", 1, "gpu-0", "gpu-1"))
    remove(state, "a")
    # One of two devices is kept, the other is for everybody.
    assert outcome(decided(decider, pod("lower", "y", priority=5))) == ("one", ["one/gpu-1"])
    assert outcome(decided(decider, pod("equal", "z", priority=10))) == "devices"
    assert outcome(decided(decider, urgent())) == ("one", ["one/gpu-0"])


def test_node_resources_are_kept_as_well() -> None:
    busy = user("busy", "one", 1, requests={"cpu": "60"})
    state, decider = nominated(*fleet(one=1), busy, cpu="60")
    remove(state, "busy")
    five, four = {"cpu": "5"}, {"cpu": "4"}
    assert outcome(decided(decider, pod("five", priority=5, requests=five))) == "room"
    assert outcome(decided(decider, pod("four", priority=5, requests=four))) == ("one", [])
    assert outcome(decided(decider, urgent("60"))) == ("one", ["one/gpu-0"])


def test_partitions_are_kept_with_their_counters() -> None:
    def part(name: str, slices: int) -> JsonObject:
        counters = {"counterSet": "gpu", "counters": {"slices": {"value": str(slices)}}}
        return gpu(name, f"{slices}Gi", consumesCounters=[counters])

    pool = {"name": "one", "generation": 1, "resourceSliceCount": 2}
    devices = gpu_slice("one", 0, part("a", 3), part("b", 1), part("c", 1), pool=pool)
    shared = [{"name": "gpu", "counters": {"slices": {"value": "4"}}}]
    counters = gpu_slice("one", 0, pool=pool, sharedCounters=shared)
    counters["metadata"]["name"] = "counters"
    counters["spec"]["devices"] = []
    bodies = [fleet()[0], node("one"), devices, counters]
    victims = [*running("v", "one", 1, "a"), *running("w", "one", 20, "b")]
    state, decider = nominated(*bodies, *victims)
    assert outcome(decided(decider, pod("early", "y", priority=5))) == "devices"
    remove(state, "v")
    # Three slices are free, of which the pod keeps those of partition a.
    assert outcome(decided(decider, pod("lower", "y", priority=5))) == "devices"
    assert outcome(decided(decider, urgent())) == ("one", ["one/a"])


def test_others_do_not_choose_the_same_victims() -> None:
    bodies = [*running("a", "one", 1, "gpu-0"), *running("b", "one", 2, "gpu-1")]
    _, decider = nominated(*fleet(one=2), *bodies)
    assert plan_of(decided(decider, pod("lower", "y", priority=5))) == ["b"]
    assert plan_of(decided(decider, pod("last", "z", priority=5))) == []
    assert decider.take_dropped_nominations() == []


def test_victims_of_others_use_up_budgets_whose_status_is_old() -> None:
    bodies = [*running("a", "one", 1, "gpu-0"), *running("b", "one", 1, "gpu-1")]
    more = [*running("c", "two", 5, "gpu-0"), budget("keep", 1, "a", "b")]
    state, decider = nominated(*fleet(one=2, two=1), *bodies, *more)
    assert plan_of(decided(decider, pod("next", "y", priority=10))) == ["c"]
    [first] = victims(decider)
    assert victims(decider, first) == []
    state.put(convert(leaving(running(first, "one", 1, "gpu-0"))[1]))
    assert victims(decider) == []


def test_a_pod_of_higher_priority_takes_what_is_kept() -> None:
    state, decider = nominated(*fleet(one=1), *running("a", "one", 1, "gpu-0"))
    remove(state, "a")
    assert outcome(decided(decider, pod("higher", "y", priority=20))) == ("one", ["one/gpu-0"])
    assert decider.take_dropped_nominations() == [URGENT]
    assert decider.take_dropped_nominations() == []
    assert outcome(decided(decider, urgent())) == "devices"


def test_a_pod_of_higher_priority_leaves_what_is_kept_where_it_can() -> None:
    state, decider = nominated(*fleet(one=1), *running("a", "one", 1, "gpu-0"))
    remove(state, "a")
    for body in (node("two"), gpu_slice("two", 1)):
        state.put(convert(body))
    assert outcome(decided(decider, pod("higher", "y", priority=20))) == ("two", ["two/gpu-0"])
    assert decider.take_dropped_nominations() == []
    assert outcome(decided(decider, urgent())) == ("one", ["one/gpu-0"])


def test_the_look_before_an_eviction_takes_nothing_from_lesser_pods() -> None:
    bodies = [*running("a", "one", 1, "gpu-0"), *running("b", "one", 1, "gpu-1")]
    state, decider = nominated(*fleet(one=2), *bodies)
    # The lesser pod gets what the other victim leaves, first of all.
    assert plan_of(decided(decider, pod("lesser", "y", priority=5))) == ["b"]
    remove(state, "b")
    assert victims(decider) == ["a"]
    assert decider.take_dropped_nominations() == []


def test_a_pod_of_higher_priority_is_nominated_instead() -> None:
    _, decider = nominated(*fleet(one=1), *running("a", "one", 1, "gpu-0"))
    assert plan_of(decided(decider, pod("higher", "y", priority=20))) == ["a"]
    assert decider.take_dropped_nominations() == [URGENT]
    assert plan_of(decided(decider, urgent())) == []


def test_nothing_is_kept_for_a_pod_that_gives_up_or_is_gone() -> None:
    state, decider = nominated(*fleet(one=1), *running("a", "one", 1, "gpu-0"))
    remove(state, "a")
    state.drop_pod(URGENT)
    assert outcome(decided(decider, pod("lower", "y", priority=5))) == ("one", ["one/gpu-0"])
    assert decider.take_dropped_nominations() == [URGENT]


def test_nothing_is_kept_after_the_node_is_gone() -> None:
    state, decider = nominated(*fleet(one=1), *running("a", "one", 1, "gpu-0"))
    state.drop_node("one")
    assert outcome(decided(decider, pod("lower", priority=5))) == "no nodes"
    assert decider.take_dropped_nominations() == [URGENT]


def test_devices_of_the_network_are_kept_on_all_nodes() -> None:
    network = gpu_slice("network", 1)
    network["spec"] = {**network["spec"], "allNodes": True}
    del network["spec"]["nodeName"]
    held = holding("a", "network", "gpu-0", users=["a"])
    bodies = [fleet()[0], node("one"), node("two"), network, held, user("a", "one", 1, "a")]
    state, decider = nominated(*bodies)
    remove(state, "a")
    assert outcome(decided(decider, pod("lower", "y", priority=5))) == "devices"
    assert outcome(decided(decider, urgent())) == ("one", ["network/gpu-0"])


def at(node_name: str, bodies: list[JsonObject]) -> list[JsonObject]:
    """Let the first object, a claim, be usable on one node only, as the allocator writes it."""
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    bodies[0]["status"]["allocation"]["nodeSelector"] = terms
    return bodies


def leaves(decision: Decision) -> bool:
    """Whether the pod waits for victims of an earlier attempt."""
    refusal = decision.preemption_refusal if isinstance(decision, Unschedulable) else None
    return refusal is not None and refusal.message == VICTIMS_LEAVE


def test_nobody_else_is_evicted_until_the_devices_of_victims_are_released() -> None:
    others = [*running("a", "one", 1, "gpu-0"), *running("b", "one", 2, "gpu-1")]
    state, decider = nominated(*fleet(one=2), *others)
    assert leaves(decided(decider, urgent()))
    state.drop_pod(ObjectKey("default", "a"))
    assert leaves(decided(decider, urgent()))
    remove(state, "a")
    assert outcome(decided(decider, urgent())) == ("one", ["one/gpu-0"])


def nominated_before(*bodies: JsonObject) -> tuple[SchedulingState, Decider]:
    """A state in which an earlier scheduler has nominated node one, and cheaper victims exist."""
    cheap = running("cheap", "two", 0, "gpu-0")
    state = build(*fleet(one=1, two=1), *cheap, *bodies, claim("x"), features=PREEMPTING)
    return state, Decider(state)


def urgent_of_before() -> JsonObject:
    return {**urgent(), "status": {"nominatedNodeName": "one"}}


def test_after_a_restart_a_pod_waits_for_victims_that_are_leaving() -> None:
    leaving_pod = leaving(running("a", "one", 1, "gpu-0"))
    state, decider = nominated_before(*leaving_pod)
    assert leaves(decided(decider, urgent_of_before()))
    remove(state, "a")
    lower = claim("y")
    state.put(convert(lower))
    assert outcome(decided(decider, pod("equal", "y", priority=10))) == "devices"
    assert outcome(decided(decider, urgent_of_before())) == ("one", ["one/gpu-0"])


def test_after_a_restart_a_pod_waits_for_claims_that_victims_left_behind() -> None:
    state, decider = nominated_before(at("one", running("a", "one", 1, "gpu-0"))[0])
    assert leaves(decided(decider, urgent_of_before()))
    assert leaves(decided(decider, urgent_of_before()))
    remove(state, "a")
    assert outcome(decided(decider, urgent_of_before())) == ("one", ["one/gpu-0"])


def test_after_a_restart_a_node_that_does_not_help_any_more_is_forgotten() -> None:
    _, decider = nominated_before(*running("a", "one", 10, "gpu-0"))
    assert plan_of(decided(decider, urgent_of_before())) == ["cheap"]


def victims(decider: Decider, *evicted: str) -> list[str]:
    """The names of the victims that are evicted one after the other."""
    [pod_] = pods(urgent())
    preemptor = Preemptor(URGENT, pod_.metadata.uid, 10, [pod_])
    gone = {f"pod {name}" for name in evicted}
    found: list[str] = []
    while victim := steps.run(decider.next_victim(preemptor, NOW, gone), lambda: False):
        found.append(victim.metadata.name)
        gone.add(victim.metadata.uid)
    return found


def two_victims() -> tuple[SchedulingState, Decider]:
    bodies = [*running("a", "one", 1, "gpu-0"), *running("b", "one", 1, "gpu-1")]
    return nominated(*fleet(one=3), *bodies, *running("c", "one", 10, "gpu-2"), count=2)


def test_victims_are_evicted_one_after_the_other() -> None:
    state, decider = two_victims()
    assert victims(decider) == ["a", "b"]
    assert victims(decider, "a") == ["b"]
    state.put(convert(leaving(running("b", "one", 1, "gpu-1"))[1]))
    assert victims(decider) == ["a"]


def test_a_victim_is_spared_if_enough_is_free_by_now() -> None:
    state, decider = two_victims()
    remove(state, "c")
    assert victims(decider) == ["b"]
    remove(state, "b")
    assert outcome(decided(decider, urgent())) == ("one", ["one/gpu-1", "one/gpu-2"])


def test_no_victim_is_evicted_once_it_does_not_help() -> None:
    state, decider = two_victims()
    state.drop_node("one")
    assert victims(decider) == []
    assert decider.take_dropped_nominations() == [URGENT]
    state, decider = two_victims()
    state.put(convert(gpu_slice("one", 1)))
    assert victims(decider) == []
    assert decider.take_dropped_nominations() == [URGENT]


def test_no_victim_is_evicted_for_a_pod_of_another_priority() -> None:
    state, decider = two_victims()
    state.put(convert({**urgent(), "spec": {**urgent()["spec"], "priority": 0}}))
    assert victims(decider) == []


def test_no_victim_is_evicted_whose_group_has_come_and_is_as_important() -> None:
    victim = running("a", "one", 1, "gpu-0", schedulingGroup={"podGroupName": "pg"})
    features = gates.with_gates(PREEMPTING, {"GenericWorkload": True})
    state = build(*fleet(one=1), *victim, claim("x"), features=features)
    decider = Decider(state)
    assert plan_of(decided(decider, urgent())) == ["a"]
    state.put(convert(group("pg", 1, priority=10)))
    assert victims(decider) == []
    assert decider.take_dropped_nominations() == [URGENT]


def test_what_is_kept_for_a_pod_on_its_own_is_for_its_gang_that_needs_it_again() -> None:
    features = gates.with_gates(PREEMPTING, {"GenericWorkload": True})
    busy = running("first", "one", 10, "gpu-0", schedulingGroup={"podGroupName": "pg"})
    victim = running("batch", "one", 1, "gpu-1")
    bodies = [*fleet(one=2), *busy, *victim, group("pg", 1, priority=10), claim("x")]
    state = build(*bodies, features=features)
    decider = Decider(state)
    spare = pod("spare", "x", priority=10, schedulingGroup={"podGroupName": "pg"})
    assert plan_of(decided(decider, spare)) == ["batch"]
    remove(state, "batch")
    state.drop_pod(ObjectKey("default", "first"))
    assert outcome(decided(decider, spare)) == ("one", ["one/gpu-1"])


def test_a_plan_whose_search_ends_too_early_still_holds() -> None:
    features = gates.with_gates(PREEMPTING, {"GenericWorkload": True, "DrayGangSearch": True})
    gang_group = group("pg", 2, priority=10)
    # Without the victim, the first pod takes the only node for the second one.
    bodies = [*fleet(one=1, two=1), *running("a", "one", 1, "gpu-0"), gang_group]
    state = build(*bodies, claim("x"), claim("y"), features=features)
    decider = Decider(state)
    member: JsonObject = {"schedulingGroup": {"podGroupName": "pg"}, "priority": 10}
    chosen: JsonObject = {"nodeSelector": {"kubernetes.io/hostname": "one"}}
    members = pods(pod("first", "x", **member), pod("second", "y", **member, **chosen))
    for each in members:
        state.put_pod(each)
    decisions = decider.decide(members, NOW)
    assert plan_of(decisions[0]) == ["a"]
    gang = decider.gang_of(members[0])
    assert isinstance(gang, Gang)
    preemptor = Preemptor.of_gang(gang.group, gang.waiting)
    with pytest.raises(SearchUnfinished):
        steps.run(decider.next_victim(preemptor, NOW, (), lambda: True), lambda: False)
    assert decider.take_dropped_nominations() == []
    victim = steps.run(decider.next_victim(preemptor, NOW, ()), lambda: False)
    assert victim is not None
    assert victim.metadata.name == "a"
    remove(state, "a")
    hurried = steps.run(decider.place_gang(gang, NOW, lambda: True), lambda: False)
    assert isinstance(hurried, Unschedulable)
    assert (hurried.is_retried, hurried.preemption, hurried.preemption_refusal) == (
        True,
        None,
        None,
    )
    assert isinstance(
        steps.run(decider.place_gang(gang, NOW, lambda: False), lambda: False), GangPlacement
    )
