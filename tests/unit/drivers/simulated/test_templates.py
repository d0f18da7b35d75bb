"""Attributes of devices, made from the templates of a fleet file."""

from __future__ import annotations

from dray.drivers.simulated.templates import AttributeTemplates, DevicePosition

RAW = {
    "uuid": "GPU-{uuid}",
    "model": "H100",
    "index": {"int": "{index}"},
    "driver": {"version": "1.2.3"},
    "domain": ["a", "b"],
    "healthy": True,
}


def test_attributes_keep_the_order_of_the_file() -> None:
    assert list(AttributeTemplates(RAW).fill(DevicePosition("n1"))) == list(RAW)


def test_only_templates_and_lists_depend_on_the_device() -> None:
    templates = AttributeTemplates(RAW)
    first = templates.fill(DevicePosition("n1").of_device(0, 0, 2, "n1/0"))
    second = templates.fill(DevicePosition("n1").of_device(1, 1, 2, "n1/1"))
    assert [name for name in RAW if first[name] != second[name]] == ["uuid", "index", "domain"]
    assert (first["index"].int_value, second["index"].int_value) == (0, 1)
    assert first["driver"].version_value == "1.2.3"
    assert first["healthy"].bool_value is True
