"""Priority classes, resolved."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api import features
from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.world import World

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def priority_class(name: str, value: int, **more: Any) -> JsonObject:
    return {"metadata": {"name": name}, "value": value, **more}


def test_without_any_class_a_pod_has_priority_zero() -> None:
    spec = World().create(world.PODS, world.pod("p"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in spec


def test_a_class_gives_its_value_and_its_policy() -> None:
    server = World()
    server.create(CLASSES, priority_class("high", 1000, preemptionPolicy="Never"))
    spec = server.create(world.PODS, world.pod("p", priorityClassName="high"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")


def test_the_default_class_is_for_those_who_name_none() -> None:
    server = World()
    server.create(CLASSES, priority_class("usual", 7, globalDefault=True))
    spec = server.create(world.PODS, world.pod("p"))["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (7, "usual")


def test_system_classes_are_there() -> None:
    body = world.pod("p", priorityClassName="system-node-critical")
    assert World().create(world.PODS, body)["spec"]["priority"] == 2_000_001_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"priorityClassName": "nope"},
            "no PriorityClass with name nope was found",
        ),
        (
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; priority "
            "admission controller computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given "
            "PriorityClass name",
        ),
    ],
)
def test_a_pod_cannot_make_itself_important(changes: JsonObject, message: str) -> None:
    answer = World().ask("POST", world.PODS, world.pod("p", **changes))
    assert (answer.status, answer.message) == (403, f'pods "p" is forbidden: {message}')


def test_there_is_one_default_class() -> None:
    server = World()
    made = server.create(CLASSES, priority_class("one", 1, globalDefault=True))
    answer = server.ask("POST", CLASSES, priority_class("two", 2, globalDefault=True))
    assert answer.message == (
        'priorityclasses.scheduling.k8s.io "two" is forbidden: PriorityClass one is already marked '
        "as default. Only one default can exist"
    )
    made["description"] = "as before"
    assert server.ask("PUT", f"{CLASSES}/one", made).status == 200


def test_an_update_that_leaves_the_priority_out_keeps_it() -> None:
    server = World()
    server.create(CLASSES, priority_class("high", 1000))
    made = server.create(world.PODS, world.pod("p", priorityClassName="high"))
    del made["spec"]["priority"], made["spec"]["preemptionPolicy"]
    answer = server.ask("PUT", f"{world.PODS}/p", made)
    assert answer.status == 200, answer.body
    assert answer.body["spec"]["priority"] == 1000


def test_pod_groups_have_priorities_too() -> None:
    server = World(features.parse("GenericWorkload=true"))
    server.create(CLASSES, priority_class("high", 1000))
    path = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
    body = {
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"basic": {}}, "priorityClassName": "high"},
    }
    assert server.create(path, body)["spec"]["priority"] == 1000
