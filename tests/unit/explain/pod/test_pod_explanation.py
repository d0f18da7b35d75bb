"""Pods that no node accepts: the true cause, and fixes that work when they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from dray.api.ids import ClaimKey
from dray.api.types.dra import DeviceClassSpec, ResourceClaim, ResourceClaimTemplate
from dray.api.types.dra import ResourceClaimTemplateSpec as TemplateSpec
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeSpec, Taint
from dray.api.types.pods import Pod
from dray.explain.pod import obstacles, pod_explanation, pod_fix_text
from dray.explain.pod.obstacles import Obstacle
from dray.explain.pod.pod_changes import NodeChange, PodChange, Uncordon
from dray.explain.pod.pod_context import ClusterResults, PodContext
from dray.explain.pod.pod_explanation import PodExplanation
from tests import builders
from tests.builders import claim, cluster_inventory, device_class, gpu_slice, hold, request

TEAM = Taint(key="team", value="a", effect="NoSchedule")
ROOM = {"cpu": "8", "memory": "64Gi", "pods": "110"}


def node(name: str, *taints: Taint, cordoned: bool = False, **labels: str) -> Node:
    made = builders.node(name, labels={"kubernetes.io/hostname": name, **labels})
    status = msgspec.structs.replace(made.status, allocatable=ROOM)
    return msgspec.structs.replace(
        made, spec=NodeSpec(unschedulable=cordoned, taints=taints), status=status
    )


def pod(name: str = "train", **spec: Any) -> Pod:
    resources = {"claims": [{"name": "gpu"}]}
    containers = [{"name": "main", "image": "pause", "resources": resources}]
    return builders.pod(name, templates={"gpu": "one"}, **{"containers": containers, **spec})


def context(nodes: Iterable[Node], claims: Iterable[ResourceClaim] = (), **more: Any) -> PodContext:
    spec = TemplateSpec(spec=claim(request()).spec)
    template = ResourceClaimTemplate(ObjectMeta(name="one", namespace="default"), spec)
    return PodContext(
        claims={item.key: item for item in claims},
        templates={ClaimKey("default", "one"): template},
        classes=[device_class()],
        nodes={item.metadata.name: item for item in nodes},
        slices=[gpu_slice(item.metadata.name, 1) for item in nodes],
        **more,
    )


def explained(waiting: Pod, around: PodContext) -> PodExplanation:
    cluster = cluster_inventory(*around.slices, nodes=around.nodes.values(), classes=around.classes)
    return pod_explanation.explain_pod(waiting, around, cluster)


def affinity(key: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def extended(resource: str) -> dict[str, Any]:
    limits = {"limits": {resource: "1"}, "requests": {resource: "1"}}
    return {"containers": [{"name": "main", "image": "pause", "resources": limits}]}


CASES: dict[str, tuple[Callable[[], tuple[Pod, PodContext]], type[Obstacle], str]] = {
    "node-selector-value": (
        lambda: (pod(nodeSelector={"gpu": "h10"}), context([node("n1", gpu="h100")])),
        obstacles.NodeSelectorUnmatched,
        "write `gpu: h100` instead of `gpu: h10` in the pod's nodeSelector; it fits on n1",
    ),
    "node-selector-label": (
        lambda: (pod(nodeSelector={"disk": "ssd"}), context([node("n1")])),
        obstacles.NodeSelectorUnmatched,
        "remove `disk: ssd` from the pod's nodeSelector; it fits on n1",
    ),
    "node-affinity": (
        lambda: (pod(affinity=affinity("zone", "b")), context([node("n1", zone="a")])),
        obstacles.NodeAffinityUnmatched,
        "remove the required node affinity from the pod; it fits on n1",
    ),
    "cordoned": (
        lambda: (pod(), context([node("n1", cordoned=True)])),
        obstacles.NodesCordoned,
        "uncordon node n1; it fits on n1",
    ),
    "tainted": (
        lambda: (pod(), context([node("n1", TEAM)])),
        obstacles.NodesTainted,
        "add to the pod's tolerations: "
        "`{key: team, operator: Equal, value: a, effect: NoSchedule}`; it fits on n1",
    ),
    "cordoned-and-selector": (
        lambda: (pod(nodeSelector={"disk": "ssd"}), context([node("n1", cordoned=True)])),
        obstacles.NodeSelectorUnmatched,
        "remove `disk: ssd` from the pod's nodeSelector, and uncordon node n1; it fits on n1",
    ),
    "claim-or-template": (
        lambda: (
            msgspec.structs.replace(
                builders.pod(claims={"gpu": "one"}, containers=pod_containers()),
            ),
            context([node("n1")]),
        ),
        obstacles.KindConfused,
        "write `resourceClaimTemplateName: one` for the pod's claim gpu; it fits on n1",
    ),
    "template-misspelt": (
        lambda: (
            builders.pod(templates={"gpu": "onee"}, containers=pod_containers()),
            context([node("n1")]),
        ),
        obstacles.ObjectMissing,
        "write `resourceClaimTemplateName: one` for the pod's claim gpu; it fits on n1",
    ),
    "unused-claim": (
        lambda: (
            pod(containers=[{"name": "main", "image": "pause"}]),
            context([node("n1")]),
        ),
        obstacles.ClaimUnused,
        "add `resources: {claims: [{name: gpu}]}` to container main; it fits on n1",
    ),
    "unknown-request": (
        lambda: (
            pod(containers=pod_containers(request="gpus")),
            context([node("n1")]),
        ),
        obstacles.RequestUnknown,
        "write request `gpu` instead of `gpus` in container main; it fits on n1",
    ),
    "extended-resource": (
        lambda: (builders.pod(**extended("example.com/gpus")), with_extended_resource()),
        obstacles.ResourceUnknown,
        "write `example.com/gpu` instead of `example.com/gpus`; it fits on n1",
    ),
}


def pod_containers(**use: str) -> list[dict[str, Any]]:
    resources = {"claims": [{"name": "gpu", **use}]}
    return [{"name": "main", "image": "pause", "resources": resources}]


def with_extended_resource() -> PodContext:
    around = context([node("n1")])
    named = device_class()
    spec = DeviceClassSpec(selectors=named.spec.selectors, extended_resource_name="example.com/gpu")
    return msgspec.structs.replace(around, classes=[msgspec.structs.replace(named, spec=spec)])


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_named_and_the_first_fix_is_the_smallest(name: str) -> None:
    build, kind, fix = CASES[name]
    result = explained(*build())
    assert isinstance(result.progress.findings[0], kind)
    assert pod_fix_text.fixes(result)[0] == f"fix: {fix}"


@pytest.mark.parametrize("name", CASES)
def test_each_fix_works_when_it_is_made(name: str) -> None:
    build, kind, _ = CASES[name]
    waiting, around = build()
    fixes = explained(waiting, around).fixes
    assert fixes
    for fix in fixes:
        changed, changed_context = waiting, around
        for change in fix.changes:
            if isinstance(change, PodChange):
                changed = change.applied_to(changed)
            else:
                assert isinstance(change, NodeChange)
                nodes = dict(changed_context.nodes)
                nodes[change.node] = change.changed(nodes[change.node])
                changed_context = msgspec.structs.replace(
                    changed_context, nodes=nodes, results=ClusterResults()
                )
        after = explained(changed, changed_context)
        assert not any(isinstance(item, kind) for item in after.progress.findings)
        assert after.progress.blocked is None


def test_a_resource_that_no_node_has_left_is_named_with_amounts() -> None:
    containers = pod_containers()
    containers[0]["resources"]["requests"] = {"cpu": "9"}
    result = explained(pod(containers=containers), context([node("n1"), node("n2")]))
    (short,) = result.progress.findings
    assert short == obstacles.ResourceShort(
        resource="cpu", needed="9", most="8", node="n1", nodes=("n1", "n2")
    )


def test_a_node_that_the_pod_may_not_use_is_offered_if_it_has_the_devices() -> None:
    nodes = [node("n1"), node("n2", cordoned=True)]
    around = context(nodes)
    cluster = cluster_inventory(*around.slices, nodes=nodes)
    hold(cluster, "other", "gpu-0", pool="n1")
    result = pod_explanation.explain_pod(pod(), around, cluster)
    kinds = [type(item) for item in result.progress.findings]
    assert kinds == [obstacles.ClaimsDoNotFit, obstacles.NodesCordoned]
    assert result.fixes[0].changes == (Uncordon(node="n2"),)


def test_nodes_without_devices_for_the_pod_are_not_what_it_waits_for() -> None:
    around = context([node("n1")])
    nodes = {**around.nodes, "cpu": node("cpu", cordoned=True)}
    cluster = cluster_inventory(*around.slices, nodes=nodes.values())
    hold(cluster, "other", "gpu-0", pool="n1")
    result = pod_explanation.explain_pod(
        pod(), msgspec.structs.replace(around, nodes=nodes), cluster
    )
    assert [type(item) for item in result.progress.findings] == [obstacles.ClaimsDoNotFit]


def in_line(name: str, minute: int, priority: int = 0) -> Pod:
    waiting = builders.pod(
        name,
        uid=name,
        claims={"gpu": f"{name}-gpu"},
        containers=pod_containers(),
        priority=priority,
    )
    metadata = msgspec.structs.replace(
        waiting.metadata, creation_timestamp=f"2026-11-15T10:{minute:02}:00Z"
    )
    return msgspec.structs.replace(waiting, metadata=metadata)


@pytest.mark.parametrize(
    ("name", "before", "ending"),
    [
        pytest.param("first", (), "pod default/runs ends", id="first"),
        pytest.param(
            "second",
            ("default/first",),
            "pods default/runs and default/first end",
            id="second",
        ),
        pytest.param(
            "third",
            ("default/first", "default/second"),
            "pods default/runs, default/first and default/second end",
            id="third",
        ),
    ],
)
def test_a_pod_in_line_is_told_its_place(name: str, before: tuple[str, ...], ending: str) -> None:
    line = {
        item.metadata.name: item
        for item in (in_line("second", 2), in_line("first", 9, priority=1), in_line("third", 3))
    }
    claims = [reserved("runs-gpu", "runs")]
    claims += [claim(request(), name=f"{waiting}-gpu") for waiting in line]
    around = context([node("n1")], claims, pods=list(line.values()))
    cluster = cluster_inventory(*around.slices, nodes=around.nodes.values())
    hold(cluster, "runs-gpu", "gpu-0", pool="n1")
    result = pod_explanation.explain_pod(line[name], around, cluster)
    places = [
        item.pods for item in result.progress.findings if isinstance(item, obstacles.BehindOthers)
    ]
    assert places == ([before] if before else [])
    assert pod_fix_text.fixes(result)[0] == f"fix: wait until {ending}; it fits on n1"


def reserved(name: str, user: str) -> ResourceClaim:
    built = claim(request(), name=name)
    consumer = {"resource": "pods", "name": user, "uid": user}
    status = {"reservedFor": [consumer]}
    return msgspec.structs.replace(built, status=msgspec.convert(status, type(built.status)))
