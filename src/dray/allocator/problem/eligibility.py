"""The checks that look at a device alone, asked of a whole node at once or of one device.

In upstream's order (isSelectable, then allocateDevice): binding conditions, class selectors,
request selectors, per-device node selection, the part of capacity that other claims cannot change;
these may fail. Then those that only refuse: node operations, partitions without their gate, taints.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.allocator.checks import capacity, taints
from dray.allocator.inventory import pools
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, DeviceMatches
from dray.allocator.model.requests import Alternative
from dray.allocator.problem.resolution import ResolvedAlternative
from dray.api import well_known

Demands = list[tuple[int, capacity.Demand]]
"""What an option takes of each kind of device."""


def selected_devices(resolved: ResolvedAlternative, inventory: NodeInventory) -> DeviceMatches:
    """Which devices class and request select on the node."""
    accepted, failing = inventory.everything, 0
    if not pools.has_binding_conditions(inventory.features):
        accepted = inventory.where(lambda each: not each.device.binding_conditions)
    for test in resolved.tests:
        answer = test.selector.matches(inventory)
        failing |= accepted & answer.failing
        accepted &= answer.accepted
    on_node = inventory.on_node
    return DeviceMatches(accepted & on_node.accepted, failing | (accepted & on_node.failing))


def capacity_demands(
    option: Alternative, inventory: NodeInventory, selected: int
) -> tuple[Demands, DeviceMatches]:
    """What the option takes of the selected devices, and which of them could ever give it."""
    found: Demands = []
    accepted = failing = 0
    fractional = inventory.features.fractional_capacity_range
    for capacities, having in inventory.capacities():
        members = having & selected
        if not members:
            continue
        try:
            demand = capacity.demand(option.capacity, capacities, fractional=fractional)
        except capacity.CapacityError:
            failing |= members
            continue
        if demand is not None and not capacity.exceeds(demand, capacities, fractional=fractional):
            accepted |= members
            found.append((members, demand))
    return found, DeviceMatches(accepted, failing)


def excluded_devices(option: Alternative, inventory: NodeInventory) -> int:
    """The devices that gates, the node or taints keep away."""
    found = 0
    for device in inventory.members(inventory.suspects):
        if next(_bars(option, inventory, device), None) is not None:
            found |= device.bit
    return found


def failure(
    resolved: ResolvedAlternative, inventory: NodeInventory, device: Candidate
) -> rejections.AllocationError:
    """What goes wrong on a device that `matches` or `demands` called failing."""
    for test in resolved.tests:
        if test.selector.matches(inventory).failing & device.bit:
            detail = f"selector #{test.number}{test.selector.failure_on(device)}"
            if test.device_class is None:
                return rejections.AllocationError(detail, claim=resolved.claim)
            return rejections.AllocationError(f"class {test.device_class}: {detail}")
    option = resolved.option
    try:
        pools.serves_node(device.device, inventory.node)
        _demand(option, inventory, device)
    except rejections.AllocationError as found:
        return found
    except capacity.CapacityError as error:
        # Upstream names the device in full, except where it looks for all devices.
        name = device.device.name if option.is_all else str(device.id)
        return rejections.AllocationError(
            f"checking capacity for device {name}: {error}",
            claim=resolved.claim,
            request=f"request {option.own_name}",
        )
    raise AssertionError(f"nothing fails on {device.id}")


def device_rejections(
    resolved: ResolvedAlternative, inventory: NodeInventory, device: Candidate
) -> Iterator[rejections.DeviceRejection]:
    """What each check has against a device, in order; a check that fails is passed over."""
    conditions = device.device.binding_conditions
    if conditions and not pools.has_binding_conditions(inventory.features):
        yield rejections.BindingConditionsDisabled(device.id, conditions)
    for test in resolved.tests:
        if test.selector.answer(device) is False:
            yield rejections.SelectorNotMatched(
                device.id, test.number, test.text, test.device_class
            )
    if not (inventory.on_node.accepted | inventory.on_node.failing) & device.bit:
        yield rejections.NodeMismatch(device.id, inventory.node.metadata.name)
    if inventory.features.consumable_capacity:
        yield from _capacity_refusal(resolved.option, inventory, device)
    yield from _bars(resolved.option, inventory, device)


def _demand(
    option: Alternative, inventory: NodeInventory, device: Candidate
) -> capacity.Demand | None:
    return capacity.demand(
        option.capacity,
        device.device.capacity,
        fractional=inventory.features.fractional_capacity_range,
    )


def _capacity_refusal(
    option: Alternative, inventory: NodeInventory, device: Candidate
) -> Iterator[rejections.DeviceRejection]:
    try:
        demand = _demand(option, inventory, device)
    except capacity.CapacityError:
        return
    verdict = capacity.refusal(
        device.id,
        option.capacity,
        device.device.capacity,
        demand,
        fractional=inventory.features.fractional_capacity_range,
    )
    if verdict is not None:
        yield verdict


def _bars(
    option: Alternative, inventory: NodeInventory, device: Candidate
) -> Iterator[rejections.DeviceRejection]:
    features = inventory.features
    operations = device.published_in.spec.skip_node_operations
    if operations and pools.knows_node_operations(features):
        declared = inventory.node.status.declared_features
        lacks_feature = well_known.OPTIONAL_NODE_OPERATIONS not in declared
        if lacks_feature or not features.optional_node_operations:
            yield rejections.NodeOperationsDisabled(device.id, operations, lacks_feature)
    if device.device.consumes_counters and not features.partitionable_devices:
        yield rejections.CountersDisabled(device.id)
    if device.taints and features.device_taints:
        taint = taints.first_untolerated(device.taints, option.tolerations)
        if taint is not None:
            yield rejections.TaintNotTolerated(device.id, taint)
