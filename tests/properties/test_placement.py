"""Remembered answers against fresh ones over random streams of changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import hypothesis
import msgspec
from hypothesis import strategies as st

from dray.allocator import placement
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model.rejections import AllocationError
from dray.api.ids import ClaimKey
from dray.api.types.dra import (
    CELDeviceSelector,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceSlice,
)
from dray.api.types.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta
from dray.api.types.nodes import Node
from tests import rounds
from tests.properties import clusters, problems

NODES = ("n1", "n2", "n3")
STEPS = 40


class World:
    """A live fleet, and everything that has been put into it."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.gates = problems.draw(dice).features
        self.live = ClusterInventory(self.gates)
        self.asked = clusters.allocator_on(self.live)
        self.nodes: dict[str, Node] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        self.held: dict[ClaimKey, ResourceClaim] = {}
        self.questions = [[problems.draw_claim(dice, number, self.gates)] for number in range(6)]
        for name in NODES:
            self.put_node(name)
        for device_class in problems.draw(dice).classes.values():
            self.classes[device_class.metadata.name] = device_class
            self.live.put_class(device_class)
        for _ in range(4):
            self.publish()

    def put_node(self, name: str) -> None:
        labels = {"rack": self.dice.choice("ab")}
        self.nodes[name] = Node(ObjectMeta(name=name, labels=labels))
        self.live.put_node(self.nodes[name])

    def relabel_or_drop_node(self) -> None:
        name = self.dice.choice(NODES)
        if name in self.nodes and self.dice.random() < 0.3:
            del self.nodes[name]
            self.live.drop_node(name)
        else:
            self.put_node(name)

    def publish(self) -> None:
        """All slices of a pool, for nodes that get the same devices or those with a label."""
        pool = problems.draw_pool(self.dice, self.gates)
        if self.dice.random() < 0.25:
            selector = self.dice.choice((None, "a"))
            reach = {
                "all_nodes": True if selector is None else None,
                "node_selector": _in_rack(selector) if selector else None,
            }
            self.put_pool(pool, "shared", **reach)
            return
        for node in self.dice.sample(NODES, self.dice.choice((1, 1, 2, 3))):
            self.put_pool(pool, node, node_name=node)

    def put_pool(self, pool: Iterable[ResourceSlice], where: str, **reach: Any) -> None:
        for resource_slice in pool:
            spec = resource_slice.spec
            name = where if where == "shared" else f"{spec.pool.name}-{where}"
            renamed = msgspec.structs.replace(spec.pool, name=name)
            spec = msgspec.structs.replace(spec, pool=renamed, **reach)
            meta = ObjectMeta(name=f"{resource_slice.metadata.name}-{where}")
            self.slices[meta.name] = ResourceSlice(meta, spec)
            self.live.put_slice(self.slices[meta.name])

    def withdraw(self) -> None:
        if self.slices:
            name = self.dice.choice(list(self.slices))
            del self.slices[name]
            self.live.drop_slice(name)

    def change_class(self) -> None:
        expression = self.dice.choice((*problems.CLASSES.values(), *problems.SELECTORS))
        name = self.dice.choice(list(problems.CLASSES))
        selector = DeviceSelector(CELDeviceSelector(expression))
        self.classes[name] = DeviceClass(ObjectMeta(name=name), DeviceClassSpec((selector,)))
        self.live.put_class(self.classes[name])

    def change_rule(self) -> None:
        name = self.dice.choice(("worn", "hot"))
        if name in self.rules:
            del self.rules[name]
            self.live.drop_taint_rule(name)
            return
        selector = self.dice.choice(
            (None, DeviceTaintSelector(driver="a.test"), DeviceTaintSelector(device="d00"))
        )
        spec = DeviceTaintRuleSpec(selector, DeviceTaint(name, "", "NoSchedule"))
        self.rules[name] = DeviceTaintRule(ObjectMeta(name=name), spec)
        self.live.put_taint_rule(self.rules[name])

    def change_features(self) -> None:
        gate = self.dice.choice(
            ("device_taints", "consumable_capacity", "partitionable_devices", "admin_access")
        )
        self.gates = msgspec.structs.replace(self.gates, **{gate: not getattr(self.gates, gate)})
        self.live.use_features(self.gates)

    def release(self) -> None:
        if self.held:
            key = self.dice.choice(list(self.held))
            del self.held[key]
            self.live.release(key)

    def place(self) -> None:
        question = self.dice.choice(self.questions)
        try:
            result = self.asked.first_fit(question)
        except AllocationError:
            return
        if isinstance(result, placement.Fit):
            (claim,) = clusters.allocated(question, result)
            key = ClaimKey("shop", f"placed-{len(self.held)}-{self.dice.random()}")
            self.held[key] = claim
            assert claim.status.allocation is not None
            self.live.record_allocation(key, claim.status.allocation)

    def fresh(self) -> ClusterInventory:
        """A fleet that has seen nothing but the present."""
        cluster = ClusterInventory(self.gates)
        for entry in self.live.by_index:
            if entry is not None and entry.name in self.nodes:
                cluster.put_node(self.nodes[entry.name])
        for device_class in self.classes.values():
            cluster.put_class(device_class)
        for rule in self.rules.values():
            cluster.put_taint_rule(rule)
        for resource_slice in self.slices.values():
            # Devices of its own make no node like another.
            spec = resource_slice.spec
            own = msgspec.structs.replace(spec, devices=(*spec.devices,))
            cluster.put_slice(ResourceSlice(resource_slice.metadata, own))
        for key, claim in self.held.items():
            assert claim.status.allocation is not None
            cluster.record_allocation(key, claim.status.allocation)
        return cluster


@rounds.examples(150, long=5000)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_remembered_answers_are_those_of_a_fleet_without_memory(seed: int) -> None:
    dice = random.Random(seed)
    cluster = World(dice)
    changes: Sequence[Callable[[], None]] = (
        cluster.publish,
        cluster.withdraw,
        cluster.change_class,
        cluster.change_rule,
        cluster.change_features,
        cluster.relabel_or_drop_node,
        *[cluster.release] * 4,
        *[cluster.place] * 8,
    )
    for _ in range(STEPS):
        dice.choice(changes)()
        question = dice.choice(cluster.questions)
        fresh = clusters.allocator_on(cluster.fresh())
        assert _first(cluster.asked, question) == _first(fresh, question)
        for node in cluster.nodes:
            assert _on(cluster.asked, question, node) == _on(fresh, question, node)


def _first(asked: placement.Allocator, question: Sequence[ResourceClaim]) -> Any:
    try:
        result = asked.first_fit(question)
    except AllocationError as failure:
        return failure.text(question)
    if isinstance(result, placement.NoFit):
        return None
    return result.node, clusters.described(result, question)


def _on(asked: placement.Allocator, question: Sequence[ResourceClaim], node: str) -> Any:
    try:
        return clusters.described(asked.allocate_on(question, node), question)
    except AllocationError as failure:
        return failure.text(question)


def _in_rack(rack: str) -> NodeSelector:
    requirement = NodeSelectorRequirement("rack", "In", (rack,))
    return NodeSelector((NodeSelectorTerm((requirement,)),))
