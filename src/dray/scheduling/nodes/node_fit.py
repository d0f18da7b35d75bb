"""Nodes, what is in use of them, and why a pod cannot run on one.

The checks, their order and their messages are those of kube-scheduler's filter plugins
NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts and NodeResourcesFit. Each change of a
node is logged, so that cached results are computed again only for the nodes that changed.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.allocator.inventory.cluster_inventory import ChangeLog
from dray.api import well_known
from dray.api.selectors import label_selectors
from dray.api.semantics import tolerations
from dray.api.types.nodes import Node
from dray.scheduling.nodes import pod_requirements
from dray.scheduling.nodes.pod_requirements import Amounts, PodRequirements, PodUsage

PODS = "pods"


class ReasonKind(enum.Enum):
    """The kind of event that could remove a reason. The values are labels of metrics."""

    NODE = "node"
    """The node itself has to change."""
    NODE_RESOURCES = "room"
    """Pods have to leave the node, or its allocatable resources have to grow."""
    DEVICES = "devices"
    """Devices have to be published or freed."""
    CLAIM = "claim"
    """An allocated claim cannot be used on the node."""
    POD_AFFINITY = "neighbours"
    """Other pods have to be placed or removed."""


class FilterReason(NamedTuple):
    """A reason why a node cannot be used, in the words of kube-scheduler."""

    text: str
    kind: ReasonKind
    is_resolvable: bool = False
    """Whether preemption, fewer pods on the node, could help."""


Reasons = tuple[FilterReason, ...]

WERE_UNSCHEDULABLE = FilterReason("node(s) were unschedulable", ReasonKind.NODE)
HAD_TAINTS = FilterReason("node(s) had untolerated taint(s)", ReasonKind.NODE)
NOT_SELECTED = FilterReason("node(s) didn't match Pod's node affinity/selector", ReasonKind.NODE)
NOT_NAMED = FilterReason("node(s) didn't satisfy plugin(s) [NodeAffinity]", ReasonKind.NODE)
PORTS_TAKEN = FilterReason(
    "node(s) didn't have free ports for the requested pod ports",
    ReasonKind.NODE_RESOURCES,
    is_resolvable=True,
)
TOO_MANY_PODS = FilterReason("Too many pods", ReasonKind.NODE_RESOURCES, is_resolvable=True)


@functools.lru_cache(maxsize=1024)
def insufficient(name: str, is_resolvable: bool) -> FilterReason:
    """Return the reason that a node has too little of a resource."""
    return FilterReason(f"Insufficient {name}", ReasonKind.NODE_RESOURCES, is_resolvable)


_DIGITS = re.compile("[0-9]+")
_LONGEST_NUMBER = 10


@dataclass(slots=True, eq=False)
class NodeState:
    """One node and what the pods on it use."""

    name: str
    node: Node | None = None
    """None if pods name a node that does not exist."""
    index: int = -1
    allocatable: Amounts = field(default_factory=dict)
    usages: dict[str, PodUsage] = field(default_factory=dict)
    """By uid of the pod."""
    requested: dict[str, int] = field(default_factory=dict)
    scored_cpu: int = 0
    scored_memory: int = 0
    order: str = ""
    """Sorts nodes by name, with numbers by value."""

    def __post_init__(self) -> None:
        self.order = _DIGITS.sub(lambda found: found[0].zfill(_LONGEST_NUMBER), self.name)

    def add(self, uid: str, usage: PodUsage) -> None:
        self.usages[uid] = usage
        self._count(usage, 1)

    def remove(self, uid: str) -> PodUsage:
        usage = self.usages.pop(uid)
        self._count(usage, -1)
        return usage

    def _count(self, usage: PodUsage, sign: int) -> None:
        for name, amount in usage.amounts.items():
            self.requested[name] = self.requested.get(name, 0) + sign * amount
        self.scored_cpu += sign * usage.scored_cpu
        self.scored_memory += sign * usage.scored_memory

    @property
    def labels(self) -> label_selectors.Labels:
        return self.node.metadata.labels if self.node else {}


class Nodes:
    """All nodes, with the indexes they have in the cluster inventory."""

    def __init__(self) -> None:
        self._by_name: dict[str, NodeState] = {}
        self._by_index: dict[int, NodeState] = {}
        self._node_of: dict[str, NodeState] = {}
        """The node of each placed pod, by the pod's uid."""
        self.changes = ChangeLog()
        """The indexes of nodes that changed."""

    def __len__(self) -> int:
        return len(self._by_index)

    def __iter__(self) -> Iterator[NodeState]:
        return iter(self._by_index.values())

    def get(self, name: str) -> NodeState | None:
        """Return the node with this name; None if it does not exist."""
        state = self._by_name.get(name)
        return state if state is not None and state.node is not None else None

    def at(self, index: int) -> NodeState | None:
        return self._by_index.get(index)

    def put(self, node: Node, index: int) -> None:
        """Add or update a node. `index` is its index in the cluster inventory."""
        state = self._state(node.metadata.name)
        if state.index != index:
            self._by_index.pop(state.index, None)
            state.index = index
            self._by_index[index] = state
        state.node = node
        state.allocatable = {
            name: pod_requirements.whole_text(name, text)
            for name, text in node.status.allocatable.items()
        }
        self.changes.add(index)

    def drop(self, name: str) -> None:
        state = self._by_name.get(name)
        if state is not None and state.node is not None:
            self.changes.add(state.index)
            del self._by_index[state.index]
            state.node, state.index = None, -1
            self._delete_unless_used(state)

    def add_pod(self, uid: str, node: str, usage: PodUsage) -> None:
        """Count a pod that is on a node, or will be."""
        before = self._node_of.get(uid)
        if before is not None:
            if before.name == node and before.usages[uid] == usage:
                return
            self.remove_pod(uid)
        state = self._node_of[uid] = self._state(node)
        state.add(uid, usage)
        self._log(state)

    def remove_pod(self, uid: str) -> bool:
        """Stop counting a pod. Returns whether it was on a node."""
        state = self._node_of.pop(uid, None)
        if state is None:
            return False
        state.remove(uid)
        self._log(state)
        self._delete_unless_used(state)
        return True

    def node_of(self, uid: str) -> str:
        """Return the name of the node that a pod is on or will be on; empty without one."""
        state = self._node_of.get(uid)
        return state.name if state else ""

    def _state(self, name: str) -> NodeState:
        state = self._by_name.get(name)
        if state is None:
            state = self._by_name[name] = NodeState(name)
        return state

    def _log(self, state: NodeState) -> None:
        if state.node is not None:
            self.changes.add(state.index)

    def _delete_unless_used(self, state: NodeState) -> None:
        if state.node is None and not state.usages:
            del self._by_name[state.name]


