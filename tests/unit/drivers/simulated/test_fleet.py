"""Simulated fleets: what is shipped, and what users write."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from dray.api import features
from dray.api.formats import quantity
from dray.api.types.dra import Counter as DeviceCounter
from dray.api.types.dra import Device, ResourceSlice
from dray.cel import device as cel
from dray.drivers.simulated import fleet
from dray.drivers.simulated.fleet import Fleet
from dray.drivers.simulated.fleet_file import FleetError
from dray.validation.dra import classes, slices

SHIPPED = fleet.shipped()
GI = 2**30


def devices(loaded: Fleet) -> list[tuple[str, Device]]:
    return [
        (resource_slice.spec.driver, one)
        for resource_slice in loaded.slices()
        for one in resource_slice.spec.devices
    ]


def complaints(resource_slice: ResourceSlice) -> list[str]:
    return [str(error) for error in slices.resource_slice(resource_slice, features.DEFAULT)]


def selects(loaded: Fleet, class_name: str, driver: str, device: Device) -> bool:
    (chosen,) = [
        device_class
        for device_class in loaded.classes()
        if device_class.metadata.name == class_name
    ]
    (selector,) = chosen.spec.selectors
    assert selector.cel is not None
    compiled = cel.compile_selector(selector.cel.expression, stored=True)
    return compiled.matches(cel.view(driver, device))


def write(directory: Path, text: str) -> Path:
    path = directory / "mine.yaml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_fleet_is_valid(name: str) -> None:
    loaded = fleet.load(name)
    assert [text for resource_slice in loaded.slices() for text in complaints(resource_slice)] == []
    for device_class in loaded.classes():
        assert [str(each) for each in classes.device_class(device_class, features.DEFAULT)] == []


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_fleet_has_unique_uuids_and_device_names(name: str) -> None:
    loaded = fleet.load(name)
    found = [
        one.attributes["uuid"].string_value
        for _, one in devices(loaded)
        if "uuid" in one.attributes
    ]
    assert len(set(found)) == len(found)
    names = Counter(
        (resource_slice.spec.driver, resource_slice.spec.pool.name, one.name)
        for resource_slice in loaded.slices()
        for one in resource_slice.spec.devices
    )
    assert set(names.values()) == {1}


@pytest.mark.parametrize("name", SHIPPED)
def test_fleet_is_the_same_every_time(name: str) -> None:
    assert list(fleet.load(name).slices()) == list(fleet.load(name).slices())


def test_fleets_that_people_ask_for_are_shipped() -> None:
    wanted = {"a100-mig", "b200", "gb200-nvl72", "h100", "h200", "l4", "mi300x"}
    assert wanted | {"network-attached", "shared", "tpu-v5e"} <= set(SHIPPED)


def test_h100_has_eight_gpus_in_two_switch_domains_each_beside_a_nic() -> None:
    (machine, *_) = fleet.load("h100").machines.values()
    gpus, nics = machine.pools()
    domains = Counter(one.attributes["nvswitchDomain"].string_value for one in gpus.devices)
    assert domains == {"h100-0-0": 4, "h100-0-1": 4}
    root = "resource.kubernetes.io/pcieRoot"
    assert [one.attributes[root] for one in gpus.devices] == [
        one.attributes[root] for one in nics.devices
    ]


def test_h200_has_the_memory_that_nvml_reports() -> None:
    (_, gpu), *_ = devices(fleet.load("h200"))
    assert quantity.parse(gpu.capacity["memory"].value) == quantity.parse("150754820096")
    assert 140.3 < 150754820096 / GI < 140.5


def test_gb200_rack_is_one_domain_of_72() -> None:
    loaded = fleet.load("gb200-nvl72", nodes=36)
    domains = Counter(
        one.attributes["nvswitchDomain"].string_value
        for driver, one in devices(loaded)
        if driver == "gpu.nvidia.com"
    )
    assert domains == {"rack-0": 72, "rack-1": 72}


def test_mig_class_selects_partitions_and_gpu_class_whole_gpus() -> None:
    loaded = fleet.load("a100-mig")
    by_class = {
        name: {
            one.attributes["type"].string_value
            for driver, one in devices(loaded)
            if selects(loaded, name, driver, one)
        }
        for name in ("gpu.nvidia.com", "mig.nvidia.com")
    }
    assert by_class == {"gpu.nvidia.com": {"gpu"}, "mig.nvidia.com": {"mig"}}


@pytest.mark.parametrize(
    ("profiles", "fit"),
    [
        pytest.param([("7g.80gb", 0)], True, id="one-of-the-largest"),
        pytest.param([("1g.10gb", slot) for slot in range(7)], True, id="seven-of-the-smallest"),
        pytest.param([("3g.40gb", 0), ("3g.40gb", 4)], True, id="two-halves"),
        pytest.param([("2g.20gb", 0), ("2g.20gb", 2), ("3g.40gb", 4)], True, id="a-mix"),
        pytest.param([("1g.10gb", 0), ("2g.20gb", 0)], False, id="overlap"),
        pytest.param([("1g.10gb+me", 0), ("1g.10gb+me", 1)], False, id="media-engines-once"),
        pytest.param([("4g.40gb", 0), ("7g.80gb", 0)], False, id="part-and-whole"),
    ],
)
def test_mig_counters_allow_what_the_hardware_allows(
    profiles: list[tuple[str, int]], fit: bool
) -> None:
    (machine, *_) = fleet.load("a100-mig").machines.values()
    (pool,) = machine.pools()
    chosen = [partition(pool.devices, *profile) for profile in profiles]
    assert fits(chosen, pool.shared_counters[0].counters) is fit


def partition(all_devices: tuple[Device, ...], profile: str, start: int) -> Device:
    (found,) = [
        one
        for one in all_devices
        if one.name.startswith("gpu-0-")
        and one.attributes["profile"].string_value == profile
        and one.name.endswith(f"-{start}")
    ]
    return found


def fits(chosen: list[Device], offered: dict[str, DeviceCounter]) -> bool:
    used: Counter[str] = Counter()
    for consumption in itertools.chain.from_iterable(one.consumes_counters for one in chosen):
        for name, counter in consumption.counters.items():
            used[name] += quantity.parse(counter.value).value()
    return all(
        amount <= quantity.parse(offered[name].value).value() for name, amount in used.items()
    )


def test_whole_gpu_consumes_all_counters_of_its_set() -> None:
    (machine, *_) = fleet.load("a100-mig").machines.values()
    (pool,) = machine.pools()
    whole = pool.devices[0]
    assert whole.consumes_counters[0].counters == pool.shared_counters[0].counters


def test_shared_gpu_may_be_allocated_many_times() -> None:
    ((_, gpu),) = devices(fleet.load("shared"))
    assert gpu.allow_multiple_allocations
    policy = gpu.capacity["memory"].request_policy
    assert policy is not None
    assert policy.default == "10Gi"


def test_network_attached_pools_belong_to_no_node() -> None:
    zone, everywhere = fleet.load("network-attached").shared_pools()
    assert zone.node_selector is not None
    assert everywhere.all_nodes
    assert not any(
        list(machine.pools()) for machine in fleet.load("network-attached").machines.values()
    )


def test_number_of_nodes_can_be_chosen() -> None:
    assert len(fleet.load("l4", nodes=100).machines) == 100


def test_devices_of_one_name_are_numbered_through_all_groups(tmp_path: Path) -> None:
    text = """
    nodes:
      - name: mixed
        devices:
          gpu.nvidia.com: [{model: h200, count: 2}, {model: l4, count: 1}]
    """
    names = [one.name for _, one in devices(fleet.load(write(tmp_path, text)))]
    assert names == ["gpu-0", "gpu-1", "gpu-2"]


def test_own_models_and_classes_come_before_the_catalogue(tmp_path: Path) -> None:
    text = """
    drivers:
      fpga.example.com: {classes: {fpga: {selector: device.driver == "fpga.example.com"}}}
    models:
      fpga: {name: "fpga-{index}", attributes: {speed: 3, "on": false, os: {version: 1.2.3}}}
    nodes:
      - {name: "n{number}", count: 2, devices: {fpga.example.com: [{model: fpga, count: 1}]}}
    """
    loaded = fleet.load(write(tmp_path, text))
    (_, first), _ = devices(loaded)
    assert first.attributes["speed"].int_value == 3
    assert first.attributes["on"].bool_value is False
    assert first.attributes["os"].version_value == "1.2.3"
    assert [device_class.metadata.name for device_class in loaded.classes()] == ["fpga"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("nodes: [{name: n, gpus: 3}]", "gpus", id="unknown-field"),
        pytest.param("nodes: [{name: n, count: 2}]", "two nodes have the name 'n'", id="same-name"),
        pytest.param(
            "nodes: [{name: n, devices: {d: [{model: h300}]}}]", "no model 'h300'", id="no-model"
        ),
        pytest.param(
            "nodes: [{name: n, devices: {d: [{model: l4, partitioned: true}]}}]",
            "l4 cannot be partitioned",
            id="not-partitionable",
        ),
        pytest.param("nodes: [{name: 'n{numer}'}]", "not a template", id="unknown-variable"),
        pytest.param("nodes: [", "mine.yaml", id="not-yaml"),
        pytest.param(
            "nodes: [{name: a}, {name: 'gpu_{number}'}]",
            r"nodes\[1\].name: 'gpu_0' cannot be the name of a node: a lowercase RFC 1123",
            id="node-name",
        ),
        pytest.param(
            "nodes: [{name: n, labels: {rack: a b}}]",
            r"nodes\[0\].labels: rack=a b: a valid label",
            id="label",
        ),
        pytest.param(
            "pools: [{name: p, allNodes: true, devices: {a_b: [{model: l4}]}}]",
            r"pools\[0\]: a_b cannot publish its devices: metadata.name: Invalid value",
            id="driver-name",
        ),
    ],
)
def test_a_wrong_fleet_says_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FleetError, match=words):
        list(fleet.load(write(tmp_path, text)).slices())


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("mine.yaml", "mine"),
        ("two.racks.yaml", "two.racks"),
        ("my_fleet.yaml", "my-fleet"),
        ("Rack 7 (new).yaml", "rack-7-new"),
        ("_.yaml", "fleet"),
        (f"{80 * 'x'}.yaml", 63 * "x"),
    ],
)
def test_any_file_name_gives_a_name_for_objects(tmp_path: Path, file: str, name: str) -> None:
    path = tmp_path / file
    path.write_text("nodes: [{name: n}]", "utf-8")
    loaded = fleet.load(path)
    assert loaded.name == name
    assert [node.metadata.labels[fleet.FLEET_LABEL] for node in loaded.nodes()] == [name]


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(FleetError, match="neither a file nor one of a100-mig, b200"):
        fleet.load("h1000")


IDENTITY = {"vendorID", "deviceID"}
PRODUCT = {"productName", "driverVersion"}
PHYSICS = {"powerLimitWatts", "thermalSlowdownCelsius", "thermalShutdownCelsius"}
SAID = {
    "gpu": IDENTITY | PRODUCT | PHYSICS,
    "mig": IDENTITY | PRODUCT,
    "amdgpu": IDENTITY | PRODUCT | PHYSICS,
    "amdgpu-partition": IDENTITY | PRODUCT,
    None: IDENTITY,
}


@pytest.mark.parametrize("name", fleet.shipped())
def test_accelerators_say_what_people_select_by(name: str) -> None:
    """Product, vendor and device id; power and heat where management libraries report them."""
    for pool in fleet.load(name, nodes=1).pools():
        for device in pool.devices if pool.driver != "dra.net" else ():
            type_ = device.attributes.get("type")
            wanted = SAID[type_.string_value if type_ else None]
            assert wanted <= device.attributes.keys(), device.name
            assert "memory" in device.capacity


def test_a_machine_prepares_what_it_can_reach() -> None:
    machines = fleet.load("network-attached").machines
    reached = {
        name: [pool.name for pool in each.reachable_pools()] for name, each in machines.items()
    }
    assert reached["host-a-0"] == ["fabric-zone-a", "fabric-everywhere"]
    assert reached["host-b-0"] == ["fabric-everywhere"]
    assert machines["host-b-0"].drivers == ["fabric.dray.dev"]
    assert next(iter(fleet.load("h100").machines.values())).drivers == ["gpu.nvidia.com", "dra.net"]
