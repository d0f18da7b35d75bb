"""An overview of a cluster: nodes, devices by class and node, and what waits and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from dray.allocator.device_counts import DeviceCounts
from dray.api.semantics import pod_claims
from dray.api.semantics.conditions import find_condition
from dray.api.types.dra import DeviceClass, ResourceClaim
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli.inputs import fitting_pods, pod_contexts, published_devices
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.inputs.published_devices import PublishedDevice
from dray.cli.insight import waiting_causes
from dray.explain.pod import waiting_cause

EXPLAINED_PODS = 50


class DeviceTotals(msgspec.Struct, frozen=True, rename="camel"):
    """Devices by state; those that are tainted or unhealthy also have a state."""

    name: str
    devices: int
    states: dict[str, int]
    tainted: int = 0
    unhealthy: int = 0


class ClassTotals(DeviceTotals, frozen=True, rename="camel"):
    """The devices of one class."""

    more_pods_fit: int | None = None
    """How many more pods fit that ask for one; None if not known."""
    is_fit_complete: bool = True
    """Whether all nodes could be counted; otherwise more pods may fit."""


class NodeTotals(DeviceTotals, frozen=True, rename="camel"):
    """The devices of one node, without partitions."""

    ready: str = ""
    partitions: dict[str, int] = {}


class WaitingObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod without a node or a claim without devices, with its age and cause."""

    namespace: str
    name: str
    since: str = ""
    reason: str = ""


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    source: str
    nodes: dict[str, int]
    devices: dict[str, int]
    partitions: dict[str, int]
    classes: tuple[ClassTotals, ...]
    by_node: tuple[NodeTotals, ...]
    claims: dict[str, int]
    waiting_claims: tuple[WaitingObject, ...]
    pods: dict[str, int]
    waiting_pods: tuple[WaitingObject, ...]
    unread: tuple[str, ...] = ()
    """Kinds that could not be read, or not in every namespace."""


def summarize(objects: ClusterObjects) -> Overview:
    """Return the overview of a cluster, a snapshot or a simulated fleet."""
    pods, claims = objects.of(Pod), objects.of(ResourceClaim)
    waiting = [claim for claim in claims if claim.status.allocation is None]
    allocated = len(claims) - len(waiting)
    found = published_devices.of(objects)
    wholes, partitions = published_devices.wholes_and_partitions(found)
    return Overview(
        objects.source,
        Counter(map(_readiness, objects.of(Node))),
        published_devices.count_by_state(wholes),
        published_devices.count_by_state(partitions),
        tuple(_classes(objects)),
        tuple(_by_node(objects, found)),
        {"allocated": allocated, "pending": len(waiting)} if claims else {},
        tuple(_unused_claims(waiting, pods)),
        Counter((pod.status.phase or "Pending").lower() for pod in pods),
        tuple(_waiting_pods(objects)),
        (*sorted(objects.unread), *(f"{kind} elsewhere" for kind in sorted(objects.partly_read))),
    )


def _readiness(node: Node) -> str:
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None:
        return "unknown"
    return "ready" if ready.status == "True" else "not ready"


def _classes(objects: ClusterObjects) -> Iterator[ClassTotals]:
    names = sorted(device_class.metadata.name for device_class in objects.of(DeviceClass))
    by_class: dict[str, Counter[str]] = {name: Counter() for name in names}
    tainted: Counter[str] = Counter()
    unhealthy: Counter[str] = Counter()
    counts = DeviceCounts(published_devices.inventory(objects)).counts()
    for group, count in counts.items():
        by_class.setdefault(group.class_name, Counter())[str(group.state)] += count
        tainted[group.class_name] += count * group.is_tainted
        unhealthy[group.class_name] += count * group.is_unhealthy
    fits = fitting_pods.by_class(objects, names)
    for name in names:
        states = by_class[name]
        beside = tainted[name], unhealthy[name]
        fit = (fits[name].pods, fits[name].is_complete) if name in fits else ()
        yield ClassTotals(name, sum(states.values()), dict(states), *beside, *fit)


def _by_node(objects: ClusterObjects, found: Sequence[PublishedDevice]) -> Iterator[NodeTotals]:
    readiness = {node.metadata.name: _readiness(node) for node in objects.of(Node)}
    by_node: dict[str, list[PublishedDevice]] = {name: [] for name in readiness}
    for device in found:
        by_node.setdefault(device.node, []).append(device)
    for name, devices in sorted(by_node.items()):
        if not devices:
            continue
        wholes, partitions = published_devices.wholes_and_partitions(devices)
        yield NodeTotals(
            name,
            len(wholes),
            published_devices.count_by_state(wholes),
            sum(device.tainted for device in devices),
            sum(device.unhealthy for device in devices),
            readiness.get(name, ""),
            published_devices.count_by_state(partitions),
        )


def _unused_claims(
    waiting: Sequence[ResourceClaim], pods: Sequence[Pod]
) -> Iterator[WaitingObject]:
    """Yield the claims without devices that no pod uses; others are part of their pod's line."""
    used = {
        (pod.metadata.namespace, claim.name)
        for pod in pods
        for claim in pod_claims.claims_of_pod(pod)
    }
    for claim in waiting:
        if (claim.metadata.namespace, claim.metadata.name) not in used:
            yield WaitingObject(
                *claim.key, claim.metadata.creation_timestamp or "", waiting_cause.NO_POD
            )


def _waiting_pods(objects: ClusterObjects) -> Iterator[WaitingObject]:
    pending = [pod for pod in objects.of(Pod) if (pod.status.phase or "Pending") == "Pending"]
    if not pending:
        return
    inventory, shared = objects.inventory(), pod_contexts.of_all(objects)
    for number, pod in enumerate(pending):
        cause = ""
        if number < EXPLAINED_PODS:
            cause = waiting_causes.short(pod, inventory, objects, shared)
        created = pod.metadata.creation_timestamp or ""
        metadata = pod.metadata
        yield WaitingObject(metadata.namespace, metadata.name, created, cause or _condition(pod))


def _condition(pod: Pod) -> str:
    """Return the message of the last condition that is False, or ""."""
    messages = [
        condition.message or condition.reason
        for condition in pod.status.conditions
        if condition.status == "False"
    ]
    return next(filter(None, reversed(messages)), "")
