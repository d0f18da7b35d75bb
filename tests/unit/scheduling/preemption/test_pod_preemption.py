"""The victims of preemption, one rule at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dray.api import features as gates
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.types.meta import JsonObject
from dray.scheduling import unschedulable
from dray.scheduling.decision import Decider, decide
from dray.scheduling.preemption import victim_search
from dray.scheduling.unschedulable import NodeRefusal, PreemptionPlan, Unschedulable
from tests.unit.scheduler.world import (
    DRIVER,
    claim,
    device_class,
    exactly,
    gpu,
    gpu_slice,
    node,
    pod,
)
from tests.unit.scheduling.objects import NOW, build, pods

PREEMPTING = gates.with_gates(gates.DEFAULT, {"DrayPreemption": True})
HOST = "kubernetes.io/hostname"


def fleet(**gpus: int) -> list[JsonObject]:
    """A device class, and nodes with so many GPUs."""
    bodies = [device_class()]
    for name, count in gpus.items():
        bodies += [node(name), gpu_slice(name, count)] if count else [node(name)]
    return bodies


def holding(name: str, pool: str, *gpus: str, users: Sequence[str]) -> JsonObject:
    """A claim with devices of a pool that pods use."""
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": pool, "device": device} for device in gpus
    ]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": user, "uid": f"pod {user}"} for user in users],
    }
    return {**claim(name, exactly(count=len(gpus))), "status": status}


def user(
    name: str, on: str, priority: int = 0, claim_name: str = "", *, start: int = 0, **spec: Any
) -> JsonObject:
    """A pod that runs on a node."""
    body = pod(name, claim_name, nodeName=on, priority=priority, **spec)
    body["metadata"]["labels"] = {"app": name}
    body["status"] = {"startTime": f"2026-01-01T00:00:{start:02}Z"}
    return body


def running(name: str, on: str, priority: int, *gpus: str, **more: Any) -> list[JsonObject]:
    """A pod with a claim that holds devices of its node."""
    held = holding(name, on, *gpus, users=[name])
    return [held, user(name, on, priority, name, **more)]


def leaving(bodies: list[JsonObject]) -> list[JsonObject]:
    bodies[-1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return bodies


def budget(name: str, allowed: int, *apps: str, **status: Any) -> JsonObject:
    expression = {"key": "app", "operator": "In", "values": list(apps)}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchExpressions": [expression]}},
        "status": {"disruptionsAllowed": allowed, **status},
    }


def refused(*bodies: JsonObject, count: int = 1, **spec: Any) -> Unschedulable:
    """The decision for a pod of priority 10 that asks for GPUs."""
    state = build(*bodies, claim("x", exactly(count=count)), features=PREEMPTING)
    urgent = pod("urgent", "x" if count else "", **{"priority": 10, **spec})
    [decision] = decide(state, pods(urgent), now=NOW)
    assert isinstance(decision, Unschedulable)
    return decision


def planned(*bodies: JsonObject, count: int = 1, **spec: Any) -> PreemptionPlan:
    plan = refused(*bodies, count=count, **spec).preemption
    assert plan is not None
    assert plan.is_exhaustive
    return plan


def names(plan: PreemptionPlan) -> list[str]:
    return sorted(victim.metadata.name for victim in plan.victims)


# The order of victims.


def test_a_budget_counts_more_than_a_priority() -> None:
    covered, higher = running("a", "one", 1, "gpu-0"), running("b", "one", 5, "gpu-1")
    bodies = [*fleet(one=2), *covered, *higher]
    assert names(planned(*bodies)) == ["a"]
    assert names(planned(*bodies, budget("keep", 1, "a"))) == ["a"]
    plan = planned(*bodies, budget("keep", 0, "a"))
    assert (names(plan), plan.violated_budgets) == (["b"], [])


def test_a_budget_is_exceeded_if_nothing_else_helps() -> None:
    plan = planned(*fleet(one=1), *running("a", "one", 1, "gpu-0"), budget("keep", 0, "a"))
    assert (names(plan), plan.violated_budgets) == (["a"], [ObjectKey("default", "keep")])


def test_fewer_violations_are_better() -> None:
    one = [*running("a", "one", 1, "gpu-0"), *running("b", "one", 1, "gpu-1")]
    two = [*running("c", "two", 5, "gpu-0"), *running("d", "two", 5, "gpu-1")]
    bodies = [*fleet(one=2, two=2), *one, *two]
    kept = [budget("first", 0, "a", "b"), budget("second", 1, "c", "d")]
    assert planned(*bodies, *kept, count=2).node == "two"


def test_a_pod_whose_disruption_is_allowed_already_violates_nothing() -> None:
    disrupted = {"a": "2026-01-01T00:00:00Z"}
    bodies = [*fleet(one=2), *running("a", "one", 1, "gpu-0"), *running("b", "one", 5, "gpu-1")]
    assert names(planned(*bodies, budget("keep", 0, "a", disruptedPods=disrupted))) == ["a"]


def test_the_highest_priority_counts_more_than_the_number() -> None:
    one = [*running("a", "one", 1, "gpu-0"), *running("b", "one", 1, "gpu-1")]
    two = running("c", "two", 2, "gpu-0", "gpu-1")
    assert names(planned(*fleet(one=2, two=2), *one, *two, count=2)) == ["a", "b"]


def test_the_sum_counts_next_and_a_further_victim_always_costs_more() -> None:
    one = [*running("a", "one", 2, "gpu-0"), *running("b", "one", 1, "gpu-1")]
    two = [*running("c", "two", 2, "gpu-0"), *running("d", "two", -100, "gpu-1")]
    three = running("e", "three", 2, "gpu-0", "gpu-1")
    assert names(planned(*fleet(one=2, two=2), *one, *two, count=2)) == ["c", "d"]
    bodies = [*fleet(one=2, two=2, three=2), *one, *two, *three]
    assert names(planned(*bodies, count=2)) == ["e"]


def test_the_latest_started_are_evicted_then_those_on_the_first_node() -> None:
    def on(name: str, *starts: int) -> list[JsonObject]:
        bodies: list[JsonObject] = []
        for number, start in enumerate(starts):
            bodies += running(f"{name}-{start}", name, 1, f"gpu-{number}", start=start)
        return bodies

    bodies = [*fleet(one=2, two=2, ten=2), *on("one", 1, 5), *on("two", 2, 3)]
    assert names(planned(*bodies, *on("ten", 2, 3), count=1)) == ["one-5"]
    # Of those with the highest priority, the one that started first counts.
    assert planned(*bodies, *on("ten", 2, 3), count=2).node == "ten"
    assert planned(*bodies, *on("ten", 1, 9), count=2).node == "two"


# What counts as missing.


def test_a_pod_that_frees_only_cpu_is_found() -> None:
    asking = {"requests": {"cpu": "10"}}
    bodies = [*fleet(one=1), user("idle", "one"), user("busy", "one", 5, requests={"cpu": "60"})]
    assert names(planned(*bodies, count=0, **asking)) == ["busy"]
    held = running("held", "one", 1, "gpu-0")
    assert names(planned(*bodies, *held, count=1, **asking)) == ["busy", "held"]


def test_the_number_of_pods_and_host_ports_count() -> None:
    port: JsonObject = {
        "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    }
    full = [node("one", pods="2"), user("a", "one", 1), user("b", "one", 2)]
    assert names(planned(*full, count=0)) == ["a"]
    bodies = [node("one"), user("a", "one", 1), user("b", "one", 2, **port)]
    assert names(planned(*bodies, count=0, **port)) == ["b"]


def test_anti_affinity_of_both_sides_counts() -> None:
    def apart(app: str) -> JsonObject:
        term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    bodies = [node("one"), user("a", "one", 1), user("b", "one", 2)]
    assert names(planned(*bodies, count=0, affinity=apart("b"))) == ["b"]
    state = build(node("one"), user("a", "one", 1, affinity=apart("urgent")), features=PREEMPTING)
    urgent = pod("urgent", priority=10)
    urgent["metadata"]["labels"] = {"app": "urgent"}
    [decision] = decide(state, pods(urgent), now=NOW)
    assert isinstance(decision, Unschedulable)
    assert decision.preemption is not None
    assert names(decision.preemption) == ["a"]


def test_holders_of_network_devices_on_other_nodes_are_evicted() -> None:
    network = gpu_slice("network", 1)
    network["spec"] = {**network["spec"], "allNodes": True}
    del network["spec"]["nodeName"]
    bodies = [device_class(), node("one", cpu="1"), node("two"), network]
    held = holding("net", "network", "gpu-0", users=["a"])
    plan = planned(*bodies, held, user("a", "one", 1, "net"), requests={"cpu": "2"})
    assert (plan.node, names(plan)) == ("two", ["a"])


def test_the_order_of_victims_does_not_depend_on_who_got_devices_first() -> None:
    network = gpu_slice("network", 4)
    del network["spec"]["nodeName"]
    network["spec"]["allNodes"] = True
    bodies = [device_class(), node("one"), node("two", cpu="1"), network]
    for number in range(4):
        device = holding(f"n{number}", "network", f"gpu-{number}", users=[f"p{number}"])
        bodies += [device, user(f"p{number}", "two", number // 3, f"n{number}")]
    state = build(*bodies, claim("x", exactly(count=3)), features=PREEMPTING)
    urgent = pod("urgent", "x", priority=10, requests={"cpu": "2"})
    urgent["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    for number in range(3):
        [decision] = decide(state, pods(urgent), now=NOW)
        assert isinstance(decision, Unschedulable)
        assert decision.preemption is not None
        order = [victim.metadata.name for victim in decision.preemption.victims]
        assert order == ["p0", "p1", "p2"]
        again = ClaimKey("default", f"n{number}")
        held = state.claims.get(again)
        assert held is not None
        assert held.status.allocation is not None
        state.inventory.release(again)
        state.inventory.record_allocation(again, held.status.allocation)


def test_shared_claims_are_freed_with_their_last_consumer() -> None:
    shared = holding("shared", "one", "gpu-0", users=["a", "b"])
    users = [user("a", "one", 1, "shared"), user("b", "one", 2, "shared")]
    assert names(planned(*fleet(one=1), shared, *users)) == ["a", "b"]
    alone = running("c", "one", 2, "gpu-1")
    assert names(planned(*fleet(one=2), shared, *users, *alone)) == ["c"]


@pytest.mark.parametrize(
    "consumer",
    [
        {"resource": "pods", "name": "important", "uid": "pod important"},
        {"resource": "pods", "name": "waiting", "uid": "pod waiting"},
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "group g"},
    ],
)
def test_other_consumers_of_a_claim_keep_its_devices(consumer: JsonObject) -> None:
    held, runs = running("a", "one", 1, "gpu-0")
    held["status"]["reservedFor"].append(consumer)
    others = [user("important", "one", 50, "a"), pod("waiting", "a", priority=0)]
    refusal = refused(*fleet(one=1), held, runs, *others).preemption_refusal
    assert refusal is not None
    assert refusal.nodes == {NodeRefusal.NOT_ENOUGH: 1}


def test_partitions_free_the_counters_of_their_gpu() -> None:
    def part(number: int, name: str, slices: int) -> JsonObject:
        counters = {"slices": {"value": str(slices)}}
        draws = [{"counterSet": f"counters-{number}", "counters": counters}]
        return gpu(f"{name}-{number}", f"{slices}Gi", consumesCounters=draws)

    pool = {"name": "one", "generation": 1, "resourceSliceCount": 2}
    sizes = {"whole": 4, "half": 2, "quarter": 1}
    devices = [part(number, *size) for number in (0, 1) for size in sizes.items()]
    sets = [
        {"name": f"counters-{number}", "counters": {"slices": {"value": "4"}}} for number in (0, 1)
    ]
    counters = gpu_slice("counters", 0, nodeName="one", pool=pool, sharedCounters=sets)
    counters["spec"]["devices"] = []
    bodies = [device_class(), node("one"), gpu_slice("one", 0, *devices, pool=pool), counters]
    both = [*running("a", "one", 1, "half-0"), *running("b", "one", 1, "quarter-0")]
    selector = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("4Gi")) == 0'
    whole = claim("w", exactly(selectors=[{"cel": {"expression": selector}}]))
    for priority, victims in ((1, ["c"]), (2, ["a", "b"])):
        other = running("c", "one", priority, "half-1")
        state = build(*bodies, *both, *other, whole, features=PREEMPTING)
        [decision] = decide(state, pods(pod("urgent", "w", priority=10)), now=NOW)
        assert isinstance(decision, Unschedulable)
        assert decision.preemption is not None
        assert names(decision.preemption) == victims


def test_admin_access_holds_nothing() -> None:
    held, runs = running("admin", "one", 0, "gpu-0")
    held["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    held["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    assert names(planned(*fleet(one=1), held, runs, *running("a", "one", 5, "gpu-0"))) == ["a"]


def test_the_claim_that_the_pod_uses_itself_keeps_its_devices() -> None:
    # Its other claim cannot have the device of the first, although no other pod uses that then.
    shared = holding("mine", "one", "gpu-0", users=["a"])
    bodies = [*fleet(one=2), shared, user("a", "one", 1, "mine"), *running("b", "one", 5, "gpu-1")]
    urgent = pod("urgent", priority=10)
    urgent["spec"]["resourceClaims"] = [
        {"name": name, "resourceClaimName": name} for name in ("mine", "x")
    ]
    [decision] = decide(build(*bodies, claim("x"), features=PREEMPTING), pods(urgent), now=NOW)
    assert isinstance(decision, Unschedulable)
    assert decision.preemption is not None
    assert names(decision.preemption) == ["b"]


# Pods that are leaving.


def test_pods_that_are_leaving_cost_nothing() -> None:
    gone, other = leaving(running("gone", "one", 9, "gpu-0")), running("a", "two", 0, "gpu-0")
    plan = planned(*fleet(one=1, two=1), *gone, *other, budget("keep", 0, "gone"))
    assert (plan.node, names(plan), plan.violated_budgets) == ("one", ["gone"], [])


def test_pods_that_are_leaving_and_free_nothing_are_not_waited_for() -> None:
    gone, idle = leaving(running("gone", "one", 1, "gpu-0")), leaving([user("idle", "one")])
    assert names(planned(*fleet(one=1), *gone, *idle)) == ["gone"]
    more = leaving(running("more", "one", 2, "gpu-1"))
    assert len(planned(*fleet(one=2), *gone, *more).victims) == 1


def test_a_pod_waits_for_those_that_leave_its_nominated_node() -> None:
    bodies = [*fleet(one=1), *leaving(running("gone", "one", 1, "gpu-0")), claim("x")]
    decider = Decider(build(*bodies, features=PREEMPTING))
    urgent = pods(pod("urgent", "x", priority=10))
    [first] = decider.decide(urgent, NOW)
    [second] = decider.decide(urgent, NOW)
    assert isinstance(first, Unschedulable)
    assert isinstance(second, Unschedulable)
    assert first.preemption is not None
    assert second.preemption is None
    assert unschedulable.message(second, 1).endswith(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )


# Refusals.


def test_a_pod_that_never_preempts_gets_no_plan() -> None:
    bodies = [*fleet(one=1), *running("a", "one", 1, "gpu-0")]
    refusal = refused(*bodies, preemptionPolicy="Never").preemption_refusal
    assert refusal is not None
    assert refusal.message == "not eligible due to preemptionPolicy=Never."
    assert refusal.nodes == {}


def test_why_preemption_does_not_help_is_counted_by_node() -> None:
    tainted = node("tainted")
    tainted["spec"] = {"taints": [{"key": "special", "effect": "NoSchedule"}]}
    broken = gpu_slice("broken", 1)
    broken["spec"]["devices"][0]["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    bodies = [*fleet(one=2, two=2, idle=0), tainted, node("broken"), broken]
    lower = [*running("a", "one", 1, "gpu-0"), *running("b", "broken", 1, "gpu-0")]
    equal = running("c", "two", 10, "gpu-0", "gpu-1")
    decision = refused(*bodies, *lower, *running("d", "one", 10, "gpu-1"), *equal, count=2)
    assert decision.preemption_refusal is not None
    assert decision.preemption_refusal.nodes == {
        NodeRefusal.NOT_RESOLVABLE: 1,
        NodeRefusal.NO_VICTIMS: 3,
        NodeRefusal.NOT_ENOUGH: 1,
    }


def test_a_trial_that_fails_does_not_show_on_nodes_that_are_read_later() -> None:
    network = gpu_slice("network", 2)
    network["spec"] = {**network["spec"], "allNodes": True}
    del network["spec"]["nodeName"]
    for device in network["spec"]["devices"]:
        device["attributes"] = {"root": {"string": device["name"]}}
    together = [{"matchAttribute": f"{DRIVER}/root"}]
    held = holding("net", "network", "gpu-0", "gpu-1", users=["a"])
    bodies = [device_class(), node("one"), node("two"), network, held, user("a", "one", 1, "net")]
    state = build(*bodies, claim("x", exactly(count=2), constraints=together), features=PREEMPTING)
    [decision] = decide(state, pods(pod("urgent", "x", priority=10)), now=NOW)
    assert isinstance(decision, Unschedulable)
    assert decision.preemption_refusal is not None
    assert decision.preemption_refusal.nodes == {NodeRefusal.NOT_ENOUGH: 2}


# The bound on effort, and abandoned searches.


def test_after_too_many_trials_any_victims_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = fleet(one=4)
    for number in range(4):
        bodies += running(f"p{number}", "one", number, f"gpu-{number}")
    monkeypatch.setattr(victim_search, "TRIALS_LIMIT", 0)
    plan = refused(*bodies, count=2).preemption
    assert plan is not None
    assert names(plan) == ["p0", "p1"]
    assert not plan.is_exhaustive


def test_few_trials_find_who_shares_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_search, "TRIALS_LIMIT", 2)
    shareable = gpu("", "80Gi")
    shareable["allowMultipleAllocations"] = True
    devices = [{**shareable, "name": f"gpu-{number}"} for number in range(8)]
    bodies = [device_class(), node("one"), gpu_slice("one", 0, *devices)]
    for number in range(16):
        device, priority = divmod(number, 2)
        share = holding(f"p{number}", "one", f"gpu-{device}", users=[f"p{number}"])
        [result] = share["status"]["allocation"]["devices"]["results"]
        result["shareID"] = f"00000000-0000-0000-0000-{number:012}"
        result["consumedCapacity"] = {"memory": "40Gi"}
        important = 0 if device == 5 else 5
        bodies += [share, user(f"p{number}", "one", priority + important, f"p{number}")]
    assert names(planned(*bodies)) == ["p10", "p11"]


def test_few_trials_find_the_users_of_a_shared_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_search, "TRIALS_LIMIT", 2)
    bodies = fleet(one=8)
    for number in range(8):
        both = [f"p{number}-{letter}" for letter in "ab"]
        bodies.append(holding(f"p{number}", "one", f"gpu-{number}", users=both))
        importance = 1 if number == 5 else 2
        bodies += [user(name, "one", importance, f"p{number}") for name in both]
    assert names(planned(*bodies)) == ["p5-a", "p5-b"]


@pytest.mark.parametrize("steps", range(12))
def test_an_abandoned_search_leaves_the_state_as_it_was(steps: int) -> None:
    bodies = [*fleet(one=2), *running("a", "one", 1, "gpu-0"), *running("b", "one", 1, "gpu-1")]
    state = build(*bodies, claim("x", exactly(count=2)), features=PREEMPTING)
    [urgent] = pods(pod("urgent", "x", priority=10))
    state.put_pod(urgent)
    attempt = Decider(state).steps_for(urgent, NOW)
    step = next(attempt)
    for _ in range(steps):
        try:
            step = attempt.send(None if step is None else step.run())
        except StopIteration:
            break
    attempt.close()
    holders = state.inventory.pools().values()
    assert sorted(device for pool in holders for device in pool.holders.by_device) == [
        "gpu-0", "gpu-1",
    ]  # fmt: skip
    [here] = state.nodes
    assert sorted(here.usages) == ["pod a", "pod b"]
    assert state.affinity.hidden == set()
