"""Which slices make up a pool for a node, and in which order."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator.inventory import pools
from dray.allocator.model import rejections
from dray.api import features
from dray.api.types.dra import ResourceSlice
from dray.api.types.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tests import builders
from tests.unit.allocator import allocating

NODE = builders.node("n1", labels={"rack": "a"})


def gather(
    *slices: ResourceSlice, everywhere: tuple[ResourceSlice, ...] = ()
) -> list[pools.PoolOnNode]:
    known = (*slices, *everywhere)
    return pools.pools_of_node(
        NODE,
        slices,
        lambda id: [item for item in known if (item.spec.driver, item.spec.pool.name) == id],
        features.DEFAULT,
    )


def names(pool: pools.PoolOnNode) -> list[str]:
    return [device.name for found in pool.slices for device in found.spec.devices]


def test_pools_come_by_driver_and_name_and_slices_by_object_name() -> None:
    found = gather(
        builders.resource_slice(builders.gpu("z"), pool="b", driver="b.test"),
        builders.resource_slice(builders.gpu("y"), pool="p", slices=2, name="2"),
        builders.resource_slice(builders.gpu("x"), pool="p", slices=2, name="1"),
        builders.resource_slice(builders.gpu("w"), pool="a", driver="b.test"),
    )
    assert [(str(pool.id), names(pool)) for pool in found] == [
        ("b.test/a", ["w"]),
        ("b.test/b", ["z"]),
        ("gpu.example.com/p", ["x", "y"]),
    ]


def test_pools_with_binding_conditions_come_last() -> None:
    late = builders.device("d", binding_conditions=["ready"])
    found = gather(
        builders.resource_slice(late, pool="a"),
        builders.resource_slice(builders.gpu("x"), pool="b"),
    )
    assert [pool.id.pool for pool in found] == ["b", "a"]


def test_only_the_newest_generation_on_the_node_counts() -> None:
    (pool,) = gather(
        builders.resource_slice(builders.gpu("old"), name="1"),
        builders.resource_slice(builders.gpu("new"), name="2", generation=2),
    )
    assert names(pool) == ["new"]


def test_a_pool_is_incomplete_while_slices_are_missing() -> None:
    (pool,) = gather(builders.resource_slice(builders.gpu("x"), slices=2))
    assert pool.is_incomplete
    assert not pool.is_usable


def test_slices_for_other_nodes_complete_a_pool() -> None:
    elsewhere = builders.resource_slice(
        builders.gpu("y"), node="n2", pool="p", slices=2, name="elsewhere"
    )
    (pool,) = gather(
        builders.resource_slice(builders.gpu("x"), pool="p", slices=2), everywhere=(elsewhere,)
    )
    assert pool.is_usable
    assert names(pool) == ["x"]


def test_a_newer_generation_elsewhere_makes_an_incomplete_pool_obsolete() -> None:
    newer = builders.resource_slice(
        builders.gpu("y"), node="n2", pool="p", generation=2, name="newer"
    )
    found = gather(
        builders.resource_slice(builders.gpu("x"), pool="p", slices=2), everywhere=(newer,)
    )
    assert found == []


def test_an_old_generation_that_is_complete_on_the_node_is_used() -> None:
    newer = builders.resource_slice(
        builders.gpu("y"), node="n2", pool="p", generation=2, name="newer"
    )
    (pool,) = gather(builders.resource_slice(builders.gpu("x"), pool="p"), everywhere=(newer,))
    assert names(pool) == ["x"]


def test_repeated_device_names_make_a_pool_invalid() -> None:
    (pool,) = gather(builders.resource_slice(builders.gpu("x"), builders.gpu("x")))
    assert pool.invalid_reason == "duplicate device name x"


def test_partitions_need_counters_that_are_there() -> None:
    partition = builders.device("d", consumes={"gpu-0": {"memory": "1Gi"}})
    (pool,) = gather(builders.resource_slice(partition))
    assert pool.invalid_reason == "counter set gpu-0 not found"


def test_without_their_gate_slices_with_counters_are_not_seen() -> None:
    gates = msgspec.structs.replace(features.DEFAULT, partitionable_devices=False)
    cluster = builders.cluster_inventory(*builders.mig_slices(), features=gates)
    claim = builders.claim(builders.request(mode="All"))
    allocating.rejection(cluster, claim)


@pytest.mark.parametrize(
    ("resource_slice", "found"),
    [
        pytest.param(builders.resource_slice(node="n1"), 1, id="by-name"),
        pytest.param(builders.resource_slice(node="n2"), 0, id="by-other-name"),
        pytest.param(builders.resource_slice(node=None, all_nodes=True), 1, id="all-nodes"),
        pytest.param(
            builders.resource_slice(node_selector=builders.nodes_labelled("rack", "a")),
            1,
            id="by-label",
        ),
        pytest.param(
            builders.resource_slice(node_selector=builders.nodes_labelled("rack", "b")),
            0,
            id="by-other-label",
        ),
        pytest.param(
            builders.resource_slice(builders.device("d", node="n1"), per_device=True),
            1,
            id="per-device",
        ),
        pytest.param(
            builders.resource_slice(builders.device("d", node="n2"), per_device=True),
            0,
            id="per-device-elsewhere",
        ),
    ],
)
def test_slices_select_nodes_in_four_ways(resource_slice: ResourceSlice, found: int) -> None:
    assert len(gather(resource_slice)) == found


def test_a_node_selector_that_cannot_be_understood_is_a_failure() -> None:
    wrong = NodeSelectorTerm((NodeSelectorRequirement("rack", "Near", ("a",)),))
    resource_slice = builders.resource_slice(node_selector=NodeSelector((wrong,)), name="odd")
    with pytest.raises(rejections.AllocationError) as found:
        gather(resource_slice)
    assert found.value.detail.startswith(
        "gather pool information: failed to perform node selection for slice odd: failed to parse "
        "node selector &NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{"
        "MatchExpressions:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:rack,Operator:Near,"
        "Values:[a],},},MatchFields:[]NodeSelectorRequirement{},},},}: "
    )


def test_an_invalid_pool_is_a_failure_of_the_node_if_nothing_else_fits() -> None:
    twice = builders.resource_slice(builders.gpu("x"), builders.gpu("x"), pool="bad")
    cluster = builders.cluster_inventory(twice)
    claim = builders.claim(builders.request())
    assert allocating.error_text(cluster, claim) == "invalid resource pools were encountered"
    cluster.put_slice(builders.gpu_slice())
    assert allocating.devices(cluster, claim) == ["gpu-0"]
