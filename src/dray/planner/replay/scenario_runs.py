"""The claims of a scenario, placed one by one by the allocator that the scheduler uses.

A policy decides the order of the nodes and of the devices, and nothing else: every check of the
allocator stays. Claims request no CPU and no memory, so kube-scheduler's scores are equal on all
nodes, and the first node with room is taken.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dray.allocator.fragmentation import gradient
from dray.allocator.fragmentation.shapes import shape_of
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.candidates import Candidate
from dray.allocator.model.rejections import AllocationError
from dray.allocator.placement import Allocator, Fit, FitResult
from dray.allocator.problem.node_problem import NodeAlternative
from dray.allocator.scenarios import Scenario
from dray.allocator.search import device_order
from dray.allocator.search.device_order import Order
from dray.api.types.dra import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from dray.planner.replay.runs import Progress, Run, Sample

Answer = tuple[str, AllocationResult] | dict[str, str] | None
"""The node and devices of a claim, {error}, or None where it fits nowhere."""
_Placer = Callable[[ResourceClaim], FitResult | None]
_Policy = Callable[[ClusterInventory, Sequence[ResourceClaim], random.Random], _Placer]
"""Makes a placer for a cluster that these claims come to."""


class ScenarioRun(Run, kw_only=True):
    """The result of one run; `answers` are in the form of recorded ones."""

    answers: dict[str, Any]


def replay(
    scenario: Scenario, policy: str, seed: int, *, progress: Progress | None = None
) -> ScenarioRun:
    """Place the claims of a scenario under a policy of `POLICIES`. Raises FeatureError."""
    cluster, claims = scenario.inventory(), scenario.waiting()
    place = POLICIES[policy](cluster, scenario.claims, random.Random(seed))
    answers: dict[str, Any] = {}
    samples = [Sample(0.0, 0.0, 0.0)]
    placed = 0
    for number, claim in enumerate(claims, 1):
        answer = _answer(claim, place)
        if isinstance(answer, tuple):
            cluster.record_allocation(claim.key, answer[1])
            placed += 1
        answers[claim.metadata.name] = recorded(answer)
        at = 100 * number / len(claims)
        if int(at) > int(samples[-1].at):
            samples.append(Sample(at, 100 * placed / len(claims), at))
        if progress is not None:
            progress(number, len(claims))
    return ScenarioRun(
        policy=policy,
        seed=seed,
        pods=len(claims),
        dropped=len(claims) - placed,
        samples=samples,
        answers=answers,
    )


def recorded(answer: Answer) -> Any:
    """Return an answer as it is recorded: {node, devices}, {error} or None."""
    if not isinstance(answer, tuple):
        return answer
    node, allocation = answer
    return {"node": node, "devices": [_device(result) for result in allocation.devices.results]}


def _device(result: DeviceRequestAllocationResult) -> str:
    text = f"{result.request}={result.driver}/{result.pool}/{result.device}"
    if not result.consumed_capacity:
        return text
    consumed = msgspec.json.encode(dict(sorted(result.consumed_capacity.items())))
    return f"{text}@{consumed.decode()}"


def _answer(claim: ResourceClaim, place: _Placer) -> Answer:
    try:
        fit = place(claim)
    except AllocationError as failure:
        return {"error": failure.text((claim,))}
    if not isinstance(fit, Fit):
        return None
    (allocation,) = fit.allocations
    return fit.node, allocation


def _allocator(cluster: ClusterInventory, order: Order | None = None) -> Allocator:
    numbers = iter(range(1, 1 << 48))
    return Allocator(
        cluster,
        new_share_id=lambda: f"00000000-0000-4000-8000-{next(numbers):012x}",
        order=order,
    )


def _first_fit(
    cluster: ClusterInventory, claims: Sequence[ResourceClaim], draw: random.Random
) -> _Placer:
    allocator = _allocator(cluster)
    return lambda claim: allocator.first_fit((claim,))


def _random(
    cluster: ClusterInventory, claims: Sequence[ResourceClaim], draw: random.Random
) -> _Placer:
    def shuffled(
        inventory: NodeInventory, alternative: NodeAlternative, devices: Iterable[Candidate]
    ) -> list[Candidate]:
        ordered = list(devices)
        draw.shuffle(ordered)
        return ordered

    names = list(cluster.nodes)
    return _in_order(_allocator(cluster, shuffled), lambda: draw.sample(names, len(names)))


def _fullest_first(order: Order) -> _Policy:
    """Return a policy that takes the node with the fewest free devices where the claim fits."""

    def policy(
        cluster: ClusterInventory, claims: Sequence[ResourceClaim], draw: random.Random
    ) -> _Placer:
        names = list(cluster.nodes)

        def free(name: str) -> tuple[bool, int]:
            inventory = cluster.inventory(cluster.nodes[name])
            used = inventory.taken | inventory.shared
            return not used, (inventory.everything & ~inventory.taken).bit_count()

        return _in_order(_allocator(cluster, order), lambda: sorted(names, key=free))

    return policy


def _gradient_descent(
    cluster: ClusterInventory, claims: Sequence[ResourceClaim], draw: random.Random
) -> _Placer:
    """Return a policy that takes the node where fragmentation grows least."""
    fragmentation = gradient.for_claims(cluster, claims)
    allocator, names = _allocator(cluster, fragmentation.order), list(cluster.nodes)

    def place(claim: ResourceClaim) -> FitResult | None:
        shape = shape_of(claim)
        asked = [] if shape is None else [shape]
        by_growth = sorted(names, key=lambda name: fragmentation.growth(asked, name))
        return _in_order(allocator, lambda: by_growth)(claim)

    return place


def _in_order(allocator: Allocator, names: Callable[[], Sequence[str]]) -> _Placer:
    def place(claim: ResourceClaim) -> FitResult | None:
        for name in names():
            fit = allocator.allocate_on((claim,), name)
            if isinstance(fit, Fit):
                return fit
        return None

    return place


POLICIES: Mapping[str, _Policy] = {
    "upstream": _first_fit,
    "first-fit": _first_fit,
    "random": _random,
    "packing": _fullest_first(device_order.pack),
    "best-fit": _fullest_first(device_order.best_fit),
    "fgd": _gradient_descent,
}
"""The policies that need neither CPU nor parts of GPUs, which claims do not have."""
