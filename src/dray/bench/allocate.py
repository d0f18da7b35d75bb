"""`dray bench allocate`: places every claim of a scenario, one after the other, and times it.

Each claim goes to the first node with room, in list order, or with `rotate` starting after the node
that was used last. The clock starts when decoded objects reach the inventory.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dray.allocator import placement, scenarios
from dray.allocator.fragmentation import gradient
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model.rejections import AllocationError, Rejection
from dray.allocator.scenarios import Scenario
from dray.allocator.search import device_order
from dray.allocator.search.device_order import Order
from dray.api.types.dra import ResourceClaim
from dray.bench import measured_process
from dray.planner.replay import scenario_runs

ZERO = "zero"
ROTATE = "rotate"
FGD = "fgd"
"""The policy whose order of devices depends on the claims that come."""

Progress = Callable[[int, int], None]
"""Receives the number of claims that are done, and of all claims."""


class ResultDifference(msgspec.Struct, frozen=True):
    """The first claim whose result differs from the recorded one."""

    claim: str
    expected: Any
    got: Any


class Report(msgspec.Struct, kw_only=True):
    """The result of a run. Times are seconds since the first object was added, or milliseconds."""

    name: str
    claims: int
    allocated: int
    claims_per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    memory_bytes: int
    first_claim_s: float
    answers: dict[str, Any]
    """Results by claim: {node, devices}, {error} or null, as in recorded results."""
    refusals: dict[str, Rejection]
    """The reason of the last node for claims that fit nowhere."""
    difference: ResultDifference | None = None

    def figures(self) -> dict[str, Any]:
        """Return the content of `--json`."""
        hidden = ("answers", "refusals", "difference")
        built: dict[str, Any] = msgspec.to_builtins(self)
        return {key: value for key, value in built.items() if key not in hidden}


def run(
    scenario: Mapping[str, Any] | Scenario,
    *,
    start: str = ZERO,
    policy: str | None = None,
    answers: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Place the claims. With `answers`, also compare with recorded results."""
    decoded = scenario if isinstance(scenario, Scenario) else scenarios.convert(scenario)
    attempt = _Run(decoded, rotates=start == ROTATE, policy=policy)
    del scenario, decoded
    with measured_process.settled():
        report = attempt.place_all(progress)
    if answers is not None:
        report.difference = compare(report.answers, answers)
    return report


def compare(answers: Mapping[str, Any], recorded: Mapping[str, Any]) -> ResultDifference | None:
    """Return the first recorded claim, in order, whose result differs, or None."""
    for claim, expected in recorded.items():
        got = answers.get(claim)
        if got != expected:
            return ResultDifference(claim, expected, got)
    return None


class _Run:
    """One pass over a scenario."""

    def __init__(self, scenario: Scenario, *, rotates: bool, policy: str | None) -> None:
        self._scenario = scenario
        self._waiting = scenario.waiting()
        self._rotates = rotates
        self._policy = policy
        self._start = 0
        self._latencies: list[float] = []
        self._answers: dict[str, Any] = {}
        self._refusals: dict[str, Rejection] = {}

    def place_all(self, progress: Progress | None) -> Report:
        began = time.perf_counter()
        fleet = self._scenario.inventory()
        allocator = placement.Allocator(
            fleet, new_share_id=lambda: str(uuid.uuid4()), order=self._order(fleet)
        )
        first_claim = 0.0
        before = time.perf_counter()
        for number, claim in enumerate(self._waiting, start=1):
            self._place(claim, fleet, allocator)
            after = time.perf_counter()
            self._latencies.append(after - before)
            before = after
            if number == 1:
                first_claim = after - began
            if progress is not None:
                progress(number, len(self._waiting))
        return self._report(before - began, first_claim)

    def _order(self, fleet: ClusterInventory) -> Order | None:
        if self._policy == FGD:
            return gradient.for_claims(fleet, self._scenario.claims).order
        return device_order.BY_NAME[self._policy] if self._policy else None

    def _place(
        self, claim: ResourceClaim, fleet: ClusterInventory, allocator: placement.Allocator
    ) -> None:
        name = claim.metadata.name
        try:
            fit = allocator.first_fit((claim,), self._start)
        except AllocationError as failure:
            self._answers[name] = {"error": failure.text((claim,))}
            return
        if isinstance(fit, placement.Fit):
            (allocation,) = fit.allocations
            fleet.record_allocation(claim.key, allocation)
            self._answers[name] = (fit.node, allocation)
            if self._rotates:
                self._start = fleet.nodes[fit.node].index + 1
            return
        self._answers[name] = None
        self._refusals[name] = fit.reason

    def _report(self, seconds: float, first_claim: float) -> Report:
        milliseconds = sorted(1000 * latency for latency in self._latencies) or [0.0]
        placed = [answer for answer in self._answers.values() if isinstance(answer, tuple)]
        answers = {name: scenario_runs.recorded(answer) for name, answer in self._answers.items()}
        return Report(
            name=self._scenario.name,
            claims=len(self._waiting),
            allocated=len(placed),
            claims_per_s=len(self._waiting) / seconds if seconds else 0.0,
            p50_ms=milliseconds[len(milliseconds) // 2],
            p99_ms=milliseconds[len(milliseconds) * 99 // 100],
            max_ms=milliseconds[-1],
            memory_bytes=measured_process.memory_bytes(),
            first_claim_s=first_claim,
            answers=answers,
            refusals=self._refusals,
        )
