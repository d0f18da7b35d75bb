"""Requests and limits of a pod, for node fit and quota alike, and its QoS class.

The sums are those of component-helpers/resource, PodRequests and PodLimits: containers add up,
init containers run one after the other beside the sidecars started before them, pod-level values
replace sums, overhead comes on top. `quota` says what of it a ResourceQuota counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from dray.api.formats import names, quantity
from dray.api.formats.quantity import Quantity
from dray.api.types.containers import Container, ResourceRequirements
from dray.api.types.pods import ContainerStatus, NodeAllocatableResourceClaimStatus, Pod

Amounts = dict[str, Quantity]
"""Quantities by resource name."""

REQUESTS_PREFIX = "requests."
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
_HUGE_PAGES_PREFIX = "hugepages-"
_NATIVE_DOMAIN = "kubernetes.io/"


class ResourceCountOptions(NamedTuple):
    """Options of resource sums.

    `resized`: a pod whose resources were changed in place charges the greatest of what it asks,
    was promised and has. `resized_as_a_whole`: the same for its pod-level resources.
    `node_allocatable_claims`: cpu and memory that devices of its claims bring along.
    `assumed`: what a container is taken to request that does not say.
    """

    resized: bool = False
    resized_as_a_whole: bool = False
    node_allocatable_claims: bool = False
    assumed: Mapping[str, Quantity] = {}


AS_WRITTEN = ResourceCountOptions()
"""What the pod's spec says."""


def is_native_resource(name: str) -> bool:
    """Return whether a name is in the domain kubernetes.io or has no domain."""
    return "/" not in name or _NATIVE_DOMAIN in name


def is_huge_page_resource(name: str) -> bool:
    return name.startswith(_HUGE_PAGES_PREFIX)


def is_extended_resource(name: str) -> bool:
    """Return whether a resource belongs to a device plugin or a device class."""
    if is_native_resource(name) or name.startswith(REQUESTS_PREFIX):
        return False
    return not names.qualified_name_errors(REQUESTS_PREFIX + name)


def is_overcommittable_resource(name: str) -> bool:
    return is_native_resource(name) and not is_huge_page_resource(name)


def is_pod_level_resource(name: str) -> bool:
    """Return whether a resource may be set for a pod as a whole."""
    return name in ("cpu", "memory") or is_huge_page_resource(name)


def parse_amounts(resources: Mapping[str, str]) -> Amounts:
    return {name: quantity.parse(text) for name, text in resources.items()}


def add(target: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        target[name] = target[name] + amount if name in target else amount


def set_to_maximum(target: Amounts, other: Mapping[str, Quantity]) -> None:
    """Set each amount to the greater of both."""
    for name, amount in other.items():
        if name not in target or amount > target[name]:
            target[name] = amount


def elementwise_maximum(*several: Mapping[str, Quantity]) -> Amounts:
    result: Amounts = {}
    for amounts in several:
        set_to_maximum(result, amounts)
    return result


def _sum_of_containers(
    containers: Iterable[Mapping[str, Quantity]],
    init_containers: Iterable[tuple[Mapping[str, Quantity], bool]],
) -> Amounts:
    """Return the most that is needed at any time. Init containers come with `is_sidecar`."""
    total: Amounts = {}
    for amounts in containers:
        add(total, amounts)
    sidecars: Amounts = {}
    initial: Amounts = {}
    for amounts, is_sidecar in init_containers:
        if is_sidecar:
            add(total, amounts)
            add(sidecars, amounts)
            set_to_maximum(initial, sidecars)
        else:
            running = dict(sidecars)
            add(running, amounts)
            set_to_maximum(initial, running)
    set_to_maximum(total, initial)
    return total


def is_sidecar(container: Container) -> bool:
    """Return whether an init container keeps running beside the others."""
    return container.restart_policy == "Always"


def pod_requests(pod: Pod, counting: ResourceCountOptions = AS_WRITTEN) -> Amounts:
    """Return the resources that the pod needs on a node."""
    requests = container_requests(pod, counting)
    requested = pod.spec.resources.requests if pod.spec.resources else {}
    if any(map(is_pod_level_resource, requested)):
        effective = parse_amounts(requested)
        if _is_resized_as_a_whole(pod, counting):
            actual = pod.status.resources.requests if pod.status.resources else {}
            effective = _effective(pod, effective, actual, pod.status.allocated_resources)
        requests.update(_pod_level(effective))
    add(requests, parse_amounts(pod.spec.overhead))
    return requests


def pod_limits(pod: Pod, counting: ResourceCountOptions = AS_WRITTEN) -> Amounts:
    """Return the limits of the pod, for resources that have one."""
    limits = container_limits(pod, counting)
    if has_pod_level_resources(pod):
        effective = parse_amounts(pod.spec.resources.limits if pod.spec.resources else {})
        if _is_resized_as_a_whole(pod, counting):
            actual = pod.status.resources.limits if pod.status.resources else {}
            effective = _effective(pod, effective, actual)
        limits.update(_pod_level(effective))
    for name, amount in parse_amounts(pod.spec.overhead).items():
        if name in limits and limits[name].nano:
            limits[name] += amount
    return limits


def has_pod_level_resources(pod: Pod) -> bool:
    resources = pod.spec.resources or ResourceRequirements()
    return any(map(is_pod_level_resource, (*resources.requests, *resources.limits)))


def _pod_level(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if is_pod_level_resource(name)}


def _is_resized_as_a_whole(pod: Pod, counting: ResourceCountOptions) -> bool:
    return counting.resized and counting.resized_as_a_whole and pod.status.resources is not None


def _effective(pod: Pod, specified: Amounts, *statuses: Mapping[str, str]) -> Amounts:
    return elementwise_maximum(
        {} if _is_resize_infeasible(pod) else specified,
        *(parse_amounts(status) for status in statuses),
    )


def _is_resize_infeasible(pod: Pod) -> bool:
    return any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in pod.status.conditions
    )


