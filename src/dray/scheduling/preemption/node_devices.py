"""The devices of one node as a preemptor needs them, and what victims hold of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.checks.counters import PackedCounter
from dray.allocator.inventory.node_inventory import NodeInventory, NodePool
from dray.allocator.model.candidates import Candidate
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem
from dray.api.formats import quantity
from dray.api.ids import PoolId
from dray.scheduling.claims.claim_index import ClaimIndex
from dray.scheduling.preemption.victims import Victim, VictimDevice

Intern = Callable[[Hashable], int]
"""Returns the number of a value: the same for equal values, on all nodes."""


class DeviceNeed(NamedTuple):
    """Devices of which a preemptor needs some that are free."""

    request: int
    """The number of the request; -1 for all requests together."""
    devices: int
    lacking: int
    """At least so many more of them have to become free."""


class VictimDevices(NamedTuple):
    """The devices that matter to the preemptor and that a victim holds."""

    whole: int
    """The set of them that the victim holds as a whole."""
    signature: tuple[int, ...]
    """Equal for victims on alike nodes whose eviction makes the same difference."""


class DeviceTarget(NamedTuple):
    """A device that is enough for the preemptor, and exactly what has to become free for it."""

    bit: int
    """The device, if it is in use as a whole; else 0."""
    pool: int
    counters: tuple[PackedCounter, ...]
    """The counters of the pool of which too little is left."""
    shared: str
    """The name of the device, if shares leave too little of it; else empty."""
    capacities: tuple[str, ...]
    """What they leave too little of."""
    lacks: tuple[int, ...]
    """The amounts: users of a device that is in use, of these counters, of these capacities."""

    @property
    def is_one_claim(self) -> bool:
        """Return whether the users of one claim are all that is in the way."""
        return not (self.counters or self.capacities)


Freed = Mapping[str, Sequence[int]]
"""By victim, the most that it frees of what a target lacks; nothing for those not in it."""


class NodeDevices:
    """The devices of a node for one preemptor."""

    def __init__(self, problem: NodeProblem, claims: ClaimIndex, intern: Intern) -> None:
        self._problem, self._claims, self._intern = problem, claims, intern
        self._inventory = inventory = problem.inventory
        self._pools = {
            node_pool.pool.id: (number, node_pool)
            for number, node_pool in enumerate(inventory.node_pools)
        }
        self._wanted = 0
        for alternative in problem.alternatives():
            is_all = alternative.all_mode_devices is not None
            self._wanted |= alternative.selected if is_all else alternative.eligible
        self.is_plain = not (
            problem.may_fail
            or inventory.uses_node_resources
            or self._wanted & (inventory.partitions | inventory.shareable)
        )
        """Whether devices that no request can tell apart can stand in for each other."""
        self._classes = list(self._classes_of_devices())

    def needs(self) -> list[DeviceNeed]:
        """Return which devices the preemptor lacks, at the least."""
        needs, union, total = [], 0, 0
        taken = self._inventory.taken
        for number, request in enumerate(self._problem.requests):
            alternative = request.alternatives[0]
            if len(request.alternatives) > 1 or self._may_overlap(alternative):
                continue
            if alternative.all_mode_devices is not None:
                devices = alternative.selected
                needs.append(DeviceNeed(number, devices, (devices & taken).bit_count()))
                continue
            devices = alternative.eligible
            free = (devices & ~taken).bit_count()
            needs.append(DeviceNeed(number, devices, alternative.count - free))
            union, total = union | devices, total + alternative.count
        if len(needs) > 1:
            needs.append(DeviceNeed(-1, union, total - (union & ~taken).bit_count()))
        return [need for need in needs if need.lacking > 0]

    def targets(self, *, shares_claims: bool) -> Sequence[DeviceTarget]:
        """Return the devices of which one is enough, where several victims may hold a device.

        Empty if it is not one device that is missing, or if other devices matter as well.
        `shares_claims` says whether pods use claims together.
        """
        alternative, inventory = self._problem.single_alternative, self._inventory
        if (
            alternative is None
            or alternative.parsed.admin_access
            or self._problem.constraints is not None
            or self._problem.may_fail
            or inventory.uses_node_resources
            or inventory.features.device_compatibility_groups
        ):
            return ()
        shareable = alternative.eligible & inventory.shareable
        if shareable & (inventory.partitions | inventory.taken):
            return ()
        if not (shares_claims or shareable or alternative.eligible & inventory.partitions):
            return ()
        devices = inventory.members(alternative.eligible)
        return list(dict.fromkeys(self._target(alternative, device) for device in devices))

    def _target(self, alternative: NodeAlternative, device: Candidate) -> DeviceTarget:
        inventory, pool = self._inventory, device.pool_index
        bit = device.bit & inventory.taken
        counters = inventory.node_pools[pool].counters
        missing = list(counters.missing(device.need)) if counters and device.need else []
        shares = list(self._missing_capacity(alternative, device)) if device.is_shareable else []
        return DeviceTarget(
            bit,
            pool,
            tuple(counter for counter, _ in missing),
            device.device.name if shares else "",
            tuple(name for name, _ in shares),
            (
                *([self._users(device)] if bit else ()),
                *(steps for _, steps in missing),
                *(amount for _, amount in shares),
            ),
        )

    def _missing_capacity(
        self, alternative: NodeAlternative, device: Candidate
    ) -> Iterator[tuple[str, int]]:
        holders = self._inventory.device_holders(device)
        for name, amount in alternative.demand(device).items():
            used = holders.capacity.get(name, 0) if holders else 0
            if amount.nano + used > amount.total:
                yield name, amount.nano + used - amount.total

    def _users(self, device: Candidate) -> int:
        """Return how many users have to leave the claim that holds a device as a whole."""
        claim = self._claims.get(self._inventory.holders_of(device)[0])
        return max(1, len(claim.status.reserved_for)) if claim is not None else 1

    def freed(self, targets: Sequence[DeviceTarget], victims: Iterable[Victim]) -> list[Freed]:
        """Return for each target what victims free of what it lacks, at the most."""
        freed: list[dict[str, list[int]]] = [{} for _ in targets]
        by_pool: dict[int, list[tuple[DeviceTarget, int, dict[str, list[int]]]]] = {}
        for target, amounts in zip(targets, freed, strict=True):
            mask = sum(counter.mask for counter in target.counters)
            by_pool.setdefault(target.pool, []).append((target, mask, amounts))
        for victim in victims:
            uid = victim.uid
            for held in victim.held:
                number, node_pool = self._pools.get(held.pool, (-1, None))
                holders = node_pool.holders.by_device.get(held.device) if node_pool else None
                if node_pool is None or holders is None or len(holders.owners) > 1:
                    continue
                index = node_pool.indexes.get(held.device)
                bit = 0 if index is None else 1 << index
                need = node_pool.counters.needs.get(held.device, 0) if node_pool.counters else 0
                for target, mask, amounts in by_pool.get(number, ()):
                    if bit & target.bit or need & mask or held.device == target.shared:
                        so_far = amounts.setdefault(uid, [0] * len(target.lacks))
                        _add(so_far, target, victim, held, bit, need)
        return list(freed)

    def held_by(self, victim: Victim) -> VictimDevices:
        """Return what a victim holds of the devices that matter."""
        whole = 0
        signature: list[int] = []
        for held in victim.held:
            numbered = self._pools.get(held.pool)
            if numbered is None:
                continue
            number, pool = numbered
            holders = pool.holders.by_device.get(held.device)
            if holders is None or len(holders.owners) > 1:
                # It is kept for another preemptor, and stays in use without the victim.
                continue
            index = pool.indexes.get(held.device)
            bit = 0 if index is None else 1 << index
            if held.share is None:
                whole |= bit
            found = self._class_of(bit, held, number, pool)
            if found is not None:
                signature.append(found)
        if len(signature) > 1:
            signature.sort()
        return VictimDevices(whole, tuple(signature))

    def shared_pools(self) -> Iterator[PoolId]:
        """Return the pools with devices or counters that other nodes can use too."""
        return shared_pools(self._inventory)

    def state(self) -> Hashable:
        """Return the classes of the devices, with how many of each there are and are free."""
        taken = self._inventory.taken
        return tuple(
            (number, devices.bit_count(), (devices & taken).bit_count())
            for devices, number in self._classes
        )

    def _may_overlap(self, alternative: NodeAlternative) -> bool:
        """Return whether the request may get devices that somebody else has as well."""
        shareable = self._inventory.shareable & alternative.selected
        return alternative.parsed.admin_access or bool(shareable)

    def _class_of(self, bit: int, held: VictimDevice, number: int, pool: NodePool) -> int | None:
        """Return the class of a held device; None if it does not matter to the preemptor."""
        for devices, found in self._classes:
            if devices & bit:
                return found
        if self.is_plain:
            return None
        # A device that draws from counters takes them from others.
        draws = pool.counters is not None and bool(pool.counters.needs.get(held.device))
        if bit & self._wanted or draws:
            return self._intern((number, held))
        return None

    def _classes_of_devices(self) -> Iterator[tuple[int, int]]:
        """Yield the sets of devices that can stand in for each other, with their numbers."""
        if not self.is_plain:
            return
        constrained = self._problem.constraints is not None
        members: dict[Hashable, int] = {}
        if constrained:
            for device in self._inventory.members(self._wanted):
                key = self._problem.equivalence_key(device)
                members[key] = members.get(key, 0) | device.bit
        else:
            members = dict(_split(self._wanted, self._problem.alternatives()))
        numbered = [(self._intern(key), devices) for key, devices in members.items()]
        yield from ((devices, number) for number, devices in sorted(numbered))


def shared_pools(inventory: NodeInventory) -> Iterator[PoolId]:
    """Yield the pools of a node with devices or counters that other nodes can use too."""
    for node_pool in inventory.node_pools:
        if not node_pool.pool.is_local:
            yield node_pool.pool.id


def _add(
    amounts: list[int],
    target: DeviceTarget,
    victim: Victim,
    held: VictimDevice,
    bit: int,
    need: int,
) -> None:
    """Add what a victim frees of a target with one of its devices."""
    place = int(bool(target.bit))
    if bit & target.bit:
        amounts[0] = len(victim.pods)
    for counter in target.counters:
        amounts[place] += counter.read(need)
        place += 1
    if held.share is not None and held.device == target.shared:
        shares = dict(held.share)
        for name in target.capacities:
            amounts[place] += quantity.parse(shares[name]).nano if name in shares else 0
            place += 1


def _split(devices: int, alternatives: Iterable[NodeAlternative]) -> Iterator[tuple[Hashable, int]]:
    """Divide devices by which alternatives may use them."""
    parts: list[tuple[tuple[bool, ...], int]] = [((), devices)]
    for alternative in alternatives:
        masks = (alternative.selected, alternative.eligible)
        for mask in masks:
            parts = [
                ((*key, inside), part)
                for key, members in parts
                for inside, part in ((True, members & mask), (False, members & ~mask))
                if part
            ]
    return iter(parts)
