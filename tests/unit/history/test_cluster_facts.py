"""The facts that follow from objects, without a server."""

from __future__ import annotations

import msgspec

from dray.api import features
from dray.api.ids import DeviceId, PoolId
from dray.api.types.dra import ResourceSlice
from dray.api.types.meta import JsonObject
from dray.history.cluster_facts import ClusterFacts, time_of
from dray.history.facts import HeldFact, ObjectRef, TotalFact, UsedFact, WaitingFact
from dray.history.objects import ClaimUpdate, RecordedClaim, RecordedPod
from tests.builders import DRIVER, device_class, mig_slices, resource_slice
from tests.builders import device as published

CLAIM: JsonObject = {
    "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
}
REFERENCE = ObjectRef("ns", "c", "u")


def result(device: str, request: str = "gpu", pool: str = "n1", **more: object) -> JsonObject:
    return {"request": request, "driver": DRIVER, "pool": pool, "device": device, **more}


def claim(*results: JsonObject, **changes: object) -> RecordedClaim:
    status = {"allocation": {"devices": {"results": results}}, **changes}
    return msgspec.convert({**CLAIM, "status": status}, RecordedClaim)


def facts_of(*slices: ResourceSlice) -> ClusterFacts:
    facts = ClusterFacts(features.DEFAULT)
    facts.class_changed("gpu", device_class())
    for each in slices:
        facts.slice_changed(each.metadata.name, each)
    return facts


def test_a_partition_counts_as_a_part_of_its_gpu() -> None:
    facts = facts_of(*mig_slices(gpus=2))
    assert set(facts.totals()) == {TotalFact("gpu", 2)}
    names = sorted(device.name for each in mig_slices(gpus=2) for device in each.spec.devices)
    (part,) = [name for name in names if name.startswith("gpu-0-")][:1]
    (details,) = facts.claim(claim(result(part))).values()
    assert (details.root, details.node, details.device_class) == ("gpu-0", "n1", "gpu")
    (details,) = facts.claim(claim(result("gpu-0"))).values()
    assert details.root in ("", "gpu-0")


def test_shares_count_once_and_admin_access_does_not() -> None:
    facts = facts_of(resource_slice(published("a"), published("b")))
    found = facts.claim(
        claim(result("a", shareID="1"), result("a", shareID="2"), result("b", adminAccess=True))
    )
    assert set(found) == {HeldFact(DeviceId(DRIVER, "n1", "a"), REFERENCE)}


def test_alternatives_and_devices_of_the_network() -> None:
    facts = facts_of(resource_slice(published("nic"), node=None, all_nodes=True, pool="net"))
    first = {"name": "any", "firstAvailable": [{"name": "x", "deviceClassName": "small"}]}
    body = {**CLAIM, "spec": {"devices": {"requests": [first]}}}
    allocation: JsonObject = {"devices": {"results": [result("nic", "any/x", "net")]}}
    made = {**body, "status": {"allocation": allocation}}
    (details,) = facts.claim(msgspec.convert(made, RecordedClaim)).values()
    assert (details.device_class, details.node) == ("small", "")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}
    allocation["nodeSelector"] = {"nodeSelectorTerms": [term]}
    (details,) = facts.claim(msgspec.convert(made, RecordedClaim)).values()
    assert details.node == "n7"


def test_a_missing_device_is_held_nevertheless() -> None:
    facts = facts_of(resource_slice(published("a")))
    facts.slice_changed("n1-gpu", None)
    assert set(facts.claim(claim(result("a")))) == {
        HeldFact(DeviceId(DRIVER, "n1", "a"), REFERENCE)
    }
    assert facts.pool(PoolId(DRIVER, "n1")) == {}
    assert facts.totals() == {}


def test_other_consumers_are_named_with_their_resource() -> None:
    facts = facts_of()
    consumers = [
        {"resource": "pods", "name": "p", "uid": "pu"},
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "gu"},
    ]
    found = facts.claim(claim(reservedFor=consumers))
    assert set(found) == {
        UsedFact(REFERENCE, ObjectRef("ns", "p", "pu")),
        UsedFact(REFERENCE, ObjectRef("ns", "podgroups/g", "gu")),
    }


