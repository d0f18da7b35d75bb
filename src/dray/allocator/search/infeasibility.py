"""Proofs that a node cannot serve the claims, or that some devices are of no use to them.

They count where the search would try combinations. A proof looks at a simpler problem: only the
eligible devices, and at most one constraint at a time. What the simpler problem cannot serve, the
real one cannot serve either; the reverse does not hold, so without a proof the search goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dray.allocator.checks.constraints import Constraint, DistinctAttribute, MatchAttribute
from dray.allocator.model import rejections
from dray.allocator.model.attributes import INCOMPARABLE, Value
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem, NodeRequest
from dray.allocator.search import max_flow

_UNLIMITED = 1 << 30
_EVERY_DEVICE = -1


def find_infeasibility(problem: NodeProblem) -> rejections.RequestRejection | None:
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
    for constraint, requests in _constrained_requests(problem):
        if isinstance(constraint, DistinctAttribute):
            reason = _too_few_values(problem, constraint, requests)
        else:
            reason = _no_common_value(problem, constraint, requests, uses_of)
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
    for constraint, requests in _constrained_requests(problem):
        masks = _masks(problem, constraint, requests)
        if masks is None or not isinstance(constraint, MatchAttribute):
            continue
        devices = 0
        for value, members in masks.items():
            if _can_serve(problem, value, members, requests, uses_of):
                devices |= members
        for request in requests:
            for alternative in request.alternatives:
                usable[alternative] = usable.get(alternative, alternative.eligible) & devices
    return usable


def _shortage(
    problem: NodeProblem, alternative: NodeAlternative
) -> rejections.RequestRejection | None:
    name = str(alternative.parsed.name)
    if alternative.all_mode_devices is not None and not alternative.all_mode_devices:
        return rejections.NoMatchForAllMode(alternative.claim, name)
    free = _free(problem, alternative)
    if free.bit_count() >= alternative.count:
        return None
    matching = (
        alternative.eligible if alternative.all_mode_devices is None else alternative.selected
    )
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
        union = 0
        for alternative in request.alternatives:
            union |= _free(problem, alternative) & limits.get(request, _EVERY_DEVICE)
        eligible_devices.append(_without_used_up(problem, union, uses_of))
        counts.append(min(alternative.count for alternative in request.alternatives))
    return max_flow.has_assignment(eligible_devices, counts, uses_of)


def _without_used_up(problem: NodeProblem, devices: int, uses_of: Callable[[int], int]) -> int:
    for device in problem.inventory.members(devices & problem.inventory.shareable):
        if not uses_of(device.bit):
            devices &= ~device.bit
    return devices


def _too_few_for_all(problem: NodeProblem) -> rejections.TooFewDevicesCombined:
    free = 0
    for alternative in problem.alternatives():
        free |= _free(problem, alternative)
    names = ", ".join(request.name for request in problem.requests)
    needed = sum(
        min(alternative.count for alternative in request.alternatives)
        for request in problem.requests
    )
    return rejections.TooFewDevicesCombined(
        problem.requests[0].claim, names, needed, free.bit_count()
    )


def _constrained_requests(problem: NodeProblem) -> Iterator[tuple[Constraint, list[NodeRequest]]]:
    """Yield the constraints, each with the requests of which it applies to every alternative."""
    if problem.constraints is None:
        return
    applying = problem.constraints.applying
    constrained: dict[Constraint, list[NodeRequest]] = {}
    for request in problem.requests:
        first, *others = [
            applying.get(alternative.parsed, ()) for alternative in request.alternatives
        ]
        for constraint in first:
            if all(constraint in applicable for applicable in others):
                constrained.setdefault(constraint, []).append(request)
    yield from constrained.items()


def _no_common_value(
    problem: NodeProblem,
    constraint: Constraint,
    requests: Sequence[NodeRequest],
    uses_of: Callable[[int], int],
) -> rejections.RequestRejection | None:
    masks = _masks(problem, constraint, requests)
    if masks is None:
        return None
    best, best_value = 0, ""
    for value, members in masks.items():
        if _can_serve(problem, value, members, requests, uses_of):
            return None
        count = _union(problem, requests, members).bit_count()
        if count > best:
            best, best_value = count, str(value)
    return rejections.NoCommonValue(
        requests[0].claim,
        ", ".join(request.name for request in requests),
        constraint.attribute,
        _fewest_devices(requests),
        best,
        best_value,
    )


def _can_serve(
    problem: NodeProblem,
    value: Value,
    members: int,
    requests: Sequence[NodeRequest],
    uses_of: Callable[[int], int],
) -> bool:
    # Upstream lets a single device with a value that it cannot compare pass, never two.
    if value is INCOMPARABLE and _fewest_devices(requests) > 1:
        return False
    return _can_assign_all(problem, uses_of, dict.fromkeys(requests, members))


def _too_few_values(
    problem: NodeProblem, constraint: Constraint, requests: Sequence[NodeRequest]
) -> rejections.RequestRejection | None:
    masks = _masks(problem, constraint, requests)
    if masks is None:
        return None
    needed = _fewest_devices(requests)
    values = sum(bool(_union(problem, requests, members)) for members in masks.values())
    if values >= needed:
        return None
    names = ", ".join(request.name for request in requests)
    return rejections.TooFewValues(requests[0].claim, names, constraint.attribute, needed, values)


def _fewest_devices(requests: Sequence[NodeRequest]) -> int:
    return sum(
        min(alternative.count for alternative in request.alternatives) for request in requests
    )


def _masks(
    problem: NodeProblem, constraint: Constraint, requests: Sequence[NodeRequest]
) -> Mapping[Value, int] | None:
    """Return the devices by value, or None if an alternative derives the attribute or has lists."""
    assert problem.constraints is not None
    masks = None
    for request in requests:
        for alternative in request.alternatives:
            masks = problem.constraints.masks(alternative.parsed, constraint)
            if masks is None:
                return None
    return masks


def _union(problem: NodeProblem, requests: Sequence[NodeRequest], members: int) -> int:
    devices = 0
    for request in requests:
        for alternative in request.alternatives:
            devices |= _free(problem, alternative) & members
    return devices
