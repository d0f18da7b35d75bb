"""Figures about devices: by node, by class, what is stranded, and pools by driver.

Pools that changed are counted again, and the nodes and classes that they concern are updated; the
cost follows the changes and not the size of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from dray.allocator import device_counts, device_groups
from dray.allocator.device_states import DeviceState
from dray.api.ids import PoolId
from dray.exporter import node_series, pool_figures
from dray.exporter.metric_table import NONE, Metric
from dray.exporter.pool_figures import PoolFigures
from dray.scheduling import fit_counts
from dray.scheduling.nodes.node_fit import NodeState
from dray.scheduling.state import SchedulingState

_COUNTED_AT_ONCE = 50
_EXHAUSTIBLE = ("cpu", "memory")


class DeviceFigures:
    """Keeps the figures of a state. Callers say which pools and nodes have changed."""

    def __init__(self, state: SchedulingState) -> None:
        self._state = state
        self._pools: dict[PoolId, PoolFigures] = {}
        self._pools_of_node: dict[str, dict[PoolId, None]] = {}
        self._dirty_pools: dict[PoolId, None] = {}
        self._dirty_nodes: dict[str, None] = {}
        self._stranded_on: dict[str, Counter[str]] = {}
        self.by_class: Counter[tuple[str, DeviceState]] = Counter()
        self.stranded: Counter[str] = Counter()
        """By class."""
        self.pools: Counter[tuple[str, bool]] = Counter()
        """By driver and completeness; the same for slices."""
        self.slices: Counter[tuple[str, bool]] = Counter()
        self.lines: dict[Metric, dict[str, str]] = {}
        """The series of each node, by metric."""

    @property
    def is_current(self) -> bool:
        return not (self._dirty_pools or self._dirty_nodes)

    def pool_changed(self, pool_id: PoolId) -> None:
        self._dirty_pools[pool_id] = None

    def node_changed(self, name: str) -> None:
        """Note that other pods fit on a node."""
        self._dirty_nodes[name] = None

    def everything_changed(self) -> None:
        """Note a change of what concerns all devices: classes, taint rules."""
        self._dirty_pools |= dict.fromkeys((*self._pools, *self._state.inventory.pools()))

    def update(self) -> Iterator[None]:
        """Take over the changes; yields now and then, so that others can run."""
        number = 0
        while self._dirty_pools:
            classes = device_counts.selecting_classes(self._state.inventory)
            chosen = list(self._dirty_pools)[:_COUNTED_AT_ONCE]
            for pool_id in chosen:
                del self._dirty_pools[pool_id]
                counted = pool_figures.count(self._state.inventory, pool_id, classes)
                self._replace(pool_id, counted)
            yield
        while self._dirty_nodes:
            name, _ = self._dirty_nodes.popitem()
            self._update_node(name)
            number += 1
            if number % _COUNTED_AT_ONCE == 0:
                yield

    def _replace(self, pool_id: PoolId, new: PoolFigures) -> None:
        old = self._pools.pop(pool_id, PoolFigures())
        if new.devices or new.slices:
            self._pools[pool_id] = new
        self._count(pool_id, old, -1)
        self._count(pool_id, new, 1)
        before, after = old.nodes(), new.nodes()
        for name in before - after:
            del self._pools_of_node[name][pool_id]
        for name in after:
            self._pools_of_node.setdefault(name, {})[pool_id] = None
        self._dirty_nodes |= dict.fromkeys(before | after)

    def _count(self, pool_id: PoolId, figures: PoolFigures, sign: int) -> None:
        groups = ((group.views, sign * count) for group, count in figures.devices.items())
        self.by_class.update(node_series.by_class_and_state(groups))
        if figures.slices:
            key = pool_id.driver, figures.is_complete
            self.pools[key] += sign
            self.slices[key] += sign * figures.slices

    def _update_node(self, name: str) -> None:
        pools = [self._pools[pool_id] for pool_id in self._pools_of_node.get(name, ())]
        texts: dict[Metric, list[str]] = {}
        if pools:
            for metric, line in node_series.of(name, pools).lines():
                texts.setdefault(metric, []).append(line)
        else:
            self._pools_of_node.pop(name, None)
        for metric in (*self.lines, *texts):
            by_node = self.lines.setdefault(metric, {})
            if metric in texts:
                by_node[name] = "\n".join(texts[metric])
            else:
                by_node.pop(name, None)
        self.stranded.subtract(self._stranded_on.pop(name, {}))
        stranded = stranded_on(name, pools, self._state.nodes.get(name))
        if stranded:
            self._stranded_on[name] = stranded
            self.stranded.update(stranded)


def stranded_on(name: str, pools: Iterable[PoolFigures], node: NodeState | None) -> Counter[str]:
    """Return by class the devices of a node that are available and that no new pod can get.

    The node takes no more pods, or only claims with a toleration can get them.
    """
    available: Counter[str] = Counter()
    stranded: Counter[str] = Counter()
    for pool in pools:
        for group, count in pool.devices.items():
            for view in group.views if group.node == name else ():
                if view.device_class != NONE and view.state in device_groups.AVAILABLE:
                    (stranded if view.is_tainted else available)[view.device_class] += count
    if name != NONE:
        room = room_on(node) if node is not None else 0
        for device_class, count in available.items():
            if count > room:
                stranded[device_class] += count - room
    return +stranded


def room_on(node: NodeState) -> int:
    """Return how many more pods a node takes: none without CPU or memory for any."""
    for name in _EXHAUSTIBLE:
        allocatable = node.allocatable.get(name)
        if allocatable is not None and node.requested.get(name, 0) >= allocatable:
            return 0
    return fit_counts.room_on(node)


def by_driver(counts: Mapping[tuple[str, bool], int]) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield numbers by driver and completeness as labels, both for each driver."""
    for driver in {name for name, _ in counts}:
        for is_complete in (True, False):
            yield (driver, str(is_complete).lower()), counts.get((driver, is_complete), 0)
