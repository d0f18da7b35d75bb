"""Stories whose pods run in real containers, with logs as the API shows them."""

from __future__ import annotations

import re

import grpc.aio

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.protocol import services
from dray.protocol.services import Caller
from tests.cluster.site import (
    LIST,
    Site,
    container,
    from_template,
    needs_sandbox,
    pod,
    template,
    with_node,
)
from tests.cluster.world import CLASS

pytestmark = needs_sandbox


def test_story_1_nvidia_smi_lists_exactly_the_claimed_gpu() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        script = f"{LIST}; exec sleep 100"
        main = container(script, claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        await here.world.pod_phase("p", "Running")
        uuid = await here.uuid(await here.world.claim_of("p"))
        assert await here.output("p") == f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {uuid})\n"

    with_node(story)


def test_story_3_two_containers_share_a_claim_or_have_their_own() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        one = [container(LIST, name, claims=["a"]) for name in ("first", "second")]
        await here.world.create(
            pod("shared", *one, claims=[from_template("a")], restartPolicy="Never")
        )
        two = [container(LIST, name, claims=[name]) for name in ("a", "b")]
        claims = [from_template("a"), from_template("b")]
        await here.world.create(pod("apart", *two, claims=claims, restartPolicy="Never"))
        for name in ("shared", "apart"):
            await here.world.pod_phase(name, "Succeeded")
        assert await here.log("shared", "first") == await here.log("shared", "second")
        assert await here.log("apart", "a") != await here.log("apart", "b")
        assert len((await here.log("apart", "a")).splitlines()) == 1

    with_node(story)


def test_a_container_without_a_claim_sees_no_device() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        script = "nvidia-smi -L || echo no GPU; ls /run/dray; env | grep -c DEVICE"
        with_claim = container(script, "with", claims=["gpu"])
        without = container(script, "without")
        claims = [from_template("gpu")]
        await here.world.create(pod("p", with_claim, without, claims=claims, restartPolicy="Never"))
        await here.world.pod_phase("p", "Failed")
        assert "UUID" in await here.log("p", "with")
        assert "UUID" not in await here.log("p", "without")
        # The machine's own nvidia-smi may be there, but it finds nothing.
        assert "no GPU" in await here.log("p", "without")

    with_node(story)


