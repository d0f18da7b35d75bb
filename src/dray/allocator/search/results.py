"""Build AllocationResults from picks: devices, configuration, node selector.

Follows incubating/allocator_incubating.go, the end of Allocate and createNodeSelector.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dray.allocator.inventory import pools
from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem
from dray.api.features import Features
from dray.api.types import dra
from dray.api.types.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


class Pick(NamedTuple):
    """A device and the alternative it was picked for."""

    alternative: NodeAlternative
    device: Candidate


class Solution(NamedTuple):
    """A complete assignment of devices to all requests."""

    picks: Sequence[Pick]
    """The devices of all claims, in the order of the picks."""
    chosen: Sequence[NodeAlternative]
    """The alternative of each request of each claim, in order."""


class NodeSelectorUnsupported(rejections.AllocationError):
    def text(self, claims: Sequence[dra.ResourceClaim]) -> str:
        assert self.claim is not None
        return f"create NodeSelector for claim {claims[self.claim].metadata.name}: {self.detail}"


def build(
    problem: NodeProblem, solution: Solution, new_share_id: Callable[[], str]
) -> list[dra.AllocationResult]:
    """Return one result for each claim.

    Raises NodeSelectorUnsupported if the node selector of a slice has several terms.
    """
    results = []
    for claim in range(len(problem.claims)):
        picks, chosen = solution
        if len(problem.claims) > 1:
            picks = [pick for pick in picks if pick.alternative.claim == claim]
            chosen = [alternative for alternative in chosen if alternative.claim == claim]
        features = problem.inventory.features
        devices = tuple([_device(pick, features, new_share_id) for pick in picks])
        config = _configuration(problem.claims[claim].parsed.config, chosen)
        selector = _node_selector(claim, picks, problem.inventory.node.metadata.name)
        results.append(dra.AllocationResult(dra.DeviceAllocationResult(devices, config), selector))
    return results


def _device(
    pick: Pick, features: Features, new_share_id: Callable[[], str]
) -> dra.DeviceRequestAllocationResult:
    alternative, candidate = pick
    parsed, device, spec = alternative.parsed, candidate.device, candidate.resource_slice.spec
    binds = pools.has_binding_conditions(features)
    demand = alternative.demand(candidate) if candidate.is_shareable else {}
    return dra.DeviceRequestAllocationResult(
        request=str(parsed.name),
        driver=spec.driver,
        pool=spec.pool.name,
        device=device.name,
        admin_access=True if parsed.admin_access else None,
        tolerations=parsed.tolerations,
        binding_conditions=device.binding_conditions if binds else (),
        binding_failure_conditions=device.binding_failure_conditions if binds else (),
        share_id=new_share_id() if candidate.is_shareable else None,
        consumed_capacity={name: str(amount.taken) for name, amount in demand.items()},
        skip_node_operations=spec.skip_node_operations
        if pools.knows_node_operations(features)
        else (),
    )


class _Entry(NamedTuple):
    source: str
    requests: list[str]
    opaque: dra.OpaqueDeviceConfiguration | None


def _configuration(
    claim_config: Sequence[dra.DeviceClaimConfiguration], chosen: Sequence[NodeAlternative]
) -> tuple[dra.DeviceAllocationConfiguration, ...]:
    entries = _class_entries(chosen)
    if not (entries or claim_config):
        return ()
    requested = [alternative.parsed for alternative in chosen]
    for config in claim_config:
        if not config.requests or any(parsed.is_named(config.requests) for parsed in requested):
            entries.append(_Entry(FROM_CLAIM, list(config.requests), config.opaque))
    return tuple(
        dra.DeviceAllocationConfiguration(
            source,
            () if all(parsed.is_named(names) for parsed in requested) else tuple(names),
            opaque,
        )
        for source, names, opaque in entries
    )


def _class_entries(chosen: Sequence[NodeAlternative]) -> list[_Entry]:
    """Return the configuration of each class once, for all requests of that class."""
    by_class: dict[str, list[_Entry]] = {}
    for alternative in chosen:
        if not alternative.resolved.device_class.spec.config:
            continue
        name = str(alternative.parsed.name)
        existing = by_class.get(alternative.parsed.device_class)
        if existing is None:
            by_class[alternative.parsed.device_class] = [
                _Entry(FROM_CLASS, [name], config.opaque)
                for config in alternative.resolved.device_class.spec.config
            ]
        else:
            for entry in existing:
                entry.requests.append(name)
    return [entry for entries in by_class.values() for entry in entries]


def _node_selector(claim: int, picks: Sequence[Pick], node: str) -> NodeSelector | None:
    """Return the nodes where the allocation can be used, or None for all nodes."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for _, candidate in picks:
        spec, device = candidate.resource_slice.spec, candidate.device
        chooser = device if spec.per_device_node_selection else spec
        if chooser.node_name is not None or device.binds_to_node:
            return _only(node)
        terms = chooser.node_selector.node_selector_terms if chooser.node_selector else ()
        if len(terms) > 1:
            unsupported = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise NodeSelectorUnsupported(unsupported, claim=claim)
        for term in terms:
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not (fields or expressions):
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


@functools.lru_cache(maxsize=1 << 15)
def _only(node: str) -> NodeSelector:
    named = NodeSelectorRequirement("metadata.name", "In", (node,))
    return NodeSelector((NodeSelectorTerm(match_fields=(named,)),))


def _add_new(
    requirements: Sequence[NodeSelectorRequirement], existing: list[NodeSelectorRequirement]
) -> None:
    for requirement in requirements:
        if not any(_is_same(requirement, other) for other in existing):
            existing.append(requirement)


def _is_same(one: NodeSelectorRequirement, other: NodeSelectorRequirement) -> bool:
    is_same_test = (one.key, one.operator) == (other.key, other.operator)
    return is_same_test and set(one.values) == set(other.values)
