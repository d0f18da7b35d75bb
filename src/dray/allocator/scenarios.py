"""Scenario files: nodes, slices, classes and claims to place, decoded for the allocator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.interning import Interner
from dray.api import features
from dray.api.features import FeatureError, Features
from dray.api.types.dra import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.nodes import Node

_ALLOCATOR_GATES = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADerivedAttributes",
    "DRADeviceBindingConditions",
    "DRADeviceCompatibilityGroups",
    "DRADeviceTaints",
    "DRAFractionalCapacityRange",
    "DRAListTypeAttributes",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
)


class Scenario(msgspec.Struct, kw_only=True):
    """The content of a scenario file. Equal parts of slices are kept once."""

    name: str = ""
    nodes: Sequence[Node] = ()
    slices: Sequence[ResourceSlice] = ()
    classes: Sequence[DeviceClass] = ()
    claims: Sequence[ResourceClaim] = ()
    device_taint_rules: Sequence[DeviceTaintRule] = ()
    feature_set: str = "default"

    def features(self) -> Features:
        """Return the gates: the defaults, all that the allocator has, or exactly those named.

        Raises FeatureError for others.
        """
        if self.feature_set in ("", "default"):
            return features.DEFAULT
        named = set(self.feature_set.replace("+", ",").split(","))
        unknown = sorted(named.difference(_ALLOCATOR_GATES, ("all",)))
        if unknown or (named != {"all"} and "all" in named):
            raise FeatureError(
                f"featureSet {self.feature_set!r}: {', '.join(unknown) or 'all'} cannot be used "
                f"here. Write default, all, or some of {', '.join(_ALLOCATOR_GATES)}, "
                "separated by +"
            )
        chosen = {
            features.GATES[gate].field: self.feature_set == "all" or gate in named
            for gate in _ALLOCATOR_GATES
        }
        return msgspec.structs.replace(features.DEFAULT, **chosen)

    def inventory(self) -> ClusterInventory:
        """Return the cluster before the first claim is placed. Raises FeatureError."""
        cluster = ClusterInventory(self.features())
        for node in self.nodes:
            cluster.put_node(node)
        for device_class in self.classes:
            cluster.put_class(device_class)
        for rule in self.device_taint_rules:
            cluster.put_taint_rule(rule)
        for resource_slice in self.slices:
            cluster.put_slice(resource_slice)
        for claim in self.claims:
            if claim.status.allocation is not None:
                cluster.put_claim(claim)
        return cluster

    def waiting(self) -> list[ResourceClaim]:
        """Return the claims to place, in their order."""
        return [claim for claim in self.claims if claim.status.allocation is None]


class _File(msgspec.Struct, rename="camel", kw_only=True):
    """A scenario file whose slices are still text."""

    name: str = ""
    nodes: list[Node] = []
    slices: list[msgspec.Raw] = []
    classes: list[DeviceClass] = []
    claims: list[ResourceClaim] = []
    device_taint_rules: list[DeviceTaintRule] = []
    feature_set: str = "default"


def read(data: bytes) -> Scenario:
    """Decode a scenario file; nothing of the text is kept."""
    file = msgspec.json.decode(data, type=_File)
    decoder = msgspec.json.Decoder(ResourceSlice)
    # One by one: parts equal to earlier ones are freed before the next slice is decoded.
    interner = Interner()
    slices = []
    for number, resource_slice in enumerate(file.slices):
        try:
            slices.append(interner.share(decoder.decode(resource_slice)))
        except msgspec.ValidationError as error:
            # Name the place in the file, not in the slice.
            text = str(error).replace("`$", f"`$.slices[{number}]")
            raise msgspec.ValidationError(text) from error
    return Scenario(
        name=file.name,
        nodes=file.nodes,
        slices=slices,
        classes=file.classes,
        claims=file.claims,
        device_taint_rules=file.device_taint_rules,
        feature_set=file.feature_set,
    )


def convert(scenario: Mapping[str, Any]) -> Scenario:
    """Convert a scenario that is decoded to plain dicts already."""
    return read(msgspec.json.encode(scenario))
