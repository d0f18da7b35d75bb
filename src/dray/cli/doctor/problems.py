"""What is wrong with a cluster, and which change would mend it. Objects in, ailments out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from dray.api.ids import PoolId
from dray.api.semantics import pools
from dray.api.types.core import CoreEvent
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.pods import Pod
from dray.api.well_known import FAILED_PREPARE_REASON
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.explain.pod import message_patterns

POD_RESOURCE = "pods"
UUID_ATTRIBUTE = "uuid"


class ObjectIdentity(NamedTuple):
    """An object as it was when it was looked at."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.lower()} {name}"

    @property
    def arguments(self) -> str:
        """How commands name it."""
        where = f" -n {self.namespace}" if self.namespace else ""
        return f"{self.kind.lower()} {self.name}{where}"


class Deletion(NamedTuple):
    """Delete one object, as long as it is the one that was looked at."""

    target: ObjectIdentity

    @property
    def command(self) -> str:
        return f"dray delete {self.target.arguments}"


class Unreservation(NamedTuple):
    """Take one reservation off a claim, as long as it stands where it was seen."""

    target: ObjectIdentity
    place: int
    uid: str

    @property
    def patch(self) -> list[dict[str, object]]:
        entry = f"/status/reservedFor/{self.place}"
        return [
            {"op": "test", "path": f"{entry}/uid", "value": self.uid},
            {"op": "remove", "path": entry},
        ]

    @property
    def command(self) -> str:
        options = f"--subresource status --type json -p '{json.dumps(self.patch)}'"
        return f"dray patch {self.target.arguments} {options}"


Repair = Deletion | Unreservation


class ClusterProblem(NamedTuple):
    """Something that is wrong; `repairs` mend it, `advice` is for what no write can mend."""

    fault: str
    about: str
    message: str
    repairs: tuple[Repair, ...] = ()
    advice: str = ""


def find(world: ClusterObjects) -> list[ClusterProblem]:
    """Everything that is wrong, as far as it can be seen."""
    return [
        ailment
        for check, needed in CHECKS.items()
        if needed.isdisjoint(world.unread)
        for ailment in check(world)
    ]


def orphaned_reservations(world: ClusterObjects) -> Iterator[ClusterProblem]:
    """Claims that are reserved for pods which are not there any more."""
    uids = _pod_uids(world)
    for claim in world.of(ResourceClaim):
        for place, consumer in reversed(list(enumerate(claim.status.reserved_for))):
            if consumer.resource != POD_RESOURCE or consumer.uid in uids:
                continue
            target = _identity("ResourceClaim", claim.metadata)
            message = f"is reserved for pod {consumer.name}, which is gone"
            repair = Unreservation(target, place, consumer.uid)
            yield ClusterProblem("orphaned-reservation", str(target), message, (repair,))


def claims_of_gone_pods(world: ClusterObjects) -> Iterator[ClusterProblem]:
    """Claims that were made for a pod which is not there any more."""
    uids = _pod_uids(world)
    for claim in world.of(ResourceClaim):
        for owner in claim.metadata.owner_references:
            if owner.kind != "Pod" or not owner.controller or owner.uid in uids:
                continue
            target = _identity("ResourceClaim", claim.metadata)
            message = f"was made for pod {owner.name}, which is gone"
            if claim.metadata.deletion_timestamp is None:
                yield ClusterProblem("claim-of-gone-pod", str(target), message, (Deletion(target),))
            else:
                advice = "It is being deleted; controllers release it. Do they run?"
                yield ClusterProblem("claim-of-gone-pod", str(target), message, (), advice)


def stale_generations(world: ClusterObjects) -> Iterator[ClusterProblem]:
    """Slices of an older generation than others of their pool: nobody allocates from them."""
    for pool, slices in pools.group_by_pool(world.of(ResourceSlice)).items():
        newest = pools.newest_generation(slices)
        for resource_slice in slices:
            if resource_slice.spec.pool.generation < newest:
                target = _identity("ResourceSlice", resource_slice.metadata)
                generation = resource_slice.spec.pool.generation
                message = f"has generation {generation} of pool {pool}, which is at {newest}"
                yield ClusterProblem("stale-generation", str(target), message, (Deletion(target),))


def incomplete_pools(world: ClusterObjects) -> Iterator[ClusterProblem]:
    """Pools of which slices are missing: nobody allocates from them."""
    for pool, slices in _current(world).items():
        expected = slices[0].spec.pool.resource_slice_count
        if len(slices) < expected:
            message = f"has {len(slices)} of {expected} slices, so that its devices cannot be used"
            yield ClusterProblem("incomplete-pool", f"pool {pool}", message, _republished(slices))


