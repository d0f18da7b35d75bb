"""The cells of a fleet, drawn where something changed, are those of a fleet drawn anew."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from dray.api import features
from dray.api.ids import ObjectKey
from dray.api.types.dra import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaimConsumerReference,
)
from dray.api.types.meta import ObjectMeta
from dray.client.cache import ObjectChange
from dray.ui.model.fleet_state import FleetState
from tests import builders, rounds

DRIVER = builders.DRIVER


def change(old: Any, new: Any) -> ObjectChange[Any]:
    value = new if new is not None else old
    metadata = value.metadata
    return ObjectChange(ObjectKey(metadata.namespace, metadata.name), old, new)


def drawn(fleet: FleetState) -> FleetState:
    for _ in fleet.update():
        pass
    list(fleet.table.changes())
    return fleet


def fleet_of(*objects: Any, knows_nodes: bool = True) -> FleetState:
    fleet = FleetState(features.DEFAULT, knows_nodes=knows_nodes)
    for item in objects:
        put(fleet, None, item)
    return drawn(fleet)


def put(fleet: FleetState, old: Any, new: Any) -> None:
    value = new if new is not None else old
    does: dict[str, Callable[[ObjectChange[Any]], None]] = {
        "Node": fleet.node_changed,
        "ResourceSlice": fleet.slice_changed,
        "DeviceClass": fleet.class_changed,
        "DeviceTaintRule": fleet.rule_changed,
        "ResourceClaim": fleet.claim_changed,
    }
    does[type(value).__name__](change(old, new))


def held(name: str, *devices: str, pool: str = "n1", pods: tuple[str, ...] = ()) -> Any:
    claim = builders.allocated(builders.claim(builders.request(), name=name), *devices, pool=pool)
    users = tuple(ResourceClaimConsumerReference("", "pods", pod, f"uid-{pod}") for pod in pods)
    return msgspec.structs.replace(
        claim, status=msgspec.structs.replace(claim.status, reserved_for=users)
    )


def test_a_device_has_the_state_of_its_claims() -> None:
    claim = held("train", "gpu-1", pods=("a", "b"))
    fleet = fleet_of(
        builders.node("n1"), builders.device_class(), builders.gpu_slice(count=2), claim
    )
    free, taken = fleet.cells[f"{DRIVER}/n1/gpu-0"], fleet.cells[f"{DRIVER}/n1/gpu-1"]
    namespace = claim.metadata.namespace
    assert (free.st, free.h, free.u, free.n) == ("free", (), (), "n1")
    assert (taken.st, taken.h) == ("in use", (f"{namespace}/train",))
    assert taken.u == (f"{namespace}/a", f"{namespace}/b")
    assert fleet.counts == {"free": 1, "in use": 1}
    shape = fleet.table.shapes[free.s]
    assert (shape.model, shape.memory, shape.classes, shape.slots) == ("H100", "80Gi", ("gpu",), 0)
    assert taken.s == free.s


def test_a_claim_that_may_not_be_seen_has_no_name() -> None:
    fleet = fleet_of(builders.node("n1"), builders.gpu_slice(count=1))
    claim = held("secret", "gpu-0", pods=("hidden",))
    fleet.claim_changed(change(None, claim), is_visible=False)
    (cell,) = drawn(fleet).cells.values()
    assert (cell.st, cell.h, cell.u) == ("in use", (), ())
    assert b"secret" not in msgspec.json.encode(cell)
    fleet.claim_changed(change(claim, None), is_visible=False)
    (cell,) = drawn(fleet).cells.values()
    assert cell.st == "free"


def test_partitions_that_are_held_are_parts_of_a_cell() -> None:
    claim = held("part", "gpu-0-half-0")
    fleet = fleet_of(builders.node("n1"), *builders.mig_slices(), claim)
    (cell,) = fleet.cells.values()
    assert (cell.st, cell.f) == ("shared", 50)
    (part,) = cell.p
    assert (part.k, part.st) == (f"{DRIVER}/n1/gpu-0-half-0", "in use")
    assert part.h == cell.h == (str(claim.key),)


def test_a_shared_device_says_how_full_it_is() -> None:
    gpus = builders.gpu_slice(count=1, shareable=True)
    claim = builders.allocated(builders.claim(builders.request(), name="share"), "gpu-0")
    assert claim.status.allocation is not None
    (result,) = claim.status.allocation.devices.results
    share = msgspec.structs.replace(result, share_id="s", consumed_capacity={"memory": "20Gi"})
    allocation = msgspec.structs.replace(
        claim.status.allocation,
        devices=msgspec.structs.replace(claim.status.allocation.devices, results=(share,)),
    )
    claim = msgspec.structs.replace(
        claim, status=msgspec.structs.replace(claim.status, allocation=allocation)
    )
    fleet = fleet_of(builders.node("n1"), gpus, claim)
    (cell,) = fleet.cells.values()
    assert (cell.st, cell.f, cell.t) == ("shared", 25, "shared (60Gi of 80Gi left)")


def test_a_device_that_is_gone_is_missing_until_it_is_released() -> None:
    claim = held("train", "gpu-0")
    gpus = builders.gpu_slice(count=1)
    fleet = fleet_of(builders.node("n1"), gpus, claim)
    put(fleet, gpus, None)
    (cell,) = drawn(fleet).cells.values()
    assert cell.st == "missing"
    put(fleet, claim, None)
    assert drawn(fleet).cells == {}
    assert fleet.counts == {}
    assert fleet.table.shapes == {}
    assert fleet.take().cells == {f"{DRIVER}/n1/gpu-0": None}


def test_nodes_that_may_not_be_read_are_those_of_slices() -> None:
    fleet = fleet_of(builders.gpu_slice(count=1), knows_nodes=False)
    (cell,) = fleet.cells.values()
    assert (cell.st, cell.n) == ("free", "n1")
    (cell,) = fleet_of(builders.gpu_slice(count=1)).cells.values()
    assert cell.st == "blocked"
    assert "n1 does not exist" in cell.t


def test_marks_are_taints_and_health() -> None:
    taint = DeviceTaint("dray.dev/unhealthy", "", "NoExecute")
    fleet = fleet_of(builders.node("n1"), builders.gpu_slice(count=1, taints=(taint,)))
    (cell,) = fleet.cells.values()
    assert cell.m == ("tainted", "unhealthy")
    reported = fleet_of(builders.node("n1"), builders.gpu_slice(count=1))
    reported.health_changed((), [f"{DRIVER}/n1/gpu-0"])
    (cell,) = drawn(reported).cells.values()
    assert cell.m == ("unhealthy",)
    reported.health_changed([f"{DRIVER}/n1/gpu-0"], ())
    (cell,) = drawn(reported).cells.values()
    assert cell.m == ()


def test_only_what_changed_is_said() -> None:
    gpus = builders.gpu_slice(count=4)
    fleet = fleet_of(builders.node("n1"), builders.node("n2"), gpus, builders.gpu_slice("n2"))
    assert len(fleet.take().cells) == 8
    put(fleet, None, held("train", "gpu-2"))
    assert drawn(fleet).take().cells.keys() == {f"{DRIVER}/n1/gpu-2"}
    assert list(fleet.table.changes()) == []
    node = builders.node("n1")
    put(fleet, node, msgspec.structs.replace(node, metadata=node.metadata))
    assert drawn(fleet).take() == ({}, {})


def test_attributes_that_all_have_describe_the_shape() -> None:
    own = [builders.gpu(f"gpu-{number}", attributes={"index": number}) for number in range(3)]
    fleet = fleet_of(builders.node("n1"), builders.resource_slice(*own))
    (shape,) = fleet.table.shapes.values()
    assert shape.attributes == {"productName": "H100", "driverVersion": "550.54.15"}
    put(fleet, builders.resource_slice(*own), builders.resource_slice(*own[:1]))
    drawn(fleet)
    (shape,) = fleet.table.shapes.values()
    assert shape.attributes["index"] == 0


OBJECTS = [
    *(builders.node(name) for name in ("n1", "n2")),
    builders.device_class(),
    builders.device_class(
        "half", 'device.attributes["gpu.example.com"].?size.orValue("") == "half"'
    ),
    builders.gpu_slice("n1", count=3),
    builders.gpu_slice("n1", count=2, product="A100"),
    *builders.mig_slices("n2", gpus=2),
    builders.resource_slice(builders.gpu("far"), node=None, all_nodes=True),
    held("one", "gpu-0"),
    held("one", "gpu-1", pods=("user",)),
    held("two", "gpu-2", "gpu-0-half-1", pool="n2"),
    held("three", "gpu-1", pool="n2"),
    held("four", "far", pool="network"),
    builders.claim(builders.request(), name="two"),
    DeviceTaintRule(
        ObjectMeta(name="rule"),
        DeviceTaintRuleSpec(DeviceTaintSelector(driver=DRIVER), DeviceTaint("k", "", "NoSchedule")),
    ),
]


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(20, long=500))
def test_changes_lead_to_what_is_drawn_anew(seed: int) -> None:
    dice = random.Random(seed)
    fleet = FleetState(features.DEFAULT)
    now: dict[tuple[str, str], Any] = {}
    seen_cells: dict[str, Any] = {}
    seen_shapes: dict[str, Any] = {}
    for _ in range(40):
        for _ in range(dice.randrange(1, 4)):
            item = dice.choice(OBJECTS)
            key = (type(item).__name__, item.metadata.name)
            old = now.get(key)
            new = None if old is not None and dice.random() < 0.4 else item
            put(fleet, old, new)
            if new is None:
                del now[key]
            else:
                now[key] = new
        for _ in fleet.update():
            pass
        for name, shape in fleet.table.changes():
            seen_shapes[name] = shape
        for name, cell in fleet.take().cells.items():
            seen_cells[name] = cell
        said = {name: cell for name, cell in seen_cells.items() if cell is not None}
        assert said == fleet.cells
        shapes = {name: shape for name, shape in seen_shapes.items() if shape is not None}
        assert shapes == fleet.table.shapes
        assert plain(fleet) == plain(fleet_of(*now.values()))


def plain(fleet: FleetState) -> Any:
    """Return what is drawn, with shapes instead of their names, which follow the order."""
    cells = {
        key: (msgspec.structs.replace(cell, s=""), fleet.table.shapes[cell.s])
        for key, cell in fleet.cells.items()
    }
    return cells, dict(fleet.nodes), dict(fleet.counts)
