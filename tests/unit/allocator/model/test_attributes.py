"""Attribute lookup and comparison."""

from __future__ import annotations

import pytest

from dray.allocator.model import attributes
from dray.api.types.dra import DeviceAttribute
from tests import builders


@pytest.mark.parametrize(
    ("published", "asked", "found"),
    [
        pytest.param("ring", "gpu.example.com/ring", True, id="own-without-domain"),
        pytest.param("gpu.example.com/ring", "gpu.example.com/ring", True, id="own-with-domain"),
        pytest.param("topo.test/ring", "topo.test/ring", True, id="other-domain"),
        pytest.param("ring", "topo.test/ring", False, id="not-of-that-domain"),
        pytest.param("ring", "ring", True, id="as-published"),
        pytest.param("ring", "slot", False, id="absent"),
    ],
)
def test_drivers_may_leave_out_their_own_domain(published: str, asked: str, found: bool) -> None:
    device = builders.device("d", attributes={published: "east"})
    assert (attributes.lookup(device, builders.DRIVER, asked) is not None) is found


def test_equal_contents_in_other_forms_are_different_values() -> None:
    forms = [
        DeviceAttribute(int_value=1),
        DeviceAttribute(bool_value=True),
        DeviceAttribute(string_value="1"),
        DeviceAttribute(version_value="1"),
    ]
    assert len({attributes.scalar_value(form) for form in forms}) == len(forms)


def test_a_list_is_incomparable_unless_lists_are_compared() -> None:
    links = builders.strings("x", "y")
    assert attributes.scalar_value(links) is attributes.INCOMPARABLE
    assert attributes.set_value(links).members == {"x", "y"}
