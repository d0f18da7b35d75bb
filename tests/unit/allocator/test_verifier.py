"""The judge finds what is wrong with a state, and nothing in one that is right."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from dray.allocator import verifier
from dray.api import features
from dray.api.types.dra import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceCapacity,
    DeviceRequestAllocationResult,
    DeviceTaint,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from tests import builders

SHARED = builders.gpu_slice(count=1, memory=DeviceCapacity("80Gi"), shareable=True)
MIG = builders.mig_slices()


def allocated(
    claim: ResourceClaim, *devices: str, request: str = "gpu", **fields: object
) -> ResourceClaim:
    results = tuple(
        DeviceRequestAllocationResult(request, builders.DRIVER, "n1", device, **fields)  # type: ignore[arg-type]
        for device in devices
    )
    allocation = AllocationResult(DeviceAllocationResult(results))
    return msgspec.structs.replace(claim, status=ResourceClaimStatus(allocation))


def one(name: str = "one", **fields: object) -> ResourceClaim:
    return builders.claim(builders.request(**fields), name=name)  # type: ignore[arg-type]


def violation_types(
    slices: Sequence[ResourceSlice], *claims: ResourceClaim
) -> list[type[verifier.Violation]]:
    keys = [claim.key for claim in claims]
    found = verifier.find_violations(slices, claims, features.DEFAULT, just_allocated=keys)
    return [type(item) for item in found]


def test_a_legal_state_has_no_violations() -> None:
    cluster = [builders.gpu_slice(count=2)]
    assert violation_types(cluster, allocated(one(), "gpu-0"), allocated(one("two"), "gpu-1")) == []


@pytest.mark.parametrize(
    ("slices", "claims", "violation"),
    [
        pytest.param(
            [builders.gpu_slice()],
            [allocated(one(), "gpu-0"), allocated(one("two"), "gpu-0")],
            verifier.HeldTwice,
            id="held-twice",
        ),
        pytest.param(
            [builders.gpu_slice()],
            [allocated(one(), "gpu-0", share_id="s")],
            verifier.NotShareable,
            id="not-shareable",
        ),
        pytest.param(
            MIG,
            [allocated(one(), "gpu-0"), allocated(one("two"), "gpu-0-half-0")],
            verifier.CounterOverdrawn,
            id="counters",
        ),
        pytest.param(
            [SHARED],
            [
                allocated(one(), "gpu-0", share_id="a", consumed_capacity={"memory": "50Gi"}),
                allocated(one("two"), "gpu-0", share_id="b", consumed_capacity={"memory": "40Gi"}),
            ],
            verifier.CapacityOverdrawn,
            id="capacity",
        ),
        pytest.param(
            [
                builders.resource_slice(
                    builders.gpu("g", memory=builders.valid_values("8", "2", "4"), shareable=True)
                )
            ],
            [allocated(one(), "g", share_id="a", consumed_capacity={"memory": "3"})],
            verifier.CapacityNotAllowed,
            id="policy",
        ),
        pytest.param(
            [builders.gpu_slice(taints=[DeviceTaint("worn", "", "NoSchedule")])],
            [allocated(one(), "gpu-0")],
            verifier.TaintIgnored,
            id="taint",
        ),
        pytest.param(
            [builders.gpu_slice()],
            [allocated(one(), "gpu-0", admin_access=True)],
            verifier.AdminAccessWrong,
            id="admin-access",
        ),
        pytest.param(
            [builders.gpu_slice()],
            [allocated(one(count=2), "gpu-0")],
            verifier.WrongNumber,
            id="count",
        ),
        pytest.param(
            [builders.gpu_slice()],
            [allocated(one(), "gpu-9")],
            verifier.UnknownDevice,
            id="unknown-device",
        ),
    ],
)
def test_finds_what_may_not_be(
    slices: list[ResourceSlice],
    claims: list[ResourceClaim],
    violation: type[verifier.Violation],
) -> None:
    assert violation in violation_types(slices, *claims)


@pytest.mark.parametrize(("kind", "devices"), [("match", "ac"), ("distinct", "ab")])
def test_finds_broken_constraints(kind: str, devices: str) -> None:
    rings = {"a": "east", "b": "east", "c": "west"}
    resource_slice = builders.resource_slice(
        *[builders.gpu(name, attributes={"ring": ring}) for name, ring in rings.items()]
    )
    constraint = {kind: "gpu.example.com/ring"}
    claim = builders.claim(builders.request(count=2), **constraint)  # type: ignore[arg-type]
    assert violation_types([resource_slice], allocated(claim, *devices)) == [
        verifier.ConstraintBroken
    ]


def test_admin_access_does_not_count_as_use() -> None:
    admin = allocated(one("admin", admin=True), "gpu-0", admin_access=True)
    assert violation_types([builders.gpu_slice()], allocated(one(), "gpu-0"), admin) == []


def test_taints_that_came_later_are_no_violation() -> None:
    tainted = builders.gpu_slice(taints=[DeviceTaint("worn", "", "NoSchedule")])
    assert verifier.find_violations([tainted], [allocated(one(), "gpu-0")], features.DEFAULT) == []
