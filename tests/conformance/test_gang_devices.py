"""What kube-scheduler says about gangs and preemption for devices, and what dray does."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dray.api import features as gates
from dray.api.features import Features
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decision, decide
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable, message
from tests.conformance import gang_cases
from tests.recorded import CASES
from tests.unit.scheduler.test_podgroups import GROUPS
from tests.unit.scheduling import objects
from tests.unit.scheduling.objects import NOW, convert

Case = dict[str, Any]
RECORDED: list[Case] = json.loads(CASES.read("gang_devices.json"))
OURS = gates.with_gates(GROUPS, {"DrayGangSearch": True, "DrayPreemption": True})
NOT_ENOUGH = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"


def case(name: str) -> Case:
    return next(each for each in RECORDED if each["name"] == name)


def test_the_inputs_are_those_that_were_recorded() -> None:
    inputs = [{key: each[key] for key in each if key != "answers"} for each in RECORDED]
    assert inputs == json.loads(json.dumps(gang_cases.CASES))


def decisions_of(played: Case, features: Features) -> dict[str, Decision]:
    """The decisions for all pods, in the order in which they were created."""
    values = {
        body["metadata"]["name"]: body["value"]
        for body in played["objects"]
        if body["kind"] == "PriorityClass"
    }
    state = SchedulingState(features)
    found: dict[str, Decision] = {}
    for bodies in (played["objects"], played.get("later", ())):
        waiting: list[Pod] = []
        for body in bodies:
            if body["kind"] == "PriorityClass":
                continue
            added = convert(_with_priority(body, values))
            if isinstance(added, Pod):
                waiting.append(added)
            else:
                state.put(added)
        decided = decide(state, waiting, now=NOW)
        found |= {pod.metadata.name: one for pod, one in zip(waiting, decided, strict=True)}
        for one in decided:
            for changed in objects.written(one) if isinstance(one, NodeAssignment) else ():
                state.put(changed)
    return found


def _with_priority(body: JsonObject, values: dict[str, int]) -> JsonObject:
    name = body["spec"].get("priorityClassName") if "spec" in body else None
    return {**body, "spec": {**body["spec"], "priority": values[name]}} if name else body


def victims(decision: Decision) -> list[str]:
    plan = decision.preemption if isinstance(decision, Unschedulable) else None
    return sorted(victim.metadata.name for victim in plan.victims) if plan is not None else []


@pytest.mark.parametrize("played", RECORDED, ids=lambda played: played["name"])
def test_without_its_gates_dray_places_what_kube_scheduler_places(played: Case) -> None:
    features = msgspec.structs.replace(GROUPS, preemption="cpu-held" in played["name"])
    for name, decision in decisions_of(played, features).items():
        answer = played["answers"][name]
        assert isinstance(decision, NodeAssignment) == bool(answer["node"])
        if isinstance(decision, Unschedulable) and not decision.group_message:
            assert message(decision, 1) == answer["message"]


def test_the_gang_of_kubernetes_138765_is_placed() -> None:
    played = case("a-gang-fits-only-if-no-pod-takes-the-whole-gpu")
    assert NOT_ENOUGH in played["answers"]["a"]["message"]
    assert not any(answer["node"] for answer in played["answers"].values())
    found = decisions_of(played, OURS)
    taken = {objects.outcome(decision)[1][0] for decision in found.values()}
    assert taken == {"one/gpu-0-a", "one/gpu-0-b"}


def test_a_device_is_freed_where_kube_scheduler_says_that_preemption_does_not_help() -> None:
    played = case("a-device-held-by-a-pod-of-lower-priority")
    assert "Preemption is not helpful" in played["answers"]["urgent"]["message"]
    assert not played["answers"]["batch"]["isLeaving"]
    assert victims(decisions_of(played, OURS)["urgent"]) == ["batch"]


def test_devices_are_freed_for_a_gang_where_kube_scheduler_frees_none() -> None:
    played = case("devices-held-by-pods-of-lower-priority-than-a-gang")
    assert not any(answer["isLeaving"] for answer in played["answers"].values())
    assert victims(decisions_of(played, OURS)["a"]) == ["batch-a", "batch-b"]


def test_cpu_is_freed_as_kube_scheduler_does() -> None:
    played = case("cpu-held-by-a-pod-of-lower-priority")
    assert played["answers"]["batch"]["isLeaving"]
    decision = decisions_of(played, OURS)["urgent"]
    assert victims(decision) == ["batch"]
    assert isinstance(decision, Unschedulable)
    assert message(decision, 1) == played["answers"]["urgent"]["message"]
