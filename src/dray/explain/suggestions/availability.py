"""What single nodes could give: taints to tolerate, capacity left over, claims that could end."""

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
    """The taints that keep devices away which are selected; None where one device has several."""
    found: dict[DeviceTaint | None, None] = {}
    selected = eligibility.selected_devices(resolved, inventory).matching
    for device in inventory.members(selected & inventory.possibly_excluded):
        reasons = [
            taint
            for taint in device.taints
            if taints.first_untolerated((taint,), resolved.parsed.tolerations) is not None
        ]
        if len(reasons) > 1:
            found[None] = None
        for taint in reasons:
            found[taint] = None
    return found


class AffordableAmounts(NamedTuple):
    """What to ask for of each capacity, and how much that is of what was asked for, from 0 to 1."""

    amounts: dict[str, str]
    share: float


def affordable_amounts(
    inventory: NodeInventory, resolved: ResolvedAlternative
) -> Iterator[AffordableAmounts]:
    """What selected devices could give, each by itself, where that is less than was asked for."""
    selected = eligibility.selected_devices(resolved, inventory).matching & ~inventory.taken
    for device in inventory.members(selected):
        found = _affordable(inventory, resolved.parsed, device)
        if found is not None and found.amounts != dict(resolved.parsed.capacity or {}):
            yield found


def _affordable(
    inventory: NodeInventory, alternative: Alternative, device: Candidate
) -> AffordableAmounts | None:
    """What the device can give of each capacity that matters."""
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
    """What is asked for, by the names that the device has; what it has not is left out."""
    found = {name: amount for name, amount in requested.items() if name in published}
    for name in requested.keys() - found.keys():
        for close in spelling.similar(name, published)[:1]:
            found.setdefault(close, requested[name])
    return found


def _consumed(
    text: str | None, published: DeviceCapacity, inventory: NodeInventory
) -> Quantity | None:
    """What the allocator would take; None where it cannot say."""
    fractional = inventory.features.fractional_capacity_range
    requested = quantity.parse(text) if text is not None else None
    try:
        return capacity.consumed(requested, published, fractional=fractional)
    except capacity.CapacityError:
        return None


def _is_allowed(desired: Quantity, published: DeviceCapacity, inventory: NodeInventory) -> bool:
    fractional = inventory.features.fractional_capacity_range
    policy = published.request_policy
    return desired.sign() >= 0 and not capacity.violates_policy(
        desired, policy, fractional=fractional
    )


def _largest(policy: CapacityRequestPolicy | None, left: int, total: Quantity) -> Quantity | None:
    """The largest amount that a policy hands out of what is left."""
    if policy is None:
        return Quantity(left, total.format) if left > 0 else None
    if policy.valid_values:
        fitting = [
            value for text in policy.valid_values if (value := quantity.parse(text)).nano <= left
        ]
        return max(fitting, default=None)
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
    """Who holds devices of the node's pools; those that are selected count twice."""
    selected = eligibility.selected_devices(resolved, inventory).matching
    found = Holders()
    for node_pool in inventory.node_pools:
        for name, holders in node_pool.holders.by_device.items():
            index = node_pool.indexes.get(name)
            weight = 2 if index is not None and selected >> index & 1 else 1
            for key in holders.claims():
                found[key] += weight
    return found
