"""The state of decisions follows every change of its objects."""

from __future__ import annotations

from typing import Any

from dray.api.ids import ClaimKey, DeviceId, ObjectKey
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import decide
from dray.scheduling.state import SchedulingState
from tests.unit.scheduler.world import DRIVER, claim, device_class, gpu_slice, node, pod
from tests.unit.scheduling.objects import NOW, build, convert, outcome, pods, written

GROUP = ObjectKey("default", "pg")
KEY = ObjectKey("default", "p")


def body(uid: str = "u", **spec: Any) -> JsonObject:
    made = pod("p", requests={"cpu": "60"}, **spec)
    made["metadata"]["uid"] = uid
    return made


def put(state: SchedulingState, changed: JsonObject) -> bool:
    [converted] = pods(changed)
    return state.put_pod(converted)


def names(found: Any) -> list[str]:
    return [member.metadata.name for member in found]


def test_a_pod_is_found_by_node_and_by_group() -> None:
    state = build(node("one"))
    for name in ("b", "a", "c"):
        put(state, pod(name, schedulingGroup={"podGroupName": "pg"}))
    put(state, pod("b", schedulingGroup={"podGroupName": "pg"}, nodeName="one"))
    assert names(state.pods.in_group(GROUP)) == ["b", "a", "c"], "the order is that of arrival"
    assert names(state.pods.on_node("one")) == ["b"]
    assert state.drop_pod(ObjectKey("default", "b"))
    assert names(state.pods.in_group(GROUP)) == ["a", "c"]
    assert names(state.pods.on_node("one")) == []
    assert not state.drop_pod(ObjectKey("default", "b"))


def test_resources_are_free_when_a_pod_ends_is_deleted_or_replaced() -> None:
    ended = {**body(nodeName="one"), "status": {"phase": "Succeeded"}}
    for change in (ended, body("v")):
        state = build(node("one"), body(nodeName="one"))
        assert state.nodes.node_of("u") == "one"
        assert put(state, change)
        assert state.nodes.node_of("u") == ""
    state = build(node("one"), body(nodeName="one"))
    assert state.drop_pod(KEY)
    assert outcome(decide(state, pods(body("v")), now=NOW)[0]) == ("one", [])


def test_a_reserved_node_is_free_when_its_pod_is_deleted_before_it_is_bound() -> None:
    state = build(node("one"))
    [waiting] = pods(body())
    assert outcome(decide(state, [waiting], now=NOW)[0]) == ("one", [])
    deleted = body()
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert put(state, deleted)
    assert state.nodes.node_of("u") == ""


def test_releasing_an_assignment_keeps_what_is_written_meanwhile() -> None:
    state = build(device_class(), node("one"), gpu_slice("one", 1), claim("x"))
    [decision] = decide(state, pods(pod("p", "x")), now=NOW)
    assert isinstance(decision, NodeAssignment)
    for changed in written(decision):
        state.put(changed)
    state.release(decision)
    assert state.nodes.node_of("pod p") == "one"
    device = DeviceId(DRIVER, "one", "gpu-0")
    assert state.inventory.holders_of(device) == (ClaimKey("default", "x"),)


def test_pods_of_another_scheduler_are_not_pending() -> None:
    state = SchedulingState(scheduler_name="mine")
    for name, is_pending in (("mine", True), ("other", False)):
        converted = convert(pod("p", schedulerName=name))
        assert isinstance(converted, Pod)
        assert state.is_pending(converted) == is_pending


def test_ids_of_shares_are_numbered_uuids_unless_given() -> None:
    state = SchedulingState()
    assert [state.new_share_id() for _ in range(2)] == [
        "00000000-0000-4000-8000-000000000001",
        "00000000-0000-4000-8000-000000000002",
    ]
    assert SchedulingState(new_share_id=lambda: "mine").new_share_id() == "mine"
