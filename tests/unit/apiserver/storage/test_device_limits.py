"""Reasons against an allocation, from the uses of other claims."""

from __future__ import annotations

import msgspec

from dray.api import features
from dray.api.ids import DeviceId
from dray.api.types.meta import JsonObject
from dray.apiserver.storage import device_limits, device_usage
from dray.apiserver.storage.device_usage import DeviceUsage, DeviceUse
from dray.store import memory, watch
from dray.store.store import Entry

CLAIMS, SLICES = "/resource.k8s.io/resourceclaims/ns/", "/resource.k8s.io/resourceslices/"
GROUPS = msgspec.structs.replace(features.DEFAULT, device_compatibility_groups=True)
NO_GROUPS = msgspec.structs.replace(features.DEFAULT, device_compatibility_groups=False)


def usage() -> DeviceUsage:
    return DeviceUsage(memory.MemoryStore(watch.Fanout(0, watch.DEFAULT_LIMITS)))


def entry(key: str, document: JsonObject, revision: int = 1) -> Entry:
    return Entry(key, msgspec.json.encode(document), revision, revision)


def slice_entry(name: str, generation: int, **spec: object) -> Entry:
    pool = {"name": "p", "generation": generation}
    return entry(SLICES + name, {"spec": {"driver": "d", "pool": pool, **spec}}, generation)


def drawing(name: str, amount: str, *groups: str) -> JsonObject:
    drawn = {"counterSet": "c", "counters": {"m": {"value": amount}}}
    return {"name": name, "consumesCounters": [{**drawn, "compatibilityGroups": list(groups)}]}


def counters(amount: str) -> list[JsonObject]:
    return [{"name": "c", "counters": {"m": {"value": amount}}}]


def claim(*devices: str) -> JsonObject:
    results = [{"driver": "d", "pool": "p", "device": name} for name in devices]
    return {"status": {"allocation": {"devices": {"results": results}}}}


def found(target: DeviceUsage, *devices: str, gates: features.Features = GROUPS) -> str:
    uses = tuple(DeviceUse(DeviceId("d", "p", name), False, {}) for name in devices)
    overuse = device_limits.find_overuse(target, gates, f"{CLAIMS}own", uses)
    return overuse.what if overuse else ""


def test_a_device_cannot_be_in_an_allocation_twice() -> None:
    assert found(usage(), "a", "b") == ""
    assert found(usage(), "a", "b", "a") == "device d/p/a is in the allocation more than once"


def test_devices_without_a_common_compatibility_group_exclude_each_other() -> None:
    target = usage()
    devices = [drawing("a", "1", "x", "y"), drawing("b", "1", "y"), drawing("c", "1", "z")]
    target.put(slice_entry("s", 1, devices=devices, sharedCounters=counters("9")))
    target.put(entry(f"{CLAIMS}other", claim("a")))
    assert found(target, "b") == ""
    assert "no compatibility group in common" in found(target, "c")
    assert found(target, "c", gates=NO_GROUPS) == ""


def test_a_device_keeps_its_counters_while_its_pool_is_published_again() -> None:
    target = usage()
    devices = [drawing("a", "6"), drawing("b", "6")]
    target.put(slice_entry("old", 1, devices=devices, sharedCounters=counters("10")))
    target.put(slice_entry("new", 2, devices=[drawing("b", "6")]))
    target.put(entry(f"{CLAIMS}other", claim("a")))
    assert "would use 12" in found(target, "b")
    target.put(slice_entry("newer", 3, sharedCounters=counters("12")))
    assert found(target, "b") == ""


def test_counters_that_nobody_publishes_are_nothing() -> None:
    target = usage()
    target.put(slice_entry("s", 1, devices=[drawing("a", "1")]))
    assert "has 0" in found(target, "a")


def test_what_is_removed_counts_no_longer() -> None:
    target = usage()
    devices = [drawing("a", "6"), drawing("b", "6")]
    target.put(slice_entry("s", 1, devices=devices, sharedCounters=counters("10")))
    target.put(entry(f"{CLAIMS}other", claim("a")))
    target.put(entry(f"{CLAIMS}own", claim("b")))
    assert "would use 12" in found(target, "b")
    target.put(entry(f"{CLAIMS}other", claim()))
    assert found(target, "b") == ""
    target.put(entry(f"{CLAIMS}other", claim("a")))
    target.remove(f"{CLAIMS}other")
    assert found(target, "b") == ""
    target.remove(f"{SLICES}s")
    assert found(target, "b") == ""


def test_a_pool_with_a_slash_has_keys_of_its_own() -> None:
    keys = {
        device_usage.device_key(DeviceId("d", "p", "x")),
        device_usage.device_key(DeviceId("d", "p/devices", "x")),
        device_usage.counters_key(DeviceId("d", "p", "x").pool_id, "x"),
        device_usage.counters_key(DeviceId("d", "p/devices", "x").pool_id, "x"),
    }
    assert len(keys) == 4
