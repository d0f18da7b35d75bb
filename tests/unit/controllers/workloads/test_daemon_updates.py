"""Which daemons come and go, from pods and nodes alone."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from dray.api.templates import daemon_pods
from dray.api.templates.workload_types import DaemonSet
from dray.api.types.pods import Pod
from dray.controllers.workloads import daemon_updates
from dray.controllers.workloads.daemon_updates import DaemonNodes, Daemons, Moves

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
OLD, NEW = "old", "new"
ON_DELETE = {"type": "OnDelete"}


def rolling(**budget: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": budget}


def pod(name: str, revision: str = OLD, *, ready: bool = True, **more: Any) -> Pod:
    """A pod on the node that the first letter of its name says."""
    condition = {
        "type": "Ready",
        "status": str(ready),
        "lastTransitionTime": "2026-01-01T11:59:00Z",
    }
    metadata = {"name": name, "labels": {"controller-revision-hash": revision}}
    if more.pop("deleted", False):
        metadata["deletionTimestamp"] = "2026-01-01T11:59:30Z"
    status = {"phase": more.pop("phase", "Running"), "conditions": [condition]}
    spec = {"nodeName": name[0] if more.pop("bound", True) else ""}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def daemons(
    *pods: Pod,
    strategy: dict[str, Any],
    nodes: str = "abc",
    wanted: str | None = None,
    tolerable: str | None = None,
    generation: str = "",
) -> Daemons:
    annotations = {daemon_pods.GENERATION: generation} if generation else {}
    body = {"metadata": {"annotations": annotations}, "spec": {"updateStrategy": strategy}}
    by_node: dict[str, list[Pod]] = {}
    for each in pods:
        by_node.setdefault(each.metadata.name[0], []).append(each)
    come = set(nodes if wanted is None else wanted)
    stay = come if tolerable is None else set(tolerable)
    judged = DaemonNodes(existing=set(nodes), desired=come, tolerable=stay)
    return Daemons(msgspec.convert(body, DaemonSet), NEW, judged, by_node, NOW)


def names(moves: Moves) -> tuple[str, str]:
    return "".join(moves.nodes), " ".join(each.metadata.name for each in moves.pods)


IN_PLACE = rolling(maxUnavailable=1, maxSurge=0)
SURGE = rolling(maxUnavailable=0, maxSurge=1)


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        pytest.param(daemons(pod("a1"), strategy=IN_PLACE), ("bc", ""), id="missing-ones-come"),
        pytest.param(
            daemons(pod("a1"), pod("a2"), strategy=IN_PLACE, nodes="a"),
            ("", "a2"),
            id="of-two-the-older-stays",
        ),
        pytest.param(
            daemons(pod("a1", phase="Failed"), strategy=IN_PLACE, nodes="a"),
            ("", "a1"),
            id="what-has-failed-goes-first",
        ),
        pytest.param(
            daemons(pod("a1", phase="Failed"), strategy=SURGE, nodes="a"),
            ("a", "a1"),
            id="with-surge-the-next-comes-at-once",
        ),
        pytest.param(
            daemons(pod("a1", deleted=True), strategy=IN_PLACE, nodes="a"),
            ("", ""),
            id="what-is-leaving-is-waited-for",
        ),
        pytest.param(
            daemons(pod("a1"), strategy=IN_PLACE, nodes="ab", wanted="", tolerable="ab"),
            ("", ""),
            id="a-taint-against-scheduling-evicts-nobody",
        ),
        pytest.param(
            daemons(pod("a1"), strategy=IN_PLACE, nodes="a", wanted=""),
            ("", "a1"),
            id="misplaced-ones-go",
        ),
        pytest.param(
            daemons(pod("x1", bound=False), pod("y1"), strategy=IN_PLACE, nodes=""),
            ("", "x1"),
            id="what-waits-for-a-node-that-is-gone-goes",
        ),
        pytest.param(
            daemons(pod("a1"), pod("a2", NEW, ready=False), strategy=SURGE, nodes="a"),
            ("", ""),
            id="surge-keeps-the-old-one-until-the-new-one-is-up",
        ),
        pytest.param(
            daemons(pod("a1"), pod("a2", NEW), strategy=SURGE, nodes="a"),
            ("", "a1"),
            id="surge-ends-the-old-one-when-the-new-one-is-up",
        ),
        pytest.param(
            daemons(pod("a1", ready=False), pod("a2", NEW, ready=False), strategy=SURGE, nodes="a"),
            ("", "a1"),
            id="surge-ends-an-old-one-that-is-down",
        ),
    ],
)
def test_placement(here: Daemons, expected: tuple[str, str]) -> None:
    assert names(daemon_updates.placement(here)) == expected


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        pytest.param(
            daemons(pod("a1"), pod("b1"), pod("c1"), strategy=IN_PLACE),
            ("", "a1"),
            id="no-more-than-may-be-missing",
        ),
        pytest.param(
            daemons(pod("a1"), pod("b1"), pod("c1"), strategy=rolling(maxUnavailable="34%")),
            ("", "a1 b1"),
            id="percentages-are-rounded-up",
        ),
        pytest.param(
            daemons(pod("a1", NEW, ready=False), pod("b1"), pod("c1"), strategy=IN_PLACE),
            ("", ""),
            id="a-new-one-that-is-not-up-counts",
        ),
        pytest.param(
            daemons(pod("a1"), pod("b1", ready=False), pod("c1", ready=False), strategy=IN_PLACE),
            ("", "b1 c1"),
            id="old-ones-that-are-down-go-whatever-is-allowed",
        ),
        pytest.param(
            daemons(pod("a1"), pod("b1"), pod("c1"), strategy=ON_DELETE),
            ("", ""),
            id="on-delete-touches-nothing",
        ),
        pytest.param(
            daemons(pod("a1"), pod("b1"), pod("c1"), strategy=SURGE),
            ("a", ""),
            id="no-more-surge-than-allowed",
        ),
        pytest.param(
            daemons(pod("a1"), pod("a2", NEW, ready=False), pod("b1"), strategy=SURGE, nodes="ab"),
            ("", ""),
            id="surge-waits-for-the-one-before",
        ),
        pytest.param(
            daemons(pod("a1", ready=False), pod("b1", ready=False), strategy=SURGE, nodes="ab"),
            ("ab", ""),
            id="surge-beside-what-is-down-costs-nothing",
        ),
        pytest.param(
            daemons(pod("a1"), pod("b1", NEW), strategy=SURGE, nodes="ab", wanted="b"),
            ("", "a1"),
            id="surge-leaves-a-node-when-enough-others-are-up",
        ),
        pytest.param(
            daemons(pod("a1"), pod("b1", NEW, ready=False), strategy=SURGE, nodes="ab", wanted="b"),
            ("", ""),
            id="surge-stays-on-a-node-until-enough-others-are-up",
        ),
    ],
)
def test_update(here: Daemons, expected: tuple[str, str]) -> None:
    assert names(daemon_updates.update(here)) == expected


def test_a_pod_is_also_known_by_the_generation_of_its_template() -> None:
    labels = {daemon_pods.GENERATION_LABEL: "7"}
    old = pod("a1")
    metadata = msgspec.structs.replace(old.metadata, labels=labels)
    known = msgspec.structs.replace(old, metadata=metadata)
    assert daemons(known, strategy=IN_PLACE, generation="7").is_updated(known)
    assert not daemons(known, strategy=IN_PLACE, generation="8").is_updated(known)
    assert not daemons(known, strategy=IN_PLACE).is_updated(known)
