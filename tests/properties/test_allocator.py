"""The allocator against a search that tries everything, and against an independent judge."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from dray.allocator import placement, verifier
from dray.allocator.model import candidates
from dray.allocator.model.rejections import AllocationError
from dray.allocator.model.trail import Trail
from dray.allocator.search import backtracking, check_sequence, first_descent, results
from tests import rounds
from tests.properties import clusters, problems

# One seed is one problem: drawing each of its hundred decisions from hypothesis would take longer
# than solving it.
seeds = st.integers(min_value=0, max_value=2**63)
many = rounds.examples(2000, long=60_000)
some = rounds.examples(400, long=12_000)


@many
@hypothesis.given(seeds)
@hypothesis.example(5889)
@hypothesis.example(1566493)
def test_finds_what_trying_every_combination_in_order_finds(seed: int) -> None:
    problem = problems.draw(random.Random(seed))
    result: placement.FitResult | None = None
    try:
        result = clusters.allocator_on(clusters.cluster_of(problem)).allocate_on(
            problem.claims, problems.NODE
        )
        found = clusters.described(result, problem.claims)
    except AllocationError as failure:
        found = failure.text(problem.claims)
    assert found == clusters.upstream_result(problem)
    if isinstance(result, placement.Fit):
        given = clusters.allocated(problem.claims, result)
        keys = [item.key for item in given]
        violations = verifier.find_violations(
            problem.slices, given, problem.features, just_allocated=keys
        )
        assert [
            violation for violation in violations if not was_mixed_before(violation, problem)
        ] == []


def was_mixed_before(violation: verifier.Violation, problem: problems.Problem) -> bool:
    """Whether it is about devices that were shared from the start, whatever their groups: of what
    is in use, upstream and dray give further shares without asking for groups again."""
    if not isinstance(violation, verifier.GroupsMixed):
        return False
    driver, pool = violation.pool
    return any((driver, pool, device) in problem.shared for device in violation.devices)


@some
@hypothesis.given(seeds, st.integers(min_value=1, max_value=5))
def test_counting_early_changes_no_answer(seed: int, patience: int) -> None:
    problem = problems.draw(random.Random(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backtracking, "_POSITIONS_BEFORE_PROOF", patience)
        result = clusters.result_of(clusters.cluster_of(problem), problem.claims, problems.NODE)
    assert result == clusters.upstream_result(problem)


@some
@hypothesis.given(seeds)
def test_every_allocation_is_legal(seed: int) -> None:
    """Claims are placed one after the other; after each, the whole state is judged."""
    dice = random.Random(seed)
    problem = problems.draw(dice)._replace(taken=[], shared=[])
    cluster = clusters.cluster_of(problem)
    asked = clusters.allocator_on(cluster)
    placed: list[Any] = []
    for number in range(4):
        claim = problems.draw_claim(dice, number, problem.features)
        try:
            result = asked.allocate_on([claim], problems.NODE)
        except AllocationError:
            continue
        if isinstance(result, placement.Fit):
            (done,) = clusters.allocated([claim], result)
            cluster.put_claim(done)
            placed.append(done)
            key = claim.key
            violations = verifier.find_violations(
                problem.slices, placed, problem.features, just_allocated=[key]
            )
            assert violations == []


@some
@hypothesis.given(seeds)
def test_a_search_leaves_no_trace(seed: int) -> None:
    problem = problems.draw(random.Random(seed))
    cluster = clusters.cluster_of(problem)
    try:
        before = clusters.allocator_on(cluster).problem(problem.claims, problems.NODE)
    except AllocationError:
        return
    state = _snapshot(before.constraints)
    attempt = backtracking.Search(before)
    try:
        first = attempt.run()
    except AllocationError:
        first = None
    assert _snapshot(before.constraints) == state
    try:
        again = backtracking.Search(before).run()
    except AllocationError:
        again = None
    assert again == first


@many
@hypothesis.given(seeds)
def test_a_descent_finds_what_the_search_finds(seed: int) -> None:
    problem = problems.draw(random.Random(seed))
    cluster = clusters.cluster_of(problem)
    try:
        on_node = clusters.allocator_on(cluster).problem(problem.claims, problems.NODE)
    except AllocationError:
        return
    state = _snapshot(on_node.constraints)
    found, searched = (
        _outcome(lambda: first_descent.descend(on_node, None, None)),
        _outcome(backtracking.Search(on_node).run),
    )
    assert _snapshot(on_node.constraints) == state
    if found is first_descent.DescentOutcome.IMPOSSIBLE:
        assert searched is None
    elif found is not first_descent.DescentOutcome.UNDECIDED:
        assert found == searched


def _outcome(search: Callable[[], Any]) -> Any:
    try:
        solution = search()
    except AllocationError as failure:
        return failure.detail
    if not isinstance(solution, results.Solution):
        return solution
    return list(solution.picks), list(solution.chosen)


@some
@hypothesis.given(seeds)
def test_a_refused_device_leaves_no_trace(seed: int) -> None:
    dice = random.Random(seed)
    problem = problems.draw(dice)
    cluster = clusters.cluster_of(problem)
    try:
        on_node = clusters.allocator_on(cluster).problem(problem.claims, problems.NODE)
    except AllocationError:
        return
    together = check_sequence.CheckSequence(on_node)
    trail = Trail()
    for alternative in on_node.alternatives():
        for slot in alternative.slots:
            for device in on_node.inventory.members(alternative.eligible):
                applying = together.of(alternative)
                mark, state = trail.mark(), _snapshot([applying, on_node.constraints])
                if _refuses(applying, slot, device, trail):
                    trail.unwind(mark)
                    assert _snapshot([applying, on_node.constraints]) == state
                elif dice.random() < 0.5:
                    break
    trail.unwind(0)
    fresh = check_sequence.CheckSequence(on_node)
    for alternative in on_node.alternatives():
        assert _snapshot(together.of(alternative)) == _snapshot(fresh.of(alternative))


def _refuses(
    applying: Any, slot: candidates.Slot, device: candidates.Candidate, trail: Trail
) -> bool:
    for check in applying:
        if not check.applies_to & device.bit:
            continue
        mark, state = trail.mark(), _snapshot(check)
        try:
            rejection = check.take(slot, device, trail)
        except AllocationError:
            return True
        if rejection is not None:
            assert trail.mark() == mark
            assert _snapshot(check) == state
            return True
    return False


def _snapshot(value: Any) -> Any:
    """What checks and constraints remember, as values that stay."""
    if isinstance(value, list | tuple):
        return [_snapshot(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _snapshot(item) for key, item in value.items()}
    if type(value).__module__ in _STATEFUL:
        return {
            name: _snapshot(getattr(value, name))
            for name in type(value).__slots__
            if name not in ("_devices", "_pool_counters", "_problem", "_alternative")
        }
    return value if isinstance(value, int | str | frozenset) else repr(value)


_STATEFUL = [
    "dray.allocator.search.check_sequence",
    *(
        f"dray.allocator.checks.{name}"
        for name in ("usage", "capacity", "counters", "compatibility_groups", "constraints")
    ),
]


@some
@hypothesis.given(seeds)
def test_alternatives_are_all_ways_in_which_claims_fit(seed: int) -> None:
    problem = problems.draw(random.Random(seed))
    asked = clusters.allocator_on(clusters.cluster_of(problem))
    try:
        first = asked.allocate_on(problem.claims, problems.NODE)
        ways = list(itertools.islice(asked.alternatives_on(problem.claims, problems.NODE), 2000))
    except AllocationError:
        return
    hypothesis.assume(len(ways) < 2000)
    if isinstance(first, placement.NoFit):
        assert ways == []
        return
    assert ways[0] == first
    used = [_devices_used(way) for way in ways]
    content = _contents(problem)
    for way in ways[:20]:
        given = clusters.allocated(problem.claims, way)
        keys = [item.key for item in given]
        found = verifier.find_violations(
            problem.slices, given, problem.features, just_allocated=keys
        )
        assert all(was_mixed_before(violation, problem) for violation in found)
    for device in used[0]:
        # If the claims fit while another claim has this device, there is a way without it.
        alone = problem._replace(taken=[*problem.taken, device])
        result = clusters.result_of(clusters.cluster_of(alone), problem.claims, problems.NODE)
        if isinstance(result, list) and list(content.values()).count(content[device]) == 1:
            assert any(device not in devices for devices in used)


def _devices_used(way: placement.Fit) -> set[tuple[str, str, str]]:
    return {
        (result.driver, result.pool, result.device)
        for allocation in way.allocations
        for result in allocation.devices.results
        if not result.admin_access
    }


def _contents(problem: problems.Problem) -> dict[tuple[str, str, str], Any]:
    """What devices are but for their names."""
    return {
        (found.spec.driver, found.spec.pool.name, device.name): (
            found.metadata.name,
            msgspec.structs.replace(device, name=""),
        )
        for found in problem.slices
        for device in found.spec.devices
    }


@some
@hypothesis.given(seeds, st.integers(min_value=2, max_value=4))
def test_equal_claims_of_several_pods_get_the_same_devices(seed: int, copies: int) -> None:
    """Leaving out swaps of equal claims changes no answer."""
    problem = problems.draw(random.Random(seed))
    claims = [claim for claim in problem.claims for _ in range(copies)]
    answers = []
    for of_several_pods in (False, True):
        asked = placement.Allocator(
            clusters.cluster_of(problem),
            new_share_id=lambda: clusters.SHARE_ID,
            of_several_pods=of_several_pods,
        )
        try:
            result = asked.allocate_on(claims, problems.NODE)
        except AllocationError as failure:
            answers.append(failure.text(claims))
        else:
            answers.append(clusters.described(result, claims))
    assert answers[0] == answers[1]