def devices_published_twice(world: ClusterObjects) -> Iterator[ClusterProblem]:
    """One name for two devices of a pool, which makes the pool invalid."""
    for pool, slices in _current(world).items():
        seen: set[str] = set()
        for device in (
            device for resource_slice in slices for device in resource_slice.spec.devices
        ):
            if device.name in seen:
                message = f"publishes device {device.name} twice, so that no device can be used"
                repairs = _republished(slices)
                yield ClusterProblem("device-published-twice", f"pool {pool}", message, repairs)
                break
            seen.add(device.name)


def devices_of_two_drivers(world: ClusterObjects) -> Iterator[ClusterProblem]:
    """One piece of hardware in two pools: it could be given out twice."""
    places: dict[tuple[str, str], dict[PoolId, str]] = defaultdict(dict)
    for resource_slice in pools.current_slices_of_pools(world.of(ResourceSlice)):
        for device in resource_slice.spec.devices:
            attribute = device.attributes.get(UUID_ATTRIBUTE)
            if attribute is not None and attribute.string_value:
                node = device.node_name or resource_slice.spec.node_name or ""
                publishers = places[node, attribute.string_value]
                publishers.setdefault(resource_slice.pool_id, device.name)
    for (_, uuid), publishers in places.items():
        if len(publishers) > 1:
            names = " and ".join(f"{pool}/{device}" for pool, device in sorted(publishers.items()))
            message = f"is published as {names}, so that two pods could get it"
            advice = "Stop one of the two drivers on that node."
            yield ClusterProblem("device-published-twice", f"device {uuid}", message, (), advice)


def drivers_not_registered(world: ClusterObjects) -> Iterator[ClusterProblem]:
    """Pods that have their devices and cannot start for want of a driver on their node."""
    told = _prepare_errors(world)
    waiting: dict[tuple[str, str], list[str]] = defaultdict(list)
    drivers = _drivers_by_consumer(world)
    for pod in world.of(Pod):
        said = told.get(pod.metadata.uid, "")
        if pod.status.phase not in ("", "Pending"):
            continue
        for driver in drivers.get(pod.metadata.uid, ()):
            if message_patterns.is_unregistered(driver, said):
                name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                waiting[driver, pod.spec.node_name or ""].append(name)
    for (driver, node), pods in waiting.items():
        message = f"is not registered on node {node}; waiting for it: {', '.join(sorted(pods))}"
        advice = f"Start the driver on {node}, or look at its log; the pods go on by themselves."
        yield ClusterProblem("driver-not-registered", f"driver {driver}", message, (), advice)


CHECKS: dict[Callable[[ClusterObjects], Iterator[ClusterProblem]], frozenset[str]] = {
    orphaned_reservations: frozenset({"ResourceClaim", "Pod"}),
    claims_of_gone_pods: frozenset({"ResourceClaim", "Pod"}),
    stale_generations: frozenset({"ResourceSlice"}),
    incomplete_pools: frozenset({"ResourceSlice"}),
    devices_published_twice: frozenset({"ResourceSlice"}),
    devices_of_two_drivers: frozenset({"ResourceSlice"}),
    drivers_not_registered: frozenset({"ResourceClaim", "Pod", "Event"}),
}
"""Each check with what it has to see: pods that may not be read are not pods that are gone."""


def _pod_uids(world: ClusterObjects) -> set[str]:
    return {pod.metadata.uid for pod in world.of(Pod)}


def _identity(kind: str, metadata: ObjectMeta) -> ObjectIdentity:
    where = (metadata.namespace, metadata.name)
    return ObjectIdentity(kind, *where, metadata.uid, metadata.resource_version)


def _current(world: ClusterObjects) -> dict[PoolId, list[ResourceSlice]]:
    """Return the slices of each pool's newest generation."""
    return pools.group_by_pool(pools.current_slices_of_pools(world.of(ResourceSlice)))


def _republished(slices: Iterable[ResourceSlice]) -> tuple[Repair, ...]:
    """A driver that finds its slices gone publishes the pool anew; nobody could use it anyway."""
    return tuple(
        Deletion(_identity("ResourceSlice", resource_slice.metadata)) for resource_slice in slices
    )


def _prepare_errors(world: ClusterObjects) -> dict[str, str]:
    """What was said of claims that could not be prepared, by the pod's uid."""
    return {
        event.involved_object.uid: event.message
        for event in world.of(CoreEvent)
        if event.reason == FAILED_PREPARE_REASON
    }


def _drivers_by_consumer(world: ClusterObjects) -> dict[str, set[str]]:
    """Whose devices each pod has, by the pod's uid."""
    found: dict[str, set[str]] = defaultdict(set)
    for claim in world.of(ResourceClaim):
        allocation = claim.status.allocation
        drivers = {each.driver for each in (allocation.devices.results if allocation else ())}
        for consumer in claim.status.reserved_for:
            found[consumer.uid] |= drivers
    return found
