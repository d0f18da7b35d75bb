"""More of what people do with dray and must see: partitions, versions, faults, neighbours."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api import errors, http_messages, kinds
from dray.api.types.meta import JsonObject
from dray.client import api_client
from tests.cluster.world import (
    CLASS,
    World,
    claim,
    claim_spec,
    pod,
    pod_spec,
    request,
    template,
    with_cluster,
)

FABRIC = "fabric.example.com"
ATTACHED, FAILED = f"{FABRIC}/attached", f"{FABRIC}/attach-failed"


async def _sent(world: World, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
    """A request in a version of the caller's choice."""
    headers = {"accept": http_messages.JSON, "content-type": http_messages.JSON}
    encoded = msgspec.json.encode(body) if body is not None else b""
    response = await world.client.raw(http_messages.Request(method, path, (), headers, encoded))
    if response.status >= 400:
        raise api_client.error_of(response)
    found: JsonObject = msgspec.json.decode(response.body)
    return found


async def _results(world: World, name: str) -> list[JsonObject]:
    status = (await world.get(kinds.RESOURCE_CLAIM, name))["status"]
    found: list[JsonObject] = status["allocation"]["devices"]["results"]
    return found


async def _attributes(world: World, result: JsonObject) -> JsonObject:
    """What is published about an allocated device."""
    for each in await world.all(kinds.RESOURCE_SLICE):
        spec = each["spec"]
        if (spec["driver"], spec["pool"]["name"]) == (result["driver"], result["pool"]):
            for device in spec.get("devices", ()):
                if device["name"] == result["device"]:
                    attributes: JsonObject = device["attributes"]
                    return attributes
    raise AssertionError(f"{result} is not published")


async def _gone(world: World, name: str) -> None:
    async def is_gone() -> bool:
        return name not in {each["metadata"]["name"] for each in await world.all(kinds.POD)}

    await world.until(is_gone, f"pod {name} going")


def _rule(effect: str, pool: str, device: str) -> JsonObject:
    selector = {"driver": CLASS, "pool": pool, "device": device}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}},
    }


