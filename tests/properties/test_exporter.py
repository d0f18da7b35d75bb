"""The exporter's figures after any changes, against a count from nothing of the same objects."""

from __future__ import annotations

import datetime
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import msgspec
from hypothesis import strategies as st

from dray.allocator import device_counts, device_states
from dray.allocator.device_states import DeviceAvailability, DeviceState
from dray.api.features import Features
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.types.dra import (
    DeviceClass,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceSlice,
)
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeSpec, NodeStatus
from dray.api.types.pods import Pod, PodResourceClaim, PodSpec
from dray.client.cache import ObjectChange
from dray.exporter import metric_table
from dray.exporter.cluster_figures import ClusterFigures
from dray.exporter.metric_table import NONE
from dray.exporter.trimming import Trimmer
from dray.scheduling import decision, fit_counts, pod_copies
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.state import SchedulingState
from tests import builders, rounds
from tests.properties import problems
from tests.properties.test_fit_counts import moved

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
CREATED = "2025-12-31T23:00:00Z"
NODES = ("n0", "n1", "n2")
NAMESPACE = "shop"
UNHEALTHY = DeviceTaint(f"{builders.DRIVER}/unhealthy", effect="NoExecute")


class World:
    """Objects of a cluster that change at random, and the figures that follow them."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        drawn = problems.draw(self.dice)
        self.features: Features = msgspec.structs.replace(drawn.features, preemption=False)
        self.classes = list(drawn.classes.values())
        self.classes.append(builders.device_class("gpu"))
        self.figures = ClusterFigures(self.features, lambda: NOW, clock=lambda: 0.0)
        self.figures.is_live = True
        self.objects: dict[tuple[type, ObjectKey], Any] = {}
        self._trimmed: dict[tuple[type, ObjectKey], Any] = {}
        trimmer = Trimmer()
        self._trims: dict[type, Callable[[Any], Any]] = {
            Node: trimmer.node,
            Pod: trimmer.pod,
            ResourceClaim: trimmer.claim,
        }
        self._handlers: dict[type, Callable[[ObjectChange[Any]], None]] = {
            Node: self.figures.node_changed,
            ResourceSlice: self.figures.slice_changed,
            DeviceClass: self.figures.class_changed,
            DeviceTaintRule: self.figures.rule_changed,
            ResourceClaim: self.figures.claim_changed,
            Pod: self.figures.pod_changed,
        }

    def put(self, new: Any) -> None:
        key = new.metadata.key
        old = self._trimmed.get((type(new), key))
        trim = self._trims.get(type(new))
        self._trimmed[type(new), key] = trimmed = trim(new) if trim else new
        self.objects[type(new), key] = new
        self._handlers[type(new)](ObjectChange(key, old, trimmed))

    def remove(self, named: Any) -> None:
        key = named.metadata.key
        self.objects.pop((type(named), key), None)
        old = self._trimmed.pop((type(named), key), None)
        if old is not None:
            self._handlers[type(old)](ObjectChange(key, old, None))

    def of(self, type_: type) -> list[Any]:
        return [value for (kind, _), value in self.objects.items() if kind is type_]

    def change(self) -> None:
        """Make one random change."""
        changes = (self._node, self._slices, self._class, self._rule)
        self.dice.choice((*changes, self._slices, *[self._claim] * 4, *[self._pod] * 3))()

    def _node(self) -> None:
        name = self.dice.choice(NODES)
        if self.dice.random() < 0.15:
            self.remove(Node(ObjectMeta(name=name)))
            return
        amounts = {"pods": str(self.dice.choice((0, 2, 50))), "cpu": str(self.dice.choice((0, 4)))}
        spec = NodeSpec(unschedulable=self.dice.random() < 0.2)
        self.put(Node(ObjectMeta(name=name), spec, NodeStatus(allocatable=amounts)))

    def _slices(self) -> None:
        existing = self.of(ResourceSlice)
        if existing and self.dice.random() < 0.3:
            self.remove(self.dice.choice(existing))
            return
        node = self.dice.choice(NODES)
        kind = self.dice.randrange(5)
        if kind == 0:
            for found in problems.draw_pool(self.dice, self.features):
                self.put(moved(found, node))
        elif kind == 1:
            for found in builders.mig_slices(node, self.dice.choice((1, 3))):
                self.put(found)
        elif kind == 2:
            devices = [builders.gpu(f"net-{number}") for number in range(2)]
            self.put(builders.resource_slice(*devices, driver="a.test", all_nodes=True))
        else:
            taints = [UNHEALTHY] if kind == 3 else []
            generation = self.dice.choice((1, 2))
            devices = [builders.gpu("gpu-0", taints=taints), builders.gpu("gpu-1")]
            slices = self.dice.choice((1, 1, 2))
            self.put(
                builders.resource_slice(*devices, node=node, generation=generation, slices=slices)
            )

    def _class(self) -> None:
        chosen = self.dice.choice(self.classes)
        (self.remove if self.dice.random() < 0.3 else self.put)(chosen)

    def _rule(self) -> None:
        selector = DeviceTaintSelector(device=self.dice.choice(("gpu-0", "gpu-1", "d0")))
        taint = DeviceTaint("example.com/rule", effect="NoSchedule")
        rule = DeviceTaintRule(ObjectMeta(name="rule"), DeviceTaintRuleSpec(selector, taint))
        (self.remove if self.dice.random() < 0.5 else self.put)(rule)

    def _claim(self) -> None:
        name = f"claim-{self.dice.randrange(6)}"
        metadata = ObjectMeta(name=name, namespace=NAMESPACE, creation_timestamp=CREATED)
        if self.dice.random() < 0.2:
            self.remove(ResourceClaim(metadata))
            return
        class_name = self.dice.choice([*self.classes]).metadata.name
        asked = builders.request(cls=class_name, count=self.dice.choice((1, 1, 2)))
        claim = msgspec.structs.replace(builders.claim(asked), metadata=metadata)
        slices = [found for found in self.of(ResourceSlice) if found.spec.devices]
        if slices and self.dice.random() < 0.6:
            found = self.dice.choice(slices)
            device = self.dice.choice(found.spec.devices).name
            if self.dice.random() < 0.1:
                device = "gone"
            pool = found.spec.pool.name
            claim = builders.allocated(claim, device, pool=pool, driver=found.spec.driver)
        self.put(claim)

    def _pod(self) -> None:
        number = self.dice.randrange(5)
        name = f"pod-{number}"
        old = self.objects.get((Pod, ObjectKey(NAMESPACE, name)))
        # A pod keeps its node: one elsewhere is another pod.
        uid = f"{number}-{self.dice.random()}"
        if old is not None and not old.spec.node_name and self.dice.random() < 0.7:
            uid = old.metadata.uid
        metadata = ObjectMeta(name=name, namespace=NAMESPACE, uid=uid, creation_timestamp=CREATED)
        if self.dice.random() < 0.2:
            self.remove(Pod(ObjectMeta(name=metadata.name, namespace=NAMESPACE)))
            return
        used = PodResourceClaim(name="gpu", resource_claim_name=f"claim-{self.dice.randrange(6)}")
        spec = PodSpec(
            node_name=self.dice.choice((None, None, *NODES)) or "",
            resource_claims=(used,) if self.dice.random() < 0.9 else (),
        )
        self.put(Pod(metadata, spec))


def update(figures: ClusterFigures) -> None:
    for _ in figures.update():
        pass


def counted_from_nothing(world: World) -> SchedulingState:
    return SchedulingState.of(world.objects.values(), world.features, "")


def devices_once(
    state: SchedulingState,
) -> Iterator[tuple[str, list[DeviceAvailability]]]:
    """Yield each device with its partitions, and its node."""
    groups: dict[Any, list[DeviceAvailability]] = defaultdict(list)
    for device in device_states.all_devices(state.inventory):
        root = device.parent or device.id.device
        groups[device.id.pool_id, root, device.device is None].append(device)
    for members in groups.values():
        first = members[0]
        if first.device is None or first.resource_slice is None:
            slices = state.inventory.pools()[first.id.pool_id].slices.values()
            names = {found.spec.node_name for found in slices}
            yield (names.pop() if len(names) == 1 else "") or NONE, members
        else:
            yield first.device.node_name or first.resource_slice.spec.node_name or NONE, members


def state_for(parts: list[DeviceAvailability]) -> DeviceState:
    if parts[0].state is DeviceState.MISSING:
        return DeviceState.MISSING
    held = any(part.holders for part in parts)
    available = [part for part in parts if part.state in (DeviceState.FREE, DeviceState.SHARED)]
    if held:
        return DeviceState.SHARED if available else DeviceState.IN_USE
    return DeviceState.FREE if available else DeviceState.BLOCKED


def by_class_and_node(
    state: SchedulingState,
) -> tuple[Counter[tuple[str, str, DeviceState]], Counter[str]]:
    """Return the devices by node, class and state, and by class those that are stranded."""
    members_of = {
        name: {found.id for found in device_counts.devices_of_class(state.inventory, name)}
        for name in state.inventory.classes
    }
    counts: Counter[tuple[str, str, DeviceState]] = Counter()
    stranded: Counter[str] = Counter()
    available: Counter[tuple[str, str]] = Counter()
    for node, members in devices_once(state):
        matched = False
        for name, ids in members_of.items():
            parts = [part for part in members if part.id in ids and part.device is not None]
            if not parts:
                continue
            matched = True
            found = state_for(parts)
            counts[node, name, found] += 1
            if found in (DeviceState.FREE, DeviceState.SHARED):
                usable = [
                    part for part in parts if part.state in (DeviceState.FREE, DeviceState.SHARED)
                ]
                if all(part.is_tainted for part in usable):
                    stranded[name] += 1
                else:
                    available[node, name] += 1
        if not matched:
            counts[node, NONE, state_for(members)] += 1
    for (node, name), count in available.items():
        if node != NONE:
            stranded[name] += max(count - room(state, node), 0)
    return counts, +stranded


def room(state: SchedulingState, name: str) -> int:
    node = state.nodes.get(name)
    if node is None or node.node is None or node.node.spec.unschedulable:
        return 0
    if node.node.status.allocatable["cpu"] == "0":
        return 0
    return max(int(node.node.status.allocatable["pods"]) - len(state.pods.on_node(name)), 0)


def causes(state: SchedulingState, world: World) -> Counter[str]:
    """Return how many claims without devices wait for what."""
    found: dict[Any, str] = {}
    bound = set()
    for pod in world.of(Pod):
        for used in pod.spec.resource_claims:
            key = ClaimKey(NAMESPACE, used.resource_claim_name)
            claim = state.claims.get(key)
            if claim is not None and claim.status.allocation is not None:
                continue
            if pod.spec.node_name:
                bound.add(key)
            elif key not in found:
                (decided,) = decision.decide(state, [pod], now=NOW)
                if isinstance(decided, NodeAssignment):
                    state.release(decided)
                    found[key] = "scheduler"
                else:
                    found[key] = decided.category.replace(" ", "_")
    for claim in world.of(ResourceClaim):
        if claim.status.allocation is None:
            found.setdefault(claim.key, "claim" if claim.key in bound else "no_pod")
    return Counter(found.values())


def check(world: World) -> None:
    figures, state = world.figures, counted_from_nothing(world)
    update(figures)
    assert figures.is_current
    counts, stranded = by_class_and_node(state)
    totals: Counter[tuple[str, DeviceState]] = Counter()
    for (_, name, found), count in counts.items():
        totals[name, found] += count
    assert +figures.devices.by_class == totals
    assert lines(figures, metric_table.DEVICES) == {
        f'dray_devices{{node="{node}",device_class="{name}",'
        f'state="{found.replace(" ", "_")}"}} {count}'
        for (node, name, found), count in counts.items()
    }
    assert +figures.devices.stranded == stranded
    for name in state.inventory.classes:
        for fit, pods in figures.fits.figures().items():
            if fit.device_class == name:
                counted = fit_counts.count(state, pod_copies.of_class(name, fit.devices))
                assert pods == counted.pods, fit
    check_pools(figures, state)
    waiting = {cause: found.claims for cause, found in figures.claims.by_cause.items()}
    assert waiting == causes(state, world)
    assert set(waiting) <= set(metric_table.CAUSES)
    allocated = [c for c in world.of(ResourceClaim) if c.status.allocation is not None]
    assert figures.claims.allocated == len(allocated)
    assert figures.claims.pending == len(world.of(ResourceClaim)) - len(allocated)


def check_pools(figures: ClusterFigures, state: SchedulingState) -> None:
    pools: Counter[tuple[str, bool]] = Counter()
    for pool_id, entry in state.inventory.pools().items():
        if entry.slices:
            newest = max(found.spec.pool.generation for found in entry.slices.values())
            current = [
                found for found in entry.slices.values() if found.spec.pool.generation == newest
            ]
            expected = current[0].spec.pool.resource_slice_count
            pools[pool_id.driver, len(current) == expected] += 1
    assert +figures.devices.pools == pools
    tainted: Counter[str] = Counter()
    unhealthy: Counter[str] = Counter()
    for node, members in devices_once(state):
        tainted[node] += any(part.is_tainted for part in members)
        unhealthy[node] += any(part.is_unhealthy for part in members)
    for metric, numbers in (
        (metric_table.DEVICES_TAINTED, tainted),
        (metric_table.DEVICES_UNHEALTHY, unhealthy),
    ):
        assert lines(figures, metric) == {
            f'{metric.name}{{node="{node}"}} {number}' for node, number in numbers.items()
        }


def lines(figures: ClusterFigures, metric: metric_table.Metric) -> set[str]:
    texts = figures.devices.lines.get(metric, {}).values()
    return {line for text in texts for line in text.splitlines()}


@rounds.examples(200, long=5_000)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_figures_are_those_of_a_count_from_nothing(seed: int) -> None:
    world = World(seed)
    for _ in range(3):
        for _ in range(world.dice.choice((1, 3, 12))):
            world.change()
        check(world)
