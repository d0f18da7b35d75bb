"""The checks that look at a device alone, asked of a whole node at once or of one device.

In upstream's order (isSelectable, then allocateDevice): binding conditions, class selectors,
request selectors, per-device node selection, the part of capacity that other claims cannot change;
these may fail. Then those that only refuse: node operations, partitions without their gate, taints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dray.allocator import capacity, pools, taints, verdicts
from dray.allocator.candidates import Candidate, Matches
from dray.allocator.inventory import Inventory
from dray.allocator.requests import Option
from dray.allocator.selectors import Selectors
from dray.api.classes import DeviceClass

Demands = list[tuple[int, capacity.Demand]]
"""What an option takes of each kind of device."""


class Expression(NamedTuple):
    """A selector and where it stands; without a class it is the request's."""

    text: str
    number: int
    device_class: str | None = None


class Screening:
    """One node, for any number of options."""

    __slots__ = ("_features", "_inventory", "_selectors")

    def __init__(self, inventory: Inventory, selectors: Selectors) -> None:
        self._inventory = inventory
        self._features = inventory.features
        self._selectors = selectors

    def matches(self, option: Option, device_class: DeviceClass) -> Matches:
        """Which devices class and request select on this node."""
        accepted, failing = self._inventory.everything, 0
        if not pools.has_binding_conditions(self._features):
            accepted = self._inventory.where(lambda each: not each.device.binding_conditions)
        for expression in _expressions(option, device_class):
            answer = self._selectors.selector(expression.text).matches(self._inventory)
            failing |= accepted & answer.failing
            accepted &= answer.accepted
        on_node = self._inventory.on_node
        return Matches(accepted & on_node.accepted, failing | (accepted & on_node.failing))

    def demands(self, option: Option, selected: int) -> tuple[Demands, Matches]:
        """What the option takes of the selected devices, and which of them could ever give it."""
        found: Demands = []
        accepted = failing = 0
        for capacities, having in self._inventory.capacities():
            members = having & selected
            if not members:
                continue
            try:
                demand = self._demand(option, next(self._inventory.members(members)))
            except capacity.CapacityError:
                failing |= members
                continue
            if demand is not None and not capacity.exceeds(
                demand, capacities, fractional=self._features.fractional_capacity_range
            ):
                accepted |= members
                found.append((members, demand))
        return found, Matches(accepted, failing)

    def barred(self, option: Option) -> int:
        """The devices that gates, the node or taints keep away."""
        found = 0
        for device in self._inventory.members(self._inventory.suspects):
            if next(self._bars(option, device), None) is not None:
                found |= device.bit
        return found

    def failure(
        self, claim: int, option: Option, device_class: DeviceClass, device: Candidate
    ) -> verdicts.Failure:
        """What goes wrong on a device that `matches` or `demands` called failing."""
        for expression in _expressions(option, device_class):
            selector = self._selectors.selector(expression.text)
            if selector.matches(self._inventory).failing & device.bit:
                detail = f"selector #{expression.number}{selector.failure_on(device)}"
                if expression.device_class is None:
                    return verdicts.Failure(detail, claim=claim)
                return verdicts.Failure(f"class {expression.device_class}: {detail}")
        try:
            pools.serves_node(device.device, self._inventory.node)
            self._demand(option, device)
        except verdicts.Failure as failure:
            return failure
        except capacity.CapacityError as error:
            # Upstream names the device in full, except where it looks for all devices.
            name = device.device.name if option.is_all else str(device.id)
            return verdicts.Failure(
                f"checking capacity for device {name}: {error}",
                claim=claim,
                request=f"request {option.own_name}",
            )
        raise AssertionError(f"{device.id} does not fail")

    def refusals(
        self, option: Option, device_class: DeviceClass, device: Candidate
    ) -> Iterator[verdicts.DeviceVerdict]:
        """What each check has against a device, in order; a check that fails is passed over."""
        conditions = device.device.binding_conditions
        if conditions and not pools.has_binding_conditions(self._features):
            yield verdicts.BindingConditionsDisabled(device.id, conditions)
        for expression in _expressions(option, device_class):
            if self._selectors.selector(expression.text).answer(device) is False:
                yield verdicts.SelectorRefused(
                    device.id, expression.number, expression.text, expression.device_class
                )
        if not self._inventory.on_node.accepted & device.bit:
            yield verdicts.NodeMismatch(device.id, self._inventory.node.metadata.name)
        if self._features.consumable_capacity:
            yield from self._capacity_refusal(option, device)
        yield from self._bars(option, device)

    def _demand(self, option: Option, device: Candidate) -> capacity.Demand | None:
        return capacity.demand(
            option.capacity,
            device.device.capacity,
            fractional=self._features.fractional_capacity_range,
        )

    def _capacity_refusal(
        self, option: Option, device: Candidate
    ) -> Iterator[verdicts.DeviceVerdict]:
        try:
            demand = self._demand(option, device)
        except capacity.CapacityError:
            return
        verdict = capacity.refusal(
            device.id,
            option.capacity,
            device.device.capacity,
            demand,
            fractional=self._features.fractional_capacity_range,
        )
        if verdict is not None:
            yield verdict

    def _bars(self, option: Option, device: Candidate) -> Iterator[verdicts.DeviceVerdict]:
        operations = device.published_in.spec.skip_node_operations
        if operations and pools.knows_node_operations(self._features):
            declared = self._inventory.node.status.declared_features
            lacks_feature = pools.NODE_OPERATIONS_FEATURE not in declared
            if lacks_feature or not self._features.optional_node_operations:
                yield verdicts.NodeOperationsDisabled(device.id, operations, lacks_feature)
        if device.device.consumes_counters and not self._features.partitionable_devices:
            yield verdicts.CountersDisabled(device.id)
        if device.taints and self._features.device_taints:
            taint = taints.first_untolerated(device.taints, option.tolerations)
            if taint is not None:
                yield verdicts.TaintNotTolerated(device.id, taint)


def _expressions(option: Option, device_class: DeviceClass) -> Sequence[Expression]:
    name = device_class.metadata.name
    of_class = [
        Expression(selector.cel.expression if selector.cel else "", index, name)
        for index, selector in enumerate(device_class.spec.selectors)
    ]
    of_request = [Expression(text or "", index) for index, text in enumerate(option.selectors)]
    return [*of_class, *of_request]
