"""Equal parts of slices are kept once."""

from __future__ import annotations

import msgspec

from dray.allocator.inventory.interning import Interner
from dray.api.types.dra import DeviceTaint, ResourceSlice
from tests import builders


def fresh(resource_slice: ResourceSlice) -> ResourceSlice:
    """A copy that shares nothing."""
    return msgspec.json.decode(msgspec.json.encode(resource_slice), type=ResourceSlice)


def test_equal_values_and_maps_are_shared_and_nothing_is_changed() -> None:
    devices = [builders.gpu(f"gpu-{n}", attributes={"uuid": str(n)}) for n in range(2)]
    published = builders.resource_slice(*devices)
    interner = Interner()
    one, other = interner.share(fresh(published)), interner.share(fresh(published))
    assert one == other == published
    first, second = one.spec.devices
    assert first.attributes["productName"] is second.attributes["productName"]
    assert first.attributes["uuid"] is not second.attributes["uuid"]
    assert first.capacity is second.capacity


def test_equal_consumption_is_shared() -> None:
    interner = Interner()
    slices = [interner.share(fresh(builders.mig_slices()[0])) for _ in range(2)]
    one, other = (resource_slice.spec.devices[0].consumes_counters for resource_slice in slices)
    assert one is other


def test_equal_counter_sets_are_shared() -> None:
    interner = Interner()
    slices = [interner.share(fresh(builders.mig_slices()[1])) for _ in range(2)]
    one, other = (resource_slice.spec.shared_counters for resource_slice in slices)
    assert one
    assert one is other


def test_whole_maps_are_shared_once_all_their_values_are_known() -> None:
    interner = Interner()
    slices = [interner.share(fresh(builders.gpu_slice(count=1))) for _ in range(3)]
    _, second, third = (resource_slice.spec.devices[0].attributes for resource_slice in slices)
    assert second is third


def test_equal_devices_are_shared_as_a_whole() -> None:
    interner = Interner()
    published = builders.resource_slice(
        *[
            builders.gpu(f"gpu-{n}", taints=[DeviceTaint("worn", "", "NoSchedule")])
            for n in range(2)
        ]
    )
    more = builders.resource_slice(*[builders.gpu(f"gpu-{n}") for n in range(2)])
    _, one, other = [interner.share(fresh(published)).spec.devices for _ in range(3)]
    assert one is other
    untainted = interner.share(fresh(more))
    assert untainted == more


def test_devices_with_a_value_of_their_own_are_not_shared() -> None:
    interner = Interner()
    slices = [
        interner.share(
            fresh(builders.resource_slice(builders.gpu("gpu-0", attributes={"uuid": str(n)})))
        )
        for n in range(3)
    ]
    assert len({id(published.spec.devices) for published in slices}) == 3
