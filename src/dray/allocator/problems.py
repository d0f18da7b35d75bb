"""Claims meet a node: what each request could use there, before anything is picked.

Upstream validates requests in the order of the claims and evaluates "All" at once, so failures come
in that order (incubating/allocator_incubating.go Allocate, validateDeviceRequest). What depends on
other picks is left to the checks that `search` runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from dray.allocator import capacity, constraints, requests, verdicts
from dray.allocator.attributes import Value
from dray.allocator.candidates import Candidate, Slot
from dray.allocator.inventory import Inventory
from dray.allocator.requests import Option, Question, Request
from dray.allocator.screening import Demands, Screening
from dray.allocator.selectors import Selectors
from dray.api.classes import DeviceClass
from dray.api.features import Features

Classes = Mapping[str, DeviceClass]


class Plan:
    """One option of a request on one node."""

    __slots__ = (
        "accepted",
        "claim",
        "count",
        "demands",
        "device_class",
        "failing",
        "is_constrained",
        "option",
        "selected",
        "slots",
        "wanted",
    )

    def __init__(self, claim: int, option: Option, device_class: DeviceClass) -> None:
        self.claim = claim
        self.option = option
        self.device_class = device_class
        self.accepted = 0
        """Devices that pass every check which looks at a device alone."""
        self.selected = 0
        """Devices that pass those of them which may fail."""
        self.failing = 0
        """Devices on which a selector or a capacity fails once the search comes to them."""
        self.demands: Demands = []
        self.wanted: tuple[Candidate, ...] | None = None
        """allocationMode All: these devices, no others."""
        self.count = max(option.count, 0)
        self.slots: tuple[Slot, ...] = ()
        self.is_constrained = False

    def demand(self, device: Candidate) -> capacity.Demand:
        """What the option takes of a device that it accepts, where the gate for shares is on."""
        for members, demand in self.demands:
            if members & device.bit:
                return demand
        raise LookupError(device.id)


class Step:
    """One request on one node: its options in order of preference."""

    __slots__ = ("claim", "is_prioritized", "name", "plans")

    def __init__(self, claim: int, request: Request, plans: tuple[Plan, ...]) -> None:
        self.claim = claim
        self.name = request.name
        self.is_prioritized = request.is_prioritized
        self.plans = plans


class Problem:
    """All claims of a pod on one node."""

    __slots__ = ("constraints", "inventory", "may_fail", "questions", "screening", "steps")

    def __init__(
        self,
        inventory: Inventory,
        screening: Screening,
        questions: Sequence[Question],
        steps: Sequence[Step],
    ) -> None:
        self.inventory = inventory
        self.screening = screening
        self.questions = questions
        self.steps = steps
        self.constraints: constraints.Constraints | None = None
        self.may_fail = False
        """The search may come upon a failure, so no branch of it may be left out."""

    def plans(self) -> Iterator[Plan]:
        for step in self.steps:
            yield from step.plans

    def kind(self, device: Candidate) -> Hashable:
        """Equal for devices that no request and no check can tell apart while both are free."""
        seen = [(plan.selected & device.bit, plan.accepted & device.bit) for plan in self.plans()]
        looks: list[Hashable] = [tuple((bool(one), bool(other)) for one, other in seen)]
        if self.constraints is not None:
            looks += [
                self.constraints.profile(plan.option, device)
                for plan in self.plans()
                if plan.accepted & device.bit
            ]
        if device.is_shareable:
            looks.append(
                next(
                    number
                    for number, (_, members) in enumerate(self.inventory.capacities())
                    if members & device.bit
                )
            )
        if device.device.consumes_counters:
            looks += [device.section, device.need]
            looks += [
                (each.counter_set, frozenset(each.compatibility_groups))
                for each in device.device.consumes_counters
            ]
        return tuple(looks)

    def demand(self, option: Option, device: Candidate) -> capacity.Demand:
        return next(plan for plan in self.plans() if plan.option is option).demand(device)


def build(
    inventory: Inventory, questions: Sequence[Question], classes: Classes, selectors: Selectors
) -> Problem:
    """Raises Failure as upstream would before it picks the first device."""
    return _Builder(inventory, classes, selectors).build(questions)


class _Builder:
    def __init__(self, inventory: Inventory, classes: Classes, selectors: Selectors) -> None:
        self._inventory = inventory
        self._features = inventory.features
        self._classes = classes
        self._selectors = selectors
        self._screening = Screening(inventory, selectors)

    def build(self, questions: Sequence[Question]) -> Problem:
        steps: list[Step] = []
        applying: dict[Option, list[constraints.Constraint]] = {}
        for claim, question in enumerate(questions):
            of_claim = [self._step(claim, request) for request in question.requests]
            _require_few_results(claim, of_claim)
            self._apply_constraints(claim, question, of_claim, applying)
            steps += of_claim
        problem = Problem(self._inventory, self._screening, questions, steps)
        if applying:
            problem.constraints = constraints.Constraints(applying, self._value, self._value_masks)
        problem.may_fail = any(self._may_fail(plan, applying) for plan in problem.plans())
        return problem

    def _step(self, claim: int, request: Request) -> Step:
        if request.is_prioritized and not self._features.prioritized_list:
            raise verdicts.Failure(
                "has subrequests, but the DRAPrioritizedList feature is disabled",
                claim=claim,
                request=f"request {request.name}",
            )
        if not self._features.consumable_capacity:
            _require_no_capacity(claim, request)
        return Step(claim, request, tuple([self._plan(claim, each) for each in request.options]))

    def _plan(self, claim: int, option: Option) -> Plan:
        plan = Plan(claim, option, self._validated_class(claim, option))
        accepted, plan.failing = self._screening.matches(option, plan.device_class)
        if self._features.consumable_capacity:
            plan.demands, able = self._screening.demands(option, accepted)
            accepted &= able.accepted
            plan.failing |= able.failing
        if option.is_all:
            plan.wanted = tuple(self._all_devices(plan, accepted))
            plan.count = len(plan.wanted)
        plan.selected = accepted
        plan.accepted = accepted & ~self._screening.barred(option)
        slots = min(plan.count, requests.RESULTS_LIMIT)
        plan.slots = tuple([Slot(claim, option, ordinal) for ordinal in range(slots)])
        return plan

    def _validated_class(self, claim: int, option: Option) -> DeviceClass:
        device_class = self._classes.get(option.device_class)
        for where, complaint in _complaints(option, device_class, self._features):
            raise verdicts.Failure(complaint, claim=claim, request=where)
        assert device_class is not None, "its absence is a complaint"
        return device_class

    def _all_devices(self, plan: Plan, accepted: int) -> Iterator[Candidate]:
        sections = iter(range(len(self._inventory.sections)))
        for pool in self._inventory.pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise _of_request(
                    plan.claim,
                    plan.option,
                    f"asks for all devices, but resource pool {pool.id} is currently {state}",
                )
            section = next(sections)
            for device in self._inventory.members(accepted | plan.failing):
                if device.section != section:
                    continue
                if plan.failing & device.bit:
                    raise self._screening.failure(
                        plan.claim, plan.option, plan.device_class, device
                    )
                yield device

    def _apply_constraints(
        self,
        claim: int,
        question: Question,
        steps: Sequence[Step],
        applying: dict[Option, list[constraints.Constraint]],
    ) -> None:
        lists = self._features.list_type_attributes
        for number, constraint in enumerate(question.constraints):
            state = constraints.build(number, constraint, compares_lists=lists)
            if state is None:
                raise verdicts.Failure(
                    "empty constraint (unsupported constraint type?)",
                    claim=claim,
                    request=f"constraint #{number}",
                )
            for step in steps:
                for plan in step.plans:
                    if constraints.applies_to(constraint, plan.option):
                        applying.setdefault(plan.option, []).append(state)
                        plan.is_constrained = True

    def _may_fail(
        self, plan: Plan, applying: Mapping[Option, Sequence[constraints.Constraint]]
    ) -> bool:
        if plan.wanted is not None:
            # A constraint that keeps one of all devices away is a failure, not a no.
            return plan.is_constrained
        if plan.failing:
            return True
        names = {state.attribute for state in applying.get(plan.option, ())}
        return any(
            self._fails_to_derive(plan, name) for name in names if name in plan.option.derived
        )

    def _fails_to_derive(self, plan: Plan, attribute: str) -> bool:
        try:
            for device in self._inventory.members(plan.accepted):
                self._value(plan.option, device, attribute)
        except verdicts.Failure:
            return True
        return False

    def _value(self, option: Option, device: Candidate, attribute: str) -> Value | None:
        expression = option.derived.get(attribute)
        if expression is None:
            return self._inventory.value(device, attribute)
        return self._selectors.derived(expression).value(device, attribute)

    def _value_masks(self, option: Option, attribute: str) -> Mapping[Value, int] | None:
        if attribute in option.derived or self._features.list_type_attributes:
            return None
        return self._inventory.value_masks(attribute)


def _complaints(
    option: Option, device_class: DeviceClass | None, features: Features
) -> Iterator[tuple[str, str]]:
    """What is wrong with a request by itself: where, and what; the first one counts."""
    where = f"request {option.own_name}"
    if option.derived and not features.derived_attributes:
        yield where, "cannot handle request with derived attributes, the feature is disabled"
    for index, selector in enumerate(option.selectors):
        if selector is None:
            unknown = "CEL expression empty (unsupported selector type?)"
            yield f"{where}, selector #{index}", unknown
    if option.admin_access is not None and not features.admin_access:
        yield where, "admin access is requested, but the feature is disabled"
    name = option.device_class
    if not name:
        yield where, "missing device class name (unsupported request type?)"
    if device_class is None:
        missing = f'deviceclass.resource.k8s.io "{name}" not found'
        yield where, f"could not retrieve device class {name}: {missing}"
    if option.mode not in (requests.EXACT_COUNT, requests.ALL):
        yield where, f"unsupported count mode {option.mode}"


def _require_no_capacity(claim: int, request: Request) -> None:
    disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    for option in request.options:
        if option.capacity is not None:
            kind = "subrequest" if request.is_prioritized else "request"
            raise verdicts.Failure(disabled, claim=claim, request=f"{kind} {option.own_name}")


def _require_few_results(claim: int, steps: Sequence[Step]) -> None:
    needed = sum(min(plan.count for plan in step.plans) for step in steps)
    if needed > requests.RESULTS_LIMIT:
        raise verdicts.Failure(
            f"number of requested devices {needed} exceeds the claim limit of "
            f"{requests.RESULTS_LIMIT}",
            claim=claim,
        )


def _of_request(claim: int, option: Option, detail: str) -> verdicts.Failure:
    return verdicts.Failure(detail, claim=claim, request=f"request {option.own_name}")
