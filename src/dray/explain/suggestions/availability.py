"""Offers of a node: devices with untolerated taints, capacity left, claims that may end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dray.allocator.checks import capacity, taints
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.candidates import Candidate
from dray.allocator.model.requests import Alternative
from dray.allocator.problem import eligibility
from dray.allocator.problem.resolution import ResolvedAlternative
from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.ids import ClaimKey
from dray.api.types.dra import CapacityRequestPolicy, DeviceCapacity, DeviceTaint
from dray.explain.selectors import spelling


def untolerated_taints(
    inventory: NodeInventory, resolved: ResolvedAlternative
) -> dict[DeviceTaint | None, None]:
    """Return the untolerated taints of selected devices; also None if a device has several."""
    untolerated: dict[DeviceTaint | None, None] = {}
    selected = eligibility.selected_devices(resolved, inventory).matching
    for device in inventory.members(selected & inventory.possibly_excluded):
        reasons = [
            taint
            for taint in device.taints
            if taints.first_untolerated((taint,), resolved.parsed.tolerations) is not None
        ]
        if len(reasons) > 1:
            untolerated[None] = None
        for taint in reasons:
            untolerated[taint] = None
    return untolerated


class AffordableAmounts(NamedTuple):
    """Amounts to request, and their fraction of what was requested, from 0 to 1."""

    amounts: dict[str, str]
    share: float


def affordable_amounts(
    inventory: NodeInventory, resolved: ResolvedAlternative
) -> Iterator[AffordableAmounts]:
    """Yield what each selected device could provide, if that is less than was requested."""
    selected = eligibility.selected_devices(resolved, inventory).matching & ~inventory.taken
    for device in inventory.members(selected):
        affordable = _affordable(inventory, resolved.parsed, device)
        if affordable is not None and affordable.amounts != dict(resolved.parsed.capacity or {}):
            yield affordable


def _affordable(
    inventory: NodeInventory, alternative: Alternative, device: Candidate
) -> AffordableAmounts | None:
    """Return the largest amounts that the device can provide, or None."""
    holders = inventory.device_holders(device)
    consumed: Mapping[str, int] = holders.capacity if holders else {}
    requested = _renamed(alternative.capacity or {}, device.device.capacity)
    amounts: dict[str, str] = {}
    share = 1.0
    for name, published in device.device.capacity.items():
        total = quantity.parse(published.value)
        left = total.nano - consumed.get(name, 0) if device.is_shareable else total.nano
        desired = _consumed(requested.get(name), published, inventory)
        if (
            desired is not None
            and desired.nano <= left
            and _is_allowed(desired, published, inventory)
        ):
            if name in requested:
                amounts[name] = requested[name]
            continue
        best = _largest(published.request_policy, left, total)
        if best is None:
            return None
        amounts[name] = str(best)
        share *= best.nano / desired.nano if desired and desired.nano else 1.0
    return AffordableAmounts(amounts, share)


def _renamed(
    requested: Mapping[str, str], published: Mapping[str, DeviceCapacity]
) -> dict[str, str]:
    """Return the requested amounts by the device's names; similar names are replaced."""
    renamed = {name: amount for name, amount in requested.items() if name in published}
    for name in requested.keys() - renamed.keys():
        for close in spelling.similar(name, published)[:1]:
            renamed.setdefault(close, requested[name])
    return renamed


def _consumed(
    text: str | None, published: DeviceCapacity, inventory: NodeInventory
) -> Quantity | None:
    """Return the amount that the allocator would take, or None if it cannot be computed."""
    fractional = inventory.features.fractional_capacity_range
    requested = quantity.parse(text) if text is not None else None
    try:
        return capacity.consumed(requested, published, fractional=fractional)
    except capacity.CapacityError:
        return None


def _is_allowed(desired: Quantity, published: DeviceCapacity, inventory: NodeInventory) -> bool:
    fractional = inventory.features.fractional_capacity_range
    policy = published.request_policy
    violates = capacity.violates_policy(desired, policy, fractional=fractional)
    return desired.sign() >= 0 and not violates


def _largest(policy: CapacityRequestPolicy | None, left: int, total: Quantity) -> Quantity | None:
    """Return the largest amount that a policy allows of what is left, or None."""
    if policy is None:
        return Quantity(left, total.format) if left > 0 else None
    if policy.valid_values:
        values = map(quantity.parse, policy.valid_values)
        return max((value for value in values if value.nano <= left), default=None)
    if policy.valid_range is None:
        return quantity.parse(policy.default) if policy.default else None
    least = quantity.parse(policy.valid_range.min or "0")
    if policy.valid_range.max is not None:
        left = min(left, quantity.parse(policy.valid_range.max).nano)
    if left < least.nano or left <= 0:
        return None
    if policy.valid_range.step is None:
        return Quantity(left, total.format)
    step = quantity.parse(policy.valid_range.step).nano or 1
    return Quantity(least.nano + (left - least.nano) // step * step, total.format)


Holders = Counter[ClaimKey]


def holding_claims(inventory: NodeInventory, resolved: ResolvedAlternative) -> Holders:
    """Count the devices that claims hold in the node's pools; selected ones count twice."""
    selected = eligibility.selected_devices(resolved, inventory).matching
    weights = Holders()
    for node_pool in inventory.node_pools:
        for name, holders in node_pool.holders.by_device.items():
            index = node_pool.indexes.get(name)
            weight = 2 if index is not None and selected >> index & 1 else 1
            for key in holders.claims():
                weights[key] += weight
    return weights
