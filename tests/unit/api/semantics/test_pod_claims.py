"""Which claims a pod uses, and which of them were made and reserved for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims
from dray.api.semantics.pod_claims import PodClaimReference
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup

OWN = {"name": "own", "resourceClaimName": "mine"}
MADE = {"name": "made", "resourceClaimTemplateName": "template"}


def pod(*sources: dict[str, str], group: str = "", **status: Any) -> Pod:
    spec: dict[str, Any] = {"resourceClaims": list(sources)}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    metadata = {"name": "p", "namespace": "ns", "uid": "pod-uid"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def pod_group(*sources: dict[str, str]) -> PodGroup:
    metadata = {"name": "g", "namespace": "ns", "uid": "group-uid"}
    spec = {"resourceClaims": list(sources)}
    return msgspec.convert({"metadata": metadata, "spec": spec}, PodGroup)


def claim(owner: dict[str, Any] | None = None, *consumers: dict[str, str]) -> ResourceClaim:
    metadata = {"name": "c", "namespace": "ns", "ownerReferences": [owner] if owner else []}
    status = {"reservedFor": list(consumers)}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


@pytest.mark.parametrize(
    ("noted", "used"),
    [
        pytest.param([], [PodClaimReference("made", None, True)], id="not made yet"),
        pytest.param(
            [{"name": "made", "resourceClaimName": "p-made-x"}],
            [PodClaimReference("made", "p-made-x", True)],
            id="made",
        ),
        pytest.param([{"name": "made"}], [], id="not needed"),
        pytest.param(
            [{"name": "other", "resourceClaimName": "x"}],
            [PodClaimReference("made", None, True)],
            id="noted for another entry",
        ),
    ],
)
def test_the_status_says_what_became_of_a_template(
    noted: list[dict[str, str]], used: list[PodClaimReference]
) -> None:
    found = pod_claims.claims_of_pod(pod(OWN, MADE, resourceClaimStatuses=noted))
    assert list(found) == [PodClaimReference("own", "mine", False), *used]


def test_the_claim_of_extended_resources_is_used_as_well() -> None:
    user = pod(MADE, extendedResourceClaimStatus={"resourceClaimName": "p-extended"})
    assert list(pod_claims.used_claims(user)) == [ClaimKey("ns", "p-extended")]


def test_a_claim_is_reserved_for_the_group_that_has_the_very_same() -> None:
    user = pod(OWN, MADE, group="g")
    group = pod_group(OWN, {**MADE, "resourceClaimTemplateName": "another"})
    own, made = user.spec.resource_claims
    assert pod_claims.is_group(pod_claims.consumer(user, group, own))
    assert pod_claims.consumer(user, group, made) == pod_claims.pod_consumer(user)


GROUP = {
    "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "uid": "group-uid",
    "controller": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "accepts_group", "expected"),
    [
        pytest.param(None, True, False, id="nobody's"),
        pytest.param({"uid": "pod-uid", "controller": True}, False, True, id="the pod's"),
        pytest.param({"uid": "pod-uid"}, True, False, id="not its controller"),
        pytest.param(GROUP, True, True, id="its group's"),
        pytest.param(GROUP, False, False, id="its group's, which does not count"),
        pytest.param({**GROUP, "name": "h"}, True, False, id="another group's"),
        pytest.param({**GROUP, "apiVersion": "v1"}, True, False, id="of another kind"),
    ],
)
def test_for_whom_a_claim_was_made(
    owner: dict[str, Any] | None, accepts_group: bool, expected: bool
) -> None:
    assert pod_claims.is_for_pod(claim(owner), pod(MADE, group="g"), accepts_group) is expected


def test_a_reservation_counts_by_uid_and_for_groups_by_name() -> None:
    user = pod(OWN, group="g")
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "x"}
    namesake = {"resource": "pods", "name": "p", "uid": "another"}
    own = {"resource": "pods", "name": "p", "uid": "pod-uid"}
    assert pod_claims.is_reserved_for(claim(None, own), user, accepts_group=False)
    assert not pod_claims.is_reserved_for(claim(None, namesake), user, accepts_group=True)
    assert pod_claims.is_reserved_for(claim(None, group), user, accepts_group=True)
    assert not pod_claims.is_reserved_for(claim(None, group), user, accepts_group=False)
    assert pod_claims.is_reserved_only_for(claim(None, own), frozenset({"pod-uid"}))
    assert not pod_claims.is_reserved_only_for(claim(None, own, group), frozenset({"pod-uid"}))
