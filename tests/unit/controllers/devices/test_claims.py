"""Claims follow their users, from the template to the last reservation."""

from __future__ import annotations

from typing import Any

from dray.api import features as gates
from dray.api.templates import claim_bodies
from dray.api.types.meta import JsonObject
from dray.controllers.devices.claims import Claims, ClaimWork
from tests.unit.controllers import objects
from tests.unit.controllers.world import World, with_loops

FINALIZER = "resource.kubernetes.io/delete-protection"
WORKLOADS = gates.with_gates(
    gates.DEFAULT, {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
)


async def noted_claim(here: World, pod: str, entry: str = "gpu") -> str:
    """The claim that the pod's status names, as soon as it does."""

    async def check() -> Any:
        statuses = (await here.get("pods", pod))["status"].get("resourceClaimStatuses", [])
        return next(
            (status["resourceClaimName"] for status in statuses if status["name"] == entry), ""
        )

    name: str = await here.until(check, f"the claim of {pod}")
    return name


async def allocate(here: World, claim: str, *pods: JsonObject, device: str = "gpu-0") -> None:
    """What the scheduler writes."""
    found = await here.get("resourceclaims", claim)
    if FINALIZER not in found["metadata"].get("finalizers", []):
        await here.patch("resourceclaims", claim, {"metadata": {"finalizers": [FINALIZER]}})
    status = {
        "allocation": objects.allocation(device),
        "reservedFor": [objects.consumer(pod) for pod in pods],
    }
    await here.set_status("resourceclaims", claim, status)


async def start(here: World, pod: str) -> None:
    await here.bind(pod)
    await here.set_status("pods", pod, {"phase": "Running"})


@with_loops(Claims)
async def test_a_template_makes_one_claim_owned_by_its_pod(here: World) -> None:
    template = objects.claim_template(labels={"team": "a"}, annotations={"note": "b"})
    await here.create(template)
    pod = await here.create(objects.pod("p", template="one-gpu"))
    name = await noted_claim(here, "p")
    await here.settle()
    (claim,) = await here.list("resourceclaims")
    assert claim["metadata"]["name"] == name
    assert name.startswith("p-gpu-")
    assert len(name) == len("p-gpu-") + 5
    assert claim["metadata"]["generateName"] == "p-gpu-"
    assert claim["metadata"]["labels"] == {"team": "a"}
    assert claim["metadata"]["annotations"] == {
        "note": "b",
        "resource.kubernetes.io/pod-claim-name": "gpu",
    }
    assert claim["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
    ]


@with_loops(Claims)
async def test_a_missing_template_is_reported_once_and_waited_for(here: World) -> None:
    await here.create(objects.pod("p", template="nope"))

    async def reported() -> Any:
        return [each for each in await here.list("events") if each["involvedObject"]["name"] == "p"]

    (event,) = await here.until(reported)
    assert event["reason"] == "FailedResourceClaimCreation"
    assert event["type"] == "Warning"
    assert event["source"] == {"component": "resource_claim"}
    assert event["message"] == (
        'PodResourceClaim gpu: resource claim template "nope": '
        'resourceclaimtemplate.resource.k8s.io "nope" not found'
    )
    await here.create(objects.claim_template("nope"))
    await noted_claim(here, "p")
    assert len(await reported()) == 1


@with_loops(Claims)
async def test_a_pod_of_a_group_is_told_which_feature_gate_is_off(here: World) -> None:
    body = objects.pod("p", template="gpu")
    body["spec"]["schedulingGroup"] = {"podGroupName": "pg"}
    await here.create(objects.claim_template("gpu"))
    await here.create(body)

    async def reported() -> Any:
        return [each for each in await here.list("events") if each["involvedObject"]["name"] == "p"]

    (event,) = await here.until(reported)
    assert event["reason"] == "FailedResourceClaimCreation"
    assert "pod is in PodGroup pg, but the feature gate GenericWorkload is off" in event["message"]
    assert "--feature-gates GenericWorkload=true" in event["message"]


class CountedClaims(Claims):
    attempts = 0

    async def reconcile(self, key: ClaimWork) -> float | None:
        CountedClaims.attempts += 1
        return await super().reconcile(key)


@with_loops(CountedClaims)
async def test_a_claim_that_quota_refuses_again_and_again_is_one_event(here: World) -> None:
    hard = {"count/resourceclaims.resource.k8s.io": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    await here.create({**quota, "spec": {"hard": hard}})
    await here.set_status("resourcequotas", "none", {"hard": hard, "used": hard})
    await here.create(objects.claim_template())
    before = CountedClaims.attempts
    await here.create(objects.pod("p", template="one-gpu"))
    await here.until_true(lambda: CountedClaims.attempts >= before + 5)
    await here.settle()
    (event,) = [each for each in await here.list("events") if each["involvedObject"]["name"] == "p"]
    assert "exceeded quota: none" in event["message"]


@with_loops(Claims)
async def test_a_deleted_generated_claim_of_a_waiting_pod_is_made_again(here: World) -> None:
    await here.create(objects.claim_template())
    await here.create(objects.pod("p", template="one-gpu"))
    first = await noted_claim(here, "p")
    await here.delete("resourceclaims", first)

    async def replaced() -> bool:
        return await noted_claim(here, "p") != first

    await here.until(replaced)
    await here.settle()
    assert len(await here.list("resourceclaims")) == 1


@with_loops(Claims)
async def test_a_finished_pod_gives_back_its_claims_and_gets_none_again(here: World) -> None:
    """The docs' Job example: a template claim beside a shared one."""
    await here.create(objects.claim_template())
    await here.create(objects.claim("shared"))
    pod = await here.create(objects.pod("p", template="one-gpu", claim="shared"))
    other = await here.create(objects.pod("q", claim="shared"))
    name = await noted_claim(here, "p")
    await allocate(here, name, pod)
    await allocate(here, "shared", pod, other, device="gpu-1")
    await start(here, "p")
    await start(here, "q")
    await here.settle()
    await here.set_status("pods", "p", {"phase": "Succeeded"})

    async def generated_is_gone() -> bool:
        return await here.find("resourceclaims", name) is None

    await here.until(generated_is_gone)
    await here.settle()
    (shared,) = await here.list("resourceclaims")
    assert shared["status"]["reservedFor"] == [objects.consumer(other)]
    assert "allocation" in shared["status"]
    await here.set_status("pods", "q", {"phase": "Succeeded"})
    await here.settle()
    shared = await here.get("resourceclaims", "shared")
    assert shared["status"] == {}
    assert "finalizers" not in shared["metadata"]
    touched = here.patch("resourceclaims", "shared", {"metadata": {"labels": {"a": "b"}}})
    assert await here.writes(touched) == 1


@with_loops(Claims)
async def test_a_running_pod_that_is_deleted_keeps_its_devices_until_it_is_gone(
    here: World,
) -> None:
    await here.create(objects.claim("shared"))
    pod = await here.create(objects.pod("p", claim="shared"))
    await allocate(here, "shared", pod)
    await start(here, "p")
    await here.delete("pods", "p")
    await here.settle()
    assert (await here.get("resourceclaims", "shared"))["status"]["reservedFor"]
    await here.remove_pod("p")

    async def free() -> Any:
        return (await here.get("resourceclaims", "shared"))["status"] == {}

    await here.until(free)


@with_loops(Claims)
async def test_a_pod_deleted_before_it_had_a_node_frees_its_claim(here: World) -> None:
    await here.create(objects.claim("shared"))
    pod = await here.create(objects.pod("p", claim="shared"))
    await here.patch("pods", "p", {"metadata": {"finalizers": ["example.com/hold"]}})
    await allocate(here, "shared", pod)
    await here.delete("pods", "p")

    async def free() -> Any:
        return (await here.get("resourceclaims", "shared"))["status"] == {}

    await here.until(free)
    assert await here.find("pods", "p")


@with_loops(Claims)
async def test_a_reservation_for_a_pod_that_never_was_is_dropped(here: World) -> None:
    await here.create(objects.claim("shared"))
    ghost: JsonObject = {
        "metadata": {"name": "ghost", "uid": "11111111-1111-4111-8111-111111111111"}
    }
    await allocate(here, "shared", ghost)

    async def free() -> Any:
        return (await here.get("resourceclaims", "shared"))["status"] == {}

    await here.until(free)


@with_loops(Claims)
async def test_a_reservation_for_a_replaced_pod_is_dropped(here: World) -> None:
    await here.create(objects.claim("shared"))
    old = await here.create(objects.pod("p", claim="shared"))
    await here.remove_pod("p")
    new = await here.create(objects.pod("p", claim="shared"))
    await allocate(here, "shared", old, new)

    async def only_new() -> bool:
        status = (await here.get("resourceclaims", "shared"))["status"]
        return bool(status.get("reservedFor") == [objects.consumer(new)])

    await here.until(only_new)


@with_loops(Claims)
async def test_a_pod_that_cannot_be_read_keeps_its_reservation(here: World) -> None:
    await here.create(objects.claim("shared"))
    pod = await here.create(objects.pod("p", claim="shared"))
    await allocate(here, "shared", pod)
    await start(here, "p")
    await here.settle()
    await here.overwrite("pods", "p", lambda raw: raw["spec"].update(nodeName=["from", "2030"]))
    await here.until_true(lambda: bool(here.context.caches.pods.undecodable))
    await here.patch("resourceclaims", "shared", {"metadata": {"labels": {"a": "b"}}})
    await here.settle()
    status = (await here.get("resourceclaims", "shared"))["status"]
    assert status["reservedFor"] == [objects.consumer(pod)]


@with_loops(Claims)
async def test_a_claim_that_cannot_be_read_is_left_alone(here: World) -> None:
    await here.create(objects.claim("shared"))
    pod = await here.create(objects.pod("p", claim="shared"))
    await allocate(here, "shared", pod)
    await start(here, "p")
    await here.settle()
    await here.overwrite("resourceclaims", "shared", lambda raw: raw.update(spec=[1]))
    await here.until_true(lambda: bool(here.context.caches.claims.undecodable))
    deleted = here.delete("pods", "p", gracePeriodSeconds=0)
    assert await here.writes(deleted) == 1


@with_loops(Claims)
async def test_unknown_consumers_keep_their_reservation(here: World) -> None:
    await here.create(objects.claim("shared"))
    await here.patch("resourceclaims", "shared", {"metadata": {"finalizers": [FINALIZER]}})
    reserved = [{"apiGroup": "example.com", "resource": "things", "name": "x", "uid": "u"}]
    status = {"allocation": objects.allocation(), "reservedFor": reserved}
    await here.set_status("resourceclaims", "shared", status)
    await here.settle()
    assert (await here.get("resourceclaims", "shared"))["status"]["reservedFor"] == reserved


@with_loops(Claims)
async def test_an_allocated_claim_that_was_never_reserved_stays_allocated(here: World) -> None:
    await here.create(objects.claim("shared"))
    await allocate(here, "shared")
    await here.settle()
    assert "allocation" in (await here.get("resourceclaims", "shared"))["status"]


@with_loops(Claims)
async def test_a_deleted_claim_goes_with_its_last_user(here: World) -> None:
    await here.create(objects.claim("busy"))
    pod = await here.create(objects.pod("user", claim="busy"))
    await allocate(here, "busy", pod)
    await start(here, "user")
    await here.delete("resourceclaims", "busy")
    await here.settle()
    assert (await here.get("resourceclaims", "busy"))["metadata"]["deletionTimestamp"]
    await here.delete("pods", "user")
    await here.remove_pod("user")

    async def gone() -> bool:
        return await here.find("resourceclaims", "busy") is None

    await here.until(gone)


@with_loops(Claims)
async def test_a_deleted_unused_but_allocated_claim_goes_at_once(here: World) -> None:
    await here.create(objects.claim("idle"))
    await allocate(here, "idle")
    await here.delete("resourceclaims", "idle")

    async def gone() -> bool:
        return await here.find("resourceclaims", "idle") is None

    await here.until(gone)


@with_loops(Claims)
async def test_a_pod_that_was_given_a_node_by_hand_has_its_claims_reserved(here: World) -> None:
    await here.create(objects.claim("shared"))
    first = await here.create(objects.pod("p", claim="shared"))
    await allocate(here, "shared", first)
    await start(here, "p")
    second = await here.create(objects.pod("q", claim="shared", nodeName="node-1"))

    async def both() -> bool:
        status = (await here.get("resourceclaims", "shared"))["status"]
        return [each["uid"] for each in status["reservedFor"]] == [
            first["metadata"]["uid"],
            second["metadata"]["uid"],
        ]

    await here.until(both)


@with_loops(Claims)
async def test_the_claim_of_extended_resources_goes_with_its_pod(here: World) -> None:
    resources = {"limits": {"example.com/gpu": "1"}}
    container = {"name": "c", "image": "pause", "resources": resources}
    pod = await here.create(objects.pod("p", containers=[container]))
    made = objects.claim("p-extended-resources-abcde")
    made["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
    ]
    name = (await here.create(made))["metadata"]["name"]
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "gpu"}
    await here.set_status(
        "pods",
        "p",
        {"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": [mapping]}},
    )
    await allocate(here, name, pod)
    await start(here, "p")
    await here.settle()
    assert await here.find("resourceclaims", name)
    await here.set_status("pods", "p", {"phase": "Failed"})

    async def gone() -> bool:
        return await here.find("resourceclaims", name) is None

    await here.until(gone)


@with_loops(Claims, features=WORKLOADS)
async def test_pods_of_a_group_share_the_claim_of_the_group(here: World) -> None:
    await here.create(objects.claim_template("group-gpu"))
    group = await here.create(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "pg"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "group-gpu"}],
            },
        }
    )
    member: Any = {"schedulingGroup": {"podGroupName": "pg"}}
    await here.create(objects.pod("a", template="group-gpu", **member))
    await here.create(objects.pod("b", template="group-gpu", **member))
    names = {await noted_claim(here, "a"), await noted_claim(here, "b")}
    await here.settle()
    (claim,) = await here.list("resourceclaims")
    assert names == {claim["metadata"]["name"]}
    owner = claim["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("PodGroup", group["metadata"]["uid"])
    status = (await here.get("podgroups", "pg"))["status"]
    assert status["resourceClaimStatuses"] == [
        {"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}
    ]


def test_long_names_are_cut_in_proportion() -> None:
    name = claim_bodies.generate_name("p" * 60, "c" * 20)
    assert name == "p" * 41 + "-" + "c" * 13
    assert claim_bodies.generate_name("p", "c") == "p-c-"
