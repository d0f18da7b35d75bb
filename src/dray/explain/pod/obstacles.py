"""Obstacles of pods, one struct for each; `pod_progress_text` has the texts."""

from __future__ import annotations

import msgspec


class Obstacle(msgspec.Struct, frozen=True, kw_only=True, tag_field="obstacle", tag=True):
    """Something that keeps a pod from progressing, or a problem of a device that it has."""


class QuotaExceeded(Obstacle, frozen=True, kw_only=True):
    quota: str
    namespace: str
    resource: str
    needed: str
    used: str
    hard: str


class GateSet(Obstacle, frozen=True, kw_only=True):
    gate: str


class ObjectMissing(Obstacle, frozen=True, kw_only=True):
    kind: str
    name: str
    namespace: str
    elsewhere: tuple[str, ...] = ()
    """Namespaces that have one of that name."""
    similar: str = ""
    """The most similar name in the pod's namespace."""


class KindConfused(Obstacle, frozen=True, kw_only=True):
    """The pod names a claim where the object is a template, or the other way round."""

    pod_claim: str
    name: str
    named: str
    """The kind that the field of the pod is for."""
    actual: str


class GroupGateOff(Obstacle, frozen=True, kw_only=True):
    """The pod names a PodGroup, which nothing handles while a feature gate is off."""

    group: str
    gate: str


class ClaimUnused(Obstacle, frozen=True, kw_only=True):
    """No container uses a claim of the pod."""

    pod_claim: str


class RequestUnknown(Obstacle, frozen=True, kw_only=True):
    """A container names a request that its claim does not have."""

    container: str
    pod_claim: str
    request: str
    similar: str
    known: tuple[str, ...]


class ClaimBeingDeleted(Obstacle, frozen=True, kw_only=True):
    claim: str


class ClaimNotMade(Obstacle, frozen=True, kw_only=True):
    """The claim of a template does not exist yet; `message` is the controller's, if it failed."""

    pod_claim: str
    message: str = ""


class DeviceUnhealthy(Obstacle, frozen=True, kw_only=True):
    """The driver reports a device of the pod as unhealthy."""

    device: str
    message: str = ""


class DeviceTainted(Obstacle, frozen=True, kw_only=True):
    """A device of the pod is tainted, by its driver or by a DeviceTaintRule."""

    device: str
    taint: str
    rule: str = ""
    since: str = ""
    evicts: bool = False
    """The claim does not tolerate the taint for ever."""
    evicted_at: str = ""


class ClaimsDoNotFit(Obstacle, frozen=True, kw_only=True):
    """The claims do not fit; the explanation of the claims has all reasons, `reason` the first."""

    reason: str = ""


class NodeSelectorUnmatched(Obstacle, frozen=True, kw_only=True):
    """No node has the labels of the pod's nodeSelector."""

    selector: dict[str, str]
    label: str
    """The first label that no node has as selected; empty if only the combination is missing."""
    values: tuple[str, ...] = ()
    """Values of this label on nodes."""
    nodes: int = 0


class NodeAffinityUnmatched(Obstacle, frozen=True, kw_only=True):
    """Nodes that the pod's required node affinity excludes."""

    terms: str
    nodes: tuple[str, ...]


class NodesCordoned(Obstacle, frozen=True, kw_only=True):
    nodes: tuple[str, ...]


class NodesTainted(Obstacle, frozen=True, kw_only=True):
    """Nodes with a taint that the pod does not tolerate."""

    taint: str
    nodes: tuple[str, ...]


class ResourceUnknown(Obstacle, frozen=True, kw_only=True):
    """No node and no device class provides a resource that a container requests."""

    resource: str
    similar: str = ""


class ResourceShort(Obstacle, frozen=True, kw_only=True):
    """Nodes with too little of a resource left."""

    resource: str
    needed: str
    most: str
    """The most that is left on one of the nodes."""
    node: str
    nodes: tuple[str, ...]


class NodesFull(Obstacle, frozen=True, kw_only=True):
    """Nodes that are excluded for another reason, in the words of kube-scheduler."""

    reason: str
    nodes: tuple[str, ...]


class NotLookedAt(Obstacle, frozen=True, kw_only=True):
    """No scheduler has set a condition on the pod."""

    scheduler: str


class BehindOthers(Obstacle, frozen=True, kw_only=True):
    """Pods that the scheduler considers before this one, for the same devices."""

    pods: tuple[str, ...]


class Terminating(Obstacle, frozen=True, kw_only=True):
    """The pod is being deleted, and something holds it."""

    pod: str
    namespace: str
    node: str
    driver: str = ""
    """The driver that does not release the devices."""
    message: str = ""
    finalizers: tuple[str, ...] = ()
    disruption: str = ""
    """Why the pod was evicted, if a controller, the scheduler or an eviction deleted it."""


class NodeRefused(Obstacle, frozen=True, kw_only=True):
    """The scheduler found no node; `message` is its own."""

    message: str


class NodeOutOfReach(Obstacle, frozen=True, kw_only=True):
    """A claim has devices only on nodes that the pod's node selector excludes."""

    claim: str
    nodes: tuple[str, ...]


class ConditionAwaited(Obstacle, frozen=True, kw_only=True):
    claim: str
    device: str
    conditions: tuple[str, ...]
    driver: str


class ConditionFailed(Obstacle, frozen=True, kw_only=True):
    claim: str
    device: str
    condition: str
    message: str
    driver: str


class BindingFailed(Obstacle, frozen=True, kw_only=True):
    """Devices could not be attached and were released; without a message, after a timeout."""

    claim: str
    message: str


class SchedulerBypassed(Obstacle, frozen=True, kw_only=True):
    """The pod names its node itself, so that no scheduler allocates devices to its claims."""

    node: str
    claims: tuple[str, ...]


class NodeGone(Obstacle, frozen=True, kw_only=True):
    node: str


class NodeNotReady(Obstacle, frozen=True, kw_only=True):
    node: str
    message: str


class DriverNotRegistered(Obstacle, frozen=True, kw_only=True):
    driver: str
    node: str
    message: str
    was_there: bool = False
    """Its devices are still published on the node, so it was registered before."""


class PrepareFailed(Obstacle, frozen=True, kw_only=True):
    node: str
    message: str


class CdiUnresolved(Obstacle, frozen=True, kw_only=True):
    container: str
    node: str
    message: str


class StartFailed(Obstacle, frozen=True, kw_only=True):
    """A container, or the whole pod where none is named, cannot be started."""

    container: str
    reason: str
    message: str


class ContainerExited(Obstacle, frozen=True, kw_only=True):
    pod: str
    namespace: str
    container: str
    code: int
    reason: str
    restarts: int
    message: str = ""


class NotReady(Obstacle, frozen=True, kw_only=True):
    container: str


class PodEnded(Obstacle, frozen=True, kw_only=True):
    """The pod as a whole failed: it was evicted or preempted, or reached its deadline."""

    reason: str
    message: str
