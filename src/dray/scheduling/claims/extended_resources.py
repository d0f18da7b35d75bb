"""Extended resources that devices provide: `nvidia.com/gpu: 1` becomes a claim.

A device class has an implicit resource name and may have an explicit one. On a node that does not
have the resource itself, all such requests of a pod together become one claim, which is created
when the pod is bound.
https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from dray.api import well_known
from dray.api.formats import quantity
from dray.api.semantics import pod_resources
from dray.api.types import dra
from dray.api.types.containers import Container
from dray.api.types.dra import DeviceClass, DeviceRequest, ResourceClaim
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.api.types.pods import ContainerExtendedResourceRequest, Pod

NAME_SUFFIX = "-extended-resources-"
EXACT_COUNT = "ExactCount"


class ExtendedClaim(NamedTuple):
    """The claim for a pod's extended resources, and which container gets which request."""

    claim: ResourceClaim
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class Classes:
    """The device class of each extended resource."""

    def __init__(self) -> None:
        self._class_of: dict[str, str] = {}

    def reload(self, classes: Collection[DeviceClass]) -> None:
        """Replace all classes. The newer of two classes with one resource name wins."""
        names = (device_class.metadata.name for device_class in classes)
        class_of = {f"{pod_resources.DEVICE_CLASS_PREFIX}{name}": name for name in names}
        # The last one wins: the newest, or the first by name of several (extendedresourcecache.go).
        ordered = sorted(classes, key=lambda item: item.metadata.name, reverse=True)
        ordered.sort(key=lambda item: item.metadata.creation_timestamp or "")
        for device_class in ordered:
            if device_class.spec.extended_resource_name:
                class_of[device_class.spec.extended_resource_name] = device_class.metadata.name
        self._class_of = class_of

    def has(self, resource: str) -> bool:
        return resource in self._class_of

    def class_of(self, resource: str) -> str:
        return self._class_of[resource]

    def provided(self, amounts: Mapping[str, int]) -> frozenset[str]:
        """Return the resources among these that devices may provide."""
        if not self._class_of:
            return frozenset()
        return frozenset(name for name in amounts if name in self._class_of)


def claim_for(pod: Pod, resources: Iterable[str], classes: Classes) -> ExtendedClaim:
    """Return one claim for the resources that devices have to provide."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        parts = _Resource(pod, resource, classes.class_of(resource)).requests()
        requests += parts.requests
        mappings += parts.mappings
    requests.sort(key=lambda request: request.name)
    metadata = pod.metadata
    owner = OwnerReference("v1", "Pod", metadata.name, metadata.uid, controller=True)
    claim = ResourceClaim(
        ObjectMeta(
            # No stored claim can have this name; the server generates the real one.
            name=f"<extended-resources of {metadata.uid}>",
            generate_name=metadata.name + NAME_SUFFIX,
            namespace=metadata.namespace,
            annotations={well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
            owner_references=(owner,),
        ),
        dra.ResourceClaimSpec(dra.DeviceClaim(tuple(requests))),
    )
    return ExtendedClaim(claim, tuple(mappings))


class _Requests(NamedTuple):
    requests: list[DeviceRequest]
    mappings: list[ContainerExtendedResourceRequest]


class _Resource:
    """One resource of all containers of a pod.

    Init containers that end reuse the devices of later containers, and share further devices.
    """

    def __init__(self, pod: Pod, resource: str, device_class: str) -> None:
        self._resource, self._class = resource, device_class
        self._containers = (*pod.spec.init_containers, *pod.spec.containers)
        self._init_containers = len(pod.spec.init_containers)

    def requests(self) -> _Requests:
        permanent: list[DeviceRequest | None] = [None] * len(self._containers)
        mappings: list[ContainerExtendedResourceRequest] = []
        for index, container in enumerate(self._containers):
            if not self._ends(index, container):
                permanent[index] = self._request(index, container, 0)
                mappings += self._mapped(container, [permanent[index]])
        ending = self._ending_requests(permanent)
        requests = [*ending.requests, *filter(None, permanent)]
        return _Requests(requests, mappings + ending.mappings)

    def _ending_requests(self, permanent: Sequence[DeviceRequest | None]) -> _Requests:
        """Return the largest request of the containers that end: it serves all of them."""
        largest: DeviceRequest | None = None
        uses: list[tuple[Container, list[DeviceRequest], bool]] = []
        for index, container in enumerate(self._containers[: self._init_containers]):
            if not self._ends(index, container):
                continue
            reused, covered = self._reusable(container, permanent[index:])
            more = self._request(index, container, covered)
            uses.append((container, reused, more is not None))
            if more is not None and (largest is None or _count(more) > _count(largest)):
                largest = more
        mappings: list[ContainerExtendedResourceRequest] = []
        for container, reused, needs_more in uses:
            mappings += self._mapped(container, [*reused, largest if needs_more else None])
        return _Requests([largest] if largest else [], mappings)

    def _reusable(
        self, container: Container, later: Sequence[DeviceRequest | None]
    ) -> tuple[list[DeviceRequest], int]:
        amount, reused, covered = self._amount(container), [], 0
        for request in later:
            if request is not None and covered < amount:
                reused.append(request)
                covered += _count(request)
        return reused, covered

    def _request(self, index: int, container: Container, covered: int) -> DeviceRequest | None:
        missing = self._amount(container) - covered
        if missing <= 0:
            return None
        position = sorted(container.resources.requests).index(self._resource)
        return DeviceRequest(
            f"container-{index}-request-{position}",
            dra.ExactDeviceRequest(self._class, allocation_mode=EXACT_COUNT, count=missing),
        )

    def _mapped(
        self, container: Container, requests: Iterable[DeviceRequest | None]
    ) -> list[ContainerExtendedResourceRequest]:
        return [
            ContainerExtendedResourceRequest(container.name, self._resource, request.name)
            for request in requests
            if request is not None
        ]

    def _amount(self, container: Container) -> int:
        text = container.resources.requests.get(self._resource)
        return (quantity.parse(text).as_int64() or 0) if text is not None else 0

    def _ends(self, index: int, container: Container) -> bool:
        return index < self._init_containers and not pod_resources.is_sidecar(container)


def _count(request: DeviceRequest) -> int:
    assert request.exactly is not None
    return request.exactly.count
