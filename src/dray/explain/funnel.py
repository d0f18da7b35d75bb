"""Asks every check of every device: how many are left after each, for each request.

The search visits almost nothing, so nothing can be overheard from it. Here each check is asked on
an empty trail, node by node, with sets of devices, and only counts, a few examples and the names of
holders are kept: memory does not grow with the fleet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dray.allocator import checks, screening, verdicts
from dray.allocator.candidates import Candidate
from dray.allocator.fleet import Fleet
from dray.allocator.inventory import Inventory
from dray.allocator.placement import Placement
from dray.allocator.problems import Plan, Problem
from dray.allocator.trail import Trail
from dray.api.claims import ResourceClaim
from dray.api.names import ClaimKey, DeviceId
from dray.api.slices import ResourceSlice

HOLDERS_KEPT = 20


class Gate(msgspec.Struct, frozen=True):
    """One check of a funnel. A selector is told by its number, text and class."""

    check: verdicts.Check
    index: int = 0
    expression: str = ""
    device_class: str = ""


class Stage(msgspec.Struct):
    """What one gate did to the devices that came to it."""

    gate: Gate
    before: int = 0
    after: int = 0
    failing: int = 0
    """Devices on which the check could not be evaluated."""
    example: verdicts.DeviceVerdict | None = None
    failure: str = ""
    """What evaluating it said, on the first device on which it failed."""
    holders: dict[ClaimKey, int] = {}
    """Who holds what was lost here, and how many devices of it."""


class NodeCount(msgspec.Struct, frozen=True):
    """A node and how many of its devices a request could have."""

    node: str
    left: int


class Funnel(msgspec.Struct):
    """One option of one request over the whole fleet."""

    claim: int
    request: str
    needed: int
    """How many devices; 0 for all there are."""
    published: int = 0
    stages: list[Stage] = []
    nodes: int = 0
    blocked_at: dict[Gate, int] = {}
    """At which gate a node falls below what is needed, and how many nodes do."""
    best: NodeCount | None = None
    """The node on which most devices are left."""

    @property
    def left(self) -> int:
        return self.stages[-1].after if self.stages else self.published


def measure(
    fleet: Fleet, placement: Placement, claims: Sequence[ResourceClaim]
) -> tuple[Funnel, ...]:
    """The funnels of every request, each option by itself; raises Failure where nobody could."""
    funnels: dict[tuple[int, str], _Measurement] = {}
    for name in list(fleet.nodes):
        try:
            problem = placement.problem(claims, name)
        except verdicts.Failure as failure:
            if not failure.on_node_only:
                raise
            continue
        state = checks.Checks(problem)
        for plan in problem.plans():
            key = (plan.claim, str(plan.option.name))
            if key not in funnels:
                funnels[key] = _Measurement(plan)
            funnels[key].add(problem, plan, state)
    return tuple(measurement.finish() for measurement in funnels.values())


class _Measurement:
    """Adds up one option node by node. Devices that several nodes reach count once."""

    def __init__(self, plan: Plan) -> None:
        needed = 0 if plan.option.is_all else plan.count
        self._funnel = Funnel(plan.claim, str(plan.option.name), needed)
        self._stages: dict[Gate, Stage] = {}
        self._counted: dict[Gate | None, set[DeviceId]] = {}
        self._holders: dict[Gate, Counter[ClaimKey]] = {}

    def add(self, problem: Problem, plan: Plan, state: checks.Checks) -> None:
        inventory = problem.inventory
        left = inventory.everything
        needed = max(plan.count, 1)
        self._funnel.nodes += 1
        self._funnel.published += self._count(None, inventory, left)
        blocked = False
        for gate, passing, failing in _gates(problem, plan, state):
            remaining = left & passing
            stage = self._stage(gate)
            stage.before += self._count(gate, inventory, left)
            stage.failing += (left & failing).bit_count()
            lost = left & ~remaining
            if lost:
                self._note(stage, problem, plan, state, lost, failing)
            left = remaining
            if not blocked and left.bit_count() < needed:
                blocked = True
                self._funnel.blocked_at[gate] = self._funnel.blocked_at.get(gate, 0) + 1
        self._note_best(inventory, left)

    def finish(self) -> Funnel:
        stages = list(self._stages.values())
        for stage, following in zip(stages, [*stages[1:], None], strict=True):
            stage.after = following.before if following else self._left
            counter = self._holders.get(stage.gate)
            if counter:
                stage.holders = dict(counter.most_common(HOLDERS_KEPT))
        self._funnel.stages = stages
        return self._funnel

    _left = 0

    def _note_best(self, inventory: Inventory, left: int) -> None:
        self._left += self._count(_END, inventory, left)
        best = self._funnel.best
        if best is None or left.bit_count() > best.left:
            self._funnel.best = NodeCount(inventory.node.metadata.name, left.bit_count())

    def _stage(self, gate: Gate) -> Stage:
        stage = self._stages.get(gate)
        if stage is None:
            stage = self._stages[gate] = Stage(gate, holders={})
        return stage

    def _count(self, gate: Gate | None, inventory: Inventory, devices: int) -> int:
        """How many of these devices no other node has shown before."""
        if not any(_is_reached_by_several(section.pool.slices) for section in inventory.sections):
            return devices.bit_count()
        seen = self._counted.setdefault(gate, set())
        fresh = {each.id for each in inventory.members(devices)} - seen
        seen |= fresh
        return len(fresh)

    def _note(
        self,
        stage: Stage,
        problem: Problem,
        plan: Plan,
        state: checks.Checks,
        lost: int,
        failing: int,
    ) -> None:
        """Keep one example, and who holds what was lost."""
        inventory = problem.inventory
        if stage.example is None and not stage.failure:
            device = next(inventory.members(lost))
            if failing & device.bit:
                stage.failure = screening.failure(plan.resolved, inventory, device).detail
            else:
                stage.example = _verdict(stage.gate, problem, plan, state, device)
        if stage.gate.check in _HELD:
            holders = self._holders.setdefault(stage.gate, Counter())
            for device in inventory.members(lost):
                holders.update(inventory.holders_of(device))


_END = Gate(verdicts.Check.CONSTRAINTS, -1)
_HELD = frozenset({verdicts.Check.USAGE, verdicts.Check.CAPACITY})


def _is_reached_by_several(pieces: Iterable[ResourceSlice]) -> bool:
    return any(piece.spec.node_name is None for piece in pieces)


def _gates(problem: Problem, plan: Plan, state: checks.Checks) -> Iterator[tuple[Gate, int, int]]:
    """Every gate in the order people ask: the devices that pass it, and those it fails on."""
    inventory = problem.inventory
    for test in plan.resolved.tests:
        answer = test.selector.matches(inventory)
        check = (
            verdicts.Check.REQUEST_SELECTORS
            if test.device_class is None
            else verdicts.Check.CLASS_SELECTORS
        )
        gate = Gate(check, test.number, test.text, test.device_class or "")
        yield gate, answer.accepted, answer.failing
    on_node = inventory.on_node
    yield Gate(verdicts.Check.NODE_SELECTION), on_node.accepted, on_node.failing
    barred = screening.barred(plan.option, inventory)
    yield Gate(verdicts.Check.TAINTS), inventory.everything & ~barred, 0
    held = 0 if plan.option.admin_access else inventory.taken
    yield Gate(verdicts.Check.USAGE), inventory.everything & ~held, 0
    if inventory.features.consumable_capacity:
        yield Gate(verdicts.Check.CAPACITY), *_able(problem, plan, state)
    for check in (verdicts.Check.GROUPS, verdicts.Check.COUNTERS):
        passing = _passing(check, problem, plan, state)
        if passing is not None:
            yield Gate(check), passing, 0
    if plan.is_constrained and problem.constraints is not None:
        yield Gate(verdicts.Check.CONSTRAINTS), _constrained(problem, plan, state), 0


def _able(problem: Problem, plan: Plan, state: checks.Checks) -> tuple[int, int]:
    """Devices that could ever give the capacity, and of those the ones that still can."""
    inventory = problem.inventory
    _, able = screening.demands(plan.option, inventory, inventory.everything)
    passing = _passing(verdicts.Check.CAPACITY, problem, plan, state)
    accepted = able.accepted if passing is None else able.accepted & passing
    return accepted, able.failing


def _passing(
    check_name: verdicts.Check, problem: Problem, plan: Plan, state: checks.Checks
) -> int | None:
    """The devices that one check would take if nothing else were picked; None if it has no say."""
    found = [check for check in state.of(plan) if check.name is check_name]
    if not found or not plan.slots:
        return None
    (check,) = found
    inventory = problem.inventory
    passing = inventory.everything
    for device in inventory.members(check.concerns & plan.accepted):
        trail = Trail()
        if check.take(plan.slots[0], device, trail) is not None:
            passing ^= device.bit
        trail.unwind(0)
    return passing


def _constrained(problem: Problem, plan: Plan, state: checks.Checks) -> int:
    passing = _passing(verdicts.Check.CONSTRAINTS, problem, plan, state)
    return problem.inventory.everything if passing is None else passing


def _verdict(
    gate: Gate, problem: Problem, plan: Plan, state: checks.Checks, device: Candidate
) -> verdicts.DeviceVerdict | None:
    """What the gate has against one device."""
    for verdict in screening.refusals(plan.resolved, problem.inventory, device):
        if _belongs(verdict, gate):
            return verdict
    for check in state.of(plan):
        if check.name is not gate.check or not plan.slots:
            continue
        trail = Trail()
        found = check.take(plan.slots[0], device, trail)
        trail.unwind(0)
        if found is not None:
            return found
    return None


_BARS = frozenset({verdicts.Check.TAINTS, verdicts.Check.NODE_OPERATIONS, verdicts.Check.COUNTERS})


def _belongs(verdict: verdicts.DeviceVerdict, gate: Gate) -> bool:
    if isinstance(verdict, verdicts.SelectorRefused):
        return verdict.check is gate.check and verdict.index == gate.index
    if gate.check is verdicts.Check.TAINTS:
        return verdict.check in _BARS
    return verdict.check is gate.check
