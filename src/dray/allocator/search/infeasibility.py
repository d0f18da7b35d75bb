"""Proofs that a node cannot serve the claims, or that some devices are of no use to them.

They count where the search would try combinations. A proof looks at a simpler problem: only the
eligible devices, and at most one constraint at a time. What the simpler problem cannot serve, the
real one cannot serve either; the reverse does not hold, so without a proof the search goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.checks import constraints
from dray.allocator.checks.constraints import Constraint
from dray.allocator.model import rejections
from dray.allocator.model.attributes import INCOMPARABLE, Value
from dray.allocator.model.rejections import RequestRejection
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem, NodeRequest
from dray.allocator.search import max_flow

_UNLIMITED = 1 << 30
_EVERY_DEVICE = -1


def find_infeasibility(problem: NodeProblem) -> RequestRejection | None:
    """Return why no combination can exist, or None if counting does not show it."""
    # A device may raise an error when the search comes to it, which upstream reports instead of
    # "does not fit". A proof would end the search before.
    if problem.may_fail:
        return None
    for request in problem.requests:
        reasons = [_shortage(problem, alternative) for alternative in request.alternatives]
        if all(reasons):
            return reasons[0]
    uses_of = _uses_per_device(problem)
    if len(problem.requests) > 1 and not _can_assign_all(problem, uses_of, {}):
        return _too_few_for_all(problem)
    for group in _constrained_requests(problem):
        if isinstance(group.constraint, constraints.DistinctAttribute):
            reason = _too_few_values(problem, group)
        else:
            reason = _no_common_value(problem, group, uses_of)
        if reason is not None:
            return reason
    return None


def usable_devices(problem: NodeProblem) -> dict[NodeAlternative, int]:
    """Return, for alternatives under a matchAttribute, the devices whose value can serve them.

    A value that has too few devices for all requests of the constraint is left out. Alternatives
    without such a constraint are not in the result.
    """
    usable: dict[NodeAlternative, int] = {}
    uses_of = _uses_per_device(problem)
    for group in _constrained_requests(problem):
        if not isinstance(group.constraint, constraints.MatchAttribute):
            continue
        devices = 0
        for value in group.masks:
            if _can_serve(problem, value, group, uses_of):
                devices |= group.masks[value]
        for request in group.requests:
            for alternative in request.alternatives:
                usable[alternative] = usable.get(alternative, alternative.eligible) & devices
    return usable


def _shortage(problem: NodeProblem, alternative: NodeAlternative) -> RequestRejection | None:
    name = str(alternative.parsed.name)
    if alternative.all_mode_devices is not None and not alternative.all_mode_devices:
        return rejections.NoMatchForAllMode(alternative.claim, name)
    free = _free(problem, alternative)
    if free.bit_count() >= alternative.count:
        return None
    is_all = alternative.all_mode_devices is not None
    matching = alternative.selected if is_all else alternative.eligible
    return rejections.TooFewDevices(
        alternative.claim, name, alternative.count, matching.bit_count(), free.bit_count()
    )


def _free(problem: NodeProblem, alternative: NodeAlternative) -> int:
    return (
        alternative.eligible
        if alternative.parsed.admin_access
        else alternative.eligible & ~problem.inventory.taken
    )


def _uses_per_device(problem: NodeProblem) -> Callable[[int], int]:
    """Return a function from a device's bit to how often it can be picked: once, or its shares."""
    cached: dict[int, int] = {}

    def count(bit: int) -> int:
        if not problem.inventory.shareable & bit:
            return 1
        if bit not in cached:
            cached[bit] = _shares(problem, bit)
        return cached[bit]

    return count


