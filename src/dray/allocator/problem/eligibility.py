"""The checks that look at a device alone, for all devices of a node at once or for one device.

In upstream's order (isSelectable, then allocateDevice): binding conditions, class selectors,
request selectors, per-device node selection, the part of capacity that other claims cannot change;
evaluating these may raise errors. Then those that only reject: node operations, partitions without
their feature gate, taints.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.allocator.checks import capacity, taints
from dray.allocator.inventory import pools, shapes
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, DeviceMatches
from dray.allocator.model.requests import Alternative
from dray.allocator.problem.resolution import ResolvedAlternative
from dray.api import well_known

Demands = list[tuple[int, capacity.Demand]]
"""The demands of an alternative, each with the devices that it is for."""


def selected_devices(resolved: ResolvedAlternative, inventory: NodeInventory) -> DeviceMatches:
    """Return the devices of the node that the class and the request select."""
    matching, failing = inventory.everything, 0
    if not pools.has_binding_conditions(inventory.features):
        matching = inventory.where(lambda candidate: not candidate.device.binding_conditions)
    for located in resolved.selectors:
        matches = located.selector.matches(inventory, matching)
        failing |= matching & matches.failing
        matching &= matches.matching
    on_node = inventory.on_node
    return DeviceMatches(matching & on_node.matching, failing | (matching & on_node.failing))


def capacity_demands(
    resolved: ResolvedAlternative, inventory: NodeInventory, selected: int
) -> tuple[Demands, DeviceMatches]:
    """Return the demands on the selected devices, and which of them are large enough."""
    demands: Demands = []
    matching = failing = 0
    for capacities, members_of_shape in inventory.capacities():
        members = members_of_shape & selected
        if not members:
            continue
        try:
            demand = resolved.demands.on(capacities)
        except capacity.CapacityError:
            failing |= members
            continue
        if demand is not None:
            matching |= members
            demands.append((members, demand))
    return demands, DeviceMatches(matching, failing)


def excluded_devices(alternative: Alternative, inventory: NodeInventory) -> int:
    """Return the devices that feature gates, the node or taints exclude."""
    excluded = 0
    for example, devices in inventory.excludable_devices():
        if next(_exclusions(alternative, inventory, example), None) is not None:
            excluded |= devices
    return excluded


def is_eligible(
    resolved: ResolvedAlternative, inventory: NodeInventory, device: Candidate
) -> bool | None:
    """Return whether one device passes all of these checks; None if one may raise an error."""
    is_usable = shapes.is_usable(device.device)
    for located in resolved.selectors:
        result = located.selector.result_on(device, is_usable=is_usable)
        if result is not True:
            return None if isinstance(result, str) else False
    if not inventory.on_node.matching & device.bit:
        return None if inventory.on_node.failing & device.bit else False
    if inventory.features.consumable_capacity:
        try:
            if resolved.demands.on(device.device.capacity) is None:
                return False
        except capacity.CapacityError:
            return None
    if device.device.binding_conditions and not pools.has_binding_conditions(inventory.features):
        return False
    if not inventory.possibly_excluded & device.bit:
        return True
    return next(_exclusions(resolved.parsed, inventory, device), None) is None


def failure(
    resolved: ResolvedAlternative, inventory: NodeInventory, device: Candidate
) -> rejections.AllocationError:
    """Return the error on a device that `selected_devices` or `capacity_demands` calls failing."""
    for located in resolved.selectors:
        if located.selector.matches(inventory).failing & device.bit:
            detail = f"selector #{located.number}{located.selector.failure_on(device)}"
            if located.device_class is None:
                return rejections.AllocationError(detail, claim=resolved.claim)
            return rejections.AllocationError(f"class {located.device_class}: {detail}")
    alternative = resolved.parsed
    try:
        pools.serves_node(device.device, inventory.node)
        _demand(alternative, inventory, device)
    except rejections.AllocationError as error:
        return error
    except capacity.CapacityError as error:
        # Upstream writes the full id of a device, except for allocationMode All.
        name = device.device.name if alternative.is_all else str(device.id)
        return rejections.AllocationError(
            f"checking capacity for device {name}: {error}",
            claim=resolved.claim,
            request=f"request {alternative.own_name}",
        )
    raise AssertionError(f"nothing fails on {device.id}")


def device_rejections(
    resolved: ResolvedAlternative, inventory: NodeInventory, device: Candidate
) -> Iterator[rejections.DeviceRejection]:
    """Yield the rejections of a device in order; checks that raise errors are left out."""
    conditions = device.device.binding_conditions
    if conditions and not pools.has_binding_conditions(inventory.features):
        yield rejections.BindingConditionsDisabled(device.id, conditions)
    for located in resolved.selectors:
        if located.selector.result(device) is False:
            place = (located.number, located.text, located.device_class)
            yield rejections.SelectorNotMatched(device.id, *place)
    if not (inventory.on_node.matching | inventory.on_node.failing) & device.bit:
        yield rejections.NodeMismatch(device.id, inventory.node.metadata.name)
    if inventory.features.consumable_capacity:
        yield from _capacity_rejections(resolved.parsed, inventory, device)
    yield from _exclusions(resolved.parsed, inventory, device)


def _demand(
    alternative: Alternative, inventory: NodeInventory, device: Candidate
) -> capacity.Demand | None:
    return capacity.demand(
        alternative.capacity,
        device.device.capacity,
        fractional=inventory.features.fractional_capacity_range,
    )


def _capacity_rejections(
    alternative: Alternative, inventory: NodeInventory, device: Candidate
) -> Iterator[rejections.DeviceRejection]:
    try:
        demand = _demand(alternative, inventory, device)
    except capacity.CapacityError:
        return
    rejection = capacity.rejection(
        device.id,
        alternative.capacity,
        device.device.capacity,
        demand,
        fractional=inventory.features.fractional_capacity_range,
    )
    if rejection is not None:
        yield rejection


def _exclusions(
    alternative: Alternative, inventory: NodeInventory, device: Candidate
) -> Iterator[rejections.DeviceRejection]:
    features = inventory.features
    operations = device.resource_slice.spec.skip_node_operations
    if operations and pools.knows_node_operations(features):
        declared = inventory.node.status.declared_features
        lacks_feature = well_known.OPTIONAL_NODE_OPERATIONS not in declared
        if lacks_feature or not features.optional_node_operations:
            yield rejections.NodeOperationsDisabled(device.id, operations, lacks_feature)
    if device.device.consumes_counters and not features.partitionable_devices:
        yield rejections.CountersDisabled(device.id)
    if device.taints and features.device_taints:
        taint = taints.first_untolerated(device.taints, alternative.tolerations)
        if taint is not None:
            yield rejections.TaintNotTolerated(device.id, taint)
