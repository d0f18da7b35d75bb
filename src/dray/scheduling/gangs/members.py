"""The members of a gang that wait for a node, and the nodes where each would fit alone."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.claims.pod_demand import DemandResolver, PodDemand
from dray.scheduling.node_choice import NodeChooser
from dray.scheduling.nodes.node_fit import NodeState
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import SearchOutcome, Steps
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
            nodes[kind] = yield from _nodes_for(demand, state, chooser, depend_on_order)
        members.append(Member(demand.pod, demand, kind, nodes[kind]))
    fitting = [member for member in members if member.nodes]
    fitting.sort(key=lambda member: member.kind)
    return Members(fitting, depend_on_order)


def _nodes_for(
    demand: PodDemand, state: SchedulingState, chooser: NodeChooser, beside_any_pods: bool
) -> Steps[list[NodeState]]:
    """Return the nodes where a pod fits as long as no other member is placed."""
    found: list[NodeState] = []
    fits = chooser.all_fits(demand, beside_any_pods=beside_any_pods)
    outcome: SearchOutcome | None = None
    while True:
        try:
            step = fits.send(outcome)
        except StopIteration:
            return found
        outcome = None
        if isinstance(step, NodeAssignment):
            node = state.nodes.get(step.node)
            assert node is not None, "the state stays as it is during a decision"
            found.append(node)
        else:
            outcome = yield step
