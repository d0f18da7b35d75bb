"""The complete search for a gang: backtracking over members and nodes, with back-jumping.

A member that fits nowhere names the members that are in its way; the search goes back to the latest
of them and leaves the others as they are. Members of a kind are placed in the order of their nodes,
since any other order of them ends the same, and one of several equal nodes is tried for a member.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import takewhile

from dray.scheduling.gangs.effort import Effort
from dray.scheduling.gangs.equal_nodes import EqualNodes
from dray.scheduling.gangs.members import Member
from dray.scheduling.gangs.placements import Placements
from dray.scheduling.nodes.node_fit import NodeState
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import Steps


class _Level:
    """A member to place. Bit d of `conflicts` is set if the member at depth d may be in its way.

    Bits may be set needlessly, never left out.
    """

    __slots__ = (
        "conflicts",
        "is_left_out",
        "is_placed",
        "member",
        "next_node",
        "to_count",
        "tried",
    )

    def __init__(self, member: Member) -> None:
        self.member = member
        self.conflicts = 0
        self.next_node = 0
        self.to_count: Sequence[Member] = ()
        """The members of this kind, if this is the first and they are not counted yet."""
        self.tried: set[Hashable] = set()
        """The keys of nodes without members that were tried."""
        self.is_placed = False
        self.is_left_out = False


class MemberSearch:
    """One search for nodes of all members but `spare` of them, in the order of the members."""

    def __init__(
        self,
        state: SchedulingState,
        placements: Placements,
        members: Sequence[Member],
        spare: int,
        effort: Effort,
        equal_nodes: EqualNodes,
        *,
        depends_on_order: bool,
    ) -> None:
        self._state, self._placements, self._members = state, placements, members
        self._spare, self._effort = spare, effort
        self._depends_on_order = depends_on_order
        # Where devices use node resources, the room depends on the devices of those before.
        uses_node = state.features.node_allocatable_resources
        self._are_rooms_fixed = not depends_on_order and not uses_node
        self._has_equal_nodes = self._are_rooms_fixed and placements.are_independent
        self._equal_nodes = equal_nodes
        self._levels: list[_Level] = []
        self.furthest = 0
        """The position of the latest member that found no node."""

    def run(self) -> Steps[bool]:
        """Place the members. Returns whether that is possible; raises SearchEnded."""
        if not self._members:
            return True
        self._begin()
        while self._levels:
            level = self._levels[-1]
            if (yield from self._advance(level)):
                if len(self._levels) == len(self._members):
                    return True
                self._begin()
            else:
                self.furthest = max(self.furthest, len(self._levels) - 1)
                self._jump_back(level.conflicts)
        return False

    def _begin(self) -> None:
        """Go on with the next member."""
        depth = len(self._levels)
        level = _Level(self._members[depth])
        if depth and self._levels[-1].member.kind == level.member.kind:
            # It depends on the former member which nodes are left to this one.
            level.conflicts = 1 << (depth - 1)
            level.next_node = self._levels[-1].next_node - 1
        else:
            alike = takewhile(lambda other: other.kind == level.member.kind, self._members[depth:])
            level.to_count = list(alike)
        self._levels.append(level)

    def _are_too_many(self, members: Sequence[Member]) -> Steps[bool]:
        """Return whether more members of a kind than may be left out have no room."""
        if not self._are_rooms_fixed or len(members) < 2:
            return False
        to_place = len(members) - self._spare + sum(level.is_left_out for level in self._levels)
        for node in members[0].nodes:
            if to_place <= 0:
                return False
            self._effort.spend()
            to_place -= yield from self._placements.room(members, node)
            yield None
        return to_place > 0

    def _advance(self, level: _Level) -> Steps[bool]:
        """Place the member on its next node, or leave it out. Returns whether it could be done."""
        depth = len(self._levels) - 1
        self._withdraw(level)
        nodes = level.member.nodes
        to_count, level.to_count = level.to_count, ()
        # Each node is filled before the next, so members of one kind alone never end in this.
        if (yield from self._are_too_many(to_count)):
            level.conflicts = self._placements.members_on(nodes) | self._left_out()
            return False
        while level.next_node < len(nodes):
            node = nodes[level.next_node]
            level.next_node += 1
            if self._is_tried(level, node):
                continue
            self._effort.spend()
            yield None
            refusal = self._refusal_by_pods(level.member, node)
            if refusal is None:
                refusal = yield from self._placements.add(depth, level.member, node)
            if refusal is None:
                level.is_placed = True
                return True
            level.conflicts |= refusal
        return self._leave_out(level)

    def _is_tried(self, level: _Level, node: NodeState) -> bool:
        """Return whether an equal node was tried, and note that this one is."""
        if not self._has_equal_nodes or not self._placements.is_fresh(node):
            return False
        key = self._equal_nodes.key(node)
        is_tried = key in level.tried
        level.tried.add(key)
        return is_tried

    def _leave_out(self, level: _Level) -> bool:
        """Leave the member without a node, the last choice that there is for it."""
        if level.next_node > len(level.member.nodes):
            return False
        left_out = self._left_out()
        if left_out.bit_count() >= self._spare:
            level.conflicts |= left_out
            return False
        level.next_node += 1
        level.is_left_out = True
        return True

    def _left_out(self) -> int:
        return sum(1 << depth for depth, level in enumerate(self._levels) if level.is_left_out)

    def _refusal_by_pods(self, member: Member, node: NodeState) -> int | None:
        """Return all members if affinity to those before keeps a member from a node."""
        if not self._depends_on_order:
            return None
        check = self._state.affinity.checks_for(member.pod, member.demand.requirements)
        return (1 << (len(self._levels) - 1)) - 1 if check is not None and check(node) else None

    def _withdraw(self, level: _Level) -> None:
        if level.is_placed:
            self._placements.remove()
        level.is_placed = level.is_left_out = False

    def _jump_back(self, conflicts: int) -> None:
        """Drop the latest member, and all others after the latest one in `conflicts`."""
        # What is between them is no reason that this member fits nowhere: any other choice there
        # would end here again. The target takes over the other reasons.
        target = conflicts.bit_length() - 1
        while len(self._levels) > target + 1:
            self._withdraw(self._levels.pop())
        if self._levels:
            self._levels[target].conflicts |= conflicts ^ (1 << target)
