"""What expressions read of devices."""

from __future__ import annotations

import pytest

from dray.allocator.inventory import shapes
from dray.api.types.dra import DeviceAttribute
from dray.cel import device as cel
from tests import builders


def _shapes(expression: str, *devices: object) -> list[object]:
    selector = cel.compile_selector(expression, stored=True)
    resource_slice = builders.resource_slice(*devices)  # type: ignore[arg-type]
    cluster = builders.cluster_inventory(resource_slice)
    inventory = cluster.inventory(cluster.nodes["n1"])
    paths = sorted(selector.reads)
    found = shapes.reader(paths)(inventory.devices)
    assert list(map(shapes.reader_of_one(paths), inventory.devices)) == found
    return list(found)


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        'device.attributes["gpu.example.com"].productName == "H100"',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
        "device.allowMultipleAllocations",
        'device.attributes["topo.test"].?ring.orValue("") == ""',
    ],
)
def test_devices_that_differ_in_what_is_not_read_have_one_shape(expression: str) -> None:
    alike = [builders.gpu(f"gpu-{number}", attributes={"uuid": str(number)}) for number in (1, 2)]
    one, other = _shapes(expression, *alike)
    assert one == other


def test_devices_that_differ_in_what_is_read_have_two_shapes() -> None:
    expression = 'device.attributes["gpu.example.com"].productName == "H100"'
    one, other = _shapes(expression, builders.gpu("a"), builders.gpu("b", product="A100"))
    assert one != other


def test_an_attribute_with_and_without_domain_is_told_apart() -> None:
    expression = 'device.attributes["gpu.example.com"].ring == "east"'
    own = builders.device("a", attributes={"ring": "east"})
    qualified = builders.device("b", attributes={"gpu.example.com/ring": "west"})
    one, other = _shapes(expression, own, qualified)
    assert one != other


@pytest.mark.parametrize(
    ("attribute", "usable"),
    [
        pytest.param(DeviceAttribute(string_value=""), True, id="empty-string"),
        pytest.param(DeviceAttribute(bool_value=False), True, id="false"),
        pytest.param(DeviceAttribute(version_value="1.2.3"), True, id="version"),
        pytest.param(DeviceAttribute(version_value="latest"), False, id="no-version"),
        pytest.param(DeviceAttribute(int_values=(1,)), True, id="list"),
        pytest.param(DeviceAttribute(), False, id="nothing"),
    ],
)
def test_a_device_is_usable_if_every_attribute_has_a_value(
    attribute: DeviceAttribute, usable: bool
) -> None:
    assert shapes.is_usable(builders.device("d", attributes={"a": attribute})) is usable
