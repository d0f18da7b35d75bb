"""Device order policies beyond upstream: the order in which a request tries its candidates.

A policy orders candidates and nothing else; every check stays as it is. Without one, devices are
tried in upstream's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.candidates import Candidate
from dray.allocator.problem.node_problem import NodeAlternative
from dray.api.formats import quantity

Order = Callable[[NodeInventory, NodeAlternative, Iterable[Candidate]], Iterable[Candidate]]
"""Returns the candidates of an alternative on a node, best first."""


def best_fit(
    inventory: NodeInventory, alternative: NodeAlternative, devices: Iterable[Candidate]
) -> list[Candidate]:
    """Order devices by size, the smallest first: by counters, then by capacities."""
    return sorted(devices, key=lambda device: (_share_consumed(inventory, device), _size(device)))


def pack(
    inventory: NodeInventory, alternative: NodeAlternative, devices: Iterable[Candidate]
) -> list[Candidate]:
    """Order devices by use, the most used first, so that whole devices stay free."""
    return sorted(devices, key=lambda device: -_use(inventory, device))


def spread(
    inventory: NodeInventory, alternative: NodeAlternative, devices: Iterable[Candidate]
) -> list[Candidate]:
    """Order devices by use, the least used first."""
    return sorted(devices, key=lambda device: _use(inventory, device))


def least_stranding(
    inventory: NodeInventory, alternative: NodeAlternative, devices: Iterable[Candidate]
) -> list[Candidate]:
    """Order partitions by what they make impossible for others, the least first."""
    return sorted(devices, key=lambda device: _stranded(inventory, device))


BY_NAME: Mapping[str, Order] = {
    "best-fit": best_fit,
    "pack": pack,
    "spread": spread,
    "least-stranding": least_stranding,
}


def _size(device: Candidate) -> int:
    return sum(quantity.parse(capacity.value).nano for capacity in device.device.capacity.values())


def _share_consumed(inventory: NodeInventory, device: Candidate) -> float:
    """Return the fraction of its pool's counters that a partition takes, summed."""
    counters = inventory.node_pools[device.pool_index].counters
    return counters.portion(device.need) if counters and device.need else 0.0


def _use(inventory: NodeInventory, device: Candidate) -> float:
    """Return the fraction in use of the device, or of the counters that it draws from."""
    counters = inventory.node_pools[device.pool_index].counters
    if counters and device.need:
        return counters.portion_used(device.need)
    holding = inventory.device_holders(device)
    if holding is None:
        return 0.0
    return sum(
        nano / total
        for name, nano in holding.capacity.items()
        if name in device.device.capacity
        and (total := quantity.parse(device.device.capacity[name].value).nano)
    )


def _stranded(inventory: NodeInventory, device: Candidate) -> float:
    """Return the size of all partitions that are possible now and would not be afterwards."""
    counters = inventory.node_pools[device.pool_index].counters
    if counters is None or not device.need:
        return 0.0
    left = counters.left - device.need
    free = inventory.partitions & ~inventory.taken & ~device.bit
    return sum(
        counters.portion(other.need)
        for other in inventory.members(free)
        if other.pool_index == device.pool_index
        and counters.allows(counters.left, other.need)
        and not counters.allows(left, other.need)
    )
