"""Who is ahead of a pod in line, and how it is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.explain.pod import waiting_line
from tests.unit.scheduler import world


def claims(*named: tuple[str, int]) -> dict[Any, ResourceClaim]:
    made = [world.claim(name, world.exactly(count=count)) for name, count in named]
    for body in made:
        body["metadata"]["namespace"] = "default"
    return {claim.key: claim for claim in msgspec.convert(made, list[ResourceClaim])}


def pod(name: str, created: str, **spec: Any) -> Pod:
    body = world.pod(name, f"claim-{name}", **spec)
    body["metadata"] |= {"namespace": "default", "creationTimestamp": created}
    return msgspec.convert(body, Pod)


def test_earlier_pods_with_the_same_requests_are_ahead() -> None:
    pods = [
        pod("late", "2026-01-01T00:00:09Z"),
        pod("me", "2026-01-01T00:00:05Z"),
        pod("other", "2026-01-01T00:00:01Z"),
        pod("second", "2026-01-01T00:00:02Z"),
        pod("first", "2026-01-01T00:00:01Z"),
        pod("running", "2026-01-01T00:00:00Z", nodeName="node-0"),
        pod("urgent", "2026-01-01T00:00:09Z", priority=5),
        pod("gated", "2026-01-01T00:00:01Z", schedulingGates=[{"name": "g"}]),
        pod("elsewhere", "2026-01-01T00:00:01Z", schedulerName="another"),
    ]
    amounts = [(f"claim-{each.metadata.name}", 1) for each in pods]
    known = claims(*amounts) | claims(("claim-other", 2))
    ahead = waiting_line.pods_ahead(pods[1], pods, known)
    assert [each.metadata.name for each in ahead] == ["urgent", "first", "second"]


def test_a_pod_without_claims_waits_in_no_line() -> None:
    plain = msgspec.convert(world.pod("plain"), Pod)
    assert waiting_line.pods_ahead(plain, [plain, pod("a", "")], claims(("claim-a", 1))) == []


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        (0, ""),
        (1, "It is 2nd in line for these devices, after pod default/p0."),
        (2, "It is 3rd in line for these devices, after pods default/p0 and default/p1."),
        (10, "At least 10 pods are ahead of it in line for the same devices."),
    ],
)
def test_the_place_is_exact_near_the_head_of_the_line(ahead: int, told: str) -> None:
    assert waiting_line.place_in_line([f"default/p{n}" for n in range(ahead)]) == told
