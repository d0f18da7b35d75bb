"""Reservations hold devices from the decision on, whatever the cache has seen."""

from __future__ import annotations

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.ids import ClaimKey, DeviceId, ObjectKey
from dray.api.types.dra import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from dray.client.cache import Undecodable
from dray.scheduler.claims.in_flight import InFlightClaims
from dray.scheduling.claims.claim_index import ClaimIndex

KEY = ClaimKey("default", "x")
DEVICE = DeviceId("d", "pool", "gpu-0")


def allocation(device: str = "gpu-0") -> AllocationResult:
    result = DeviceRequestAllocationResult("r", "d", "pool", device)
    return AllocationResult(DeviceAllocationResult((result,)))


def claim(version: int, allocated: AllocationResult | None = None, uid: str = "u") -> ResourceClaim:
    body = {
        "metadata": {
            "namespace": KEY.namespace,
            "name": KEY.name,
            "uid": uid,
            "resourceVersion": str(version),
        },
        "status": {"allocation": allocated} if allocated else {},
    }
    return msgspec.convert(msgspec.to_builtins(body), ResourceClaim)


class Setting:
    def __init__(self) -> None:
        self.inventory = ClusterInventory()
        self.cached: ResourceClaim | None = claim(1)
        index = self.index = ClaimIndex(self.inventory)
        self.in_flight = InFlightClaims(index, lambda _key: self.cached)
        self.see(self.cached)

    def see(self, seen: ResourceClaim | None) -> None:
        self.cached = seen
        self.in_flight.observe(KEY, seen)

    def holders(self) -> tuple[ClaimKey, ...]:
        return self.inventory.holders_of(DEVICE)


def test_a_reservation_outlives_events_that_do_not_show_it() -> None:
    setting = Setting()
    setting.index.reserve(KEY, allocation(), "pod")
    setting.see(claim(2))
    assert setting.holders() == (KEY,)


def test_a_definite_no_frees_the_devices() -> None:
    setting = Setting()
    setting.index.reserve(KEY, allocation(), "pod")
    setting.index.release(KEY, "pod")
    assert setting.holders() == ()


def test_a_shared_reservation_stays_for_the_other_pod() -> None:
    setting = Setting()
    setting.index.reserve(KEY, allocation(), "one")
    setting.index.reserve(KEY, allocation(), "two")
    setting.index.release(KEY, "one")
    assert setting.holders() == (KEY,)


def test_what_was_written_counts_before_the_cache_shows_it() -> None:
    setting = Setting()
    setting.index.reserve(KEY, allocation(), "pod")
    setting.in_flight.record_written(claim(3, allocation()))
    assert setting.index.reserved(KEY) is None
    setting.see(claim(2))
    assert setting.holders() == (KEY,)
    newest = setting.in_flight.newest(KEY)
    assert newest is not None
    assert newest.metadata.resource_version == "3"


def test_a_later_deallocation_by_others_frees_the_devices() -> None:
    setting = Setting()
    setting.index.reserve(KEY, allocation(), "pod")
    setting.in_flight.record_written(claim(3, allocation()))
    setting.see(claim(4))
    assert setting.holders() == ()


def test_an_old_write_does_not_hide_what_the_cache_knows() -> None:
    setting = Setting()
    setting.see(claim(5, allocation("gpu-1")))
    setting.in_flight.record_written(claim(3, allocation()))
    assert setting.holders() == ()


def test_a_claim_that_is_deleted_frees_its_devices() -> None:
    setting = Setting()
    setting.in_flight.record_written(claim(3, allocation()))
    setting.see(None)
    assert setting.holders() == ()


def unreadable(results: object) -> dict[ObjectKey, Undecodable]:
    key = ObjectKey(*KEY)
    raw = {"status": {"allocation": {"devices": {"results": results}}}}
    return {key: Undecodable(key, raw, "a field has a wrong type")}


def test_an_unreadable_claim_keeps_its_devices() -> None:
    setting = Setting()
    setting.see(None)
    results = [{"driver": "d", "pool": "pool", "device": "gpu-0", "consumedCapacity": 5}]
    setting.in_flight.observe_undecodable(unreadable(results))
    assert setting.index.hidden == []
    assert setting.holders() == (KEY,)
    setting.in_flight.observe_undecodable({})
    assert setting.holders() == ()


def test_an_unreadable_claim_that_hides_its_devices_is_named() -> None:
    setting = Setting()
    setting.in_flight.observe_undecodable(unreadable([{"driver": 1}]))
    assert setting.index.hidden == ["default/x: a field has a wrong type"]
