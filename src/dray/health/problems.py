"""Finds problems in the objects of a cluster, with the changes that would repair them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from dray.api.ids import PoolId
from dray.api.semantics import pools
from dray.api.types.core import CoreEvent
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.pods import Pod
from dray.api.well_known import FAILED_PREPARE_REASON
from dray.explain.pod import message_patterns
from dray.health.examined_objects import ExaminedObjects

POD_RESOURCE = "pods"
UUID_ATTRIBUTE = "uuid"
NAMESPACED = frozenset({"Pod", "ResourceClaim", "ResourceClaimTemplate", "Event"})


class ObjectIdentity(NamedTuple):
    """An object at the revision that was read."""

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
        """Return the object as command line arguments."""
        where = f" -n {self.namespace}" if self.namespace else ""
        return f"{self.kind.lower()} {self.name}{where}"


class Deletion(NamedTuple):
    """Delete one object, if it is still the one that was read."""

    target: ObjectIdentity

    @property
    def command(self) -> str:
        return f"dray delete {self.target.arguments}"


class Unreservation(NamedTuple):
    """Remove one reservation of a claim, if it is still where it was read."""

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
    """A problem. `repairs` solve it; `advice` is for what no write can repair."""

    fault: str
    about: str
    message: str
    repairs: tuple[Repair, ...] = ()
    advice: str = ""


Check = Callable[[ExaminedObjects], Iterator[ClusterProblem]]
Checks = Mapping[Check, frozenset[str]]
"""The kinds that each check needs: pods that cannot be read are not pods that are gone."""


def find(objects: ExaminedObjects, checks: Checks) -> list[ClusterProblem]:
    """Return all problems that can be found in the objects that could be read.

    A check that compares pods with claims needs both of the same namespaces.
    """
    unread = {*objects.unread, *objects.partly_read}
    return [
        problem
        for check, needed in checks.items()
        if needed.isdisjoint(unread)
        or (needed.isdisjoint(objects.unread) and (needed & NAMESPACED) <= set(objects.partly_read))
        for problem in check(objects)
    ]


def orphaned_reservations(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find claims that are reserved for pods which no longer exist."""
    uids = _pod_uids(objects)
    for claim in objects.of(ResourceClaim):
        for place, consumer in reversed(list(enumerate(claim.status.reserved_for))):
            if consumer.resource != POD_RESOURCE or consumer.uid in uids:
                continue
            target = _identity("ResourceClaim", claim.metadata)
            message = f"is reserved for pod {consumer.name}, which is gone"
            repair = Unreservation(target, place, consumer.uid)
            yield ClusterProblem("orphaned-reservation", str(target), message, (repair,))


