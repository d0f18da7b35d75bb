"""The plugin API on the wire: names and field numbers are Kubernetes' own."""

from __future__ import annotations

from typing import Any

import pytest

from dray.protocol import services
from dray.protocol.services import Service

EVERY_SERVICE = [
    services.DRA_V1,
    services.DRA_V1BETA1,
    services.HEALTH_V1,
    services.HEALTH_V1ALPHA1,
    services.REGISTRATION,
    services.POD_RESOURCES,
]


def test_services_have_the_names_that_others_call() -> None:
    assert [each.name for each in EVERY_SERVICE] == [
        "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
        "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
        "pluginregistration.Registration",
        "v1.PodResourcesLister",
    ]


@pytest.mark.parametrize("service", EVERY_SERVICE, ids=lambda service: str(service.name))
def test_every_method_of_a_service_is_in_its_proto_file(service: Service) -> None:
    name = service.name.rpartition(".")[2]
    described = service.messages.DESCRIPTOR.services_by_name[name]
    assert described.full_name == service.name
    assert {method.name for method in described.methods} == set(service.methods)
    for method in described.methods:
        known = service.methods[method.name]
        assert known.request.DESCRIPTOR is method.input_type
        assert known.response.DESCRIPTOR is method.output_type


def text(number: int, value: str) -> bytes:
    """A string field as protobuf writes it."""
    return bytes([number << 3 | 2, len(value)]) + value.encode()


@pytest.mark.parametrize(
    ("message", "encoded"),
    [
        pytest.param(
            services.DRA_V1.messages.Claim(namespace="ns", uid="u", name="n"),
            text(1, "ns") + text(2, "u") + text(3, "n"),
            id="claim",
        ),
        pytest.param(
            services.DRA_V1.messages.Device(
                request_names=["r"],
                pool_name="p",
                device_name="d",
                cdi_device_ids=["i"],
                share_id="s",
            ),
            text(1, "r") + text(2, "p") + text(3, "d") + text(4, "i") + text(5, "s"),
            id="device",
        ),
        pytest.param(
            services.REGISTRATION.messages.PluginInfo(
                type="t", name="n", endpoint="e", supported_versions=["v"]
            ),
            text(1, "t") + text(2, "n") + text(3, "e") + text(4, "v"),
            id="plugin-info",
        ),
        pytest.param(
            services.POD_RESOURCES.messages.DynamicResource(claim_name="c", claim_namespace="n"),
            text(2, "c") + text(3, "n"),
            id="dynamic-resource",
        ),
        pytest.param(
            services.HEALTH_V1.messages.DeviceHealth(health=2, last_updated_time=5, message="m"),
            b"\x10\x02\x18\x05" + text(5, "m"),
            id="health",
        ),
    ],
)
def test_messages_have_the_field_numbers_of_kubernetes(message: Any, encoded: bytes) -> None:
    assert message.SerializeToString(deterministic=True) == encoded


def test_v1beta1_knows_no_shares() -> None:
    assert "share_id" not in services.DRA_V1BETA1.messages.Device.DESCRIPTOR.fields_by_name
