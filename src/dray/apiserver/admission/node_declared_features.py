"""Slices with node allocatable resources, only for nodes that declare the feature.

As plugin/pkg/admission/nodedeclaredfeatures, for resource slices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dray.api import kinds
from dray.api.features import Features
from dray.api.formats import gotext
from dray.api.selectors import node_selectors
from dray.api.types.dra import Device, ResourceSlice, ResourceSliceSpec
from dray.api.types.meta import NodeSelector, ObjectMeta, Wire
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.storage.lookup import Lookup, Reader
from dray.store.store import Store

FEATURE = "DRANodeAllocatableResources"


class _Status(Wire, frozen=True):
    declared_features: tuple[str, ...] = ()


class _Node(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()


class _Place(NamedTuple):
    """The nodes of a device: one, those that a selector matches, or all."""

    node: str
    selector: NodeSelector | None
    everywhere: bool


class NodeAllocatableSlices(AdmissionRule):
    about = frozenset({"ResourceSlice"})

    def __init__(self, store: Store, features: Features) -> None:
        self._nodes = Lookup(store, kinds.NODE, _Node)
        self._is_on = features.node_declared_features and features.node_allocatable_resources
        self._reader = Reader(ResourceSlice)

    async def validate(self, admission: AdmissionRequest) -> None:
        is_write = admission.operation in (admission_chain.CREATE, admission_chain.UPDATE)
        if self._is_on and is_write and admission.is_about("resource.k8s.io", "ResourceSlice"):
            await self._check(admission)

    async def _check(self, admission: AdmissionRequest) -> None:
        spec = self._reader.convert(admission.document).spec
        places: dict[_Place, Device] = {}
        for device in spec.devices:
            if device.node_allocatable_resources:
                places.setdefault(_place(spec, device), device)
        for place, device in places.items():
            for node in await self._nodes_at(admission, place, device):
                _check_node(admission, node)

    async def _nodes_at(
        self, admission: AdmissionRequest, place: _Place, device: Device
    ) -> Iterable[_Node]:
        if place.node:
            node = await self._nodes.get(place.node)
            if node is None:
                raise admission.forbidden(
                    f"node {gotext.quote(place.node)} not found for device "
                    f"{gotext.quote(device.name)}"
                )
            return [node]
        nodes = [stored.value for stored in await self._nodes.all()]
        if place.everywhere:
            return nodes
        if place.selector is None:
            raise admission.forbidden(
                f"device {gotext.quote(device.name)} in ResourceSlice has NodeAllocatableResources "
                "but does not map to any nodes"
            )
        matches = node_selectors.compile_node_selector(place.selector)
        return [node for node in nodes if matches(node.metadata.labels, node.metadata.name)]


def _place(spec: ResourceSliceSpec, device: Device) -> _Place:
    source = device if spec.per_device_node_selection else spec
    return _Place(source.node_name or "", source.node_selector, bool(source.all_nodes))


def _check_node(admission: AdmissionRequest, node: _Node) -> None:
    if FEATURE not in node.status.declared_features:
        name = gotext.quote(node.metadata.name)
        raise admission.forbidden(f"node {name} does not support {FEATURE} feature")
