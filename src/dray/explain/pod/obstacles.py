"""What can stand in a pod's way, one struct for each; `pathwords` has the words."""

from __future__ import annotations

import msgspec


class Obstacle(msgspec.Struct, frozen=True, kw_only=True, tag_field="obstacle", tag=True):
    """Something that keeps a pod from going on, or that is wrong with what it has."""


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
    """The name there that comes closest."""


class ClaimBeingDeleted(Obstacle, frozen=True, kw_only=True):
    claim: str


class ClaimNotMade(Obstacle, frozen=True, kw_only=True):
    """A template's claim that is not there yet; the message is that of a controller that tried."""

    pod_claim: str
    message: str = ""


class DeviceUnhealthy(Obstacle, frozen=True, kw_only=True):
    """The driver says so of a device that the pod has."""

    device: str
    message: str = ""


class DeviceTainted(Obstacle, frozen=True, kw_only=True):
    """A device that the pod has got a taint, from its driver or from a DeviceTaintRule."""

    device: str
    taint: str
    rule: str = ""
    since: str = ""
    evicts: bool = False
    """The pod's claim does not tolerate it for ever."""
    evicted_at: str = ""


class ClaimsDoNotFit(Obstacle, frozen=True, kw_only=True):
    """The claims do not fit; the explanation beside the way says why."""


class NotLookedAt(Obstacle, frozen=True, kw_only=True):
    """No scheduler has said anything about the pod."""

    scheduler: str


class NodeRefused(Obstacle, frozen=True, kw_only=True):
    """The scheduler's own words about the nodes."""

    message: str


class NodeOutOfReach(Obstacle, frozen=True, kw_only=True):
    """A claim has devices on nodes to which the pod may not go."""

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
    """Devices could not be attached and were given back; without a message, it took too long."""

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
    """Its devices are still published on the node, so it was there and has gone."""


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
    """The pod as a whole was ended: evicted, preempted, given up."""

    reason: str
    message: str
