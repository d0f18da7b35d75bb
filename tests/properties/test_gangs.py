"""Gangs are placed if that is possible in any way, legally, and otherwise hold nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest

from dray.allocator import verifier
from dray.api import features as gates
from dray.api.ids import ClaimKey
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, decide
from dray.scheduling.state import SchedulingState
from tests import rounds
from tests.properties import gangs
from tests.unit.scheduler.test_podgroups import GROUPS
from tests.unit.scheduling import objects
from tests.unit.scheduling.objects import NOW, convert

SEARCHING = gates.with_gates(GROUPS, {"DrayGangSearch": True})


@pytest.mark.parametrize("seed", rounds.seeds(200, long=1000))
def test_a_gang_is_placed_if_and_only_if_it_fits(seed: int) -> None:
    problem = gangs.draw(random.Random(seed))
    stored = [convert(body) for body in gangs.bodies(problem)]
    state = SchedulingState.of(stored, features=SEARCHING)
    decisions = decide(state, objects.pods(*gangs.pods(problem)), now=NOW)
    placed = [decision for decision in decisions if isinstance(decision, NodeAssignment)]
    assert bool(placed) == gangs.fits(problem), problem
    if placed:
        assert len(placed) >= problem.minimum
        check(problem, stored, placed)
    else:
        assert not held(state, problem)


def check(
    problem: gangs.Problem, stored: Sequence[object], placed: Sequence[NodeAssignment]
) -> None:
    """Fail if the placement breaks a rule."""
    claims = {found.key: found for found in stored if isinstance(found, ResourceClaim)}
    new: set[ClaimKey] = set()
    cpu = dict(problem.cpu)
    wanted = {each.name: each for each in problem.pods}
    for assignment in placed:
        pod = wanted[assignment.pod.metadata.name]
        cpu[assignment.node] -= pod.cpu
        assert assignment.node in (pod.nodes or cpu)
        given = assignment.fit.allocations()
        assert {claim.metadata.name for claim, _ in given} == {*pod.claims}
        for claim, allocation in given:
            before = claims[claim.key].status
            assert before.allocation in (None, allocation), "all pods see the same devices"
            status = msgspec.structs.replace(before, allocation=allocation)
            claims[claim.key] = msgspec.structs.replace(claims[claim.key], status=status)
            new.add(claim.key)
            pools = {result.pool for result in allocation.devices.results}
            assert pools <= {assignment.node, "network"}
    slices = [found for found in stored if isinstance(found, ResourceSlice)]
    violations = verifier.find_violations(
        slices, list(claims.values()), SEARCHING, just_allocated=new
    )
    assert not violations
    assert min(cpu.values()) >= 0


def held(state: SchedulingState, problem: gangs.Problem) -> list[object]:
    """What is reserved for pods of the gang."""
    return [
        reserved
        for name in problem.claims
        if (reserved := state.claims.reserved(ClaimKey("default", name))) is not None
    ] + [found.usages for found in state.nodes if found.usages]


class TwoGangs:
    """Gangs of which each needs more than half of the devices, and what each holds."""

    def __init__(self, dice: random.Random) -> None:
        nodes, each = dice.randint(1, 3), dice.randint(2, 4)
        things = [
            gangs.Thing(f"node-{number}", f"gpu-{number}-{place}", gangs.WHOLE)
            for number in range(nodes)
            for place in range(each)
        ]
        half = len(things) // 2
        self.pods: dict[str, list[Pod]] = {}
        self.assigned: dict[str, list[NodeAssignment]] = {"one": [], "two": []}
        self.state = SchedulingState(SEARCHING)
        cpu = {f"node-{number}": 64 for number in range(nodes)}
        for name in self.assigned:
            wanted = [
                gangs.Wanted(f"{name}-{number}", 1, (f"{name}-{number}",))
                for number in range(dice.randint(half + 1, len(things)))
            ]
            claims = {each.name: [gangs.Asked(gangs.WHOLE)] for each in wanted}
            self.minimum = half + 1
            problem = gangs.Problem(cpu, things, set(), claims, wanted, self.minimum)
            for body in gangs.bodies(problem, name):
                self.state.put(convert(body))
            self.pods[name] = objects.pods(*gangs.pods(problem, name))
            for pod in self.pods[name]:
                self.state.put_pod(pod)
        self.decider = Decider(self.state)

    def decide(self, name: str, dice: random.Random) -> None:
        """Decide for a gang, or abandon the decision somewhere."""
        steps = self.decider.steps_for(self.pods[name][0], NOW)
        patience = dice.choice((1, 5, 20, 100_000))
        try:
            step = next(steps)
            for _ in range(patience):
                step = steps.send(None if step is None else step.run())
        except StopIteration as end:
            decisions = end.value.values()
            self.assigned[name] += [
                found for found in decisions if isinstance(found, NodeAssignment)
            ]
        finally:
            steps.close()

    def release(self, name: str) -> None:
        while self.assigned[name]:
            self.state.release(self.assigned[name].pop())

    def check(self) -> None:
        """Fail if a gang holds a part of what it needs."""
        for name, pods in self.pods.items():
            placed = {found.pod.metadata.uid for found in self.assigned[name]}
            assert not placed or len(placed) >= self.minimum
            assert {pod.metadata.uid for pod in pods if self.state.is_placed(pod)} == placed
            keys = [ClaimKey("default", pod.metadata.name) for pod in pods]
            held = [key for key in keys if self.state.claims.reserved(key) is not None]
            assert len(held) == len(placed)


@pytest.mark.parametrize("seed", rounds.seeds(60, long=1000))
def test_two_gangs_never_wait_for_each_other(seed: int) -> None:
    dice = random.Random(seed)
    both = TwoGangs(dice)
    for _ in range(12):
        name = dice.choice(("one", "two"))
        if both.assigned[name]:
            both.release(name)
        else:
            both.decide(name, dice)
        both.check()
    for name, other in (("one", "two"), ("two", "one")):
        both.release(other)
        while not both.assigned[name]:
            both.decide(name, dice)
            both.check()