def claims_of_gone_pods(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find claims that were created for pods which no longer exist."""
    uids = _pod_uids(objects)
    for claim in objects.of(ResourceClaim):
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


def stale_generations(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find slices of older generations, which are never allocated from."""
    for pool, slices in pools.group_by_pool(objects.of(ResourceSlice)).items():
        newest = pools.newest_generation(slices)
        for resource_slice in slices:
            if resource_slice.spec.pool.generation < newest:
                target = _identity("ResourceSlice", resource_slice.metadata)
                generation = resource_slice.spec.pool.generation
                message = f"has generation {generation} of pool {pool}, which is at {newest}"
                yield ClusterProblem("stale-generation", str(target), message, (Deletion(target),))


def incomplete_pools(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find pools with missing slices, which are never allocated from."""
    for pool, slices in _current(objects).items():
        expected = slices[0].spec.pool.resource_slice_count
        if len(slices) < expected:
            message = f"has {len(slices)} of {expected} slices, so that its devices cannot be used"
            yield ClusterProblem("incomplete-pool", f"pool {pool}", message, _republished(slices))


def devices_published_twice(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find pools with two devices of one name, which makes the pool invalid."""
    for pool, slices in _current(objects).items():
        seen: set[str] = set()
        for name in (device.name for item in slices for device in item.spec.devices):
            if name in seen:
                message = f"publishes device {name} twice, so that no device can be used"
                repairs = _republished(slices)
                yield ClusterProblem("device-published-twice", f"pool {pool}", message, repairs)
                break
            seen.add(name)


def devices_of_two_drivers(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find hardware in two pools, which could be allocated twice."""
    places: dict[tuple[str, str], dict[PoolId, str]] = defaultdict(dict)
    for resource_slice in pools.current_slices_of_pools(objects.of(ResourceSlice)):
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


def drivers_not_registered(objects: ExaminedObjects) -> Iterator[ClusterProblem]:
    """Find pods that cannot start because a driver is missing on their node."""
    messages = _prepare_errors(objects)
    waiting: dict[tuple[str, str], list[str]] = defaultdict(list)
    drivers = _drivers_by_consumer(objects)
    for pod in objects.of(Pod):
        error = messages.get(pod.metadata.uid, "")
        if pod.status.phase not in ("", "Pending"):
            continue
        for driver in drivers.get(pod.metadata.uid, ()):
            if message_patterns.is_unregistered(driver, error):
                name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                waiting[driver, pod.spec.node_name or ""].append(name)
    for (driver, node), pods in waiting.items():
        message = f"is not registered on node {node}; waiting for it: {', '.join(sorted(pods))}"
        advice = f"Start the driver on {node}, or look at its log; the pods go on by themselves."
        yield ClusterProblem("driver-not-registered", f"driver {driver}", message, (), advice)


CHECKS: Checks = {
    orphaned_reservations: frozenset({"ResourceClaim", "Pod"}),
    claims_of_gone_pods: frozenset({"ResourceClaim", "Pod"}),
    stale_generations: frozenset({"ResourceSlice"}),
    incomplete_pools: frozenset({"ResourceSlice"}),
    devices_published_twice: frozenset({"ResourceSlice"}),
    devices_of_two_drivers: frozenset({"ResourceSlice"}),
    drivers_not_registered: frozenset({"ResourceClaim", "Pod", "Event"}),
}


def _pod_uids(objects: ExaminedObjects) -> set[str]:
    return {pod.metadata.uid for pod in objects.of(Pod)}


def _identity(kind: str, metadata: ObjectMeta) -> ObjectIdentity:
    where = (metadata.namespace, metadata.name)
    return ObjectIdentity(kind, *where, metadata.uid, metadata.resource_version)


def _current(objects: ExaminedObjects) -> dict[PoolId, list[ResourceSlice]]:
    """Return the slices of each pool's newest generation."""
    return pools.group_by_pool(pools.current_slices_of_pools(objects.of(ResourceSlice)))


def _republished(slices: Iterable[ResourceSlice]) -> tuple[Repair, ...]:
    """Return the deletion of slices. The driver then publishes the pool again.

    Nothing is lost: no device of such a pool can be allocated.
    """
    return tuple(Deletion(_identity("ResourceSlice", item.metadata)) for item in slices)


def _prepare_errors(objects: ExaminedObjects) -> dict[str, str]:
    """Return the messages about claims that could not be prepared, by the pod's uid."""
    return {
        event.involved_object.uid: event.message
        for event in objects.of(CoreEvent)
        if event.reason == FAILED_PREPARE_REASON
    }


def _drivers_by_consumer(objects: ExaminedObjects) -> dict[str, set[str]]:
    """Return the drivers of each pod's devices, by the pod's uid."""
    by_consumer: dict[str, set[str]] = defaultdict(set)
    for claim in objects.of(ResourceClaim):
        allocation = claim.status.allocation
        drivers = {result.driver for result in (allocation.devices.results if allocation else ())}
        for consumer in claim.status.reserved_for:
            by_consumer[consumer.uid] |= drivers
    return by_consumer
