"""The series of one node, at most `SERIES_PER_NODE`; what exceeds that is merged.

First the devices with partitions become one (`EVERY_DEVICE`), then the classes with the fewest
devices on the node (`OTHER`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray import telemetry
from dray.allocator import device_groups
from dray.allocator.device_states import DeviceState
from dray.exporter import metric_table
from dray.exporter.metric_table import EVERY_DEVICE, OTHER, SERIES_PER_NODE, Metric
from dray.exporter.pool_figures import ClassView, PoolFigures

_MAX_PARTITIONS = 8
_ALWAYS = 2
"""The series that every node with devices has: tainted and unhealthy devices."""

_Views = tuple[ClassView, ...]


class NodeFigures(NamedTuple):
    """The figures of one node, over its pools."""

    node: str
    devices: Mapping[tuple[str, DeviceState], int]
    """By class and state."""
    tainted: int
    unhealthy: int
    partitions: Mapping[str, float]
    """By device."""

    def lines(self) -> Iterator[tuple[Metric, str]]:
        """Yield the series in Prometheus' text format, each with its metric."""
        for (name, state), count in sorted(self.devices.items()):
            yield _line(metric_table.DEVICES, count, self.node, name, label(state))
        yield _line(metric_table.DEVICES_TAINTED, self.tainted, self.node)
        yield _line(metric_table.DEVICES_UNHEALTHY, self.unhealthy, self.node)
        for device, ratio in sorted(self.partitions.items()):
            yield _line(metric_table.LARGEST_PARTITION, ratio, self.node, device)


def of(node: str, pools: Sequence[PoolFigures]) -> NodeFigures:
    """Return the figures of a node."""
    groups: Counter[_Views] = Counter()
    for pool in pools:
        for group, count in pool.devices.items():
            if group.node == node:
                groups[group.views] += count
    found = (part for pool in pools for part in pool.partitions if part.node == node)
    partitions = {part.device: part.ratio for part in found}
    if len(partitions) > _MAX_PARTITIONS:
        partitions = {EVERY_DEVICE: max(partitions.values())}
    limit = SERIES_PER_NODE - _ALWAYS - len(partitions)
    return NodeFigures(
        node,
        _limited(groups, limit),
        sum(pool.tainted.get(node, 0) for pool in pools),
        sum(pool.unhealthy.get(node, 0) for pool in pools),
        partitions,
    )


def by_class_and_state(
    groups: Iterable[tuple[_Views, int]], others: frozenset[str] = frozenset()
) -> Counter[tuple[str, DeviceState]]:
    """Return the number of devices by class and state, with some classes as one."""
    counts: Counter[tuple[str, DeviceState]] = Counter()
    for views, count in groups:
        merged = []
        for view in views:
            if view.device_class in others:
                merged.append(view.state)
            else:
                counts[view.device_class, view.state] += count
        if merged:
            counts[OTHER, device_groups.combined(merged)] += count
    return counts


def label(text: str) -> str:
    """Return a word of the command line as the value of a label: without spaces."""
    return text.replace(" ", "_")


def _limited(groups: Counter[_Views], limit: int) -> Counter[tuple[str, DeviceState]]:
    counts = by_class_and_state(groups.items())
    if len(counts) <= limit:
        return counts
    devices: Counter[str] = Counter()
    for (name, _), count in counts.items():
        devices[name] += count
    states = Counter(name for name, _ in counts)
    room = limit - len(DeviceState)
    kept = set()
    for name in sorted(devices, key=lambda name: (-devices[name], name)):
        room -= states[name]
        if room < 0:
            break
        kept.add(name)
    return by_class_and_state(groups.items(), frozenset(devices.keys() - kept))


def _line(metric: Metric, value: float, *labels: str) -> tuple[Metric, str]:
    return metric, telemetry.sample(metric.name, metric.labels, labels, value)