def may_fit_more(old: Node, new: Node) -> bool:
    """Return whether a change of a node could change what fits there. Heartbeats do not."""
    return (
        old.spec.taints != new.spec.taints
        or old.spec.unschedulable != new.spec.unschedulable
        or old.metadata.labels != new.metadata.labels
        or old.status.allocatable != new.status.allocatable
        or old.status.declared_features != new.status.declared_features
    )


IsDelegated = Callable[[str], bool]
"""Return whether devices may provide a resource that the node itself does not have."""


def reasons_against(
    state: NodeState, requirements: PodRequirements, is_delegated: IsDelegated
) -> Reasons:
    """Return why pods with these requirements cannot run on the node; empty if they can."""
    assert state.node is not None
    static = _static_reason(state, state.node, requirements)
    if static is not None:
        return (static,)
    if requirements.usage.ports and _clashes(state, requirements.usage):
        return (PORTS_TAKEN,)
    return _shortages(state, requirements.usage.amounts, is_delegated)


def _static_reason(
    state: NodeState, node: Node, requirements: PodRequirements
) -> FilterReason | None:
    spec = node.spec
    if spec.unschedulable and not tolerations.is_tolerated(
        pod_requirements.UNSCHEDULABLE_TAINT, requirements.tolerations
    ):
        return WERE_UNSCHEDULABLE
    if spec.taints and requirements.untolerated(
        spec.taints, well_known.NO_SCHEDULE, well_known.NO_EXECUTE
    ):
        return HAD_TAINTS
    if requirements.names is not None and state.name not in requirements.names:
        return NOT_NAMED
    if requirements.selects is not None and not requirements.selects(
        node.metadata.labels, state.name
    ):
        return NOT_SELECTED
    return None


def _clashes(state: NodeState, usage: PodUsage) -> bool:
    return any(
        port.clashes_with(used)
        for other in state.usages.values()
        for used in other.ports
        for port in usage.ports
    )


def _shortages(state: NodeState, amounts: Amounts, is_delegated: IsDelegated) -> Reasons:
    reasons: list[FilterReason] = []
    allocatable, requested = state.allocatable, state.requested
    if len(state.usages) + 1 > allocatable.get(PODS, 0):
        reasons.append(TOO_MANY_PODS)
    for name, amount in amounts.items():
        capacity = allocatable.get(name, 0)
        if amount <= capacity - requested.get(name, 0):
            continue
        # A node with the resource itself serves it; only otherwise devices stand in for it.
        if not capacity and is_delegated(name):
            continue
        reasons.append(insufficient(name, amount <= capacity))
    return tuple(reasons)


def short_of(state: NodeState, amounts: Amounts) -> Reasons:
    """Return a reason per resource that the node has less of than in `amounts`."""
    return tuple(
        insufficient(name, amount <= state.allocatable.get(name, 0))
        for name, amount in amounts.items()
        if amount > state.allocatable.get(name, 0) - state.requested.get(name, 0)
    )
