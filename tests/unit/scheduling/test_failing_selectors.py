"""Selectors that fail on some devices: the order of nodes does not decide about a pod."""

from __future__ import annotations

import itertools

import pytest

from dray.api import features as gates
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, Decision, decide
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable
from tests.unit.scheduler.world import DRIVER, claim, device_class, exactly, gpu_slice, node, pod
from tests.unit.scheduling.objects import NOW, build, convert, outcome, pods, written

FAST = f'device.attributes["{DRIVER}"].fast'
GROUPS = gates.with_gates(gates.DEFAULT, {"GenericWorkload": True})
PREEMPTING = gates.with_gates(gates.DEFAULT, {"DrayPreemption": True})


def device(name: str, fast: bool | None, **fields: object) -> JsonObject:
    attributes = {} if fast is None else {"fast": {"bool": fast}}
    return {"name": name, "attributes": attributes, **fields}


def devices_on(name: str, *fast: bool | None) -> JsonObject:
    made = [device(f"gpu-{number}", value) for number, value in enumerate(fast)]
    return gpu_slice(name, 0, *made)


def asking(name: str = "x", *, count: int = 1) -> JsonObject:
    return claim(name, exactly(count=count, selectors=[{"cel": {"expression": FAST}}]))


def fleet(**devices: tuple[bool | None, ...]) -> list[JsonObject]:
    bodies = [device_class()]
    for name, fast in devices.items():
        bodies += [node(name), devices_on(name, *fast)]
    return bodies


def decision_for(state: SchedulingState, body: JsonObject) -> Decision:
    [decision] = decide(state, pods(body), now=NOW)
    return decision


def error_of(decision: Decision) -> str:
    assert isinstance(decision, Unschedulable)
    return decision.error


@pytest.mark.parametrize("order", list(itertools.permutations(["good", "bad", "empty"])))
def test_a_selector_that_fails_on_one_node_ends_the_attempt(order: tuple[str, ...]) -> None:
    devices: dict[str, tuple[bool | None, ...]] = {"good": (True,), "bad": (None,), "empty": ()}
    state = build(*fleet(**{name: devices[name] for name in order}), asking())
    decision = decision_for(state, pod("p", "x"))
    assert "on device gpu.example.com/bad/gpu-0: CEL runtime error: no such key" in error_of(
        decision
    )
    assert outcome(decision) == "error"


def test_a_device_after_the_first_fit_is_not_looked_at() -> None:
    state = build(*fleet(good=(True, None), other=(True,)), asking(), asking("two", count=2))
    assert isinstance(decision_for(state, pod("p", "x")), NodeAssignment)
    assert "good/gpu-1" in error_of(decision_for(state, pod("q", "two")))


def test_a_device_in_use_is_not_looked_at() -> None:
    state = build(*fleet(good=(True,), bad=(None,)), claim("any"), asking())
    bound = pod("first", "any", nodeSelector={"kubernetes.io/hostname": "bad"})
    state.put(convert(node("bad", {"kubernetes.io/hostname": "bad"})))
    assert outcome(decision_for(state, bound)) == ("bad", ["bad/gpu-0"])
    assert outcome(decision_for(state, pod("p", "x"))) == ("good", ["good/gpu-0"])


def test_a_node_that_another_filter_rejects_is_not_looked_at() -> None:
    state = build(*fleet(good=(True,), bad=(None,)), asking())
    state.put(convert({**node("bad"), "spec": {"unschedulable": True}}))
    assert outcome(decision_for(state, pod("p", "x"))) == ("good", ["good/gpu-0"])


def test_the_class_protects_the_selector_of_the_request() -> None:
    """A device that the class does not select is not shown to the request's selector."""
    other = gpu_slice("bad", 0, device("nic-0", None), driver="nic.example.com")
    state = build(*fleet(good=(True,)), node("bad"), other, asking())
    decider = Decider(state)
    [decision] = decider.decide(pods(pod("p", "x")), NOW)
    assert outcome(decision) == ("good", ["good/gpu-0"])


