"""The environments declare what Kubernetes 1.37 declares."""

from __future__ import annotations

import re

import pytest

from dray.cel import types
from dray.cel.checking import environment
from dray.cel.checking.environment import Environment, Extent
from dray.cel.functions.overloads import Overload, Range
from tests import recorded

TABLE = "cel_overloads.txt"
OVERLOAD = re.compile(r"(?P<function>\S+): (?P<signature>.+)   \[(?P<id>.+)\]")


def device_environment(
    *, stored: bool = False, consumable_capacity: bool = True, list_type_attributes: bool = False
) -> Environment:
    return environment.device_environment(
        stored=stored,
        consumable_capacity=consumable_capacity,
        list_type_attributes=list_type_attributes,
    )


def written(function: str, overload: Overload) -> str:
    """The overload as the recorded file writes it."""
    arguments = [str(argument) for argument in overload.arguments]
    receiver = f"{arguments.pop(0)}." if overload.member else ""
    return f"{function}: {receiver}{function}({', '.join(arguments)}) -> {overload.result}"


@pytest.mark.skipif(not recorded.CASES.has(TABLE), reason=recorded.CASES.why_absent(TABLE))
def test_every_overload_of_kubernetes_is_declared_and_no_other() -> None:
    lines = recorded.CASES.read(TABLE).splitlines()
    expected = {
        (f"{match['function']}: {match['signature']}", match["id"])
        for line in lines
        if (match := OVERLOAD.fullmatch(line))
    }
    known = device_environment(list_type_attributes=True)
    declared = {
        (written(name, overload), overload.id)
        for name, function in known.functions.items()
        for overload in function.overloads
    }
    assert declared == expected


def test_a_new_expression_sees_the_gates() -> None:
    plain = device_environment(consumable_capacity=False)
    fields = plain.objects[environment.DEVICE.name]
    assert "allowMultipleAllocations" not in fields
    assert str(fields["attributes"]) == "map(string, map(string, google.protobuf.Any))"
    assert "includes" not in plain.functions


def test_a_new_expression_may_use_what_the_gates_allow() -> None:
    known = device_environment(list_type_attributes=True)
    fields = known.objects[environment.DEVICE.name]
    assert fields["allowMultipleAllocations"] == types.BOOL
    assert str(fields["attributes"]) == "map(string, map(string, dyn))"
    assert "includes" in known.functions


def test_a_stored_expression_may_use_everything() -> None:
    stored = device_environment(stored=True, consumable_capacity=False)
    fields = stored.objects[environment.DEVICE.name]
    assert fields["allowMultipleAllocations"] == types.BOOL
    assert str(fields["attributes"]) == "map(string, map(string, dyn))"
    assert "includes" in stored.functions


def test_an_environment_is_made_once() -> None:
    assert device_environment() is device_environment()


@pytest.mark.parametrize(
    ("path", "maximum"),
    [
        (["device"], 0),
        (["device", "driver"], 63),
        (["device", "allowMultipleAllocations"], 1),
        (["device", "attributes"], 32),
        (["device", "attributes", "@keys"], 63),
        (["device", "attributes", "@values"], 32),
        (["device", "attributes", "@values", "@keys"], 32),
        (["device", "attributes", "@values", "name"], 64),
        (["device", "attributes", "@values", "@values"], 64),
        (["device", "capacity", "@values", "@values"], 0),
    ],
)
def test_what_is_below_the_device_has_a_largest_size(path: list[str], maximum: int) -> None:
    assert device_environment().size_at(path) == Range(0, maximum)


@pytest.mark.parametrize(
    "path",
    [
        [],
        ["other"],
        ["device", "nope"],
        ["device", "attributes", "domain"],
        ["device", "attributes", "domain", "name"],
        ["device", "capacity", "@values", "name"],
        ["device", "driver", "@items"],
        ["device", "attributes", "@values", "name", "more"],
    ],
)
def test_nothing_is_known_of_other_sizes(path: list[str]) -> None:
    assert device_environment().size_at(path) is None


def test_a_step_into_what_has_no_inside_leads_nowhere() -> None:
    assert Extent(1).step("@keys") is None
    assert Extent(1).step("name") is None


def test_type_names_are_values_unless_only_the_checker_knows_them() -> None:
    names = device_environment().type_names
    assert names["net.IP"].value == types.IP
    assert names["duration"].type == types.DURATION
    assert names["duration"].value is None
    assert "kubernetes.Quantity" not in names
