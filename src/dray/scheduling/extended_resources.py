"""Extended resources that come from devices: `nvidia.com/gpu: 1` becomes a claim.

A device class has an implicit resource name and may have an explicit one. On a node that does not
have the resource itself, all such requests of a pod together become one claim, which is made when
the pod is bound. As plugins/dynamicresources/extendeddynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from dray.api import well_known
from dray.api.formats import quantity
from dray.api.semantics import pod_resources
from dray.api.types.containers import Container
from dray.api.types.dra import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.api.types.pods import ContainerExtendedResourceRequest, Pod

NAME_SUFFIX = "-extended-resources-"
EXACT_COUNT = "ExactCount"


class ExtendedClaim(NamedTuple):
    """The claim for a pod's extended resources, and which container gets which request."""

    claim: ResourceClaim
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class Classes:
    """Which device class stands behind which resource name."""

    def __init__(self) -> None:
        self._class_of: dict[str, str] = {}

    def reload(self, classes: Collection[DeviceClass]) -> None:
        """Of two classes with one name, the newer wins (extendedresourcecache.go)."""
        found = {
            pod_resources.DEVICE_CLASS_PREFIX
            + device_class.metadata.name: device_class.metadata.name
            for device_class in classes
        }
        explicit = [
            device_class for device_class in classes if device_class.spec.extended_resource_name
        ]
        # The last one wins: the newest, of several the first by name.
        explicit.sort(key=lambda each: each.metadata.name, reverse=True)
        explicit.sort(key=lambda each: each.metadata.creation_timestamp or "")
        for each in explicit:
            assert each.spec.extended_resource_name is not None
            found[each.spec.extended_resource_name] = each.metadata.name
        self._class_of = found

    def has(self, resource: str) -> bool:
        return resource in self._class_of

    def class_of(self, resource: str) -> str:
        return self._class_of[resource]

    def behind(self, amounts: Mapping[str, int]) -> frozenset[str]:
        """The resources among these that devices may stand for."""
        if not self._class_of:
            return frozenset()
        return frozenset(name for name in amounts if name in self._class_of)


def claim_for(pod: Pod, wanted: Iterable[str], classes: Classes) -> ExtendedClaim:
    """One claim for the resources that devices have to provide."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(wanted):
        found = _Resource(pod, resource, classes.class_of(resource)).requests()
        requests += found.requests
        mappings += found.mappings
    requests.sort(key=lambda request: request.name)
    metadata = pod.metadata
    owner = OwnerReference("v1", "Pod", metadata.name, metadata.uid, controller=True)
    claim = ResourceClaim(
        ObjectMeta(
            # Not a name that any stored claim could have.
            name=f"<extended-resources of {metadata.uid}>",
            generate_name=metadata.name + NAME_SUFFIX,
            namespace=metadata.namespace,
            annotations={well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
            owner_references=(owner,),
        ),
        ResourceClaimSpec(DeviceClaim(tuple(requests))),
    )
    return ExtendedClaim(claim, tuple(mappings))


class _Requests(NamedTuple):
    requests: list[DeviceRequest]
    mappings: list[ContainerExtendedResourceRequest]


class _Resource:
    """One resource of all containers of a pod.

    Init containers that end may use what later containers get, and share what they need beyond it.
    """

    def __init__(self, pod: Pod, resource: str, device_class: str) -> None:
        self._resource, self._class = resource, device_class
        self._containers = (*pod.spec.init_containers, *pod.spec.containers)
        self._init_containers = len(pod.spec.init_containers)

    def requests(self) -> _Requests:
        lasting: list[DeviceRequest | None] = [None] * len(self._containers)
        mappings: list[ContainerExtendedResourceRequest] = []
        for index, container in enumerate(self._containers):
            if not self._is_passing(index, container):
                lasting[index] = self._request(index, container, 0)
                mappings += self._mapped(container, [lasting[index]])
        passing = self._passing(lasting)
        requests = [*passing.requests, *filter(None, lasting)]
        return _Requests(requests, mappings + passing.mappings)

    def _passing(self, lasting: Sequence[DeviceRequest | None]) -> _Requests:
        """The greatest request of the containers that end serves all of them."""
        greatest: DeviceRequest | None = None
        uses: list[tuple[Container, list[DeviceRequest], bool]] = []
        for index, container in enumerate(self._containers[: self._init_containers]):
            if not self._is_passing(index, container):
                continue
            reused, covered = self._reusable(container, lasting[index:])
            more = self._request(index, container, covered)
            uses.append((container, reused, more is not None))
            if more is not None and (greatest is None or _count(more) > _count(greatest)):
                greatest = more
        mappings: list[ContainerExtendedResourceRequest] = []
        for container, reused, needs_more in uses:
            mappings += self._mapped(container, [*reused, greatest if needs_more else None])
        return _Requests([greatest] if greatest else [], mappings)

    def _reusable(
        self, container: Container, later: Sequence[DeviceRequest | None]
    ) -> tuple[list[DeviceRequest], int]:
        wanted, reused, covered = self._amount(container), [], 0
        for request in later:
            if request is not None and covered < wanted:
                reused.append(request)
                covered += _count(request)
        return reused, covered

    def _request(self, index: int, container: Container, covered: int) -> DeviceRequest | None:
        missing = self._amount(container) - covered
        if missing <= 0:
            return None
        place = sorted(container.resources.requests).index(self._resource)
        return DeviceRequest(
            f"container-{index}-request-{place}",
            ExactDeviceRequest(self._class, allocation_mode=EXACT_COUNT, count=missing),
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

    def _is_passing(self, index: int, container: Container) -> bool:
        return index < self._init_containers and not pod_resources.is_sidecar(container)


def _count(request: DeviceRequest) -> int:
    assert request.exactly is not None
    return request.exactly.count
