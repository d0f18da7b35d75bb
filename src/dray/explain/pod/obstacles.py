"""Obstacles of pods, one struct for each; `pod_progress_text` has the texts."""

from __future__ import annotations

import msgspec


class Obstacle(msgspec.Struct, frozen=True, kw_only=True, tag_field="obstacle", tag=True):
    """Something that keeps a pod from progressing, or a problem of a device that it has."""


class QuotaExceeded(Obstacle, frozen=True, kw_only=True):
    quota: str
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
    """The claims do not fit; the explanation of the claims has the reasons."""


class NotLookedAt(Obstacle, frozen=True, kw_only=True):
    """No scheduler has set a condition on the pod."""

    scheduler: str


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
