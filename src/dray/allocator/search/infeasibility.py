"""Proofs that a node cannot serve the claims, or that some devices are of no use to them.

They count, where the search would try combinations; the search asks them when it has tried for a
while. They hold for the sets of devices that checks on a device alone have left, so they need a
problem in which no failure hides: a proof may not keep a failure from being found.
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
    """Why no combination can exist, if counting shows it."""
    if problem.may_fail:
        return None
    for step in problem.steps:
        reasons = [_shortage(problem, plan) for plan in step.plans]
        if all(reasons):
            return reasons[0]
    seats = _seats(problem)
    if len(problem.steps) > 1 and not _all_sit(problem, seats, {}):
        return _too_few_for_all(problem)
    for constraint, steps in _bound_steps(problem):
        if isinstance(constraint, DistinctAttribute):
            reason = _too_few_values(problem, constraint, steps)
        else:
            reason = _no_common_value(problem, constraint, steps, seats)
        if reason is not None:
            return reason
    return None


def usable_devices(problem: NodeProblem) -> dict[NodeAlternative, int]:
    """For options under a matchAttribute, the devices whose value can serve all its requests."""
    found: dict[NodeAlternative, int] = {}
    seats = _seats(problem)
    for constraint, steps in _bound_steps(problem):
        masks = _masks(problem, constraint, steps)
        if masks is None or not isinstance(constraint, MatchAttribute):
            continue
        devices = 0
        for value, members in masks.items():
            if _serves(problem, value, members, steps, seats):
                devices |= members
        for step in steps:
            for plan in step.plans:
                found[plan] = found.get(plan, plan.accepted) & devices
    return found


def _shortage(problem: NodeProblem, plan: NodeAlternative) -> rejections.RequestRejection | None:
    name = str(plan.option.name)
    if plan.wanted is not None and not plan.wanted:
        return rejections.NoMatchForAllMode(plan.claim, name)
    free = _free(problem, plan)
    if free.bit_count() >= plan.count:
        return None
    matching = plan.accepted if plan.wanted is None else plan.selected
    return rejections.TooFewDevices(
        plan.claim, name, plan.count, matching.bit_count(), free.bit_count()
    )


def _free(problem: NodeProblem, plan: NodeAlternative) -> int:
    return plan.accepted if plan.option.admin_access else plan.accepted & ~problem.inventory.taken


def _seats(problem: NodeProblem) -> Callable[[int], int]:
    """How many picks a device could take, by its bit: one, or as many shares as fit."""
    known: dict[int, int] = {}

    def count(bit: int) -> int:
        if not problem.inventory.shareable & bit:
            return 1
        if bit not in known:
            known[bit] = _shares(problem, bit)
        return known[bit]

    return count


def _shares(problem: NodeProblem, bit: int) -> int:
    device = problem.inventory.devices[bit.bit_length() - 1]
    holding = problem.inventory.holding_of(device)
    held = holding.capacity if holding else {}
    demands = [plan.demand(device) for plan in problem.plans() if plan.accepted & bit]
    most = _UNLIMITED
    for name, amount in demands[0].items():
        least = min(demand[name].taken.nano for demand in demands)
        if least > 0:
            most = min(most, max(amount.total - held.get(name, 0), 0) // least)
    return most


def _all_sit(
    problem: NodeProblem, seats: Callable[[int], int], limits: Mapping[NodeRequest, int]
) -> bool:
    """Whether there are devices for all requests at once; `limits` narrows some of them."""
    wishes, counts = [], []
    for step in problem.steps:
        if any(plan.option.admin_access for plan in step.plans):
            continue
        union = 0
        for plan in step.plans:
            union |= _free(problem, plan) & limits.get(step, _EVERY_DEVICE)
        wishes.append(_with_seats(problem, union, seats))
        counts.append(min(plan.count for plan in step.plans))
    return max_flow.has_assignment(wishes, counts, seats)


def _with_seats(problem: NodeProblem, devices: int, seats: Callable[[int], int]) -> int:
    for device in problem.inventory.members(devices & problem.inventory.shareable):
        if not seats(device.bit):
            devices &= ~device.bit
    return devices


def _too_few_for_all(problem: NodeProblem) -> rejections.TooFewDevicesCombined:
    free = 0
    for plan in problem.plans():
        free |= _free(problem, plan)
    names = ", ".join(step.name for step in problem.steps)
    needed = sum(min(plan.count for plan in step.plans) for step in problem.steps)
    return rejections.TooFewDevicesCombined(problem.steps[0].claim, names, needed, free.bit_count())


def _bound_steps(problem: NodeProblem) -> Iterator[tuple[Constraint, list[NodeRequest]]]:
    """The constraints, each with the requests all of whose options it applies to."""
    if problem.constraints is None:
        return
    applying = problem.constraints.applying
    bound: dict[Constraint, list[NodeRequest]] = {}
    for step in problem.steps:
        first, *others = [applying.get(plan.option, ()) for plan in step.plans]
        for constraint in first:
            if all(constraint in each for each in others):
                bound.setdefault(constraint, []).append(step)
    yield from bound.items()


def _no_common_value(
    problem: NodeProblem,
    constraint: Constraint,
    steps: Sequence[NodeRequest],
    seats: Callable[[int], int],
) -> rejections.RequestRejection | None:
    masks = _masks(problem, constraint, steps)
    if masks is None:
        return None
    best, best_value = 0, ""
    for value, members in masks.items():
        if _serves(problem, value, members, steps, seats):
            return None
        found = _union(problem, steps, members).bit_count()
        if found > best:
            best, best_value = found, str(value)
    return rejections.NoCommonValue(
        steps[0].claim,
        ", ".join(step.name for step in steps),
        constraint.attribute,
        _least(steps),
        best,
        best_value,
    )


def _serves(
    problem: NodeProblem,
    value: Value,
    members: int,
    steps: Sequence[NodeRequest],
    seats: Callable[[int], int],
) -> bool:
    if value is INCOMPARABLE and _least(steps) > 1:
        return False
    return _all_sit(problem, seats, dict.fromkeys(steps, members))


def _too_few_values(
    problem: NodeProblem, constraint: Constraint, steps: Sequence[NodeRequest]
) -> rejections.RequestRejection | None:
    masks = _masks(problem, constraint, steps)
    if masks is None:
        return None
    needed = _least(steps)
    values = sum(bool(_union(problem, steps, members)) for members in masks.values())
    if values >= needed:
        return None
    names = ", ".join(step.name for step in steps)
    return rejections.TooFewValues(steps[0].claim, names, constraint.attribute, needed, values)


def _least(steps: Sequence[NodeRequest]) -> int:
    return sum(min(plan.count for plan in step.plans) for step in steps)


def _masks(
    problem: NodeProblem, constraint: Constraint, steps: Sequence[NodeRequest]
) -> Mapping[Value, int] | None:
    """The devices by value, if the constraint sees the same values for all requests."""
    assert problem.constraints is not None
    found = None
    for step in steps:
        for plan in step.plans:
            found = problem.constraints.masks(plan.option, constraint)
            if found is None:
                return None
    return found


def _union(problem: NodeProblem, steps: Sequence[NodeRequest], members: int) -> int:
    devices = 0
    for step in steps:
        for plan in step.plans:
            devices |= _free(problem, plan) & members
    return devices
