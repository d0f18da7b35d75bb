"""What containers are told: environment, fields of the pod, devices of their claims, volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.containers import Container, ResourceFieldSelector, VolumeMount
from dray.api.types.pods import Pod
from dray.api.types.volumes import KeyToPath
from dray.node.devices import preparation
from dray.node.devices.drivers import DriverDevice
from dray.node.devices.preparation import ClaimRecord
from dray.node.runtimes.interface import ContainerConfigError
from dray.node.specs import environment, value_sources, volumes

POD = msgspec.convert(
    {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "labels": {"app": "x", "b": "y"},
            "annotations": {"example.com/note": "hi"},
        },
        "spec": {"nodeName": "n1", "serviceAccountName": "sa"},
        "status": {"podIP": "10.0.0.7"},
    },
    Pod,
)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        pytest.param("$(A)-$(B)", "1-2", id="known"),
        pytest.param("$(C)", "$(C)", id="unknown-stays"),
        pytest.param("$$(A)", "$(A)", id="escaped"),
        pytest.param("$A ${A}", "$A ${A}", id="left-to-the-shell"),
    ],
)
def test_references_are_expanded(text: str, expanded: str) -> None:
    assert environment.expand(text, {"A": "1", "B": "2"}) == expanded


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['app']", "x"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['example.com/note']", "hi"),
        ("metadata.labels", 'app="x"\nb="y"'),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "sa"),
        ("status.podIP", "10.0.0.7"),
    ],
)
def test_fields_of_the_pod(path: str, value: str) -> None:
    assert value_sources.field(POD, path) == value


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(ContainerConfigError, match=r"unsupported field path spec.secret"):
        value_sources.field(POD, "spec.secret")


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.memory", "1Mi", "64"),
        ("requests.cpu", "", "2"),
    ],
)
def test_resources_are_rounded_up_to_the_divisor(resource: str, divisor: str, value: str) -> None:
    amounts = {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}}
    container = msgspec.convert({"name": "c", "resources": amounts}, Container)
    selector = ResourceFieldSelector(resource=resource, divisor=divisor)
    assert value_sources.resource(POD, container, selector) == value


def test_keys_of_a_volume_can_be_chosen_and_renamed() -> None:
    values = {"a": b"1", "b": b"2"}
    assert value_sources.chosen(values, (), False) == values
    assert value_sources.chosen(values, [KeyToPath("a", "x/y")], False) == {"x/y": b"1"}
    assert value_sources.chosen(values, [KeyToPath("c", "x")], True) == {}
    with pytest.raises(ContainerConfigError, match="references non-existent key: c"):
        value_sources.chosen(values, [KeyToPath("c", "x")], False)


@pytest.mark.parametrize("path", ["../other", "/etc", "a/../../b"])
def test_a_sub_path_cannot_leave_its_volume(tmp_path: Path, path: str) -> None:
    mount = VolumeMount(name="v", mount_path="/v", sub_path=path)
    container = Container(name="c", volume_mounts=(mount,))
    with pytest.raises(ContainerConfigError, match="leaves its volume"):
        list(volumes.binds(container, {"v": volumes.PreparedVolume(tmp_path)}, {}))


def held() -> ClaimRecord:
    devices = (
        DriverDevice("d", ("gpu",), "n1", "gpu-0", ("d/claim=0", "d/metadata=0")),
        DriverDevice("d", ("nic",), "n1", "nic-0", ("d/claim=1",)),
        DriverDevice("d", (), "n1", "any", ("d/claim=2",)),
    )
    return ClaimRecord("ns", "c", "uid", ("d",), ("u",), devices, True)


@pytest.mark.parametrize(
    ("claims", "ids"),
    [
        pytest.param([], [], id="none"),
        pytest.param([{"name": "other"}], [], id="not-its-own"),
        pytest.param(
            [{"name": "mine"}], ["d/claim=0", "d/metadata=0", "d/claim=1", "d/claim=2"], id="all"
        ),
        pytest.param(
            [{"name": "mine", "request": "nic"}], ["d/claim=1", "d/claim=2"], id="one-request"
        ),
        pytest.param(
            [{"name": "mine", "request": "nic"}, {"name": "mine", "request": "nic"}],
            ["d/claim=1", "d/claim=2"],
            id="twice-is-once",
        ),
    ],
)
def test_a_container_gets_the_devices_it_names(claims: list[Any], ids: list[str]) -> None:
    container = msgspec.convert({"name": "c", "resources": {"claims": claims}}, Container)
    assert preparation.cdi_ids(POD, container, {"mine": held()}) == ids


def test_extended_resources_reach_the_container_that_asked() -> None:
    status = {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "x",
            "requestMappings": [
                {"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "gpu"}
            ],
        }
    }
    pod = msgspec.convert({"status": status}, Pod)
    claims = {preparation.EXTENDED: held()}
    assert "d/claim=0" in preparation.cdi_ids(pod, Container(name="c"), claims)
    assert preparation.cdi_ids(pod, Container(name="other"), claims) == []
