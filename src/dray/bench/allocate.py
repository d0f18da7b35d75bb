"""`dray bench allocate`: place every claim of a scenario, one after the other, and time it.

Each claim goes to the first node that has room, in list order, or with `rotate` starting after the
node that was used last. The clock starts when decoded objects reach the fleet.
"""

from __future__ import annotations

import gc
import resource
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dray.allocator import placement, policies
from dray.allocator.fleet import Fleet
from dray.allocator.verdicts import Failure, Verdict
from dray.api.claims import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from dray.api.names import ClaimKey
from dray.bench import scenarios
from dray.bench.scenarios import Scenario

ZERO = "zero"
ROTATE = "rotate"

Progress = Callable[[int, int], None]
"""Called with how many claims are done, of how many."""


class Difference(msgspec.Struct, frozen=True):
    """The first claim for which the answer is not the recorded one."""

    claim: str
    expected: Any
    got: Any


class Report(msgspec.Struct, kw_only=True):
    """What a run came to. Times are seconds since objects reached the fleet, or milliseconds."""

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
    """Claim to {node, devices}, {error} or null, as recorded answers are written."""
    refusals: dict[str, Verdict]
    """Why a claim fits nowhere, as the last node that was asked says it."""
    difference: Difference | None = None

    def figures(self) -> dict[str, Any]:
        """What `--json` prints."""
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
    """Place the claims; with `answers`, also compare with what was recorded."""
    given = scenario if isinstance(scenario, Scenario) else scenarios.convert(scenario)
    report = _Run(given, rotates=start == ROTATE, policy=policy).place_all(progress)
    if answers is not None:
        report.difference = compare(report.answers, answers)
    return report
