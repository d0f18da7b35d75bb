"""Equality of API values, and the fields in which two of them differ."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types import containers, dra, meta, pods
from dray.validation import equality


def asking(memory: str) -> pods.PodSpec:
    resources = containers.ResourceRequirements(requests={"memory": memory})
    return pods.PodSpec(containers=(containers.Container(name="main", resources=resources),))


def configured(value: object) -> dra.DeviceClassSpec:
    opaque = dra.OpaqueDeviceConfiguration("a.example.com", {"k": value})
    return dra.DeviceClassSpec(config=(dra.DeviceClassConfiguration(opaque),))


@pytest.mark.parametrize(
    ("new", "old", "changed"),
    [
        pytest.param(asking("1Gi"), asking("1024Mi"), [], id="the same amount"),
        pytest.param(
            asking("1Gi"),
            asking("2Gi"),
            ["spec.containers[0].resources.requests[memory]"],
            id="another amount",
        ),
        pytest.param(
            pods.PodSpec(hostname="b", host_network=True),
            pods.PodSpec(hostname="a"),
            ["spec.hostNetwork", "spec.hostname"],
            id="two fields",
        ),
        pytest.param(asking("1Gi"), pods.PodSpec(), ["spec.containers"], id="another length"),
        pytest.param(configured(1), configured(1), [], id="the same parameters"),
        pytest.param(configured(True), configured(1), ["spec.config[0].opaque"], id="true, not 1"),
        pytest.param(configured(1.0), configured(1), ["spec.config[0].opaque"], id="1.0, not 1"),
        pytest.param(
            pods.PodSpec(affinity=pods.Affinity()), pods.PodSpec(), ["spec.affinity"], id="absent"
        ),
    ],
)
def test_changed_fields_are_named_by_their_wire_paths(
    new: Any, old: Any, changed: list[str]
) -> None:
    assert sorted(equality.changed_fields(new, old, "spec")) == changed
    assert equality.are_equal(new, old) == (not changed)


def test_keys_that_only_one_map_has_are_changes() -> None:
    new, old = meta.ObjectMeta(labels={"a": "1", "b": "2"}), meta.ObjectMeta(labels={"a": "1"})
    assert [*equality.changed_fields(new, old, "metadata")] == ["metadata.labels[b]"]
