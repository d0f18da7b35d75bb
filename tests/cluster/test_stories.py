"""What people do with dray and must see, on simulated nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api import errors, kinds
from dray.api.types.meta import JsonObject
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

FORTY = f'device.capacity["{CLASS}"].memory.compareTo(quantity("40Gi")) >= 0'
NEVER = f'device.capacity["{CLASS}"].memory.compareTo(quantity("500Gi")) >= 0'


def test_story_1_a_pod_gets_a_gpu_with_enough_memory(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("t", claim_spec(request(selectors=[FORTY]))))
        await world.create(pod("p", template="t"))
        await world.pod_phase("p", "Running")
        name = await world.claim_of("p")
        assert name.startswith("p-gpu-")
        found = await world.get(kinds.RESOURCE_CLAIM, name)
        (result,) = found["status"]["allocation"]["devices"]["results"]
        assert (result["driver"], result["request"]) == (CLASS, "gpu")
        assert found["status"]["reservedFor"][0]["name"] == "p"
        assert found["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"

    with_cluster(story, tmp_path)


def test_story_2_a_selector_that_nothing_matches_says_so(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("t", claim_spec(request(selectors=[NEVER]))))
        await world.create(pod("p", template="t"))
        message = await world.unschedulable("p")
        assert "nodes are available" in message
        assert "cannot allocate all claims" in message
        assert "`memory`: the largest is" in message

    with_cluster(story, tmp_path)


def test_story_3_two_containers_share_a_claim_and_two_claims_differ(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for name in ("one", "two"):
            await world.create(claim(name, claim_spec(request())))
            await world.create(pod(f"p-{name}", claim=name, containers=2))
        for name in ("one", "two"):
            await world.pod_phase(f"p-{name}", "Running")
        assert await world.devices_of("one") != await world.devices_of("two")

    with_cluster(story, tmp_path)


def test_story_4_a_deployment_has_a_claim_for_each_replica(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("t", claim_spec(request())))
        labels = {"app": "d"}
        await world.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {
                    "replicas": 4,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod_spec(template="t")},
                },
            }
        )

        async def all_ready() -> bool:
            status = (await world.get(kinds.DEPLOYMENT, "d"))["status"]
            return bool(status.get("readyReplicas") == 4)

        await world.until(all_ready, "four replicas being ready")
        claims = await world.all(kinds.RESOURCE_CLAIM)
        devices = {str(c["status"]["allocation"]["devices"]["results"][0]) for c in claims}
        assert len(claims) == len(devices) == 4
        await world.client.delete(
            kinds.DEPLOYMENT, "d", "default", {"propagationPolicy": "Background"}
        )

        async def all_gone() -> bool:
            return not await world.all(kinds.RESOURCE_CLAIM)

        await world.until(all_gone, "the claims going with their pods")

    with_cluster(story, tmp_path)


def test_story_4_a_job_shares_one_claim_and_generates_others(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("t", claim_spec(request())))
        await world.create(claim("shared", claim_spec(request())))
        spec = pod_spec(template="t", restart="Never")
        spec["resourceClaims"].append({"name": "shared", "resourceClaimName": "shared"})
        job = {"completions": 6, "parallelism": 2, "template": {"spec": spec}}
        await world.create(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": job}
        )

        async def complete() -> bool:
            return bool((await world.get(kinds.JOB, "j"))["status"].get("succeeded") == 6)

        await world.until(complete, "six completions")

        async def only_shared_is_left() -> bool:
            left = await world.all(kinds.RESOURCE_CLAIM)
            return [each["metadata"]["name"] for each in left] == ["shared"]

        await world.until(only_shared_is_left, "generated claims going")

    with_cluster(story, tmp_path)


def test_story_5_a_pod_waits_for_a_claim_that_does_not_exist_yet(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(pod("p", claim="later"))
        assert "later" in await world.unschedulable("p")
        await world.create(claim("later", claim_spec(request())))
        await world.pod_phase("p", "Running")

    with_cluster(story, tmp_path)


def test_story_6_all_devices_of_a_node(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(claim("all", claim_spec(request(allocationMode="All"))))
        await world.create(pod("p", claim="all"))
        await world.pod_phase("p", "Running")
        assert len(await world.devices_of("all")) == 8

    with_cluster(story, tmp_path)


def test_story_7_four_gpus_of_one_domain_and_two_that_differ(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        match = [{"matchAttribute": f"{CLASS}/nvswitchDomain"}]
        distinct = [{"distinctAttribute": "resource.kubernetes.io/pcieRoot"}]
        await world.create(claim("four", claim_spec(request(count=4), constraints=match)))
        await world.create(claim("two", claim_spec(request(count=2), constraints=distinct)))
        for name in ("four", "two"):
            await world.create(pod(f"p-{name}", claim=name))
            await world.pod_phase(f"p-{name}", "Running")
        assert len(await world.devices_of("four")) == 4

    with_cluster(story, tmp_path)


def test_story_8_the_first_alternative_that_fits(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        large = {"name": "large", "deviceClassName": CLASS}
        large["selectors"] = [{"cel": {"expression": NEVER}}]  # type: ignore[assignment]
        small = {"name": "small", "deviceClassName": CLASS}
        asked = {"name": "gpu", "firstAvailable": [large, small]}
        await world.create(claim("either", claim_spec(asked)))
        await world.create(pod("p", claim="either"))
        await world.pod_phase("p", "Running")
        status = (await world.get(kinds.RESOURCE_CLAIM, "either"))["status"]
        assert status["allocation"]["devices"]["results"][0]["request"] == "gpu/small"

    with_cluster(story, tmp_path)


def test_story_9_partitions_of_a_gpu_never_overlap(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        profile = f'device.attributes["{CLASS}"].profile == "3g.40gb"'
        spec = claim_spec(request(deviceClassName="mig.nvidia.com", selectors=[profile]))
        await world.create(template("t", spec))
        for number in range(4):
            await world.create(pod(f"p{number}", template="t"))
        for number in range(4):
            await world.pod_phase(f"p{number}", "Running")
        devices = [await world.devices_of(await world.claim_of(f"p{n}")) for n in range(4)]
        assert len({str(device) for device in devices}) == 4

    with_cluster(story, tmp_path, "a100-mig")


def test_story_11_four_pods_share_a_gpu_and_the_fifth_waits(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        spec = claim_spec(request(capacity={"requests": {"memory": "10Gi"}}))
        await world.create(template("t", spec))
        for number in range(5):
            await world.create(pod(f"p{number}", template="t"))

        async def four_run() -> bool:
            pods = await world.all(kinds.POD)
            return [each["status"].get("phase") for each in pods].count("Running") == 4

        await world.until(four_run, "four pods running")
        shares = [
            each["status"].get("allocation") for each in await world.all(kinds.RESOURCE_CLAIM)
        ]
        results = [share["devices"]["results"][0] for share in shares if share]
        assert len({result["device"] for result in results}) == 1
        assert len({result["shareID"] for result in results}) == 4
        assert {result["consumedCapacity"]["memory"] for result in results} == {"10Gi"}
        (waiting,) = [
            each for each in await world.all(kinds.POD) if each["status"].get("phase") == "Pending"
        ]
        assert "cannot allocate" in await world.unschedulable(waiting["metadata"]["name"])

    with_cluster(story, tmp_path, "shared")


def test_story_13_admin_access_needs_the_label(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        asked = claim("monitor", claim_spec(request(adminAccess=True)))
        with pytest.raises(errors.Invalid, match="admin access to devices requires"):
            await world.create(asked)
        labels = {"resource.kubernetes.io/admin-access": "true"}
        metadata = {"name": "admins", "labels": labels}
        await world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        await world.create(asked, "admins")

    with_cluster(story, tmp_path)


def test_story_14_an_extended_resource_is_served_by_a_claim(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        limits = {f"deviceclass.resource.kubernetes.io/{CLASS}": "1"}
        container = {"name": "c", "image": "x", "resources": {"limits": limits}}
        spec: JsonObject = {"containers": [container]}
        await world.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        )
        found = await world.pod_phase("p", "Running")
        assert found["status"]["extendedResourceClaimStatus"]["resourceClaimName"].startswith("p-")

    with_cluster(story, tmp_path)


def test_story_17_a_taint_rule_evicts_and_keeps_away(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(claim("one", claim_spec(request())))
        await world.create(pod("p", claim="one"))
        await world.pod_phase("p", "Running")
        pool, device = (await world.devices_of("one"))[0].split("/")
        selector = {"driver": CLASS, "pool": pool, "device": device}
        taint = {"key": "broken", "effect": "NoExecute"}
        await world.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceTaintRule",
                "metadata": {"name": "r"},
                "spec": {"deviceSelector": selector, "taint": taint},
            }
        )

        async def evicted() -> bool:
            return not await world.all(kinds.POD)

        await world.until(evicted, "the pod being evicted")
        rule = await world.get(kinds.DEVICE_TAINT_RULE, "r")
        assert rule["spec"]["taint"]["effect"] == "NoExecute"

    with_cluster(story, tmp_path)


def test_story_18_a_quota_limits_the_devices_of_a_namespace(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        hard = {f"{CLASS}.deviceclass.resource.k8s.io/devices": "2"}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
        await world.create({**quota, "spec": {"hard": hard}})

        async def counted() -> bool:
            return bool((await world.get(kinds.RESOURCE_QUOTA, "q"))["status"].get("hard"))

        await world.until(counted, "the quota being counted")
        await world.create(claim("two", claim_spec(request(count=2))))
        with pytest.raises(errors.Forbidden, match="exceeded quota: q"):
            await world.create(claim("third", claim_spec(request())))

    with_cluster(story, tmp_path)


def test_a_refused_pod_has_one_event(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("t", claim_spec(request(selectors=[NEVER]))))
        await world.create(pod("p", template="t"))
        await world.unschedulable("p")

        async def told() -> list[JsonObject]:
            events = await world.all(kinds.EVENT)
            return [event for event in events if event.get("reason") == "FailedScheduling"]

        assert len(await world.until(told, "an event")) == 1

    with_cluster(story, tmp_path)


def test_devices_come_back_when_a_pod_ends(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("t", claim_spec(request(allocationMode="All"))))
        await world.create(pod("first", template="t"))
        await world.pod_phase("first", "Running")
        await world.create(pod("second", template="t"))
        await world.unschedulable("second")
        await world.client.delete(kinds.POD, "first", "default", {"gracePeriodSeconds": 0})
        await world.pod_phase("second", "Running")

    with_cluster(story, tmp_path, nodes=1)