def user_of(metadata: JsonObject, pod: JsonObject | None = None) -> str:
    facts = facts_of()
    made = {**CLAIM, "metadata": {**CLAIM["metadata"], **metadata}}
    facts.claim(msgspec.convert(made, RecordedClaim))
    # The pod may be seen after its claim.
    if pod is not None:
        facts.pod(msgspec.convert(pod, RecordedPod))
    allocation = {"allocation": {"devices": {"results": [result("a")]}}}
    changed = {"metadata": CLAIM["metadata"], "status": allocation}
    (details,) = facts.claim(msgspec.convert(changed, ClaimUpdate)).values()
    return details.user


def test_users_are_found_in_annotations_pods_and_managers() -> None:
    annotated = {"annotations": {"dray.dev/user": "ann"}}
    by_kubectl = {"managedFields": [{"manager": "kubectl-create", "time": "2026-01-01T00:00:00Z"}]}
    later = {"manager": "other", "time": "2026-01-02T00:00:00Z"}
    owned = {"ownerReferences": [{"kind": "Pod", "uid": "pu"}]}
    by_controller = {"managedFields": [{"manager": "kube-controller-manager", "time": ""}]}
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}

    def pod(metadata: JsonObject) -> JsonObject:
        return {"metadata": {"uid": "pu", **metadata}, "spec": spec}

    assert user_of({**annotated, **by_kubectl}) == "ann"
    assert user_of({"managedFields": [later, *by_kubectl["managedFields"]]}) == "kubectl-create"
    assert user_of({**owned, **by_controller}, pod(annotated)) == "ann"
    assert user_of({**owned, **by_controller}, pod(by_kubectl)) == "kubectl-create"
    assert user_of({**owned, **by_controller}, pod(by_controller)) == ""
    assert user_of({**owned, **by_controller}) == ""
    hostile = {"annotations": {"dray.dev/user": "\x1b[2Jann\n" + 1000 * "x"}}
    assert user_of(hostile) == "?[2Jann?" + 92 * "x"
    assert user_of({**owned, **annotated}, pod({"annotations": {"dray.dev/user": "bob"}})) == "ann"


def waiting(pod_spec: JsonObject, **status: object) -> set[str]:
    facts = facts_of()
    facts.claim(msgspec.convert(CLAIM, RecordedClaim))
    condition = {"type": "PodScheduled", "status": "False", "message": "no room"}
    body = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "pu"},
        "spec": pod_spec,
        "status": {"conditions": [condition], **status},
    }
    found = facts.pod(msgspec.convert(body, RecordedPod))
    return {fact.device_class for fact in found if isinstance(fact, WaitingFact)}


def test_a_pod_waits_for_the_classes_of_its_claims() -> None:
    by_name = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
    by_template = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    extended = "deviceclass.resource.kubernetes.io/gpu"
    assert waiting(by_name) == {"gpu"}
    assert waiting(by_template) == {""}
    made = [{"name": "gpu", "resourceClaimName": "c"}]
    assert waiting(by_template, resourceClaimStatuses=made) == {"gpu"}
    assert waiting({"containers": [{"resources": {"requests": {extended: "1"}}}]}) == {"gpu"}
    assert waiting({"containers": [{}]}) == set()
    assert waiting({**by_name, "nodeName": "n1"}) == set()
    assert waiting(by_name, phase="Failed") == set()


def test_a_class_that_changes_needs_the_slices_again() -> None:
    facts = facts_of(resource_slice(published("a")))
    assert set(facts.totals()) == {TotalFact("gpu", 1)}
    assert not facts.class_changed("gpu", device_class())
    assert facts.class_changed("gpu", None)


def test_times_that_cannot_be_read_are_none() -> None:
    assert time_of("1970-01-01T00:00:01Z") == 1000
    assert [time_of(text) for text in ("", None, "soon", "2026-01-01T00:00:00")] == [0, 0, 0, 0]
