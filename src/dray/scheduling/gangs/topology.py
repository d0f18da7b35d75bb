"""The topology constraint of a PodGroup: all of its pods in one domain, as of racks or zones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.scheduling.nodes.node_fit import NodeState
from dray.scheduling.state import SchedulingState

Domain = tuple[str | None, ...]
"""The values of the topology keys, in the order of the constraints."""


def keys_of(group: PodGroup) -> Sequence[str]:
    """Return the labels whose values the nodes of all pods of a group have in common."""
    constraints = group.spec.scheduling_constraints
    return [constraint.key for constraint in constraints.topology] if constraints else []


def domain_of(node: NodeState, keys: Sequence[str]) -> Domain:
    return tuple([node.labels.get(key) for key in keys])


def domains(
    keys: Sequence[str], candidates: Iterable[NodeState], members: Iterable[Pod],
    state: SchedulingState,
) -> list[Domain]:  # fmt: skip
    """Return the domains to try: that of the members with a node, else those of candidates."""
    placed = {
        domain_of(node, keys)
        for pod in members
        if (name := pod.spec.node_name or state.nodes.node_of(pod.metadata.uid))
        and (node := state.nodes.get(name)) is not None
    }
    found = dict.fromkeys(domain_of(node, keys) for node in candidates)
    # A node without one of the labels is in no domain.
    complete = [domain for domain in found if None not in domain]
    return [domain for domain in complete if not placed - {domain}]
