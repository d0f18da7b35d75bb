"""The members of a gang that wait for a node, and the nodes where each would fit alone."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from dray.api.types.pods import Pod
from dray.scheduling.claims.pod_demand import DemandResolver, PodDemand
from dray.scheduling.node_choice import NodeChooser
from dray.scheduling.nodes.node_fit import NodeState
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import Steps
from dray.scheduling.unschedulable import Unschedulable


class Member(NamedTuple):
    """A pod of a gang that may fit."""

    pod: Pod
    demand: PodDemand
    kind: int
    """Equal for members that can change places."""
    nodes: Sequence[NodeState]
    """Where the pod fits without the other members, the best first."""


class Members(NamedTuple):
    """All members that may fit, those of a kind together."""

    listed: list[Member]
    depend_on_order: bool
    """Whether nodes are ruled out, or required, by the pods that were placed before."""


def find(
    pods: Sequence[Pod],
    state: SchedulingState,
    chooser: NodeChooser,
    demands: DemandResolver,
    now: datetime.datetime,
) -> Steps[Members]:
    """Return the members among some pods."""
    resolved = [demands.demand_of(pod, state.group_of(pod), now) for pod in pods]
    known = [demand for demand in resolved if not isinstance(demand, Unschedulable)]
    depend_on_order = any(
        state.affinity.checks_for(demand.pod, demand.requirements) is not None for demand in known
    )
    uses = Counter(used.claim.key for demand in known for used in demand.unallocated)
    kinds: dict[Hashable, int] = {}
    nodes: dict[int, Sequence[NodeState]] = {}
    members: list[Member] = []
    for demand in known:
        # Who shares a claim fits where the others are.
        shared = frozenset(
            used.claim.key for used in demand.unallocated if uses[used.claim.key] > 1
        )
        own = demand.pod.metadata.uid if depend_on_order else ""
        kind = kinds.setdefault((demand.signature(), shared, own), len(kinds))
        if kind not in nodes:
            # Where devices use node resources, others than the first may use less.
            nodes[kind] = yield from chooser.possible_nodes(
                demand,
                beside_any_pods=depend_on_order,
                with_any_devices=state.features.node_allocatable_resources,
            )
        members.append(Member(demand.pod, demand, kind, nodes[kind]))
    fitting = [member for member in members if member.nodes]
    fitting.sort(key=lambda member: member.kind)
    return Members(fitting, depend_on_order)
