"""Searches for the nodes and devices of a gang: whether it fits in any way at all.

A gang that fits is refused by kube-scheduler if it does not fit with the devices that its pods take
one after the other: https://github.com/kubernetes/kubernetes/issues/138765.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from dray.allocator.placement import Allocator, Fit
from dray.allocator.search.device_order import Order
from dray.api.types.pods import Pod
from dray.scheduling.claims.device_fit import DeviceMatcher
from dray.scheduling.claims.pod_demand import DemandResolver
from dray.scheduling.gangs import members, topology
from dray.scheduling.gangs.effort import Effort
from dray.scheduling.gangs.equal_nodes import EqualNodes
from dray.scheduling.gangs.members import Member, Members
from dray.scheduling.gangs.placements import Placements
from dray.scheduling.gangs.search import MemberSearch
from dray.scheduling.node_choice import NodeChooser
from dray.scheduling.nodes import node_fit
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import DeviceSearch, Steps

_ROOM_LIMIT = 16
"""Pods like this one for which room is looked for; those with room for more are as easy."""


def _never() -> bool:
    return False


class GangSearch:
    """Searches for one gang at a time."""

    def __init__(
        self,
        state: SchedulingState,
        chooser: NodeChooser,
        demands: DemandResolver,
        devices: DeviceMatcher,
        order: Order | None,
        should_stop: Callable[[], bool],
    ) -> None:
        self._state, self._chooser = state, chooser
        self._demands, self._devices = demands, devices
        self._effort = Effort(_never)
        # An allocator of its own, whose trials count.
        self._allocator = Allocator(
            state.inventory,
            new_share_id=state.new_share_id,
            order=order,
            should_stop=lambda: self._effort() or should_stop(),
            of_several_pods=True,
        )

    @property
    def trials(self) -> int:
        """Return the number of trials of the latest search."""
        return self._effort.trials

    def place(
        self,
        pods: Sequence[Pod],
        needed: int,
        keys: Sequence[str],
        placed: Sequence[Pod],
        now: datetime.datetime,
        should_stop: Callable[[], bool],
    ) -> Steps[Placements | None]:
        """Place at least `needed` of the pods. Returns None if that cannot be done in any way.

        The nodes of all, and those of the `placed` pods of their group, have equal labels `keys`.
        The node resources of the pods are in use until `Placements.clear` or `assignments`. Raises
        SearchEnded after too many trials, or when `should_stop` or that of the allocator says so.
        """
        self._effort = Effort(should_stop)
        found = yield from members.find(pods, self._state, self._chooser, self._demands, now)
        if not keys:
            return (yield from self._search(found, found.listed, needed))
        nodes = {node.name: node for member in found.listed for node in member.nodes}
        for domain in topology.domains(keys, nodes.values(), placed, self._state):
            inside = [_inside(member, keys, domain) for member in found.listed]
            listed = [member for member in inside if member.nodes]
            placements = yield from self._search(found, listed, needed)
            if placements is not None:
                return placements
        return None

    def _search(
        self, found: Members, listed: Sequence[Member], needed: int
    ) -> Steps[Placements | None]:
        """Search with some of the members; where the order matters, with several orders."""
        if len(listed) < needed:
            return None
        placements = Placements(self._state, self._devices, self._allocator)
        is_found = False
        ordered = yield from self._hardest_first(listed)
        equal_nodes = EqualNodes(listed, self._devices, self._allocator)
        try:
            for _ in ordered if found.depend_on_order else ordered[:1]:
                search = MemberSearch(
                    self._state,
                    placements,
                    ordered,
                    len(ordered) - needed,
                    self._effort,
                    equal_nodes,
                    depends_on_order=found.depend_on_order,
                )
                is_found = yield from search.run()
                if is_found:
                    return placements
                # The member that found no node is the hardest to place: it goes first next time.
                ordered.insert(0, ordered.pop(search.furthest))
            return None
        finally:
            if not is_found:
                placements.clear()

    def _hardest_first(self, members: Sequence[Member]) -> Steps[list[Member]]:
        """Return the members with those first for which there is the least room."""
        rooms: dict[int, int] = {}
        for member in members:
            if member.kind not in rooms:
                rooms[member.kind] = (yield from self._room(member)) * len(member.nodes)
        return sorted(members, key=lambda member: (rooms[member.kind], member.kind))

    def _room(self, member: Member) -> Steps[int]:
        """Return about how many pods like a member fit on its best node."""
        node, demand = member.nodes[0], member.demand
        rooms = node_fit.rooms_for(node, demand.requirements, demand.extended.__contains__)
        claims, _ = self._devices.claims_on(demand, node)
        room = 1
        while room < _ROOM_LIMIT and room < min(rooms.values()):
            if claims:
                outcome = yield DeviceSearch(self._allocator, claims * room * 2, node.name)
                if not isinstance(outcome, Fit):
                    break
            room *= 2
        return room


def _inside(member: Member, keys: Sequence[str], domain: topology.Domain) -> Member:
    """Return the member with its nodes in one domain only."""
    nodes = [node for node in member.nodes if topology.domain_of(node, keys) == domain]
    return member._replace(nodes=nodes)
