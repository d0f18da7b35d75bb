"""Every device of a cluster with its state and holders, also those that are held and gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dray.allocator import device_states, device_values
from dray.allocator.device_states import DeviceAvailability, DeviceState
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.ids import ClaimKey, DeviceId
from dray.api.types.dra import (
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli.command_errors import CommandError
from dray.cli.inputs import cluster_objects
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.session.connection import Session
from dray.explain.pod import device_problems, obstacles

TYPES = frozenset({Node, Pod, ResourceSlice, ResourceClaim, DeviceTaintRule})
"""What the state of a device depends on."""


class ClaimHolder(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A claim that holds a device, or a share of it."""

    namespace: str
    claim: str
    request: str
    since: str = ""
    used_by: tuple[str, ...] = ()
    share_id: str = msgspec.field(default="", name="shareID")
    consumed_capacity: dict[str, str] = {}
    admin_access: bool = False


class PublishedDevice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device of the newest generation of its pool, or one that claims hold and that is gone."""

    driver: str
    pool: str
    name: str
    state: str
    state_detail: str = ""
    """The state with what explains it, if there is more to say."""
    node: str = ""
    model: str = ""
    partition_of: str = ""
    attributes: dict[str, Any] = {}
    capacity: dict[str, str] = {}
    capacity_left: dict[str, str] = {}
    """Of a device that can be shared."""
    memory: str = ""
    """The memory that claims hold of the device and its partitions, and all of it: 12Gi/40Gi."""
    blocked_by: tuple[str, ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    tainted: bool = False
    unhealthy: bool = False
    shareable: bool = False
    holders: tuple[ClaimHolder, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.pool}/{self.name}"

    @property
    def described_state(self) -> str:
        return self.state_detail or self.state


async def read(session: Session) -> tuple[list[PublishedDevice], ClusterObjects]:
    """Read every device of a cluster. The objects say what the user may not read.

    Raises CommandError if the user may not read slices.
    """
    objects = await cluster_objects.from_cluster(session, types=TYPES)
    require_slices(objects)
    return of(objects), objects


def require_slices(objects: ClusterObjects) -> None:
    """Raise CommandError if the user may not read slices: it would look as if there were none."""
    if message := objects.unread.get("ResourceSlice"):
        raise CommandError(f"not allowed: {message}")


def of(objects: ClusterObjects) -> list[PublishedDevice]:
    """Return every device, ordered by pool."""
    holders = _holders(objects.of(ResourceClaim))
    pods = _pods(objects.of(ResourceClaim))
    unhealthy = _reported_unhealthy(objects)

    def name_of(claim: ClaimKey) -> str:
        return pods.get(claim) or f"claim {claim}"

    devices = [
        _device(found, holders.get(found.id, ()), device_states.text(found, name_of), unhealthy)
        for found in device_states.all_devices(inventory(objects))
    ]
    return [
        msgspec.structs.replace(device, memory=_memory(device, group))
        for group in groups(devices)
        for device in group
    ]


def inventory(objects: ClusterObjects) -> ClusterInventory:
    """Return the inventory; without nodes, such as for users who may not read them, it has those
    that slices name.
    """
    built = objects.inventory()
    if not objects.of(Node):
        names = {item.spec.node_name for item in objects.of(ResourceSlice)}
        for name in sorted(filter(None, names)):
            built.put_node(Node(ObjectMeta(name=name)))
    return built


def limits(objects: ClusterObjects) -> list[str]:
    """Return in short lines what could not be read, and what follows for the states shown."""
    lines = []
    if "ResourceClaim" in objects.unread:
        lines.append("ResourceClaims could not be read: devices in use are shown as free")
    elif "ResourceClaim" in objects.partly_read:
        lines.append(
            "ResourceClaims of other namespaces could not be read: "
            "devices that they hold are shown as free"
        )
    if "DeviceTaintRule" in objects.unread:
        lines.append("DeviceTaintRules could not be read: taints may be missing")
    return lines


def _holders(claims: Iterable[ResourceClaim]) -> dict[DeviceId, list[ClaimHolder]]:
    by_device: dict[DeviceId, list[ClaimHolder]] = {}
    for claim in claims:
        allocation = claim.status.allocation
        if allocation is None:
            continue
        users = (f"{consumer.resource}/{consumer.name}" for consumer in claim.status.reserved_for)
        used_by = tuple(users)
        for result in allocation.devices.results:
            holder = ClaimHolder(
                *claim.key,
                result.request,
                allocation.allocation_timestamp or "",
                used_by,
                result.share_id or "",
                result.consumed_capacity,
                bool(result.admin_access),
            )
            by_device.setdefault(result.device_id, []).append(holder)
    return by_device


def _pods(claims: Iterable[ResourceClaim]) -> dict[ClaimKey, str]:
    """Return the first pod that uses each claim."""
    return {
        claim.key: f"pod {claim.metadata.namespace}/{consumer.name}"
        for claim in claims
        for consumer in claim.status.reserved_for[:1]
        if consumer.resource == "pods"
    }


def _reported_unhealthy(objects: ClusterObjects) -> set[str]:
    """Return the ids of devices that the status of a pod calls unhealthy."""
    claims = {claim.key: claim for claim in objects.of(ResourceClaim)}
    return {
        problem.device
        for pod in objects.of(Pod)
        if _reports_health(pod)
        for problem in device_problems.device_problems(pod, claims, (), ())
        if isinstance(problem, obstacles.DeviceUnhealthy)
    }


def _reports_health(pod: Pod) -> bool:
    containers = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(container.allocated_resources_status for container in containers)


def _device(
    found: DeviceAvailability,
    holders: Iterable[ClaimHolder],
    detail: str,
    unhealthy: set[str],
) -> PublishedDevice:
    device, resource_slice = found.device, found.resource_slice
    missing = PublishedDevice(
        *found.id,
        state=str(found.state),
        state_detail=detail if detail != found.state else "",
        unhealthy=found.is_unhealthy or str(found.id) in unhealthy,
        holders=tuple(holders),
    )
    if device is None or resource_slice is None:
        return missing
    attributes = device_values.attributes_of(device)
    return msgspec.structs.replace(
        missing,
        node=device.node_name or resource_slice.spec.node_name or "",
        model=device_values.model_of(attributes),
        partition_of=found.parent,
        attributes=attributes,
        capacity={name: value.value for name, value in device.capacity.items()},
        capacity_left={name: left.left for name, left in found.left.items()},
        blocked_by=found.blockers,
        taints=found.taints,
        tainted=found.is_tainted,
        shareable=bool(device.allow_multiple_allocations),
    )


def attribute(device: PublishedDevice, name: str) -> Any:
    """Return an attribute by its name with or without its domain, or None."""
    if name in device.attributes:
        return device.attributes[name]
    found = (value for key, value in device.attributes.items() if key.rpartition("/")[2] == name)
    return next(found, device.attributes.get(name.removeprefix(f"{device.driver}/")))


def _memory(device: PublishedDevice, group: Sequence[PublishedDevice]) -> str:
    """Return how much memory of a device claims hold, and how much it has; "" without any."""
    total = _amount(device.capacity)
    if total is None:
        return ""
    used = 0
    left = _amount(device.capacity_left)
    if left is not None:
        used = total.nano - left.nano
    elif device.state == DeviceState.IN_USE:
        used = total.nano
    for partition in group if not device.partition_of else ():
        held = _amount(partition.capacity) if partition.partition_of and partition.holders else None
        used += held.nano if held is not None else 0
    return f"{Quantity(min(used, total.nano), total.format)}/{total}"


def _amount(capacity: Mapping[str, str]) -> Quantity | None:
    text = device_values.memory_text(capacity)
    return quantity.parse(text) if text else None


def count_by_state(devices: Iterable[PublishedDevice]) -> dict[str, int]:
    """Return the number of devices in each state that occurs, in the order of the states."""
    counts = dict.fromkeys(DeviceState, 0)
    for device in devices:
        counts[DeviceState(device.state)] += 1
    return {str(state): count for state, count in counts.items() if count}


def wholes_and_partitions(
    devices: Iterable[PublishedDevice],
) -> tuple[list[PublishedDevice], list[PublishedDevice]]:
    """Return the devices that are no partitions, and the partitions."""
    wholes: list[PublishedDevice] = []
    partitions: list[PublishedDevice] = []
    for device in devices:
        (partitions if device.partition_of else wholes).append(device)
    return wholes, partitions


def groups(devices: Iterable[PublishedDevice]) -> Iterator[list[PublishedDevice]]:
    """Yield each device with its partitions behind it, in the given order."""
    by_whole: dict[tuple[str, str, str], list[PublishedDevice]] = {}
    for device in devices:
        key = (device.driver, device.pool, device.partition_of or device.name)
        by_whole.setdefault(key, []).append(device)
    for members in by_whole.values():
        yield sorted(members, key=lambda member: bool(member.partition_of))
