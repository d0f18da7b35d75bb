"""Which parts of a device an expression depends on."""

from __future__ import annotations

import pytest

from tests.unit.cel.test_program import HERE, compiled


def found(text: str) -> set[str]:
    """Paths below `device`, joined with slashes."""
    return {"/".join(path[1:]) for path in compiled(text).reads}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        pytest.param("true", set(), id="nothing"),
        pytest.param("device.driver == 'x'", {"driver"}, id="field"),
        pytest.param(f"{HERE}.a == 1", {"attributes/here.com/a"}, id="attribute"),
        pytest.param(f"{HERE}['a'] == 1", {"attributes/here.com/a"}, id="attribute as key"),
        pytest.param(f"has({HERE}.a)", {"attributes/here.com/a"}, id="test"),
        pytest.param(f"{HERE}.?a.orValue(1) == 1", {"attributes/here.com/a"}, id="optional"),
        pytest.param(f"{HERE}.a.b == 1", {"attributes/here.com/a/b"}, id="inside an attribute"),
        pytest.param(
            "device.attributes[device.driver].a == 1", {"attributes", "driver"}, id="computed key"
        ),
        pytest.param("'a' in device.attributes", {"attributes"}, id="whole map"),
        pytest.param(f"'a' in {HERE}", {"attributes/here.com"}, id="whole domain"),
        pytest.param("device.attributes.all(d, d == 'x')", {"attributes"}, id="loop"),
        pytest.param(
            f"{HERE}.a == 1 && size({HERE}) > 0", {"attributes/here.com"}, id="outer wins"
        ),
        pytest.param(
            f"cel.bind(h, {HERE}, h.a == h.b)",
            {"attributes/here.com/a", "attributes/here.com/b"},
            id="through a binding",
        ),
        pytest.param(
            "cel.bind(h, device.attributes[device.driver], h.a == 1)",
            {"attributes", "driver"},
            id="through a binding with a computed key",
        ),
        pytest.param("[1].all(device, device == 1)", set(), id="hidden by a loop variable"),
        pytest.param("size(dyn(device)) == 4 && device.driver == ''", {""}, id="everything"),
        pytest.param("optional.of(device.driver).value() == ''", {"driver"}, id="argument"),
    ],
)
def test_reads(text: str, paths: set[str]) -> None:
    assert found(text) == paths
