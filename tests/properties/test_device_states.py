"""States of devices against the allocator, which is asked for each device alone."""

from __future__ import annotations

import random

import hypothesis
import msgspec
from hypothesis import strategies as st

from dray.allocator import device_states, placement
from dray.allocator.checks import capacity
from dray.allocator.device_states import DeviceAvailability, DeviceState
from dray.allocator.inventory.cluster_inventory import AllocatedState, ClusterInventory
from dray.allocator.model.rejections import AllocationError
from dray.api.formats import quantity
from dray.api.ids import DeviceId
from dray.api.types.dra import Device, DeviceAttribute, DeviceClass, DeviceToleration, ResourceSlice
from dray.api.types.meta import ObjectMeta
from tests import builders, rounds
from tests.properties import clusters, problems

NUMBER = "number"
"""The attribute by which a selector finds one device: expressions do not know its name."""
MISSING = DeviceId("a.test", "p1", "gone")
ANY = DeviceClass(ObjectMeta(name="any"))


def numbered(slices: list[ResourceSlice]) -> list[ResourceSlice]:
    numbers = iter(range(1000))
    result = []
    for resource_slice in slices:
        devices = tuple(
            msgspec.structs.replace(
                device,
                attributes={**device.attributes, NUMBER: DeviceAttribute(int_value=next(numbers))},
            )
            for device in resource_slice.spec.devices
        )
        spec = msgspec.structs.replace(resource_slice.spec, devices=devices)
        result.append(msgspec.structs.replace(resource_slice, spec=spec))
    return result


def drawn(seed: int) -> ClusterInventory:
    dice = random.Random(seed)
    problem = problems.draw(dice)
    problem = problem._replace(slices=numbered(problem.slices))
    cluster = clusters.cluster_of(problem)
    cluster.put_class(ANY)
    consumed = {DeviceId(*id): {"mem": str(dice.choice((1, 2, 4)))} for id in problem.shared}
    cluster.record_state(AllocatedState([MISSING] * (dice.random() < 0.2), capacity=consumed))
    if dice.random() < 0.05:
        cluster.drop_node(problems.NODE)
    return cluster


def is_given(cluster: ClusterInventory, id: DeviceId, device: Device) -> bool:
    """Whether the allocator gives the device to a claim that asks for the least it can of it."""
    number = device.attributes[NUMBER].int_value
    expression = f'device.attributes["{id.driver}"].?{NUMBER}.orValue(-1) == {number}'
    amounts = smallest_request(device) if cluster.features.consumable_capacity else None
    asked = builders.request(
        "alone",
        f'device.driver == "{id.driver}" && {expression}',
        cls="any",
        tolerations=[DeviceToleration(operator="Exists")],
        capacity=amounts,
    )
    if problems.NODE not in cluster.nodes or cluster.nodes[problems.NODE].node is None:
        return False
    try:
        result = clusters.allocator_on(cluster).allocate_on([builders.claim(asked)], problems.NODE)
    except AllocationError:
        return False
    if isinstance(result, placement.NoFit):
        return False
    (given,) = result.allocations[0].devices.results
    return given.device_id == id


def smallest_request(device: Device) -> dict[str, str]:
    """The amounts to ask for; a default that is less than what can be asked for is not named."""
    result = {}
    for name, published in device.capacity.items():
        least = capacity.least(published)
        policy = published.request_policy
        default = policy.default if policy else None
        if default is None or quantity.parse(default) != least:
            result[name] = str(least)
    return result


@rounds.examples(600, long=20_000)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_a_device_is_free_exactly_if_the_allocator_gives_it(seed: int) -> None:
    cluster = drawn(seed)
    for found in device_states.all_devices(cluster):
        if found.device is None:
            assert found.state is DeviceState.MISSING
            assert cluster.holders_of(found.id) == found.holders != ()
            continue
        given = is_given(cluster, found.id, found.device)
        assert given == (found.state in (DeviceState.FREE, DeviceState.SHARED)), found
        assert (found.holders != ()) == (found.state in (DeviceState.SHARED, DeviceState.IN_USE))
        if found.state is DeviceState.BLOCKED:
            assert bool(found.blockers) != bool(found.problem), found
            assert found.problem or is_freed_by_release(cluster, found)


def is_freed_by_release(cluster: ClusterInventory, blocked: DeviceAvailability) -> bool:
    """Whether the device is no longer blocked once nobody holds the devices that block it."""
    assert blocked.device is not None
    released = ClusterInventory(cluster.features)
    for node in cluster.nodes.values():
        if node.node is not None:
            released.put_node(node.node)
    released.put_class(ANY)
    for resource_slice in cluster.slices():
        released.put_slice(resource_slice)
    return is_given(released, blocked.id, blocked.device)


def test_a_missing_device_is_named_with_its_claim() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice("n1", 1))
    builders.hold(cluster, "train", "gpu-7")
    states = {found.id.device: found for found in device_states.all_devices(cluster)}
    assert states["gpu-7"].state is DeviceState.MISSING
    assert [key.name for key in states["gpu-7"].holders] == ["train"]
