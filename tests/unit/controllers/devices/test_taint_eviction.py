"""Device taints: who leaves, when, and what the rule says of it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from dray.api.types.dra import DeviceTaintRule, ResourceClaim
from dray.api.types.meta import JsonObject
from dray.controllers.devices import eviction_times
from dray.controllers.devices.claims import Claims
from dray.controllers.devices.taint_eviction import TaintEviction
from dray.controllers.slim_types import TaintedSlice
from dray.controllers.status_patches import decode
from tests.unit.controllers import objects
from tests.unit.controllers.devices.test_claims import allocate, start
from tests.unit.controllers.kubelet import Kubelet
from tests.unit.controllers.world import World, with_loops


def rule(effect: str, **selector: str) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken-gpu"},
        "spec": {
            "deviceSelector": selector or {"driver": "gpu.example.com", "device": "gpu-0"},
            "taint": {"key": "example.com/unhealthy", "value": "ecc", "effect": effect},
        },
    }


def published(*taints: JsonObject, generation: int = 1) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "node-1-gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "taints": list(taints)}, {"name": "gpu-1"}],
        },
    }


async def running_victim(here: World, **toleration: Any) -> JsonObject:
    await here.create(objects.claim("victim-claim"))
    pod = await here.create(objects.pod("victim", claim="victim-claim"))
    await allocate(here, "victim-claim", pod)
    if toleration:
        granted = objects.allocation()
        granted["devices"]["results"][0]["tolerations"] = [toleration]

        def tolerate(raw: JsonObject) -> None:
            raw["status"]["allocation"] = granted

        await here.overwrite("resourceclaims", "victim-claim", tolerate)
    await start(here, "victim")
    await here.settle()
    return pod


async def rule_condition(here: World) -> Any:
    conditions = (await here.get("devicetaintrules", "broken-gpu"))["status"].get("conditions")
    return conditions[0] if conditions else None


async def is_leaving(here: World, name: str = "victim") -> Any:
    found = await here.find("pods", name)
    return found is None or "deletionTimestamp" in found["metadata"]


@with_loops(TaintEviction)
async def test_a_rule_without_effect_says_what_it_would_do(here: World) -> None:
    await here.create(published())
    await running_victim(here)
    await here.create(rule("None"))
    condition = await here.until(lambda: rule_condition(here))
    assert (condition["status"], condition["reason"]) == ("False", "NoEffect")
    assert condition["message"] == (
        "1 published device selected. 1 allocated device selected. 1 pod would be evicted in "
        "1 namespace if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update."
    )
    assert not await is_leaving(here)


@with_loops(TaintEviction, Claims, Kubelet)
async def test_a_rule_evicts_and_counts(here: World) -> None:
    await running_victim(here)
    await here.create(rule("NoExecute"))
    condition = await here.until(lambda: rule_condition(here))
    assert (condition["status"], condition["reason"]) == ("True", "PodsPendingEviction")
    assert condition["message"] == "1 pod needs to be evicted in 1 namespace."

    async def free() -> Any:
        claim = await here.get("resourceclaims", "victim-claim")
        return await here.find("pods", "victim") is None and claim["status"] == {}

    await here.until(free)

    async def told() -> Any:
        notes = [each["message"] for each in await here.list("events")]
        return "Marking for deletion" in notes

    await here.until(told)


@with_loops(TaintEviction)
async def test_an_evicted_pod_says_why(here: World) -> None:
    await running_victim(here)
    await here.create(rule("NoExecute"))
    await here.until(lambda: is_leaving(here))
    conditions = (await here.get("pods", "victim"))["status"]["conditions"]
    target = next(condition for condition in conditions if condition["type"] == "DisruptionTarget")
    assert target["reason"] == "DeletionByDeviceTaintManager"


@with_loops(TaintEviction)
async def test_a_rule_for_another_device_evicts_nobody(here: World) -> None:
    await running_victim(here)
    await here.create(rule("NoExecute", driver="gpu.example.com", device="gpu-1"))
    condition = await here.until(lambda: rule_condition(here))
    assert condition["reason"] == "NotStarted"
    await here.settle()
    assert not await is_leaving(here)


@with_loops(TaintEviction)
async def test_a_driver_that_taints_its_device_evicts(here: World) -> None:
    await here.create(published())
    await running_victim(here)
    taint = {"key": "example.com/unhealthy", "effect": "NoExecute"}
    devices = published(taint)["spec"]["devices"]
    await here.patch("resourceslices", "node-1-gpus", {"spec": {"devices": devices}})
    await here.until(lambda: is_leaving(here))


@with_loops(TaintEviction)
async def test_a_toleration_for_a_while_delays_and_a_removed_rule_cancels(here: World) -> None:
    toleration = {
        "key": "example.com/unhealthy",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 3600,
    }
    await running_victim(here, **toleration)
    await here.create(rule("NoExecute"))
    await here.until(lambda: rule_condition(here))
    await here.settle()
    assert not await is_leaving(here)
    await here.delete("devicetaintrules", "broken-gpu")

    async def told() -> Any:
        return [each["message"] for each in await here.list("events")] == ["Cancelling deletion"]

    await here.until(told)


ADDED = "2026-01-01T00:00:00Z"
TAINT = {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": ADDED}


def allocated(*tolerations: JsonObject) -> ResourceClaim:
    granted = objects.allocation()
    granted["devices"]["results"][0]["tolerations"] = list(tolerations)
    return decode({"status": {"allocation": granted}}, ResourceClaim)


def tolerate(seconds: int | None = None, **more: Any) -> JsonObject:
    made = {"key": "k", "operator": "Exists", "effect": "NoExecute", **more}
    return made if seconds is None else {**made, "tolerationSeconds": seconds}


@pytest.mark.parametrize(
    ("tolerations", "delay"),
    [
        pytest.param([], 0, id="not tolerated"),
        pytest.param([tolerate()], None, id="for ever"),
        pytest.param([tolerate(30), tolerate(10)], 10, id="the shortest"),
        pytest.param([tolerate(30), tolerate()], None, id="for ever beats a limit"),
        pytest.param([tolerate(-5)], 0, id="negative is none"),
        pytest.param([tolerate(effect="")], 0, id="must name the effect"),
    ],
)
def test_when_a_claim_is_taken(tolerations: list[JsonObject], delay: int | None) -> None:
    slices = [decode(published(TAINT), TaintedSlice)]
    eviction = eviction_times.of_claim(allocated(*tolerations), slices, [])
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    if delay is None:
        assert eviction is None
    else:
        assert eviction is not None
        assert eviction.when == start + datetime.timedelta(seconds=delay)


def test_taints_of_an_outdated_slice_do_not_count() -> None:
    old, new = published(TAINT, generation=1), published(generation=2)
    slices = [decode(each, TaintedSlice) for each in (old, new)]
    assert eviction_times.of_claim(allocated(), slices, []) is None


def test_a_rule_without_selector_evicts_nobody() -> None:
    body = rule("NoExecute")
    del body["spec"]["deviceSelector"]
    rules = [decode(body, DeviceTaintRule)]
    assert eviction_times.of_claim(allocated(), [], rules) is None
