"""Rules for the status of a pod: claims, containers, addresses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from dray.api.formats import quantity
from dray.api.types import containers, pods
from dray.validation import fields, identifiers, ip_addresses, lists, metadata
from dray.validation.pods import pods as pod_rules

SYSTEM_CONDITIONS: Final = frozenset(("PodScheduled", "Ready", "Initialized"))
HEALTHS: Final = ("Healthy", "Unhealthy", "Unknown")
HEALTH_MESSAGE_MAX_BYTES: Final = 1024
_STATUS = fields.STATUS


def pod_status_update(new: pods.Pod, old: pods.Pod) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from pod_rules.annotations_updated(new, old)
    yield from lists.each_item(new.status.conditions, _condition, _STATUS.child("conditions"))
    yield from _node_names(new, old)
    if new.status.observed_generation < 0:
        yield fields.invalid(
            _STATUS.child("observedGeneration"),
            new.status.observed_generation,
            "must be a non-negative integer",
        )
    yield from fields.immutable(
        _STATUS.child("qosClass"), new.status.qos_class, old.status.qos_class
    )
    yield from _container_states(new.status, old)
    yield from _claims(new)
    yield from _extended_resource_claim(new)
    yield from _node_allocatable(new)
    yield from _addresses(new.status, old.status)
    yield from _health(new)


def _condition(condition: pods.PodCondition, path: fields.Path) -> fields.Errors:
    if condition.observed_generation < 0:
        yield fields.invalid(
            path.child("observedGeneration"),
            condition.observed_generation,
            "must be a non-negative integer",
        )
    if condition.type not in SYSTEM_CONDITIONS:
        yield from identifiers.label_name(condition.type, path.child("Type"))


def _node_names(new: pods.Pod, old: pods.Pod) -> fields.Errors:
    if new.spec.node_name != old.spec.node_name:
        yield fields.forbidden(_STATUS.child("nodeName"), "may not be changed directly")
    nominated = new.status.nominated_node_name
    if nominated and nominated != old.status.nominated_node_name:
        path = _STATUS.child("nominatedNodeName")
        yield from identifiers.object_name(nominated, path)
        if old.spec.node_name:
            yield fields.forbidden(path, "may not be set on pods that are already bound to a node")


def _container_states(status: pods.PodStatus, old: pods.Pod) -> fields.Errors:
    """Reject a restart of a container that has ended for good."""
    may_all_restart = any(
        rule.action == "RestartAllContainers"
        for container in (*old.spec.init_containers, *old.spec.containers)
        for rule in container.restart_policy_rules
    )
    for field, statuses, old_statuses, owners in (
        (
            "containerStatuses",
            status.container_statuses,
            old.status.container_statuses,
            old.spec.containers,
        ),
        (
            "initContainerStatuses",
            status.init_container_statuses,
            old.status.init_container_statuses,
            old.spec.init_containers,
        ),
        (
            "ephemeralContainerStatuses",
            status.ephemeral_container_statuses,
            old.status.ephemeral_container_statuses,
            (),
        ),
    ):
        if may_all_restart and field != "ephemeralContainerStatuses":
            continue
        by_name = {item.name: item for item in reversed(statuses)}
        for index, old_status in enumerate(old_statuses):
            terminated, now = old_status.state.terminated, by_name.get(old_status.name)
            if terminated is None or now is None or now.state.terminated is not None:
                continue
            owner = next((item for item in owners if item.name == old_status.name), None)
            if owner is None or not _restarts(owner, old.spec, terminated.exit_code):
                yield fields.forbidden(
                    _STATUS.child(field).index(index).child("state"),
                    "may not be transitioned to non-terminated state",
                )


def _restarts(container: containers.Container, spec: pods.PodSpec, exit_code: int) -> bool:
    """Return whether a container restarts, as pkg/api/v1/pod, ContainerShouldRestart."""
    policy = spec.restart_policy
    if container.restart_policy is not None:
        policy = container.restart_policy
        if any(_applies(rule, exit_code) for rule in container.restart_policy_rules):
            return True
    return policy not in ("OnFailure", "Never") or (policy == "OnFailure" and exit_code != 0)


def _applies(rule: containers.ContainerRestartRule, exit_code: int) -> bool:
    if rule.exit_codes is None:
        return False
    return (exit_code in rule.exit_codes.values) == (rule.exit_codes.operator == "In")


def _claims(pod: pods.Pod) -> fields.Errors:
    path = _STATUS.child("resourceClaimStatuses")
    claim_names = {claim.name for claim in pod.spec.resource_claims}
    seen: set[str] = set()
    for index, status in enumerate(pod.status.resource_claim_statuses):
        name_path = path.index(index).child("name")
        if status.name not in claim_names:
            yield fields.invalid(
                name_path, status.name, "must match the name of an entry in `spec.resourceClaims`"
            )
        yield from fields.unrepeated(name_path, status.name, seen)
        if status.resource_claim_name is not None:
            yield from identifiers.object_name(
                status.resource_claim_name, path.index(index).child("resourceClaimName")
            )


def _extended_resource_claim(pod: pods.Pod) -> fields.Errors:
    status = pod.status.extended_resource_claim_status
    path = _STATUS.child("extendedResourceClaimStatus")
    if status is None:
        return
    mappings = path.child("requestMappings")
    if not status.request_mappings:
        yield fields.required(mappings, "at least one request mapping is required")
    requests = {
        container.name: container.resources.requests
        for container in (*pod.spec.init_containers, *pod.spec.containers)
    }
    seen: set[pods.ContainerExtendedResourceRequest] = set()
    for index, mapping in enumerate(status.request_mappings):
        yield from _request_mapping(mapping, requests, mappings.index(index))
        yield from identifiers.dns_label(mapping.request_name, path.child("requestName"))
        if mapping in seen:
            yield from _duplicate_mapping(mapping, mappings.index(index))
        seen.add(mapping)
    yield from fields.required_text(
        path.child("resourceClaimName"), status.resource_claim_name, identifiers.object_name
    )


def _request_mapping(
    mapping: pods.ContainerExtendedResourceRequest,
    requests: dict[str, dict[str, str]],
    path: fields.Path,
) -> fields.Errors:
    if mapping.container_name not in requests:
        yield fields.invalid(
            path.child("containerName"),
            mapping.container_name,
            "must match the name of an entry in spec.initContainers.name or spec.containers.name",
        )
    elif mapping.resource_name not in requests[mapping.container_name]:
        yield fields.invalid(
            path.child("resourceName"),
            mapping.resource_name,
            "must match the extended resource name of an entry in "
            "spec.initContainers.resources.requests or spec.containers.resources.requests",
        )


def _duplicate_mapping(
    mapping: pods.ContainerExtendedResourceRequest, path: fields.Path
) -> fields.Errors:
    yield fields.duplicate(path.child("containerName"), mapping.container_name)
    yield fields.duplicate(path.child("resourceName"), mapping.resource_name)
    yield fields.duplicate(path.child("requestName"), mapping.request_name)


def _node_allocatable(pod: pods.Pod) -> fields.Errors:
    path = _STATUS.child("nodeAllocatableResourceClaimStatuses")
    claim_names = {claim.resource_claim_name for claim in pod.spec.resource_claims}
    claim_names |= {status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for index, status in enumerate(pod.status.node_allocatable_resource_claim_statuses):
        if not status.resource_claim_name:
            continue
        status_path = path.index(index)
        if status.resource_claim_name not in claim_names:
            yield fields.invalid(
                status_path.child("resourceClaimName"),
                status.resource_claim_name,
                "no mapping found in pod reference",
            )
        yield from lists.each_item(status.mapping, _mapped, status_path.child("mapping"))
        yield from lists.each_item(status.overhead, _overhead, status_path.child("overhead"))


def _mapped(item: pods.NodeAllocatableMappedResources, path: fields.Path) -> fields.Errors:
    yield from _node_allocatable_name(item.name, path.child("name"))
    yield from _nonnegative_amount(item.quantity, path.child("quantity"))


def _overhead(item: pods.NodeAllocatableOverheadResources, path: fields.Path) -> fields.Errors:
    yield from _node_allocatable_name(item.name, path.child("name"))
    if item.per_pod is None and item.per_container is None:
        yield fields.invalid(path, "", "at least one of perPod or perContainer must be set")
    yield from _nonnegative_amount(item.per_pod, path.child("perPod"))
    yield from _nonnegative_amount(item.per_container, path.child("perContainer"))


def _node_allocatable_name(name: str, path: fields.Path) -> fields.Errors:
    if not identifiers.is_node_allocatable(name):
        yield fields.invalid(path, name, "must be a node allocatable resource name")


def _nonnegative_amount(text: str | None, path: fields.Path) -> fields.Errors:
    if text is not None and quantity.parse(text).sign() < 0:
        yield fields.invalid(path, str(quantity.parse(text)), "must be non-negative")


def _addresses(status: pods.PodStatus, old: pods.PodStatus) -> fields.Errors:
    path = _STATUS.child("podIPs")
    ips = [pod_ip.ip for pod_ip in status.pod_ips]
    yield from _ip_list(ips, {address.ip for address in old.pod_ips}, status.pod_ips, path)
    if bool(status.pod_ip) != bool(ips):
        yield fields.invalid(
            path, status.pod_ips, "podIP and podIPs must either both be set or both be unset"
        )
    elif ips and status.pod_ip != ips[0]:
        yield fields.invalid(path.index(0).child("ip"), ips[0], "must be equal to `podIP`")
    host_path = _STATUS.child("hostIPs")
    host_ips = [host_ip.ip for host_ip in status.host_ips]
    if host_ips and status.host_ip != host_ips[0]:
        yield fields.invalid(
            host_path.index(0).child("ip"), host_ips[0], "must be equal to `hostIP`"
        )
    yield from _ip_list(
        host_ips, {address.ip for address in old.host_ips}, status.host_ips, host_path
    )


def _ip_list(
    ips: list[str], old_ips: Collection[str], shown: tuple[object, ...], path: fields.Path
) -> fields.Errors:
    """Check new addresses, and that there is at most one of each family."""
    for index, ip in enumerate(ips):
        if ip not in old_ips:
            yield from ip_addresses.address(ip, path.index(index))
    if len(ips) < 2:
        return
    parsed = [ip_addresses.parse(ip) for ip in ips]
    if None in parsed:
        index = parsed.index(None)
        yield fields.internal_error(
            path, f"failed to check for dual stack with error:invalid IP[{index}]: {ips[index]}"
        )
    if sorted(address.version for address in parsed if address) != [4, 6]:
        yield fields.invalid(path, shown, "may specify no more than one IP for each IP family")


def _health(pod: pods.Pod) -> fields.Errors:
    """Check the device health that plugins and drivers report for each container."""
    for field, statuses, owners in (
        ("containerStatuses", pod.status.container_statuses, pod.spec.containers),
        ("initContainerStatuses", pod.status.init_container_statuses, pod.spec.init_containers),
    ):
        by_name = {container.name: container for container in reversed(owners)}
        for index, status in enumerate(statuses):
            path = _STATUS.child(field).index(index).child("allocatedResourcesStatus")
            for resource_index, resource in enumerate(status.allocated_resources_status):
                resource_path = path.index(resource_index)
                container = by_name.get(status.name)
                if container is not None:
                    yield from _resource_in_use(
                        resource.name, container, pod, resource_path.child("name")
                    )
                yield from _resource_health(resource, resource_path.child("resources"))


def _resource_in_use(
    name: str, container: containers.Container, pod: pods.Pod, path: fields.Path
) -> fields.Errors:
    if not name.startswith("claim:"):
        if name not in container.resources.requests:
            yield fields.invalid(path, name, "must match one of the container's resource requests")
        return
    used = {
        f"claim:{claim.name}/{claim.request}" if claim.request else f"claim:{claim.name}"
        for claim in container.resources.claims
    }
    if name not in used and name not in _extended_resources_in_use(container, pod):
        yield fields.invalid(
            path,
            name,
            "must match one of the container's resource claims as "
            "'claim:<claimName>/<requestName>' when container.resources.claims[*].request is set "
            "or 'claim:<claimName>' when it is empty",
        )


def _extended_resources_in_use(container: containers.Container, pod: pods.Pod) -> set[str]:
    status = pod.status.extended_resource_claim_status
    if status is None:
        return set()
    return {
        f"claim:{status.resource_claim_name}/{mapping.request_name}"
        for mapping in status.request_mappings
        if mapping.container_name == container.name
        and quantity.parse(container.resources.requests.get(mapping.resource_name, "0")).sign()
    }


def _resource_health(resource: pods.ResourceStatus, path: fields.Path) -> fields.Errors:
    seen: set[str] = set()
    for index, device in enumerate(resource.resources):
        device_path = path.index(index)
        yield from fields.one_of(device_path.child("health"), device.health, HEALTHS)
        if device.message == "":
            yield fields.required(device_path.child("message"), "must be non-empty if specified")
        elif device.message and len(device.message.encode()) > HEALTH_MESSAGE_MAX_BYTES:
            yield fields.too_long(device_path.child("message"), HEALTH_MESSAGE_MAX_BYTES)
        yield from fields.unrepeated(device_path.child("resourceID"), device.resource_id, seen)
