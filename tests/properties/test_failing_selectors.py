"""Selectors that fail on some devices: dray's verdict against Kubernetes' rule for every order.

The rule is written down here from kube-scheduler's description and shares nothing with dray: plain
recursion per node, selectors as Python functions, and a loop over nodes in the order that is given.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import hypothesis
from hypothesis import strategies as st

from dray.api.types.meta import JsonObject
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decision, decide
from dray.scheduling.state import SchedulingState
from tests import rounds
from tests.unit.scheduler.world import DRIVER, claim, device_class, gpu_slice, node, pod
from tests.unit.scheduling.objects import NOW, build, convert, devices, pods

ERROR, NO_FIT = "error", "no fit"
SEEDS = st.integers(min_value=0, max_value=2**63)
CLASS: Final = "large"


class Missing(Exception):
    """An attribute that a selector reads does not exist on a device."""


@dataclass(frozen=True)
class Wanted:
    """A selector: the attribute is at least so large."""

    attribute: str
    least: int

    @property
    def expression(self) -> str:
        return f'device.attributes["{DRIVER}"].{self.attribute} >= {self.least}'

    def matches(self, attributes: Mapping[str, int]) -> bool:
        if self.attribute not in attributes:
            raise Missing(self.attribute)
        return attributes[self.attribute] >= self.least


@dataclass(frozen=True)
class Option:
    """A request, or one alternative of it."""

    count: int
    """0 for all devices."""
    selectors: tuple[Wanted, ...]
    is_in_class: bool
    """Whether the class has a selector of its own."""


@dataclass
class Machine:
    """A node with its devices: their attributes, and whether a claim holds them."""

    name: str
    is_cordoned: bool
    devices: list[dict[str, int]]
    held: set[int]


@dataclass
class Fleet:
    machines: list[Machine]
    of_class: Wanted
    requests: list[list[Option]] = field(default_factory=list)


# The rule.


def selected(fleet: Fleet, option: Option, attributes: Mapping[str, int]) -> bool:
    """The class first; the request is only asked about devices of the class."""
    selectors = [*([fleet.of_class] if option.is_in_class else []), *option.selectors]
    return all(selector.matches(attributes) for selector in selectors)


def searched(fleet: Fleet, machine: Machine) -> list[int] | None:
    """Return the devices that the pod gets on a node, or None. Raises Missing."""
    every: dict[Option, list[int]] = {
        option: [
            number
            for number, attributes in enumerate(machine.devices)
            if selected(fleet, option, attributes)
        ]
        for request in fleet.requests
        for option in request
        if not option.count
    }

    def continued(request: int, picked: list[int]) -> list[int] | None:
        if request == len(fleet.requests):
            return picked
        for option in fleet.requests[request]:
            if option.count:
                found = chosen(request, option, option.count, 0, picked)
            else:
                found = all_of(request, every[option], picked)
            if found is not None:
                return found
        return None

    def all_of(request: int, needed: Sequence[int], picked: list[int]) -> list[int] | None:
        if not needed or any(number in machine.held or number in picked for number in needed):
            return None
        return continued(request + 1, [*picked, *needed])

    def chosen(
        request: int, option: Option, missing: int, start: int, picked: list[int]
    ) -> list[int] | None:
        if not missing:
            return continued(request + 1, picked)
        for number in range(start, len(machine.devices)):
            if number in machine.held or number in picked:
                continue
            if not selected(fleet, option, machine.devices[number]):
                continue
            found = chosen(request, option, missing - 1, number + 1, [*picked, number])
            if found is not None:
                return found
        return None

    return continued(0, [])


def looked_for(nodes: int) -> int:
    """How many fitting nodes kube-scheduler looks for."""
    if nodes < 100:
        return nodes
    return max(100, nodes * max(5, 50 - nodes // 125) // 100)


def verdict(fleet: Fleet, order: Sequence[Machine]) -> str | dict[str, list[int]]:
    """Return an error, that nothing fits, or the fitting nodes with the devices there."""
    fits: dict[str, list[int]] = {}
    for machine in order:
        if machine.is_cordoned:
            continue
        try:
            found = searched(fleet, machine)
        except Missing:
            return ERROR
        if found is not None:
            fits[machine.name] = found
            if len(fits) > looked_for(len(order)):
                break
    return fits or NO_FIT


# The same fleet for dray.


def as_request(number: int, options: Sequence[Option]) -> JsonObject:
    bodies = [
        {
            "name": f"option-{index}",
            "deviceClassName": CLASS if option.is_in_class else DRIVER,
            "selectors": [{"cel": {"expression": item.expression}} for item in option.selectors],
            **({"count": option.count} if option.count else {"allocationMode": "All"}),
        }
        for index, option in enumerate(options)
    ]
    if len(bodies) > 1:
        return {"name": f"request-{number}", "firstAvailable": bodies}
    del bodies[0]["name"]
    return {"name": f"request-{number}", "exactly": bodies[0]}


def state_of(fleet: Fleet, order: Sequence[Machine]) -> SchedulingState:
    expression = fleet.of_class.expression
    classes = device_class(CLASS)
    classes["spec"] = {"selectors": [{"cel": {"expression": expression}}]}
    asked = [as_request(number, options) for number, options in enumerate(fleet.requests)]
    state = build(device_class(), classes, claim("x", *asked))
    for machine in order:
        for body in bodies_of(machine):
            state.put(convert(body))
    return state


def bodies_of(machine: Machine) -> Iterator[JsonObject]:
    yield {**node(machine.name), "spec": {"unschedulable": machine.is_cordoned}}
    published = [
        {
            "name": f"gpu-{number}",
            "attributes": {name: {"int": value} for name, value in attributes.items()},
        }
        for number, attributes in enumerate(machine.devices)
    ]
    yield gpu_slice(machine.name, 0, *published)
    for number in machine.held:
        holder = claim(f"held-{machine.name}-{number}")
        result = {"request": "gpu", "driver": DRIVER, "pool": machine.name}
        results = [{**result, "device": f"gpu-{number}"}]
        yield {**holder, "status": {"allocation": {"devices": {"results": results}}}}


def decided(fleet: Fleet, order: Sequence[Machine]) -> Decision:
    [decision] = decide(state_of(fleet, order), pods(pod("p", "x")), now=NOW)
    return decision


def assert_agrees(decision: Decision, expected: str | dict[str, list[int]]) -> None:
    if isinstance(decision, NodeAssignment):
        assert isinstance(expected, dict), f"placed on {decision.node}, expected {expected}"
        picked = [f"{decision.node}/gpu-{number}" for number in expected[decision.node]]
        assert devices(decision) == picked
    else:
        assert (ERROR if decision.error else NO_FIT) == expected


# Random fleets.


def draw(dice: random.Random, nodes: int, missing: float) -> Fleet:
    def attributes() -> dict[str, int]:
        names = [name for name in ("a", "b", "c") if dice.random() >= missing]
        return {name: dice.randint(0, 2) for name in names}

    def option() -> Option:
        selectors = [
            Wanted(dice.choice("ab"), dice.randint(0, 2)) for _ in range(dice.randint(0, 2))
        ]
        count = dice.choice([0, 1, 1, 1, 2, 3])
        return Option(count, tuple(selectors), dice.random() < 0.5)

    machines = []
    for number in range(nodes):
        published = [attributes() for _ in range(dice.randint(0, 4))]
        held = {index for index in range(len(published)) if dice.random() < 0.2}
        machines.append(Machine(f"node-{number}", dice.random() < 0.2, published, held))
    requests = [
        [option() for _ in range(dice.choice([1, 1, 2]))] for _ in range(dice.choice([1, 1, 2]))
    ]
    return Fleet(machines, Wanted("c", dice.randint(0, 1)), requests)


@rounds.examples(60, long=2000)
@hypothesis.given(SEEDS)
def test_every_order_of_few_nodes_has_the_same_verdict(seed: int) -> None:
    dice = random.Random(seed)
    fleet = draw(dice, dice.randint(1, 4), dice.choice([0, 0.1, 0.3]))
    for order in itertools.permutations(fleet.machines):
        assert_agrees(decided(fleet, order), verdict(fleet, order))


@rounds.examples(30, long=1000)
@hypothesis.given(SEEDS)
def test_random_orders_of_more_nodes_have_the_same_verdict(seed: int) -> None:
    dice = random.Random(seed)
    fleet = draw(dice, dice.randint(5, 30), dice.choice([0, 0.01, 0.05]))
    for _ in range(3):
        order = dice.sample(fleet.machines, len(fleet.machines))
        assert_agrees(decided(fleet, order), verdict(fleet, order))


@rounds.examples(4, long=100)
@hypothesis.given(SEEDS)
def test_beyond_the_sample_the_verdict_is_one_that_kubernetes_can_give(seed: int) -> None:
    """With more fitting nodes than are looked for, the order decides in Kubernetes; not in dray."""
    dice = random.Random(seed)
    fitting = dice.randint(98, 103)
    machines = [Machine(f"good-{number}", False, [{"a": 1}], set()) for number in range(fitting)]
    machines += [Machine(f"bad-{number}", False, [{}], set()) for number in range(3)]
    fleet = Fleet(machines, Wanted("c", 0), [[Option(1, (Wanted("a", 1),), False)]])
    order = dice.sample(machines, len(machines))
    decision = decided(fleet, order)
    if verdict(fleet, machines) == ERROR:
        assert verdict(fleet, order) == ERROR
        assert_agrees(decision, ERROR)
    else:
        assert fitting > looked_for(len(machines))
        assert isinstance(decision, NodeAssignment)
        assert decision.node.startswith("good-")