def _shares(problem: NodeProblem, bit: int) -> int:
    device = problem.inventory.devices[bit.bit_length() - 1]
    holders = problem.inventory.device_holders(device)
    consumed = holders.capacity if holders else {}
    demands = [
        alternative.demand(device)
        for alternative in problem.alternatives()
        if alternative.eligible & bit
    ]
    most = _UNLIMITED
    # Every demand names the same capacities: those of the device. The smallest demand of each gives
    # an upper bound, also where requests differ.
    for name, amount in demands[0].items():
        least = min(demand[name].taken.nano for demand in demands)
        if least > 0:
            most = min(most, max(amount.total - consumed.get(name, 0), 0) // least)
    return most


def _can_assign_all(
    problem: NodeProblem, uses_of: Callable[[int], int], limits: Mapping[NodeRequest, int]
) -> bool:
    """Return whether there are devices for all requests at once; `limits` narrows some of them."""
    eligible_devices, counts = [], []
    for request in problem.requests:
        # Admin access may take devices that are in use, so free devices do not limit it. Without
        # these requests the problem becomes simpler, which keeps the proof sound.
        if any(alternative.parsed.admin_access for alternative in request.alternatives):
            continue
        # Of several alternatives, the devices of all and the count of the smallest: less than any
        # choice of alternatives needs.
        union = _union(problem, [request], limits.get(request, _EVERY_DEVICE))
        eligible_devices.append(_without_used_up(problem, union, uses_of))
        counts.append(_fewest_devices([request]))
    return max_flow.has_assignment(eligible_devices, counts, uses_of)


def _without_used_up(problem: NodeProblem, devices: int, uses_of: Callable[[int], int]) -> int:
    for device in problem.inventory.members(devices & problem.inventory.shareable):
        if not uses_of(device.bit):
            devices &= ~device.bit
    return devices


def _too_few_for_all(problem: NodeProblem) -> rejections.TooFewDevicesCombined:
    requests = problem.requests
    free = _union(problem, requests, _EVERY_DEVICE).bit_count()
    return rejections.TooFewDevicesCombined(
        requests[0].claim, _names(requests), _fewest_devices(requests), free
    )


class _ConstrainedRequests(NamedTuple):
    """A constraint, the requests of which it applies to every alternative, and its values."""

    constraint: Constraint
    requests: Sequence[NodeRequest]
    masks: Mapping[Value, int]
    """The devices by value."""


def _constrained_requests(problem: NodeProblem) -> Iterator[_ConstrainedRequests]:
    """Yield the constraints with their requests, without those on derived attributes and lists."""
    if problem.constraints is None:
        return
    applying = problem.constraints.applying
    constrained: dict[Constraint, list[NodeRequest]] = {}
    for request in problem.requests:
        of_request = [alternative.parsed for alternative in request.alternatives]
        first, *others = [applying.get(parsed, ()) for parsed in of_request]
        for constraint in first:
            if all(constraint in applicable for applicable in others):
                constrained.setdefault(constraint, []).append(request)
    for constraint, requests in constrained.items():
        masks = _masks(problem.constraints, constraint, requests)
        if masks is not None:
            yield _ConstrainedRequests(constraint, requests, masks)


def _masks(
    state: constraints.Constraints, constraint: Constraint, requests: Sequence[NodeRequest]
) -> Mapping[Value, int] | None:
    masks = None
    for request in requests:
        for alternative in request.alternatives:
            masks = state.masks(alternative.parsed, constraint)
            if masks is None:
                return None
    return masks


def _no_common_value(
    problem: NodeProblem, group: _ConstrainedRequests, uses_of: Callable[[int], int]
) -> RequestRejection | None:
    requests = group.requests
    best, best_value = 0, ""
    for value, members in group.masks.items():
        if _can_serve(problem, value, group, uses_of):
            return None
        count = _union(problem, requests, members).bit_count()
        if count > best:
            best, best_value = count, str(value)
    attribute, needed = group.constraint.attribute, _fewest_devices(requests)
    return rejections.NoCommonValue(
        requests[0].claim, _names(requests), attribute, needed, best, best_value
    )


def _can_serve(
    problem: NodeProblem, value: Value, group: _ConstrainedRequests, uses_of: Callable[[int], int]
) -> bool:
    # Upstream lets a single device with a value that it cannot compare pass, never two.
    if value is INCOMPARABLE and _fewest_devices(group.requests) > 1:
        return False
    return _can_assign_all(problem, uses_of, dict.fromkeys(group.requests, group.masks[value]))


def _too_few_values(problem: NodeProblem, group: _ConstrainedRequests) -> RequestRejection | None:
    requests, needed = group.requests, _fewest_devices(group.requests)
    values = sum(bool(_union(problem, requests, members)) for members in group.masks.values())
    if values >= needed:
        return None
    attribute = group.constraint.attribute
    return rejections.TooFewValues(requests[0].claim, _names(requests), attribute, needed, values)


def _names(requests: Sequence[NodeRequest]) -> str:
    return ", ".join(request.name for request in requests)


def _fewest_devices(requests: Sequence[NodeRequest]) -> int:
    return sum(
        min(alternative.count for alternative in request.alternatives) for request in requests
    )


def _union(problem: NodeProblem, requests: Sequence[NodeRequest], members: int) -> int:
    devices = 0
    for request in requests:
        for alternative in request.alternatives:
            devices |= _free(problem, alternative) & members
    return devices
