"""Opaque parameters: what they mean, and every fault with its field."""

from __future__ import annotations

from typing import Any

import pytest

from dray.drivers.nvidia import config
from dray.drivers.nvidia.config import ConfigError, Mps, TimeSlicing

GPU, MIG = config.GPU_CONFIG, config.MIG_CONFIG


def parameters(sharing: Any = None, kind: str = GPU, **more: Any) -> dict[str, Any]:
    body = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, **more}
    return body if sharing is None else {**body, "sharing": sharing}


def time_slicing(interval: str) -> dict[str, Any]:
    return {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}}


def mps(**fields: Any) -> dict[str, Any]:
    return {"strategy": "MPS", "mpsConfig": fields}


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        pytest.param([], GPU, TimeSlicing("Default"), id="nothing-said"),
        pytest.param([parameters()], GPU, TimeSlicing("Default"), id="no-sharing"),
        pytest.param([parameters({"strategy": "TimeSlicing"})], GPU, TimeSlicing(), id="default"),
        pytest.param([parameters(time_slicing("Long"))], GPU, TimeSlicing("Long"), id="long-turns"),
        pytest.param(
            [parameters(time_slicing("Long")), parameters(time_slicing("Short"))],
            GPU,
            TimeSlicing("Short"),
            id="the-claim-wins-over-its-class",
        ),
        pytest.param(
            [parameters({"strategy": "MPS"}, MIG), parameters(time_slicing("Long"))],
            MIG,
            Mps(),
            id="each-kind-of-device-has-its-own",
        ),
        pytest.param(
            [
                parameters(
                    mps(
                        defaultActiveThreadPercentage=50,
                        defaultPinnedDeviceMemoryLimit="10Gi",
                        defaultPerDevicePinnedMemoryLimit={"1": "2Gi"},
                    )
                )
            ],
            GPU,
            Mps(50, 10240, {"1": 2048}),
            id="mps-with-limits",
        ),
    ],
)
def test_what_parameters_mean(given: list[Any], kind: str, expected: Any) -> None:
    assert config.sharing(given, kind) == expected


def test_a_limit_for_one_device_comes_before_the_limit_for_all() -> None:
    wanted = Mps(memory_mebibytes=100, memory_mebibytes_of={"1": 10, "GPU-x": 5})
    assert [wanted.limit("GPU-a", 0), wanted.limit("GPU-b", 1), wanted.limit("GPU-x", 1)] == [
        100,
        10,
        5,
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param("text", 'parameters: Invalid value: "text": must be an object', id="text"),
        pytest.param(
            {"apiVersion": "v1", "kind": "GpuConfig"},
            'parameters.apiVersion: Unsupported value: "v1": supported values: '
            '"resource.nvidia.com/v1beta1"',
            id="version",
        ),
        pytest.param(
            parameters(kind="Other"),
            'parameters.kind: Unsupported value: "Other": supported values: "GpuConfig", '
            '"MigDeviceConfig"',
            id="kind",
        ),
        pytest.param(
            parameters(sharin={}),
            "parameters.sharin: Forbidden: is not one of apiVersion, kind, sharing",
            id="misspelt",
        ),
        pytest.param(
            parameters({"strategy": "Luck"}),
            'parameters.sharing.strategy: Unsupported value: "Luck": supported values: '
            '"TimeSlicing", "MPS"',
            id="strategy",
        ),
        pytest.param(
            parameters(time_slicing("Tiny")),
            'parameters.sharing.timeSlicingConfig.interval: Unsupported value: "Tiny": supported '
            'values: "Default", "Short", "Medium", "Long"',
            id="interval",
        ),
        pytest.param(
            parameters({"strategy": "MPS", "timeSlicingConfig": {}}),
            "parameters.sharing.timeSlicingConfig: Forbidden: may be set with strategy TimeSlicing "
            "only",
            id="the-other-strategy's",
        ),
        pytest.param(
            parameters(time_slicing("Long"), MIG),
            "parameters.sharing.timeSlicingConfig: Forbidden: is not one of strategy, mpsConfig",
            id="partitions-have-no-turns",
        ),
        pytest.param(
            parameters(mps(defaultActiveThreadPercentage=101)),
            "parameters.sharing.mpsConfig.defaultActiveThreadPercentage: Invalid value: 101: must "
            "be between 1 and 100",
            id="percentage",
        ),
        pytest.param(
            parameters(mps(defaultPinnedDeviceMemoryLimit="lots")),
            "parameters.sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: Invalid value: "
            '"lots": must be a quantity, as 10Gi',
            id="quantity",
        ),
        pytest.param(
            parameters(mps(defaultPerDevicePinnedMemoryLimit={"0": "1k"})),
            "parameters.sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[0]: Invalid value: "
            '"1k": must be 1Mi or more',
            id="too-little",
        ),
    ],
)
def test_every_fault_is_told_with_its_field(given: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        config.sharing([given], GPU)
    assert str(error.value) == message


def test_all_faults_are_told_at_once() -> None:
    given = parameters({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 0}}, x=1)
    with pytest.raises(ConfigError) as error:
        config.sharing([given, parameters(time_slicing("Tiny"))], MIG)
    assert str(error.value).count(";") == 2
