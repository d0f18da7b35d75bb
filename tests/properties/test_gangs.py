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
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import decide
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
        cpu[assignment.node] -= wanted[assignment.pod.metadata.name].cpu
        given = assignment.fit.allocations()
        assert {claim.metadata.name for claim, _ in given} == {
            *wanted[assignment.pod.metadata.name].claims
        }
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
