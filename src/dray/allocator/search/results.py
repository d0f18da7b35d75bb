"""Build AllocationResults from picks: devices, configuration, node selector.

Follows incubating/allocator_incubating.go, the end of Allocate and createNodeSelector.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.inventory import pools
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem
from dray.api.features import Features
from dray.api.types import dra
from dray.api.types.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"

_replace = msgspec.structs.replace


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
    node = problem.inventory.node.metadata.name
    features = problem.inventory.features
    for claim in range(len(problem.claims)):
        picks, chosen = solution
        if len(problem.claims) > 1:
            picks = [pick for pick in picks if pick.alternative.claim == claim]
            chosen = [alternative for alternative in chosen if alternative.claim == claim]
        devices = tuple([_device(pick, features, new_share_id) for pick in picks])
        config = _configuration(problem.claims[claim].parsed.config, chosen)
        published = [(found.resource_slice, found.device) for _, found in picks]
        selector = _node_selector(claim, published, node)
        results.append(dra.AllocationResult(dra.DeviceAllocationResult(devices, config), selector))
    return results


class RememberedDevice(NamedTuple):
    """A device of a result, and which of the slices of an alike node has it."""

    result: dra.DeviceRequestAllocationResult
    device: dra.Device
    slice_number: int


class RememberedResult(NamedTuple):
    """The result of one claim on every node of a class."""

    devices: Sequence[RememberedDevice]
    config: tuple[dra.DeviceAllocationConfiguration, ...]


def remember(
    inventory: NodeInventory, solution: Solution, results: Sequence[dra.AllocationResult]
) -> Sequence[RememberedResult]:
    """Return results of `build` in a form from which those on alike nodes are made."""
    slices = [id(found) for found in inventory.slices()]
    remembered = []
    for claim, allocation in enumerate(results):
        picked = solution.picks
        if len(results) > 1:
            picked = [pick for pick in picked if pick.alternative.claim == claim]
        devices = [
            RememberedDevice(result, device.device, slices.index(id(device.resource_slice)))
            for result, (_, device) in zip(allocation.devices.results, picked, strict=True)
        ]
        remembered.append(RememberedResult(devices, allocation.devices.config))
    return remembered


def build_alike(
    remembered: Sequence[RememberedResult],
    inventory: NodeInventory,
    new_share_id: Callable[[], str],
) -> list[dra.AllocationResult]:
    """Return the results that `build` would return on another node of the class."""
    results = []
    node = inventory.node.metadata.name
    slices = inventory.slices()
    for claim, (known, config) in enumerate(remembered):
        devices = tuple(
            [
                _replace(
                    result,
                    pool=slices[number].spec.pool.name,
                    share_id=result.share_id and new_share_id(),
                )
                for result, _, number in known
            ]
        )
        published = ((slices[number], device) for _, device, number in known)
        selector = _node_selector(claim, published, node)
        results.append(dra.AllocationResult(dra.DeviceAllocationResult(devices, config), selector))
    return results


def _device(
    pick: Pick, features: Features, new_share_id: Callable[[], str]
) -> dra.DeviceRequestAllocationResult:
    alternative, candidate = pick
    parsed, device, spec = alternative.parsed, candidate.device, candidate.resource_slice.spec
    conditions, failures = device.binding_conditions, device.binding_failure_conditions
    if (conditions or failures) and not pools.has_binding_conditions(features):
        conditions = failures = ()
    operations = spec.skip_node_operations
    if operations and not pools.knows_node_operations(features):
        operations = ()
    demand = alternative.demand(candidate) if candidate.is_shareable else None
    return dra.DeviceRequestAllocationResult(
        request=str(parsed.name),
        driver=candidate.driver,
        pool=spec.pool.name,
        device=device.name,
        admin_access=True if parsed.admin_access else None,
        tolerations=parsed.tolerations,
        binding_conditions=conditions,
        binding_failure_conditions=failures,
        share_id=None if demand is None else new_share_id(),
        consumed_capacity={name: str(amount.taken) for name, amount in demand.items()}
        if demand
        else {},
        skip_node_operations=operations,
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


def _node_selector(
    claim: int, devices: Iterable[tuple[dra.ResourceSlice, dra.Device]], node: str
) -> NodeSelector | None:
    """Return the nodes where the allocation can be used, or None for all nodes."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for resource_slice, device in devices:
        spec = resource_slice.spec
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
