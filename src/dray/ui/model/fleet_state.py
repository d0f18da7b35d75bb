"""The devices and nodes of a cluster as the page draws them, updated where something changed."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from dray.allocator import device_counts
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.features import Features
from dray.api.ids import ClaimKey, DeviceId, PoolId
from dray.api.semantics import pod_claims
from dray.api.semantics.conditions import is_condition_true
from dray.api.types.dra import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.client.cache import ObjectChange
from dray.drivers.simulated.fleet import FLEET_LABEL
from dray.ui.model import cells
from dray.ui.model.cells import ShapedDevice
from dray.ui.model.entries import Cell, NodeCard
from dray.ui.model.shape_table import ShapeTable

DRAWN_AT_ONCE = 5
"""The pools that are drawn before others may run: requests wait for some milliseconds."""


class _DrawnPool(NamedTuple):
    """A pool as it was drawn: the slices it was drawn from, and its devices by their keys."""

    slices: tuple[ResourceSlice, ...]
    epoch: int
    shaped: dict[str, ShapedDevice]
    names: dict[str, str]


class FleetChanges(NamedTuple):
    """The differences from what was taken last; None for what is gone."""

    nodes: dict[str, NodeCard | None]
    cells: dict[str, Cell | None]


class FleetState:
    """Takes over changes at once; `update` draws what follows from them.

    `knows_nodes` says whether nodes can be read; otherwise they are those that slices name.
    """

    def __init__(self, features: Features, *, knows_nodes: bool = True) -> None:
        self.inventory = ClusterInventory(features)
        self.nodes: dict[str, NodeCard] = {}
        self.cells: dict[str, Cell] = {}
        self.table = ShapeTable()
        self.counts: Counter[str] = Counter()
        self.holders = ClaimHolders()
        self._knows_nodes = knows_nodes
        self._pools: dict[PoolId, _DrawnPool] = {}
        self._dirty: dict[PoolId, None] = {}
        self._changed_nodes: dict[str, NodeCard | None] = {}
        self._changed_cells: dict[str, Cell | None] = {}

    def node_changed(self, change: ObjectChange[Node]) -> None:
        name, new = change.key.name, change.new
        before = self.inventory.nodes_version
        if new is None:
            self.inventory.drop_node(name)
            self.nodes.pop(name, None)
            self._changed_nodes[name] = None
        else:
            self.inventory.put_node(new)
            entry = node_entry(new)
            if self.nodes.get(name) != entry:
                self.nodes[name] = self._changed_nodes[name] = entry
        if self.inventory.nodes_version != before:
            self._redraw_pools_on(name)

    def slice_changed(self, change: ObjectChange[ResourceSlice]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and old.spec == new.spec:
            return
        if new is None:
            self.inventory.drop_slice(change.key.name)
        else:
            self.inventory.put_slice(new)
            if not self._knows_nodes and new.spec.node_name:
                self.inventory.put_node(Node(ObjectMeta(name=new.spec.node_name)))
        for version in (old, new):
            if version is not None:
                self._dirty[version.pool_id] = None

    def claim_changed(
        self, change: ObjectChange[ResourceClaim], *, is_visible: bool = True
    ) -> None:
        """Take over a claim; the names of invisible ones are not shown."""
        old, new = change.old, change.new
        key = ClaimKey(*change.key)
        if new is None:
            self.inventory.release(key)
        else:
            self.inventory.put_claim(new)
        if self.holders.claim_changed(key, new, is_visible=is_visible) or _differ(old, new):
            for version in (old, new):
                self._dirty |= dict.fromkeys(_pools_of(version))

    def class_changed(self, change: ObjectChange[DeviceClass]) -> None:
        if change.new is None:
            self.inventory.drop_class(change.key.name)
        else:
            self.inventory.put_class(change.new)
        self._redraw_everything()

    def rule_changed(self, change: ObjectChange[DeviceTaintRule]) -> None:
        old, new = change.old, change.new
        if new is None:
            self.inventory.drop_taint_rule(change.key.name)
        else:
            self.inventory.put_taint_rule(new)
        if old is None or new is None or old.spec != new.spec:
            self._redraw_everything()

    def health_changed(self, healthy: Iterable[str], unhealthy: Iterable[str]) -> None:
        """Take over what pods no longer report as unhealthy, and what they report now."""
        for devices, sign in ((list(healthy), -1), (list(unhealthy), 1)):
            self.holders.reported(devices, sign)
            for device in devices:
                driver, _, rest = device.partition("/")
                pool_id = PoolId(driver, rest.rpartition("/")[0])
                if pool_id in self.inventory.pools():
                    self._dirty[pool_id] = None

    @property
    def is_current(self) -> bool:
        return not self._dirty

    def update(self) -> Iterator[None]:
        """Draw what has changed; yields now and then, so that others can run."""
        while self._dirty:
            classes = device_counts.selecting_classes(self.inventory)
            for pool_id in list(self._dirty)[:DRAWN_AT_ONCE]:
                del self._dirty[pool_id]
                self._draw(pool_id, classes)
            yield

    def take(self) -> FleetChanges:
        """Return what has changed since the last call."""
        taken = FleetChanges(self._changed_nodes, self._changed_cells)
        self._changed_nodes, self._changed_cells = {}, {}
        return taken

    def _redraw_everything(self) -> None:
        self._dirty |= dict.fromkeys((*self._pools, *self.inventory.pools()))

    def _redraw_pools_on(self, name: str) -> None:
        entry = self.inventory.nodes.get(name)
        for found in entry.slices.values() if entry is not None else ():
            self._dirty[found.pool_id] = None
        for found in self.inventory.slices_of_several_nodes():
            self._dirty[found.pool_id] = None

    def _draw(self, pool_id: PoolId, classes: list[device_counts.SelectingClass]) -> None:
        groups = list(cells.groups_of(self.inventory, pool_id))
        old = self._pools.pop(pool_id, None)
        entry = self.inventory.pools().get(pool_id)
        if entry is not None:
            slices = tuple(entry.slices.values())
            new = self._kept(old, slices, [key for key, _, _ in groups])
            if new is None:
                shaped = cells.shapes(groups, classes)
                names = {key: self.table.add(device) for key, device in shaped.items()}
                new = _DrawnPool(slices, self.inventory.epoch, shaped, names)
            self._pools[pool_id] = new
        else:
            new = None
        if old is not None and new is not old:
            for device in old.shaped.values():
                self.table.remove(device)
        for key, node, group in groups:
            assert new is not None
            self._put(key, cells.cell(node, new.names[key], group, self.holders))
        for key in old.shaped if old is not None and new is not old else ():
            if new is None or key not in new.shaped:
                self._drop(key)

    def _kept(
        self, old: _DrawnPool | None, slices: tuple[ResourceSlice, ...], keys: list[str]
    ) -> _DrawnPool | None:
        """Return what was drawn, if shapes are still the same: slices are replaced, not changed."""
        if (
            old is None
            or old.epoch != self.inventory.epoch
            or len(old.slices) != len(slices)
            or not all(map(operator.is_, old.slices, slices))
            or old.names.keys() != set(keys)
        ):
            return None
        return old

    def _put(self, key: str, cell: Cell) -> None:
        before = self.cells.get(key)
        if before == cell:
            return
        if before is not None:
            self._uncount(before)
        self.counts[cell.st] += 1
        self.cells[key] = self._changed_cells[key] = cell

    def _drop(self, key: str) -> None:
        before = self.cells.pop(key, None)
        if before is not None:
            self._uncount(before)
            self._changed_cells[key] = None

    def _uncount(self, cell: Cell) -> None:
        self.counts[cell.st] -= 1
        if not self.counts[cell.st]:
            del self.counts[cell.st]


class ClaimHolders:
    """The users of claims that hold devices, and the claims that the person may see."""

    def __init__(self) -> None:
        self._users: dict[ClaimKey, tuple[str, ...]] = {}
        self._hidden: set[ClaimKey] = set()
        self._unhealthy: Counter[str] = Counter()

    def claim_changed(
        self, key: ClaimKey, claim: ResourceClaim | None, *, is_visible: bool
    ) -> bool:
        """Take over a claim; return whether something else is shown of it."""
        users = _users_of(claim) if claim is not None else ()
        was_hidden = key in self._hidden
        if claim is None or is_visible:
            self._hidden.discard(key)
        else:
            self._hidden.add(key)
        before = self._users.pop(key, ())
        if users:
            self._users[key] = users
        return users != before or was_hidden != (key in self._hidden)

    def reported(self, devices: Iterable[str], sign: int) -> None:
        """Count what the status of a pod calls unhealthy."""
        for device in devices:
            self._unhealthy[device] += sign
            if self._unhealthy[device] <= 0:
                del self._unhealthy[device]

    def is_visible(self, claim: ClaimKey) -> bool:
        return claim not in self._hidden

    def users(self, claim: ClaimKey) -> tuple[str, ...]:
        return self._users.get(claim, ())

    def is_reported_unhealthy(self, device: DeviceId) -> bool:
        return str(device) in self._unhealthy if self._unhealthy else False


def node_entry(node: Node) -> NodeCard:
    """Return a node as the page draws it."""
    labels = node.metadata.labels
    return NodeCard(
        is_condition_true(node.status.conditions, "Ready"),
        node.spec.unschedulable,
        labels,
        FLEET_LABEL in labels,
    )


def _users_of(claim: ResourceClaim) -> tuple[str, ...]:
    namespace = claim.metadata.namespace
    return tuple(
        f"{namespace}/{consumer.name}"
        for consumer in claim.status.reserved_for
        if pod_claims.is_pod(consumer)
    )


def _pools_of(claim: ResourceClaim | None) -> set[PoolId]:
    allocation = claim.status.allocation if claim is not None else None
    results: Iterable[Any] = allocation.devices.results if allocation is not None else ()
    return {result.pool_id for result in results}


def _differ(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    if old is None or new is None:
        return True
    return old.status.allocation != new.status.allocation
