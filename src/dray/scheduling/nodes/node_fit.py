"""Nodes and what is in use of them: can a pod with certain needs run there?

The checks, their order and their words are those of kube-scheduler's filter plugins
NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts and NodeResourcesFit. Each change of a
node is logged, so that whoever keeps answers about nodes re-asks only those that changed.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dray.allocator.inventory.cluster_inventory import ChangeLog
from dray.api.selectors import label_selectors
from dray.api.types.nodes import Node
from dray.scheduling.nodes import pod_requirements
from dray.scheduling.nodes.pod_requirements import Amounts, PodRequirements, PodUsage

PODS = "pods"


class ReasonKind(enum.Enum):
    """Which sort of event could remove a reason."""

    NODE = "node"
    """The node itself has to change."""
    ROOM = "room"
    """Pods have to leave the node, or it has to grow."""
    DEVICES = "devices"
    """Devices have to come or to be freed."""
    CLAIM = "claim"
    """A claim that is allocated already is in the way."""
    NEIGHBOURS = "neighbours"
    """Other pods have to come to a node, or to leave one."""


class FilterReason(NamedTuple):
    """Why a node cannot be used, in upstream's words."""

    text: str
    sort: ReasonKind
    is_resolvable: bool = False
    """Whether fewer pods on the node could help."""


Reasons = tuple[FilterReason, ...]

WERE_UNSCHEDULABLE = FilterReason("node(s) were unschedulable", ReasonKind.NODE)
HAD_TAINTS = FilterReason("node(s) had untolerated taint(s)", ReasonKind.NODE)
NOT_SELECTED = FilterReason("node(s) didn't match Pod's node affinity/selector", ReasonKind.NODE)
NOT_NAMED = FilterReason("node(s) didn't satisfy plugin(s) [NodeAffinity]", ReasonKind.NODE)
PORTS_TAKEN = FilterReason(
    "node(s) didn't have free ports for the requested pod ports",
    ReasonKind.ROOM,
    is_resolvable=True,
)
TOO_MANY_PODS = FilterReason("Too many pods", ReasonKind.ROOM, is_resolvable=True)


@functools.lru_cache(maxsize=1024)
def insufficient(name: str, is_resolvable: bool) -> FilterReason:
    return FilterReason(f"Insufficient {name}", ReasonKind.ROOM, is_resolvable)


class NodeState:
    """One node and what the pods on it take."""

    __slots__ = (
        "allocatable",
        "charges",
        "index",
        "name",
        "node",
        "requested",
        "scored_cpu",
        "scored_memory",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        """None where pods are known to be on a node that is not."""
        self.index = -1
        self.allocatable: Amounts = {}
        self.charges: dict[str, PodUsage] = {}
        """By uid of the pod."""
        self.requested: dict[str, int] = {}
        self.scored_cpu = 0
        self.scored_memory = 0

    def add(self, uid: str, charge: PodUsage) -> None:
        self.charges[uid] = charge
        self._count(charge, 1)

    def remove(self, uid: str) -> PodUsage:
        charge = self.charges.pop(uid)
        self._count(charge, -1)
        return charge

    def _count(self, charge: PodUsage, sign: int) -> None:
        for name, amount in charge.amounts.items():
            self.requested[name] = self.requested.get(name, 0) + sign * amount
        self.scored_cpu += sign * charge.scored_cpu
        self.scored_memory += sign * charge.scored_memory

    @property
    def labels(self) -> label_selectors.Labels:
        return self.node.metadata.labels if self.node else {}


class Nodes:
    """All nodes, numbered as the fleet numbers them."""

    def __init__(self) -> None:
        self._by_name: dict[str, NodeState] = {}
        self._by_index: dict[int, NodeState] = {}
        self._node_of: dict[str, NodeState] = {}
        """Where pods are, by uid."""
        self.changes = ChangeLog()
        """Nodes of which something changed, by number."""

    def __len__(self) -> int:
        return len(self._by_index)

    def __iter__(self) -> Iterator[NodeState]:
        return iter(self._by_index.values())

    def get(self, name: str) -> NodeState | None:
        """The node of that name, if it is there."""
        state = self._by_name.get(name)
        return state if state is not None and state.node is not None else None

    def at(self, index: int) -> NodeState | None:
        return self._by_index.get(index)

    def put(self, node: Node, index: int) -> None:
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
            self._forget_unless_used(state)

    def charge(self, uid: str, node: str, charge: PodUsage) -> None:
        """A pod is on a node, or will be."""
        known = self._node_of.get(uid)
        if known is not None:
            if known.name == node and known.charges[uid] == charge:
                return
            self.discharge(uid)
        state = self._node_of[uid] = self._state(node)
        state.add(uid, charge)
        self._log(state)

    def discharge(self, uid: str) -> bool:
        """The pod is on no node any more; whether it was on one."""
        state = self._node_of.pop(uid, None)
        if state is None:
            return False
        state.remove(uid)
        self._log(state)
        self._forget_unless_used(state)
        return True

    def node_of(self, uid: str) -> str:
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

    def _forget_unless_used(self, state: NodeState) -> None:
        if state.node is None and not state.charges:
            del self._by_name[state.name]


IsDelegated = Callable[[str], bool]
"""Whether a resource that a node does not have itself may come from devices instead."""


def reasons_against(
    state: NodeState, wanted: PodRequirements, is_delegated: IsDelegated
) -> Reasons:
    """Why pods with these needs cannot run on the node; empty if they can."""
    assert state.node is not None
    static = _static_reason(state, state.node, wanted)
    if static is not None:
        return (static,)
    if wanted.charge.ports and _clashes(state, wanted.charge):
        return (PORTS_TAKEN,)
    return _shortages(state, wanted.charge.amounts, is_delegated)


def _static_reason(state: NodeState, node: Node, wanted: PodRequirements) -> FilterReason | None:
    spec = node.spec
    if spec.unschedulable and not pod_requirements.tolerates(
        wanted.tolerations, pod_requirements.UNSCHEDULABLE
    ):
        return WERE_UNSCHEDULABLE
    if spec.taints and wanted.untolerated(
        spec.taints, pod_requirements.NO_SCHEDULE, pod_requirements.NO_EXECUTE
    ):
        return HAD_TAINTS
    if wanted.names is not None and state.name not in wanted.names:
        return NOT_NAMED
    if wanted.selects is not None and not wanted.selects(node.metadata.labels, state.name):
        return NOT_SELECTED
    return None


def _clashes(state: NodeState, charge: PodUsage) -> bool:
    return any(
        wanted.clashes_with(taken)
        for other in state.charges.values()
        for taken in other.ports
        for wanted in charge.ports
    )


def _shortages(state: NodeState, amounts: Amounts, is_delegated: IsDelegated) -> Reasons:
    found: list[FilterReason] = []
    allocatable, requested = state.allocatable, state.requested
    if len(state.charges) + 1 > allocatable.get(PODS, 0):
        found.append(TOO_MANY_PODS)
    for name, amount in amounts.items():
        capacity = allocatable.get(name, 0)
        if amount <= capacity - requested.get(name, 0):
            continue
        if not capacity and is_delegated(name):
            continue
        found.append(insufficient(name, amount <= capacity))
    return tuple(found)


def short_of(state: NodeState, amounts: Amounts) -> Reasons:
    """What the node lacks of amounts that come on top of a pod that fits."""
    return tuple(
        insufficient(name, amount <= state.allocatable.get(name, 0))
        for name, amount in amounts.items()
        if amount > state.allocatable.get(name, 0) - state.requested.get(name, 0)
    )