def test_story_2_the_pod_says_which_clause_leaves_no_device(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        blackwell = f'device.attributes["{CLASS}"].architecture == "Blackwell"'
        await world.create(template("t", claim_spec(request(selectors=[blackwell]))))
        await world.create(pod("p", template="t"))

        async def explained() -> bool:
            return "Blackwell" in await world.unschedulable("p")

        await world.until(explained, "the clause being named")

    with_cluster(story, tmp_path)


def test_story_9_a_gpu_is_not_given_while_a_partition_of_it_is_used(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("part", claim_spec(request(deviceClassName="mig.nvidia.com"))))
        await world.create(pod("part", template="part"))
        await world.pod_phase("part", "Running")
        await world.create(template("all", claim_spec(request(allocationMode="All"))))
        await world.create(pod("all", template="all"))
        assert "cannot allocate all claims" in await world.unschedulable("all")
        await world.client.delete(kinds.POD, "part", "default", {"gracePeriodSeconds": 0})
        await world.pod_phase("all", "Running")

    with_cluster(story, tmp_path, "a100-mig", nodes=1)


def test_story_10_a_partition_by_size_is_stored_as_plain_dra(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        sizes = {"count": 1, "resources": {"memory": "20Gi", "compute": 2}}
        asked = request(partitionRequest=sizes)

        async def accepted() -> JsonObject | None:
            # The server follows what is published, and may be a moment behind.
            with contextlib.suppress(errors.Invalid):
                return await world.create(claim("sized", claim_spec(asked)))
            return None

        stored = await world.until(accepted, "the partitions being known")
        (kept,) = stored["spec"]["devices"]["requests"]
        assert "partitionRequest" not in kept
        assert 1 <= len(kept["firstAvailable"]) <= 8
        await world.create(pod("p", claim="sized"))
        await world.pod_phase("p", "Running")
        (result,) = await _results(world, "sized")
        profile = (await _attributes(world, result))["profile"]["string"]
        assert profile == "2g.20gb"

    with_cluster(story, tmp_path, "a100-mig")


def test_story_10_without_partitions_a_size_is_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        sizes = {"count": 1, "resources": {"memory": "20Gi", "compute": 2}}
        asked = request(partitionRequest=sizes)
        with pytest.raises(errors.Invalid, match="partitionRequest"):
            await world.create(claim("sized", claim_spec(asked)))

    with_cluster(story, tmp_path)


def test_story_12_a_v1beta1_claim_works_and_reads_back_in_every_version(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        flat = {"name": "gpu", "deviceClassName": CLASS, "count": 2}
        body = {**claim("old", claim_spec(flat)), "apiVersion": "resource.k8s.io/v1beta1"}
        path = "/apis/resource.k8s.io/{}/namespaces/default/resourceclaims"
        await _sent(world, "POST", path.format("v1beta1"), body)
        await world.create(pod("p", claim="old"))
        await world.pod_phase("p", "Running")
        for version, inside in (("v1beta1", ""), ("v1beta2", "exactly"), ("v1", "exactly")):
            found = await _sent(world, "GET", f"{path.format(version)}/old")
            (asked,) = found["spec"]["devices"]["requests"]
            assert (asked[inside] if inside else asked)["count"] == 2
            assert len(found["status"]["allocation"]["devices"]["results"]) == 2

    with_cluster(story, tmp_path)


def test_story_13_admin_access_sees_devices_that_others_use(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(claim("all", claim_spec(request(allocationMode="All"))))
        await world.create(pod("p", claim="all"))
        await world.pod_phase("p", "Running")
        labels = {"resource.kubernetes.io/admin-access": "true"}
        metadata = {"name": "admins", "labels": labels}
        await world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        monitor = claim("monitor", claim_spec(request(allocationMode="All", adminAccess=True)))
        await world.create(monitor, "admins")
        await world.create(pod("m", claim="monitor"), "admins")
        await world.bound("m", "admins")
        found = await world.get(kinds.RESOURCE_CLAIM, "monitor", "admins")
        results = found["status"]["allocation"]["devices"]["results"]
        assert len(results) == 8
        assert all(result["adminAccess"] for result in results)

    with_cluster(story, tmp_path, nodes=1)


def test_story_14_an_old_manifest_is_served_through_its_class(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        limits = {"nvidia.com/gpu": "2"}
        container = {"name": "c", "image": "x", "resources": {"limits": limits}}
        body: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
        await world.create({**body, "spec": {"containers": [container]}})
        found = await world.pod_phase("p", "Running")
        name = found["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
        assert len(await _results(world, name)) == 2

    with_cluster(story, tmp_path)


def test_story_16_a_gpu_fails_and_its_pod_goes_elsewhere(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("t", claim_spec(request())))
        await world.create(pod("p", template="t"))
        await world.pod_phase("p", "Running")
        pool, device = (await world.devices_of(await world.claim_of("p")))[0].split("/")
        change = {"metadata": {"annotations": {"dray.dev/failed-devices": device}}}
        await world.client.patch(kinds.NODE, pool, change)
        await _gone(world, "p")
        await world.create(pod("next", template="t"))
        await world.pod_phase("next", "Running")
        assert await world.devices_of(await world.claim_of("next")) != [f"{pool}/{device}"]

    with_cluster(story, tmp_path)


def test_story_16_a_pod_that_tolerates_the_fault_stays(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        fault = {"key": f"{CLASS}/unhealthy", "operator": "Exists"}
        tolerations = [{**fault, "effect": "NoExecute"}]
        await world.create(claim("tough", claim_spec(request(tolerations=tolerations))))
        await world.create(claim("weak", claim_spec(request())))
        for name in ("tough", "weak"):
            await world.create(pod(name, claim=name))
            await world.pod_phase(name, "Running")
        broken: dict[str, list[str]] = {}
        for name in ("tough", "weak"):
            pool, device = (await world.devices_of(name))[0].split("/")
            broken.setdefault(pool, []).append(device)
        for pool, devices in broken.items():
            change = {"metadata": {"annotations": {"dray.dev/failed-devices": ",".join(devices)}}}
            await world.client.patch(kinds.NODE, pool, change)
        await _gone(world, "weak")
        await world.pod_phase("tough", "Running")

    with_cluster(story, tmp_path)


@pytest.mark.parametrize("effect", ["None", "NoSchedule"])
def test_story_17_a_mild_taint_leaves_running_pods_alone(effect: str, tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(claim("all", claim_spec(request(allocationMode="All"))))
        await world.create(pod("p", claim="all"))
        await world.pod_phase("p", "Running")
        await world.create(_rule(effect, *(await world.devices_of("all"))[0].split("/")))
        await world.client.delete(kinds.POD, "p", "default", {"gracePeriodSeconds": 0})
        await _gone(world, "p")
        await world.create(pod("next", claim="all"))

        async def refused() -> bool:
            return "cannot allocate all claims" in await world.unschedulable("next")

        if effect == "None":
            await world.pod_phase("next", "Running")
        else:
            await world.until(refused, "the tainted device keeping the pod away")

    with_cluster(story, tmp_path, nodes=1)


def test_story_17_the_rule_counts_what_it_evicts_after_the_tolerated_time(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        patience = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
        asked = request(tolerations=[{**patience, "tolerationSeconds": 1}])
        await world.create(claim("one", claim_spec(asked)))
        await world.create(pod("p", claim="one"))
        await world.pod_phase("p", "Running")
        await world.create(_rule("NoExecute", *(await world.devices_of("one"))[0].split("/")))
        await _gone(world, "p")

        async def counted() -> bool:
            rule = await world.get(kinds.DEVICE_TAINT_RULE, "r")
            conditions = (rule.get("status") or {}).get("conditions") or ()
            return any("1 pod evicted" in condition["message"] for condition in conditions)

        await world.until(counted, "the eviction being counted")

    with_cluster(story, tmp_path)


def test_story_22_a_nic_beside_the_gpu(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        root = "resource.kubernetes.io/pcieRoot"
        nic = request("nic", deviceClassName="rdma.dra.net")
        spec = claim_spec(request(), nic, constraints=[{"matchAttribute": root}])
        await world.create(template("t", spec))
        for number in range(3):
            await world.create(pod(f"p{number}", template="t"))
        for number in range(3):
            await world.pod_phase(f"p{number}", "Running")
            results = await _results(world, await world.claim_of(f"p{number}"))
            roots = {str((await _attributes(world, result))[root]) for result in results}
            assert (len(results), len(roots)) == (2, 1)

    with_cluster(story, tmp_path)


def test_story_22_a_device_on_the_network_is_used_from_any_allowed_node(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        asked = request(deviceClassName="fabric.dray.dev", count=3)
        await world.create(claim("zone", claim_spec(asked)))
        await world.create(pod("p", claim="zone"))
        found = await world.pod_phase("p", "Running")
        pools = {result["pool"] for result in await _results(world, "zone")}
        assert pools <= {"fabric-zone-a", "fabric-everywhere"}
        assert "fabric-zone-a" not in pools or found["spec"]["nodeName"].startswith("host-a-")

    with_cluster(story, tmp_path, "network-attached")


async def _attachable(world: World) -> None:
    """A device that must be attached before a pod can use it, a claim and its pod."""
    device = {"name": "fpga-0", "bindsToNode": True}
    device |= {"bindingConditions": [ATTACHED], "bindingFailureConditions": [FAILED]}
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": FABRIC, "allNodes": True, "pool": pool, "devices": [device]}
    kind: JsonObject = {"apiVersion": "resource.k8s.io/v1"}
    await world.create(
        {**kind, "kind": "ResourceSlice", "metadata": {"name": "fabric"}, "spec": spec}
    )
    selectors = [{"cel": {"expression": f'device.driver == "{FABRIC}"'}}]
    named = {"metadata": {"name": FABRIC}, "spec": {"selectors": selectors}}
    await world.create({**kind, "kind": "DeviceClass", **named})
    await world.create(claim("attach", claim_spec(request(deviceClassName=FABRIC))))
    await world.create(pod("p", claim="attach"))


async def _report(world: World, condition: str) -> None:
    """What the driver says about the device once it is allocated."""

    async def allocated() -> Any:
        return (await world.get(kinds.RESOURCE_CLAIM, "attach"))["status"].get("allocation")

    await world.until(allocated, "the claim being allocated")
    assert not (await world.get(kinds.POD, "p"))["spec"].get("nodeName")
    time = "2026-01-01T00:00:00Z"
    said = {"type": condition, "status": "True", "reason": "Said", "message": ""}
    said["lastTransitionTime"] = time
    device = {"driver": FABRIC, "pool": "fabric", "device": "fpga-0", "conditions": [said]}
    change = {"status": {"devices": [device]}}
    await world.client.patch(
        kinds.RESOURCE_CLAIM, "attach", change, "default", subresource="status"
    )


def test_story_23_a_pod_is_bound_when_its_device_is_attached(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await _attachable(world)
        await _report(world, ATTACHED)
        await world.pod_phase("p", "Running")

    with_cluster(story, tmp_path)


def test_story_23_a_pod_is_tried_again_when_attaching_fails(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await _attachable(world)
        await _report(world, FAILED)

        async def given_back() -> bool:
            return "devices" not in (await world.get(kinds.RESOURCE_CLAIM, "attach"))["status"]

        await world.until(given_back, "the failed device being given back")
        await _report(world, ATTACHED)
        await world.pod_phase("p", "Running")

    with_cluster(story, tmp_path)


def test_a_finished_pod_gives_its_devices_back_and_gets_no_claim_again(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("t", claim_spec(request(allocationMode="All"))))
        ends = {**pod("ends", template="t"), "spec": pod_spec(template="t", restart="Never")}
        await world.create(ends)
        await world.pod_phase("ends", "Succeeded")
        await world.create(pod("next", template="t"))
        await world.pod_phase("next", "Running")
        owners = [
            each["metadata"]["ownerReferences"][0]["name"]
            for each in await world.all(kinds.RESOURCE_CLAIM)
        ]
        assert owners == ["next"]

    with_cluster(story, tmp_path, nodes=1)
