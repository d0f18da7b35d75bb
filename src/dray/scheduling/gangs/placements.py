"""Places members of a gang while a search goes on, with devices for all on a node together.

The devices of a node are allocated again, for all members there, whenever one joins them: the
allocator searches all combinations, so a member never holds what another one there needs more.
Nothing is reserved but the node resources; claims get their allocations when the search has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.model.rejections import SearchTimeout
from dray.allocator.placement import Allocator, Fit
from dray.api.ids import ClaimKey
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.scheduling.claims import device_fit, pod_demand
from dray.scheduling.claims.assignments import NodeAssignment, NodeFit
from dray.scheduling.claims.claim_readiness import PodClaim
from dray.scheduling.claims.device_fit import DeviceMatcher
from dray.scheduling.claims.extended_resources import ExtendedClaim
from dray.scheduling.claims.pod_demand import PodDemand
from dray.scheduling.gangs.effort import SearchEnded
from dray.scheduling.gangs.linked_nodes import LinkedNodes
from dray.scheduling.gangs.members import Member
from dray.scheduling.nodes import node_fit
from dray.scheduling.nodes.node_fit import NodeState, Reasons
from dray.scheduling.nodes.pod_requirements import PodUsage
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import Alternatives, DeviceSearch, Steps

Given = dict[str, Mapping[ClaimKey, AllocationResult]]
"""The allocations on each node, by claim."""


class _Placed(NamedTuple):
    """A member on a node."""

    depth: int
    member: Member
    node: NodeState
    claims: Sequence[ResourceClaim]
    """The claims that are allocated on this node, and not for an earlier member."""
    foreign: Sequence[PodClaim]
    """The claims that are allocated for an earlier member, on another node."""
    extended: ExtendedClaim | None

    @property
    def uid(self) -> str:
        return self.member.pod.metadata.uid


class _Before(NamedTuple):
    """The state to restore when a member leaves its node."""

    given: Given
    usages: Mapping[str, Mapping[str, PodUsage]]
    """By node, then by uid of the pod."""


class Placements:
    """Members on nodes, as a stack.

    Sets of members are integers, with the bit of the depth at which each was added.
    """

    def __init__(
        self, state: SchedulingState, devices: DeviceMatcher, allocator: Allocator
    ) -> None:
        self._state, self._devices, self._allocator = state, devices, allocator
        self._features = state.features
        self._stack: list[tuple[_Placed, _Before]] = []
        self._on: dict[str, list[_Placed]] = {}
        self._owners: dict[ClaimKey, _Placed] = {}
        """The member for which each claim is allocated."""
        self._given: Given = {}
        self._linked = LinkedNodes(state.inventory, allocator)

    @property
    def are_independent(self) -> bool:
        """Return whether the devices of each node are its own."""
        return not self._linked.exist

    def is_fresh(self, node: NodeState) -> bool:
        """Return whether no member is on a node."""
        return not self._on.get(node.name)

    def add(self, depth: int, member: Member, node: NodeState) -> Steps[int | None]:
        """Place a member on a node. Returns None, or the members that may be why it cannot be.

        Raises SearchEnded if the allocator was stopped.
        """
        demand = member.demand
        beside = self._on.setdefault(node.name, [])
        # Where devices use node resources, the others there may have to get other devices first.
        if not self._features.node_allocatable_resources and self._lacks_room(demand, node):
            return _bits(beside)
        placed = self._placed(depth, member, node)
        pending = [*beside, placed]
        self._on[node.name] = pending
        try:
            given = yield from self._allocate(placed)
        finally:
            self._on[node.name] = beside
        if given is None:
            owners = [self._owners[used.claim.key].node for used in placed.foreign]
            return self.members_on([node, *owners])
        self._on[node.name] = pending
        self._push(placed, given)
        return None

    def remove(self) -> None:
        """Remove the member that was added last."""
        placed, before = self._stack.pop()
        self._on[placed.node.name] = self._on[placed.node.name][:-1]
        for claim in placed.claims:
            del self._owners[claim.key]
        self._given = before.given
        self._state.nodes.remove_pod(placed.uid)
        self._use(before.usages)

    def clear(self) -> None:
        while self._stack:
            self.remove()

    def assignments(self) -> Iterator[NodeAssignment]:
        """Yield the assignments and remove all members. Each has to be reserved before the next."""
        stack, given = [placed for placed, _ in self._stack], self._given
        self.clear()
        for placed in stack:
            fit = self._fit(placed, given)
            assert isinstance(fit, NodeFit), "nothing has changed since it was found"
            yield NodeAssignment(placed.member.pod, placed.node.name, fit)

    def room(self, members: Sequence[Member], node: NodeState) -> Steps[int]:
        """Return how many members of a kind fit on a node as it is, or a larger number."""
        demand = members[0].demand
        rooms = node_fit.rooms_for(node, demand.requirements, demand.extended.__contains__)
        room = min(len(members), *rooms.values())
        claims = {claim.key: claim for claim in self._claims_on(node.name)}
        for count, member in enumerate(members[:room]):
            wanted, _ = self._devices.claims_on(member.demand, node)
            new = {claim.key: claim for claim in wanted if claim.key not in self._owners}
            if new.keys() <= claims.keys():
                continue
            claims |= new
            outcome = yield DeviceSearch(self._allocator, list(claims.values()), node.name)
            if isinstance(outcome, SearchTimeout):
                raise SearchEnded
            if not isinstance(outcome, Fit):
                return count
        return room

    def members_on(self, nodes: Iterable[NodeState]) -> int:
        """Return the members that are on some nodes, or may have devices which these see."""
        names = {node.name for node in nodes}
        return _bits(
            placed
            for placed, _ in self._stack
            if placed.node.name in names or (placed.claims and self._linked.exist)
        )

    def _placed(self, depth: int, member: Member, node: NodeState) -> _Placed:
        wanted, extended = self._devices.claims_on(member.demand, node)
        foreign = [
            used
            for used in member.demand.unallocated
            if (owner := self._owners.get(used.claim.key)) is not None and owner.node is not node
        ]
        claims = [claim for claim in wanted if claim.key not in self._owners]
        return _Placed(depth, member, node, claims, foreign, extended)

    def _allocate(self, placed: _Placed) -> Steps[Given | None]:
        """Return the allocations with one more member on its node; None if there are none."""
        name = placed.node.name
        given = dict(self._given)
        owners = {self._owners[used.claim.key].node.name for used in placed.foreign}
        if any(self._is_linked(node) for node in (name, *owners)):
            nodes = [node for node, on_node in self._on.items() if on_node and node != name]
            linked = [node for node in nodes if self._is_linked(node)]
            return given if (yield from self._solve([*linked, name], given)) else None
        # The allocations on other nodes stay; whether they can be used here is decided.
        if not self._are_usable([placed], given):
            return None
        return given if (yield from self._solve([name], given)) else None

    def _solve(self, nodes: Sequence[str], given: Given) -> Steps[bool]:
        """Allocate the claims of all members on some nodes; put the allocations into `given`."""
        if not nodes:
            return self._are_usable([placed for on in self._on.values() for placed in on], given)
        node, *others = nodes
        claims = self._claims_on(node)
        if not claims:
            given[node] = {}
            return self._usages(node, given) is not None and (yield from self._solve(others, given))
        search = Alternatives(DeviceSearch(self._allocator, claims, node))
        while isinstance(outcome := (yield search), Fit):
            keys = [claim.key for claim in claims]
            given[node] = dict(zip(keys, outcome.allocations, strict=True))
            if self._usages(node, given) is None:
                continue
            if not others and not self._linked.exist:
                return True
            if (yield from self._solve_beside(given[node], others, given)):
                return True
        if isinstance(outcome, SearchTimeout):
            raise SearchEnded
        return False

    def _solve_beside(
        self, held: Mapping[ClaimKey, AllocationResult], nodes: Sequence[str], given: Given
    ) -> Steps[bool]:
        """Allocate on other nodes while the devices of some claims are held."""
        inventory = self._state.inventory
        try:
            for key, allocation in held.items():
                inventory.record_allocation(key, allocation)
            return (yield from self._solve(nodes, given))
        finally:
            for key in held:
                inventory.release(key)

    def _push(self, placed: _Placed, given: Given) -> None:
        changed = [
            name
            for name, allocations in given.items()
            if self._given.get(name) is not allocations or name == placed.node.name
        ]
        usages = {name: self._usages(name, given) for name in changed}
        counted = {
            name: {
                other.uid: usage
                for other in self._on[name]
                if (usage := other.node.usages.get(other.uid))
            }
            for name in changed
        }
        self._stack.append((placed, _Before(self._given, counted)))
        self._given = given
        for claim in placed.claims:
            self._owners[claim.key] = placed
        self._use({name: found for name, found in usages.items() if found is not None})

    def _use(self, usages: Mapping[str, Mapping[str, PodUsage]]) -> None:
        for name, of_pods in usages.items():
            for uid, usage in of_pods.items():
                self._state.nodes.add_pod(uid, name, usage)

    def _usages(self, name: str, given: Given) -> Mapping[str, PodUsage] | None:
        """Return what the members on a node use of it; None if their devices need too much."""
        on_node = self._on[name]
        if not self._features.node_allocatable_resources:
            return {placed.uid: placed.member.demand.requirements.usage for placed in on_node}
        counted = {placed.uid: placed.node.usages.get(placed.uid) for placed in on_node}
        usages: dict[str, PodUsage] = {}
        try:
            for uid in counted:
                self._state.nodes.remove_pod(uid)
            for placed in on_node:
                lacks_room = self._lacks_room(placed.member.demand, placed.node)
                fit = None if lacks_room else self._fit(placed, given)
                if not isinstance(fit, NodeFit):
                    return None
                usages[placed.uid] = fit.usage
                self._state.nodes.add_pod(placed.uid, name, fit.usage)
        except device_fit.SearchFailed:
            return None
        finally:
            for uid, usage in counted.items():
                self._state.nodes.remove_pod(uid)
                if usage is not None:
                    self._state.nodes.add_pod(uid, name, usage)
        return usages

    def _lacks_room(self, demand: PodDemand, node: NodeState) -> bool:
        is_delegated = demand.extended.__contains__
        return bool(node_fit.reasons_against(node, demand.requirements, is_delegated))

    def _fit(self, placed: _Placed, given: Given) -> NodeFit | Reasons:
        """Return what a member gets on its node. Raises SearchFailed."""
        demand = placed.member.demand
        own = {claim.key for claim in placed.claims}
        shared = [
            pod_demand.allocated_claim(used, self._allocation(used.claim.key, given))
            for used in demand.unallocated
            if used.claim.key not in own
        ]
        of_pod = demand._replace(
            unallocated=tuple(used for used in demand.unallocated if used.claim.key in own),
            allocated=(*demand.allocated, *shared),
        )
        here = given[placed.node.name]
        allocations = [here[claim.key] for claim in placed.claims]
        return self._devices.fit_with(of_pod, placed.node, allocations, placed.extended)

    def _allocation(self, key: ClaimKey, given: Given) -> AllocationResult:
        return next(found[key] for found in given.values() if key in found)

    def _is_linked(self, name: str) -> bool:
        return self._linked.has(name, self._claims_on(name))

    def _claims_on(self, name: str) -> list[ResourceClaim]:
        return [claim for placed in self._on.get(name, ()) for claim in placed.claims]

    def _are_usable(self, members: Iterable[_Placed], given: Given) -> bool:
        """Return whether members can use the allocations that their claims have elsewhere."""
        return all(
            self._devices.is_usable(
                placed.member.demand,
                pod_demand.allocated_claim(used, self._allocation(used.claim.key, given)),
                placed.node,
            )
            for placed in members
            for used in placed.foreign
        )


def _bits(members: Iterable[_Placed]) -> int:
    return sum(1 << placed.depth for placed in members)
