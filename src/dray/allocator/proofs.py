"""Proofs that a node cannot serve the claims, found without searching.

They hold for the sets of devices that checks on a device alone have left, so they need a problem in
which no failure hides: a proof may not keep a failure from being found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dray.allocator import verdicts
from dray.allocator.attributes import INCOMPARABLE, Value
from dray.allocator.constraints import Constraint, MatchAttribute
from dray.allocator.problems import Plan, Problem


def impossibility(problem: Problem) -> verdicts.RequestVerdict | None:
    """Why no combination can exist, if counting alone shows it."""
    if problem.may_fail:
        return None
    for step in problem.steps:
        reasons = [_shortage(problem, plan) for plan in step.plans]
        if all(reasons):
            return reasons[0]
    return next(_constraint_shortages(problem), None)


def _shortage(problem: Problem, plan: Plan) -> verdicts.RequestVerdict | None:
    name = str(plan.option.name)
    free = _free(problem, plan)
    if plan.wanted is not None:
        if not plan.wanted:
            return verdicts.NothingForAll(plan.claim, name)
        matching = plan.selected
    else:
        matching = plan.accepted
    if free.bit_count() >= plan.count:
        return None
    return verdicts.TooFewDevices(
        plan.claim, name, plan.count, matching.bit_count(), free.bit_count()
    )


def _free(problem: Problem, plan: Plan) -> int:
    return plan.accepted if plan.option.admin_access else plan.accepted & ~problem.inventory.taken


def _constraint_shortages(problem: Problem) -> Iterator[verdicts.RequestVerdict]:
    if problem.constraints is None:
        return
    bound: dict[Constraint, list[Plan]] = {}
    for step in problem.steps:
        plan = step.plans[0]
        if not step.is_prioritized and plan.wanted is None:
            for constraint in problem.constraints.applying.get(plan.option, ()):
                bound.setdefault(constraint, []).append(plan)
    for constraint, plans in bound.items():
        if isinstance(constraint, MatchAttribute):
            yield from _no_common_value(problem, constraint, plans)
        else:
            yield from _too_few_values(problem, constraint, plans)


def _no_common_value(
    problem: Problem, constraint: Constraint, plans: Sequence[Plan]
) -> Iterator[verdicts.RequestVerdict]:
    masks = _masks(problem, constraint, plans)
    if masks is None:
        return
    needed = sum(plan.count for plan in plans)
    best, best_value = 0, ""
    for value, members in masks.items():
        if _has_enough(problem, plans, members) and (value is not INCOMPARABLE or needed == 1):
            return
        found = _union(problem, plans, members).bit_count()
        if found > best:
            best, best_value = found, str(value)
    yield verdicts.NoCommonValue(
        plans[0].claim,
        ", ".join(str(plan.option.name) for plan in plans),
        constraint.attribute,
        needed,
        best,
        best_value,
    )


def _has_enough(problem: Problem, plans: Sequence[Plan], members: int) -> bool:
    """Whether `members` can serve each request, and all that want a device alone together."""
    if any((_free(problem, plan) & members).bit_count() < plan.count for plan in plans):
        return False
    shareable = problem.inventory.shareable
    exclusive = [
        plan for plan in plans if not plan.option.admin_access and not plan.accepted & shareable
    ]
    needed = sum(plan.count for plan in exclusive)
    return _union(problem, exclusive, members).bit_count() >= needed


def _too_few_values(
    problem: Problem, constraint: Constraint, plans: Sequence[Plan]
) -> Iterator[verdicts.RequestVerdict]:
    masks = _masks(problem, constraint, plans)
    if masks is None:
        return
    needed = sum(plan.count for plan in plans)
    values = sum(bool(_union(problem, plans, members)) for members in masks.values())
    if values < needed:
        names = ", ".join(str(plan.option.name) for plan in plans)
        yield verdicts.TooFewValues(plans[0].claim, names, constraint.attribute, needed, values)


def _masks(
    problem: Problem, constraint: Constraint, plans: Sequence[Plan]
) -> Mapping[Value, int] | None:
    """The devices by value, if the constraint sees the same values for all requests."""
    assert problem.constraints is not None
    found = [problem.constraints.masks(plan.option, constraint) for plan in plans]
    return None if None in found else found[0]


def _union(problem: Problem, plans: Sequence[Plan], members: int) -> int:
    devices = 0
    for plan in plans:
        devices |= _free(problem, plan) & members
    return devices
