"""One pool over several slices."""

from __future__ import annotations

from dray.api.types.dra import (
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCounterConsumption,
    DeviceTaint,
)
from dray.driverkit import pool_layout
from dray.driverkit.pool_layout import PublishedPool


def devices(count: int, **fields: object) -> tuple[Device, ...]:
    return tuple(Device(name=f"gpu-{number}", **fields) for number in range(count))  # type: ignore[arg-type]


def pool(*made: Device, **fields: object) -> PublishedPool:
    return PublishedPool("gpu.example.com", "n1", made, node_name="n1", **fields)  # type: ignore[arg-type]


def sizes(slices: pool_layout.Slices) -> list[int]:
    return [len(resource_slice.spec.devices) for resource_slice in slices]


def test_plain_devices_come_128_to_a_slice() -> None:
    slices = pool_layout.lay_out(pool(*devices(300)))
    assert sizes(slices) == [128, 128, 44]
    assert {resource_slice.spec.pool.resource_slice_count for resource_slice in slices} == {3}


def test_a_tainted_device_makes_slices_of_64() -> None:
    tainted = Device(name="bad", taints=(DeviceTaint(key="k", effect="NoSchedule"),))
    assert sizes(pool_layout.lay_out(pool(tainted, *devices(99)))) == [64, 36]


def test_a_list_attribute_makes_slices_of_64() -> None:
    several = DeviceAttribute(string_values=("a", "b"))
    assert sizes(pool_layout.lay_out(pool(*devices(70, attributes={"roots": several})))) == [64, 6]


def test_counters_travel_in_slices_of_their_own_eight_to_a_slice() -> None:
    sets = tuple(CounterSet(f"set-{number}", {"memory": Counter("1")}) for number in range(9))
    consumption = DeviceCounterConsumption("set-0", {"memory": Counter("1")})
    slices = pool_layout.lay_out(
        pool(*devices(2, consumes_counters=(consumption,)), shared_counters=sets)
    )
    assert [len(resource_slice.spec.shared_counters) for resource_slice in slices] == [0, 8, 1]
    assert sizes(slices) == [2, 0, 0]
    assert {resource_slice.spec.pool.resource_slice_count for resource_slice in slices} == {3}


def test_names_of_slices_sort_in_the_order_of_the_devices() -> None:
    slices = pool_layout.lay_out(pool(*devices(128 * 11)))
    names = [resource_slice.metadata.name for resource_slice in slices]
    assert names == sorted(names)
    assert names[0] == "n1-gpu.example.com-00"


def test_an_empty_pool_is_published_as_empty() -> None:
    (only,) = pool_layout.lay_out(pool())
    assert only.metadata.name == "n1-gpu.example.com"
    assert only.spec.devices == ()


def test_every_slice_carries_the_generation_and_the_place() -> None:
    slices = pool_layout.lay_out(pool(*devices(200)), generation=7)
    assert {resource_slice.spec.pool.generation for resource_slice in slices} == {7}
    assert {resource_slice.spec.node_name for resource_slice in slices} == {"n1"}


def test_a_pool_name_with_slashes_gives_a_valid_object_name() -> None:
    (only,) = pool_layout.lay_out(
        PublishedPool("gpu.example.com", "rack/1", devices(1), all_nodes=True)
    )
    assert only.metadata.name == "rack-1-gpu.example.com"