def test_the_verdict_follows_the_slices() -> None:
    state = build(*fleet(good=(True, True), bad=(None,)), asking(), asking("y"))
    decider = Decider(state)
    [first] = decider.decide(pods(pod("p", "x")), NOW)
    assert "bad/gpu-0" in error_of(first)
    state.put(convert(devices_on("bad", False)))
    [second] = decider.decide(pods(pod("p", "x")), NOW)
    assert outcome(second) == ("good", ["good/gpu-0"])
    state.put(convert(devices_on("bad", None)))
    [third] = decider.decide(pods(pod("q", "y")), NOW)
    assert "bad/gpu-0" in error_of(third)
    state.inventory.drop_slice(devices_on("bad")["metadata"]["name"])
    [fourth] = decider.decide(pods(pod("q", "y")), NOW)
    assert outcome(fourth) == ("good", ["good/gpu-1"])


def test_devices_of_a_shared_slice_fail_on_every_node() -> None:
    """Pools are looked at in the order of their names: where an earlier one fits, none fails."""
    shared = gpu_slice("shared", 0, device("gpu-0", None), nodeName=None, allNodes=True)
    state = build(*fleet(good=(True,)), shared, asking(), asking("two", count=2))
    assert outcome(decision_for(state, pod("p", "x"))) == ("good", ["good/gpu-0"])
    state = build(*fleet(good=(True,), empty=()), shared, asking())
    assert "shared/gpu-0" in error_of(decision_for(state, pod("p", "x")))


def test_a_claim_that_is_allocated_elsewhere_does_not_hide_the_error() -> None:
    """Upstream searches devices for the other claims also where one cannot be used."""
    state = build(*fleet(good=(True, True), worse=(None,)), claim("held"), asking())
    [first] = decide(state, pods(pod("first", "held", nodeName="")), now=NOW)
    assert isinstance(first, NodeAssignment)
    for stored in written(first):
        state.put(stored)
    both = pod("p", "held")
    both["spec"]["resourceClaims"].append({"name": "more", "resourceClaimName": "x"})
    assert "worse/gpu-0" in error_of(decision_for(state, both))


@pytest.mark.parametrize(("fitting", "is_placed"), [(100, False), (101, True)])
def test_beyond_the_sample_of_nodes_errors_do_not_count(fitting: int, is_placed: bool) -> None:
    """Kubernetes stops at one fit more than the sample, which can be before the failing node."""
    devices: dict[str, tuple[bool | None, ...]] = {"bad": (None,)}
    devices |= {f"good-{number}": (True,) for number in range(fitting)}
    state = build(*fleet(**devices), asking())
    decision = decision_for(state, pod("p", "x"))
    assert isinstance(decision, NodeAssignment) == is_placed
    if isinstance(decision, NodeAssignment):
        assert decision.node.startswith("good-")


def test_no_pod_is_evicted_for_an_error() -> None:
    state = build(*fleet(good=(True,)), claim("held"), asking(), features=PREEMPTING)
    [low] = decide(state, pods(pod("low", "held", priority=0)), now=NOW)
    assert isinstance(low, NodeAssignment)
    for stored in written(low):
        state.put(stored)
    for body in (node("bad"), devices_on("bad", None)):
        state.put(convert(body))
    decision = decision_for(state, pod("p", "x", priority=10))
    assert "bad/gpu-0" in error_of(decision)
    assert isinstance(decision, Unschedulable)
    assert decision.preemption is None


def test_members_of_a_gang_get_no_node() -> None:
    group: JsonObject = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    state = build(
        *fleet(good=(True, True), bad=(None,)), group, asking(), asking("y"), features=GROUPS
    )
    members: list[Pod] = []
    for name, used in (("p", "x"), ("q", "y")):
        members += pods(pod(name, used, schedulingGroup={"podGroupName": "g"}))
    decisions = decide(state, members, now=NOW)
    assert [outcome(decision) for decision in decisions] == ["group", "group"]
