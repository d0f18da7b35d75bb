"""A node has at most so many series, whatever devices and classes it has."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dray.allocator.device_states import DeviceState
from dray.exporter import node_series
from dray.exporter.metric_table import EVERY_DEVICE, OTHER, SERIES_PER_NODE
from dray.exporter.pool_figures import ClassView, DeviceViews, LargestPartition, PoolFigures

NODE = "node-0"


def pool(views: dict[tuple[ClassView, ...], int], partitions: int = 0) -> PoolFigures:
    largest = [LargestPartition(NODE, f"gpu-{n}", n / partitions) for n in range(partitions)]
    groups = {DeviceViews(NODE, found): count for found, count in views.items()}
    return PoolFigures(groups, {NODE: 1}, {NODE: 2}, largest)


def test_lines_are_those_of_prometheus() -> None:
    used = ClassView("gpu", DeviceState.IN_USE), ClassView("mig", DeviceState.SHARED)
    found = node_series.of(NODE, [pool({used: 3}, partitions=1), pool({used: 1})])
    assert [line for _, line in found.lines()] == [
        'dray_devices{node="node-0",device_class="gpu",state="in_use"} 4',
        'dray_devices{node="node-0",device_class="mig",state="shared"} 4',
        'dray_devices_tainted{node="node-0"} 2',
        'dray_devices_unhealthy{node="node-0"} 4',
        'dray_device_largest_partition_ratio{node="node-0",device="gpu-0"} 0',
    ]


def test_many_devices_with_partitions_become_one() -> None:
    assert len(node_series.of(NODE, [pool({}, partitions=8)]).partitions) == 8
    assert node_series.of(NODE, [pool({}, partitions=10)]).partitions == {EVERY_DEVICE: 0.9}


def test_classes_with_few_devices_become_one_that_counts_a_device_once() -> None:
    large = (ClassView("large", DeviceState.FREE),)
    small = tuple(
        ClassView(f"small-{number}", DeviceState.IN_USE if number else DeviceState.FREE)
        for number in range(30)
    )
    found = node_series.of(NODE, [pool({large: 5, small: 2})])
    # The other parts of a device are in use, and one is free.
    kept = {name for name, _ in found.devices} - {"large", OTHER}
    assert found.devices["large", DeviceState.FREE] == 5
    assert found.devices[OTHER, DeviceState.IN_USE] + found.devices[OTHER, DeviceState.SHARED] == 2
    assert len(kept) == 12
    assert sum(1 for _ in found.lines()) <= SERIES_PER_NODE


@pytest.mark.parametrize("seed", range(50))
def test_no_node_has_more_series(seed: int) -> None:
    dice = random.Random(seed)
    states = [state for state in DeviceState if state is not DeviceState.MISSING]
    groups: Counter[tuple[ClassView, ...]] = Counter()
    for _ in range(dice.randrange(1, 40)):
        names = dice.sample(range(20), dice.randrange(1, 20))
        groups[tuple(ClassView(f"c{name}", dice.choice(states)) for name in sorted(names))] += 1
    found = node_series.of(NODE, [pool(groups, partitions=dice.randrange(20))])
    assert sum(1 for _ in found.lines()) <= SERIES_PER_NODE
    # A class that has lines of its own has all of its devices there.
    exact = node_series.by_class_and_state(groups.items())
    for (name, state), count in found.devices.items():
        if name != OTHER:
            assert count == exact[name, state]
