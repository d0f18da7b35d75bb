"""A cluster at a glance: devices by class and state, what waits and why. World in, figures out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import msgspec

from dray.api.claims import ResourceClaim
from dray.api.classes import DeviceClass
from dray.api.features import Features
from dray.api.names import DeviceId
from dray.api.nodes import Node
from dray.api.pods import Pod
from dray.api.slices import ResourceSlice
from dray.api.taints import DeviceTaintRule
from dray.cel import device as cel
from dray.cel import values
from dray.cli.verbs import devices
from dray.cli.world import World

STATES = ("free", "allocated", "shared", "tainted")


class ClassLine(msgspec.Struct, frozen=True, rename="camel"):
    """The devices that one class selects, by state."""

    name: str
    devices: int
    states: dict[str, int]


class Waiting(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod without a node or a claim without devices, since when and why."""

    namespace: str
    name: str
    since: str = ""
    reason: str = ""


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    source: str
    nodes: dict[str, int]
    classes: tuple[ClassLine, ...]
    claims: dict[str, int]
    waiting_claims: tuple[Waiting, ...]
    pods: dict[str, int]
    waiting_pods: tuple[Waiting, ...]


def take(world: World) -> Overview:
    pods, claims = world.of(Pod), world.of(ResourceClaim)
    waiting = [claim for claim in claims if claim.status.allocation is None]
    allocated = len(claims) - len(waiting)
    return Overview(
        world.source,
        Counter(map(_readiness, world.of(Node))),
        tuple(_classes(world)),
        {"allocated": allocated, "pending": len(waiting)} if claims else {},
        tuple(_waiting_claims(waiting, pods)),
        Counter((pod.status.phase or "Pending").lower() for pod in pods),
        tuple(_waiting_pods(pods)),
    )


def _readiness(node: Node) -> str:
    for each in node.status.conditions:
        if each.type == "Ready":
            return "ready" if each.status == "True" else "not ready"
    return "unknown"


def _classes(world: World) -> Iterator[ClassLine]:
    slices, rules = world.of(ResourceSlice), world.of(DeviceTaintRule)
    states = devices.states(slices, world.of(ResourceClaim), rules)
    views = [
        (states[DeviceId(pool.driver, pool.pool, device.name)], cel.view(pool.driver, device))
        for pool, device in world.devices()
    ]
    for device_class in sorted(world.of(DeviceClass), key=lambda each: each.metadata.name):
        selects = _Membership(device_class, world.features)
        counts = Counter(state for state, view in views if selects(view))
        yield ClassLine(device_class.metadata.name, sum(counts.values()), dict(counts))


class _Membership:
    """Whether a class selects a device; asked once for devices of one shape."""

    def __init__(self, device_class: DeviceClass, features: Features) -> None:
        self._selectors = [
            cel.compile_selector(
                each.cel.expression,
                stored=True,
                consumable_capacity=features.consumable_capacity,
                list_type_attributes=features.list_type_attributes,
            )
            for each in device_class.spec.selectors
            if each.cel is not None
        ]
        self._known: list[dict[Hashable, bool]] = [{} for _ in self._selectors]

    def __call__(self, view: cel.DeviceView) -> bool:
        for selector, known in zip(self._selectors, self._known, strict=True):
            if selector.error is not None:
                return False
            shape = selector.shape(view)
            if shape not in known:
                known[shape] = _matches(selector, view)
            if not known[shape]:
                return False
        return True


def _matches(selector: cel.Selector, view: cel.DeviceView) -> bool:
    try:
        return selector.matches(view)
    except (values.EvaluationError, values.CostExceeded):
        return False


def _waiting_claims(waiting: Sequence[ResourceClaim], pods: Sequence[Pod]) -> Iterator[Waiting]:
    users = {(pod.metadata.namespace, name): pod for pod in pods for name in _claim_names(pod)}
    for claim in waiting:
        metadata = claim.metadata
        user = users.get((metadata.namespace, metadata.name))
        reason = "no pod uses it" if user is None else _reason(user)
        since = metadata.creation_timestamp or ""
        yield Waiting(metadata.namespace, metadata.name, since, reason)


def _claim_names(pod: Pod) -> Iterator[str]:
    for source in pod.spec.resource_claims:
        if source.resource_claim_name:
            yield source.resource_claim_name
    for made in pod.status.resource_claim_statuses:
        if made.resource_claim_name:
            yield made.resource_claim_name


def _waiting_pods(pods: Sequence[Pod]) -> Iterator[Waiting]:
    for pod in pods:
        if (pod.status.phase or "Pending") == "Pending":
            since = pod.metadata.creation_timestamp or ""
            yield Waiting(pod.metadata.namespace, pod.metadata.name, since, _reason(pod))


def _reason(pod: Pod) -> str:
    """What the last condition that is not as it should be has to say."""
    said = [each.message or each.reason for each in pod.status.conditions if each.status == "False"]
    return next(filter(None, reversed(said)), "")