def test_story_6_all_devices_of_the_node() -> None:
    async def story(here: Site) -> None:
        every = {"deviceClassName": CLASS, "allocationMode": "All"}
        await here.world.create(template("t", {"name": "gpu", "exactly": every}))
        main = container(f"{LIST}; exec sleep 100", claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        await here.world.pod_phase("p", "Running")
        lines = (await here.output("p", lines=8)).splitlines()
        assert len(lines) == len(set(lines)) == 8

    with_node(story)


def test_story_22_devices_on_the_network_are_prepared_where_the_pod_runs() -> None:
    async def story(here: Site) -> None:
        both_pools = {"deviceClassName": "fabric.dray.dev", "count": 6}
        await here.world.create(template("t", {"name": "gpu", "exactly": both_pools}))
        main = container("env | grep -c ^GPU_DEVICE_FABRIC_; exec sleep 100", claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        running = await here.world.pod_phase("p", "Running")
        assert running["spec"]["nodeName"] == "host-a-0"
        assert await here.output("p") == "6\n"
        published = {
            each["spec"]["pool"]["name"] for each in await here.world.all(kinds.RESOURCE_SLICE)
        }
        assert published == {"fabric-zone-a", "fabric-everywhere"}

    with_node(story, "network-attached")


def test_stories_8_and_9_partitions_that_do_not_overlap() -> None:
    async def story(here: Site) -> None:
        alternatives = [partition("small", "9g.90gb"), partition("large", "3g.40gb")]
        await here.world.create(template("t", {"name": "gpu", "firstAvailable": alternatives}))
        main = container(f"{LIST}; exec sleep 100", claims=["gpu"])
        for name in ("p", "q"):
            await here.world.create(pod(name, main, claims=[from_template("gpu")]))
            await here.world.pod_phase(name, "Running")
        first = (await here.output("p", lines=2)).splitlines()
        second = (await here.output("q", lines=2)).splitlines()
        assert first[0] == second[0]
        assert first[0].startswith("GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-")
        assert first[1].startswith("  MIG 3g.40gb         Device  0: (UUID: MIG-")
        assert first[1] != second[1]
        claim = await here.world.get(kinds.RESOURCE_CLAIM, await here.world.claim_of("p"))
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert result["request"] == "gpu/large"

    with_node(story, "a100-mig")


def partition(name: str, profile: str) -> JsonObject:
    expression = f'device.attributes["{CLASS}"].profile == "{profile}"'
    selectors = [{"cel": {"expression": expression}}]
    return {"name": name, "deviceClassName": "mig.nvidia.com", "selectors": selectors}


def test_story_11_four_pods_share_a_gpu_and_a_fifth_waits() -> None:
    async def story(here: Site) -> None:
        ten = {"deviceClassName": CLASS, "capacity": {"requests": {"memory": "10Gi"}}}
        await here.world.create(template("t", {"name": "gpu", "exactly": ten}))
        main = container(f"{LIST}; exec sleep 100", claims=["gpu"])
        for number in range(5):
            await here.world.create(pod(f"p{number}", main, claims=[from_template("gpu")]))
        running: set[str] = set()

        async def four() -> bool:
            phases = {
                each["metadata"]["name"]: each["status"] for each in await here.world.all(kinds.POD)
            }
            running.update(name for name, each in phases.items() if each.get("phase") == "Running")
            return len(running) == 4

        await here.world.until(four, "four pods running")
        (waiting,) = {f"p{number}" for number in range(5)} - running
        await here.world.unschedulable(waiting)
        assert len({await here.output(name) for name in running}) == 1
        await here.world.client.delete(
            kinds.POD, running.pop(), "default", {"gracePeriodSeconds": 1}
        )
        await here.world.pod_phase(waiting, "Running")

    with_node(story, "shared")


def test_story_14_an_extended_resource_is_served_by_devices() -> None:
    async def story(here: Site) -> None:
        main = container(f"{LIST}; exec sleep 100")
        main["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
        other = container("nvidia-smi -L >/dev/null 2>&1 || echo no GPU; exec sleep 100", "other")
        await here.world.create(pod("p", main, other))
        await here.world.pod_phase("p", "Running")
        assert (await here.output("p")).count("UUID: GPU-") == 1
        assert "no GPU" in await here.output("p", "other")

    with_node(story)


def test_story_15_device_metadata_is_where_kubernetes_puts_it() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        path = (
            "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/mine/gpu/"
            f"{CLASS}-metadata.json"
        )
        main = container(f"cat {path}; echo; exec sleep 100", claims=["mine"])
        claims = [from_template("mine")]
        await here.world.create(pod("p", main, claims=claims))
        text = await here.output("p", lines=100)
        assert await here.uuid(await here.world.claim_of("p", "mine")) in text
        assert '"podClaimName": "mine"' in text

    with_node(story)


def test_story_16_health_is_in_the_status_and_a_failed_gpu_loses_its_pod() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        main = container("exec sleep 100", claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        await here.world.pod_phase("p", "Running")
        (device,) = await here.world.devices_of(await here.world.claim_of("p"))

        async def health() -> JsonObject | None:
            found = (await here.world.get(kinds.POD, "p"))["status"]["containerStatuses"][0]
            told = found.get("allocatedResourcesStatus", [])
            is_known = told and told[0]["resources"][0]["health"] != "Unknown"
            return told[0] if is_known else None

        healthy = await here.world.until(health, "health being told")
        assert healthy["name"] == "claim:gpu"
        assert healthy["resources"][0]["health"] == "Healthy"
        await here.fail_device(device.partition("/")[2])
        await here.gone("p")
        await here.world.create(pod("q", main, claims=[from_template("gpu")]))
        await here.world.pod_phase("q", "Running")
        assert await here.world.devices_of(await here.world.claim_of("q")) != [device]

    with_node(story)


def test_exporters_learn_which_pod_has_which_device() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        main = container("exec sleep 100", claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        await here.world.pod_phase("p", "Running")
        (device,) = await here.world.devices_of(await here.world.claim_of("p"))
        socket = services.address(here.node_folder / "pod-resources" / "kubelet.sock")
        async with grpc.aio.insecure_channel(socket) as channel:
            caller = Caller(channel, services.POD_RESOURCES)
            listed = await caller.call("List", caller.messages.ListPodResourcesRequest())
            asked = caller.messages.GetPodResourcesRequest(pod_name="p", pod_namespace="default")
            got = (await caller.call("Get", asked)).pod_resources
        assert list(listed.pod_resources) == [got]
        (dynamic,) = got.containers[0].dynamic_resources
        (found,) = dynamic.claim_resources
        assert f"{found.pool_name}/{found.device_name}" == device
        assert found.driver_name == CLASS

    with_node(story)


def test_story_4_workloads_take_a_device_for_each_pod_and_share_one() -> None:
    async def story(here: Site) -> None:
        one = {"deviceClassName": CLASS}
        await here.world.create(template("t", {"name": "gpu", "exactly": one}))
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": one}]}}
        shared = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec}
        await here.world.create({**shared, "metadata": {"name": "shared"}})
        await here.world.create(deployment(4))
        await here.world.rolled_out("d")
        names = [each["metadata"]["name"] for each in await here.world.all(kinds.POD)]
        lines = [await here.output(name) for name in names]
        assert len(set(lines)) == len(lines) == 4
        await here.world.create(job())

        async def is_done() -> bool:
            return bool((await here.world.get(kinds.JOB, "j"))["status"].get("succeeded") == 10)

        await here.world.until(is_done, "the job being done")
        left = {each["metadata"]["name"] for each in await here.world.all(kinds.RESOURCE_CLAIM)}
        assert "shared" in left
        await here.world.come_to(lambda: claims_of_job(here), [])
        finished = await here.world.all(kinds.POD, label_selector="job-name=j")
        logs = [await here.log(each["metadata"]["name"]) for each in finished]
        uuids = [set(re.findall(r"UUID: (\S+)\)", log)) for log in logs]
        assert {len(uuid) for uuid in uuids} == {2}
        assert len(set[str].intersection(*uuids)) == 1
        await here.world.client.delete(kinds.DEPLOYMENT, "d", "default")
        await here.world.client.delete(kinds.JOB, "j", "default")

    with_node(story)


def pod_template(script: str, *claims: JsonObject, labels: JsonObject, policy: str) -> JsonObject:
    names = [claim["name"] for claim in claims]
    spec = pod("", container(script, claims=names), claims=claims, restartPolicy=policy)["spec"]
    return {"metadata": {"labels": labels}, "spec": spec}


def deployment(replicas: int) -> JsonObject:
    labels = {"app": "d"}
    script = f"{LIST}; exec sleep 1000"
    made = pod_template(script, from_template("gpu"), labels=labels, policy="Always")
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": made}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": spec,
    }


def job() -> JsonObject:
    claims = (from_template("own"), {"name": "common", "resourceClaimName": "shared"})
    made = pod_template(LIST, *claims, labels={}, policy="Never")
    spec = {"completions": 10, "parallelism": 2, "template": made}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


async def claims_of_job(here: Site) -> list[str]:
    names = [str(each["metadata"]["name"]) for each in await here.world.all(kinds.RESOURCE_CLAIM)]
    return [name for name in names if name.startswith("j-")]


def test_a_container_gets_the_devices_of_the_request_it_names() -> None:
    async def story(here: Site) -> None:
        one = {"deviceClassName": CLASS}
        requests = [{"name": name, "exactly": one} for name in ("first", "second")]
        await here.world.create(template("t", *requests))
        named = [container(LIST, name) for name in ("first", "second")]
        for each in named:
            each["resources"] = {"claims": [{"name": "gpus", "request": each["name"]}]}
        both = container(LIST, "both", claims=["gpus"])
        claims = [from_template("gpus")]
        await here.world.create(pod("p", *named, both, claims=claims, restartPolicy="Never"))
        await here.world.pod_phase("p", "Succeeded")
        first, second = [(await here.log("p", name)).split() for name in ("first", "second")]
        assert (len(first), first[:2]) == (len(second), second[:2])
        assert first != second
        assert len((await here.log("p", "both")).splitlines()) == 2

    with_node(story)
