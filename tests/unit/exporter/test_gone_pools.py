"""Pools that a driver no longer publishes."""

from __future__ import annotations

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.ids import PoolId
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.exporter.gone_pools import GonePools
from tests import builders

POOL = PoolId(builders.DRIVER, "n1")


def seen() -> tuple[ClusterInventory, GonePools]:
    cluster = ClusterInventory()
    cluster.put_node(Node(ObjectMeta(name="n1")))
    cluster.put_slice(builders.gpu_slice("n1"))
    gone = GonePools(cluster)
    gone.pool_changed(POOL)
    assert gone.by_driver() == {builders.DRIVER: 0}
    return cluster, gone


def remove_slices(cluster: ClusterInventory, gone: GonePools) -> None:
    for found in list(cluster.slices()):
        cluster.drop_slice(found.metadata.name)
    gone.pool_changed(POOL)


def test_a_pool_is_gone_until_it_is_published_again() -> None:
    cluster, gone = seen()
    remove_slices(cluster, gone)
    assert gone.by_driver() == {builders.DRIVER: 1}
    cluster.put_slice(builders.gpu_slice("n1"))
    gone.pool_changed(POOL)
    assert gone.by_driver() == {builders.DRIVER: 0}


def test_the_pool_of_a_node_that_is_gone_as_well_is_not_missed() -> None:
    cluster, gone = seen()
    remove_slices(cluster, gone)
    cluster.drop_node("n1")
    gone.node_removed("n1")
    assert gone.by_driver() == {builders.DRIVER: 0}


def test_claims_that_hold_its_devices_miss_a_pool_in_any_case() -> None:
    cluster, gone = seen()
    held = builders.allocated(builders.claim(builders.request()), "gpu-0")
    cluster.put_claim(held)
    remove_slices(cluster, gone)
    cluster.drop_node("n1")
    gone.node_removed("n1")
    assert gone.by_driver() == {builders.DRIVER: 1}
    cluster.release(held.key)
    gone.pool_changed(POOL)
    assert gone.by_driver() == {builders.DRIVER: 0}


def test_a_pool_for_any_node_is_missed_by_claims_only() -> None:
    cluster, gone = ClusterInventory(), None
    gone = GonePools(cluster)
    cluster.put_slice(builders.resource_slice(builders.gpu("a"), pool="n1", all_nodes=True))
    gone.pool_changed(POOL)
    remove_slices(cluster, gone)
    assert gone.by_driver() == {builders.DRIVER: 0}