Asked = Callable[[Container], Mapping[str, str]]
Reported = Callable[[ContainerStatus], Mapping[str, str]]


def container_requests(pod: Pod, counting: ResourceCountOptions = AS_WRITTEN) -> Amounts:
    """Return the requests of the pod's containers, without pod-level values and overhead."""
    specified = _sum(pod, counting, _requests)
    add(specified, _claimed(pod, counting))
    if not counting.resized:
        return specified
    whole = pod.status.resources
    if counting.resized_as_a_whole and pod.status.allocated_resources and whole and whole.requests:
        actual = [parse_amounts(pod.status.allocated_resources), parse_amounts(whole.requests)]
    else:
        promised = _sum(pod, counting, _requests, _promised_requests)
        add(promised, _claimed(pod, counting))
        actual = [promised, _sum(pod, counting, _requests, _held_requests)]
    return (
        elementwise_maximum(*actual)
        if _is_resize_infeasible(pod)
        else elementwise_maximum(specified, *actual)
    )


def container_limits(pod: Pod, counting: ResourceCountOptions = AS_WRITTEN) -> Amounts:
    """Return the limits of the pod's containers, without pod-level values and overhead."""
    counting = counting._replace(assumed={})
    specified = _sum(pod, counting, _limits)
    for name, amount in _claimed(pod, counting).items():
        if name in specified or is_huge_page_resource(name):
            add(specified, {name: amount})
    if not counting.resized:
        return specified
    whole = pod.status.resources
    if counting.resized_as_a_whole and whole and whole.limits:
        actual = parse_amounts(whole.limits)
    else:
        actual = _sum(pod, counting, _limits, _held_limits)
    return actual if _is_resize_infeasible(pod) else elementwise_maximum(specified, actual)


def _requests(container: Container) -> Mapping[str, str]:
    return container.resources.requests


def _limits(container: Container) -> Mapping[str, str]:
    return container.resources.limits


def _promised_requests(status: ContainerStatus) -> Mapping[str, str]:
    return status.allocated_resources


def _held_requests(status: ContainerStatus) -> Mapping[str, str]:
    return (status.resources.requests if status.resources else {}) or status.allocated_resources


def _held_limits(status: ContainerStatus) -> Mapping[str, str]:
    return status.resources.limits if status.resources else {}


def _sum(
    pod: Pod, counting: ResourceCountOptions, specified: Asked, reported: Reported | None = None
) -> Amounts:
    """Sum the specified amounts of containers, or the reported ones where there are any."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    reports = {status.name: reported(status) for status in statuses} if reported else {}
    is_asked_in_vain = reported is not None and _is_resize_infeasible(pod)

    def amounts_of(container: Container) -> Amounts:
        resources = reports.get(container.name)
        if not resources:
            resources = {} if is_asked_in_vain else specified(container)
        return {**counting.assumed, **parse_amounts(resources)}

    return _sum_of_containers(
        map(amounts_of, pod.spec.containers),
        ((amounts_of(container), is_sidecar(container)) for container in pod.spec.init_containers),
    )


def _claimed(pod: Pod, counting: ResourceCountOptions) -> Amounts:
    """Return the node resources that devices of the pod's claims use."""
    total: Amounts = {}
    if counting.node_allocatable_claims:
        for status in pod.status.node_allocatable_resource_claim_statuses:
            add(total, node_allocatable_amounts(status, len(status.containers)))
    return total


def node_allocatable_amounts(
    status: NodeAllocatableResourceClaimStatus, containers: int
) -> Amounts:
    """Return the node resources that one claim uses for a number of containers."""
    total: Amounts = {}
    for mapped in status.mapping:
        if mapped.quantity is not None:
            add(total, {mapped.name: quantity.parse(mapped.quantity)})
    for overhead in status.overhead:
        amounts = [overhead.per_pod, *[overhead.per_container] * containers]
        add(total, {overhead.name: quantity.ZERO})
        for text in amounts:
            if text is not None:
                add(total, {overhead.name: quantity.parse(text)})
    return total


GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"


def qos_class(pod: Pod) -> str:
    """Return the quality of service class, as pkg/apis/core/v1/helper/qos."""
    if pod.spec.resources is not None and has_pod_level_resources(pod):
        return _qos_of(pod.spec.resources)
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    classes = {_qos_of(container.resources) for container in containers}
    return classes.pop() if len(classes) == 1 else (BURSTABLE if classes else BEST_EFFORT)


def _qos_of(resources: ResourceRequirements) -> str:
    if not resources.requests and not resources.limits:
        return BEST_EFFORT
    classes = {_qos_of_resource(resources, name) for name in ("cpu", "memory")}
    return classes.pop() if len(classes) == 1 else BURSTABLE


def _qos_of_resource(resources: ResourceRequirements, name: str) -> str:
    request = quantity.parse(resources.requests.get(name, "0"))
    limit = quantity.parse(resources.limits.get(name, "0"))
    if request != limit:
        return BURSTABLE
    return GUARANTEED if request.nano else BEST_EFFORT
