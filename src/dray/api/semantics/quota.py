"""The names that a ResourceQuota counts for an object, and the object's charges.

As pkg/quota/v1/evaluator/core for pods, resource claims, Services and claims of storage; every
other kind charges one object.
Used by admission (before a write) and by the quota controller (to add up what is there).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping

from dray.api import well_known
from dray.api.formats import gotime, quantity
from dray.api.ids import GroupResource
from dray.api.selectors import label_selectors
from dray.api.semantics import pod_resources
from dray.api.semantics.pod_resources import Amounts
from dray.api.types.core import (
    PersistentVolumeClaim,
    ResourceQuota,
    ScopedResourceSelectorRequirement,
    Service,
)
from dray.api.types.dra import (
    ALLOCATION_RESULTS_MAX_SIZE,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from dray.api.types.meta import LabelSelector, LabelSelectorRequirement
from dray.api.types.pods import Pod, PodAffinity, PodAntiAffinity

DEVICES_SUFFIX = ".deviceclass.resource.k8s.io/devices"
_REQUESTED_DEVICES_PREFIX = pod_resources.REQUESTS_PREFIX + pod_resources.DEVICE_CLASS_PREFIX
_STORAGE_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
_STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ONE = quantity.of(1)

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    (
        "count/pods",
        "pods",
        *_COMPUTE,
        *(f"{prefix}.{name}" for prefix in ("requests", "limits") for name in _COMPUTE),
    )
)
# A quota for one of these obliges every container to state it.
_NAMES_TO_STATE = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
)
# Kinds that had a name of their own before every kind could be counted.
_OLD_COUNT_NAMES = frozenset(
    (
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    )
)

ExtendedResources = Mapping[str, str]
"""The extended resource name of each device class that has one."""


def object_charges(resource: GroupResource) -> Amounts:
    """Return the charge for one object of a kind that has no other charges."""
    charges = {f"count/{resource}": _ONE}
    if not resource.group and resource.resource in _OLD_COUNT_NAMES:
        charges[resource.resource] = _ONE
    return charges


_SERVICES = GroupResource("", "services")
_NODE_PORTS, _LOAD_BALANCERS = "services.nodeports", "services.loadbalancers"
_VOLUME_CLAIMS = GroupResource("", "persistentvolumeclaims")
_STORAGE = "requests.storage"
_STORAGE_NAMES = ("persistentvolumeclaims", _STORAGE)


def service_charges(service: Service) -> Amounts:
    """Return the charges of a Service: its node ports count before they are chosen."""
    spec = service.spec
    ports = len(spec.ports) if spec.type in ("NodePort", "LoadBalancer") else 0
    if spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is False:
        ports = sum(port.node_port != 0 for port in spec.ports)
    return {
        **object_charges(_SERVICES),
        _NODE_PORTS: quantity.of(ports),
        _LOAD_BALANCERS: quantity.of(int(spec.type == "LoadBalancer")),
    }


def concerns_services(name: str) -> bool:
    """Return whether a quota for `name` counts Services."""
    return name in ("count/services", "services", _NODE_PORTS, _LOAD_BALANCERS)


def volume_claim_charges(claim: PersistentVolumeClaim) -> Amounts:
    """Return the charges of a claim of storage, in all and in its class."""
    charges = object_charges(_VOLUME_CLAIMS)
    requested = claim.spec.resources.requests.get("storage")
    if requested is not None:
        allocated = claim.status.allocated_resources.get("storage", requested)
        larger = max(quantity.parse(requested), quantity.parse(allocated))
        # Whole bytes: a quota has no fractions of them.
        charges[_STORAGE] = quantity.of(larger.value(), larger.format)
    annotated = claim.metadata.annotations.get(_STORAGE_CLASS_ANNOTATION)
    class_name = claim.spec.storage_class_name if annotated is None else annotated
    if class_name:
        prefix = class_name + _STORAGE_CLASS_SUFFIX
        charges |= {prefix + name: charges[name] for name in _STORAGE_NAMES if name in charges}
    return charges


def concerns_volume_claims(name: str) -> bool:
    """Return whether a quota for `name` counts claims of storage."""
    if name == f"count/{_VOLUME_CLAIMS}" or name in _STORAGE_NAMES:
        return True
    return name.endswith(tuple(_STORAGE_CLASS_SUFFIX + counted for counted in _STORAGE_NAMES))


def pod_charges(pod: Pod, now: datetime.datetime) -> Amounts:
    """Return the charges of a pod; one that has ended or is overdue is only an object."""
    if pod.status.phase in ("Failed", "Succeeded") or _is_overdue(pod, now):
        return {"count/pods": _ONE}
    counting = pod_resources.ResourceCountOptions(resized=True)
    requests = pod_resources.pod_requests(pod, counting)
    limits = pod_resources.pod_limits(pod, counting)
    return {"count/pods": _ONE, **_compute_charges(requests, limits)}


def _is_overdue(pod: Pod, now: datetime.datetime) -> bool:
    deleted, grace = pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds
    if deleted is None or grace is None:
        return False
    return now > gotime.parse(deleted) + datetime.timedelta(seconds=grace)


def _compute_charges(requests: Amounts, limits: Amounts) -> Amounts:
    charges: Amounts = {"pods": _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or pod_resources.is_huge_page_resource(name):
            charges[name] = charges[pod_resources.REQUESTS_PREFIX + name] = amount
        elif pod_resources.is_extended_resource(name) or name.startswith(
            pod_resources.DEVICE_CLASS_PREFIX
        ):
            charges[pod_resources.REQUESTS_PREFIX + name] = amount
    for name, amount in limits.items():
        if name in _COMPUTE:
            charges[f"limits.{name}"] = amount
    return charges


def claim_charges(
    claim: ResourceClaim, extended_resources: ExtendedResources, pod_charges: Amounts | None = None
) -> Amounts:
    """Return the charges of a claim: one object, and the most devices it may get of each class.

    Devices count as extended resources too, except as far as `pod_charges` has them: pass what the
    pod charges for which the claim was made (`is_extended_claim_of`).
    """
    charges: Amounts = {"count/resourceclaims.resource.k8s.io": _ONE}
    devices: dict[str, int] = {}
    for request in claim.spec.devices.requests:
        for class_name, count in _devices_by_class(request).items():
            devices[class_name] = devices.get(class_name, 0) + count
    for class_name, count in devices.items():
        charges[class_name + DEVICES_SUFFIX] = quantity.of(count)
        charges |= _extended(class_name, count, extended_resources, pod_charges or {})
    return charges


def _devices_by_class(request: DeviceRequest) -> dict[str, int]:
    worst: dict[str, int] = {}
    for alternative in request.first_available:
        class_name = alternative.device_class_name
        worst[class_name] = max(worst.get(class_name, 0), _device_count(alternative))
    if not worst and request.exactly is not None:
        worst[request.exactly.device_class_name] = _device_count(request.exactly)
    return worst


def _device_count(request: ExactDeviceRequest | DeviceSubRequest) -> int:
    if request.allocation_mode == "All":
        return ALLOCATION_RESULTS_MAX_SIZE
    return request.count if request.allocation_mode == "ExactCount" else 0


def _extended(
    class_name: str, count: int, extended_resources: ExtendedResources, covered: Amounts
) -> Amounts:
    own_name = extended_resources.get(class_name)
    charged_as = [_REQUESTED_DEVICES_PREFIX + class_name]
    if own_name:
        charged_as.append(pod_resources.REQUESTS_PREFIX + own_name)
    left = {name: quantity.of(count) - covered.get(name, quantity.ZERO) for name in charged_as}
    return {name: amount for name, amount in left.items() if amount > quantity.ZERO}


def is_extended_claim_of(claim: ResourceClaim, pod: Pod, siblings: Iterable[ResourceClaim]) -> bool:
    """Return whether the claim is that of the pod's extended resources, among `siblings`."""
    if claim.metadata.annotations.get(well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return False
    owner = next(
        (reference for reference in claim.metadata.owner_references if reference.controller), None
    )
    if owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
        return False
    if owner.uid != pod.metadata.uid:
        return False
    if pod.status.extended_resource_claim_status is not None:
        claim_name = pod.status.extended_resource_claim_status.resource_claim_name
        return claim_name == claim.metadata.name
    return all(_age(claim) <= _age(sibling) for sibling in siblings)


def _age(claim: ResourceClaim) -> tuple[datetime.datetime, str]:
    created = claim.metadata.creation_timestamp
    never = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return gotime.parse(created) if created else never, claim.metadata.name


def concerns_pods(name: str) -> bool:
    """Return whether a quota for `name` counts pods."""
    if name in _POD_NAMES or pod_resources.is_huge_page_resource(name.removeprefix("requests.")):
        return True
    return _is_extended_quota(name)


def concerns_claims(name: str, extended_resources: ExtendedResources) -> bool:
    """Return whether a quota for `name` counts resource claims."""
    if name == "count/resourceclaims.resource.k8s.io" or name.endswith(DEVICES_SUFFIX):
        return True
    class_name = name.removeprefix(_REQUESTED_DEVICES_PREFIX)
    if class_name != name:
        return class_name in extended_resources
    own_name = name.removeprefix(pod_resources.REQUESTS_PREFIX)
    return _is_extended_quota(name) and own_name in extended_resources.values()


def _is_extended_quota(name: str) -> bool:
    if not name.startswith(pod_resources.REQUESTS_PREFIX):
        return False
    return not pod_resources.is_native_resource(name) or name.startswith(_REQUESTED_DEVICES_PREFIX)


def missing_statements(pod: Pod, quota_names: Iterable[str]) -> str | None:
    """Return what containers must specify because a quota counts it, or None."""
    if pod_resources.has_pod_level_resources(pod):
        return None
    silent = {
        name: _containers_without(pod, name)
        for name in sorted(_NAMES_TO_STATE.intersection(quota_names))
    }
    texts = [f"{name} for: {','.join(names)}" for name, names in silent.items() if names]
    return f"must specify {'; '.join(texts)}" if texts else None


def _containers_without(pod: Pod, name: str) -> list[str]:
    kind, _, resource = name.rpartition(".")
    return sorted(
        container.name
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        if resource
        not in (container.resources.limits if kind == "limits" else container.resources.requests)
    )


def concerns_pod(quota: ResourceQuota, pod: Pod) -> bool:
    """Return whether the quota counts this pod.

    It counts pods, and the pod is in all of its scopes.
    """
    if not any(map(concerns_pods, quota.status.hard)):
        return False
    return all(is_in_scope(pod, scope) for scope in _scopes(quota))


def _scopes(quota: ResourceQuota) -> Iterator[ScopedResourceSelectorRequirement]:
    for name in quota.spec.scopes:
        yield ScopedResourceSelectorRequirement(scope_name=name, operator="Exists")
    if quota.spec.scope_selector:
        yield from quota.spec.scope_selector.match_expressions


def is_in_scope(pod: Pod, scope: ScopedResourceSelectorRequirement) -> bool:
    match scope.scope_name:
        case "Terminating":
            return _is_limited_in_time(pod)
        case "NotTerminating":
            return not _is_limited_in_time(pod)
        case "BestEffort":
            return _qos_class(pod) == pod_resources.BEST_EFFORT
        case "NotBestEffort":
            return _qos_class(pod) != pod_resources.BEST_EFFORT
        case "PriorityClass":
            return _has_priority_class(pod, scope)
        case "CrossNamespacePodAffinity":
            return _looks_into_other_namespaces(pod)
        case _:
            return False


def _is_limited_in_time(pod: Pod) -> bool:
    deadline = pod.spec.active_deadline_seconds
    return deadline is not None and deadline >= 0


def _qos_class(pod: Pod) -> str:
    return pod.status.qos_class or pod_resources.qos_class(pod)


def _has_priority_class(pod: Pod, scope: ScopedResourceSelectorRequirement) -> bool:
    name = pod.spec.priority_class_name
    requirement = LabelSelectorRequirement(scope.scope_name, scope.operator, scope.values)
    selector = label_selectors.label_selector(LabelSelector(match_expressions=(requirement,)))
    return selector.matches({scope.scope_name: name} if name else {})


def _looks_into_other_namespaces(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    sides: tuple[PodAffinity | PodAntiAffinity | None, ...] = (
        affinity.pod_affinity,
        affinity.pod_anti_affinity,
    )
    return any(
        term.namespaces or term.namespace_selector is not None
        for side in sides
        if side is not None
        for term in (
            *side.required_during_scheduling_ignored_during_execution,
            *(
                weighted.pod_affinity_term
                for weighted in side.preferred_during_scheduling_ignored_during_execution
            ),
        )
    )
