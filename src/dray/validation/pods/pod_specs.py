"""Rules for what a pod runs, with what, and where: the spec of pods and of their templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from dray.api.semantics import pod_resources
from dray.api.types import meta, pods
from dray.api.types.containers import Container, ResourceRequirements
from dray.api.types.volumes import Volume
from dray.validation import fields, identifiers, memo
from dray.validation.pods import (
    containers,
    placement,
    pod_claims,
    pod_network,
    resources,
    security,
    volumes,
)

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")

_MAXIMUM_INT32 = 2**31 - 1


def pod_spec(spec: pods.PodSpec, path: fields.Path, owner: meta.ObjectMeta | None) -> fields.Errors:
    """Check a spec; `owner` is the pod's metadata, None for a template."""
    if spec.termination_grace_period_seconds is None:
        yield fields.required(path.child("terminationGracePeriodSeconds"))
    volume_errors, usable_volumes = volumes.pod_volumes(spec.volumes, path.child("volumes"))
    yield from volume_errors
    yield from pod_claims.resource_claims(spec.resource_claims, path.child("resourceClaims"), owner)
    rest, is_pod = _with_named_claims(spec), owner is not None
    yield from _sound_specs.check(
        rest, is_pod, lambda: _rest(rest, path, usable_volumes, is_pod=is_pod)
    )


_sound_specs = memo.ValidValueCache()


def _with_named_claims(spec: pods.PodSpec) -> pods.PodSpec:
    """Return the spec with the names of claims only: the rest differs from pod to pod."""
    named = tuple(pods.PodResourceClaim(name=claim.name) for claim in spec.resource_claims)
    return msgspec.structs.replace(spec, resource_claims=named)


def _rest(
    spec: pods.PodSpec, path: fields.Path, usable_volumes: dict[str, Volume], *, is_pod: bool
) -> fields.Errors:
    """Check everything but volumes and claims."""
    yield from _containers(spec, path, usable_volumes)
    if spec.resources is not None:
        yield from _pod_resources(spec, path.child("resources"))
    yield from pod_network.host_ports(spec, path.child("containers"), is_pod=is_pod)
    yield from fields.required_one_of(
        path.child("restartPolicy"), spec.restart_policy, RESTART_POLICIES
    )
    yield from fields.required_one_of(path.child("dnsPolicy"), spec.dns_policy, DNS_POLICIES)
    yield from identifiers.labels(spec.node_selector, path.child("nodeSelector"))
    yield from security.pod_context(spec, path.child("securityContext"))
    if spec.share_process_namespace and spec.host_pid:
        yield fields.invalid(
            path.child("shareProcessNamespace"),
            True,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        )
    yield from placement.affinity(spec.affinity, path.child("affinity"))
    yield from pod_network.dns_config(spec, path.child("dnsConfig"))
    yield from _gates(spec, path)
    yield from placement.spread_constraints(
        spec.topology_spread_constraints, path.child("topologySpreadConstraints")
    )
    yield from _host_users(spec, path)
    yield from _names(spec, path)
    yield from _numbers_and_policies(spec, path)
    yield from _file_volumes(spec, path)


def _containers(
    spec: pods.PodSpec, path: fields.Path, usable_volumes: dict[str, Volume]
) -> fields.Errors:
    context = containers.ContainerContext(
        volumes=usable_volumes,
        claim_names={claim.name for claim in spec.resource_claims if claim.name},
        restart_policy=spec.restart_policy,
        grace_period_seconds=spec.termination_grace_period_seconds,
        operating_system=spec.os.name if spec.os else None,
        has_host_users=spec.host_users is not False,
    )
    yield from containers.regular(spec.containers, context, path.child("containers"))
    yield from containers.initial(
        spec.init_containers, spec.containers, context, path.child("initContainers")
    )
    yield from containers.ephemeral(
        spec.ephemeral_containers,
        (*spec.containers, *spec.init_containers),
        context,
        path.child("ephemeralContainers"),
    )


def _pod_resources(spec: pods.PodSpec, path: fields.Path) -> fields.Errors:
    """Check pod-level requirements; claims belong to containers."""
    assert spec.resources is not None
    if spec.os is not None and spec.os.name == "windows":
        yield fields.forbidden(path, "may not be set for a windows pod")
        return
    if spec.resources.claims:
        yield fields.forbidden(
            path.child("claims"), "claims may not be set for Resources at pod-level"
        )
    claim_names = {claim.name for claim in spec.resource_claims if claim.name}
    yield from resources.requirements(
        spec.resources, claim_names, path, resources.pod_resource_name
    )
    yield from _containers_within_pod(spec, spec.resources, path)


def _containers_within_pod(
    spec: pods.PodSpec, requirements: ResourceRequirements, path: fields.Path
) -> fields.Errors:
    """Check that containers together request no more than the pod and that no limit is higher."""
    pod = pods.Pod(spec=spec)
    requests = pod_resources.parse_amounts(requirements.requests)
    limits = pod_resources.parse_amounts(requirements.limits)
    for name, amount in pod_resources.container_requests(pod).items():
        if name in requests and amount > requests[name]:
            yield fields.invalid(
                path.child("requests").key(name),
                str(requests[name]),
                f"must be greater than or equal to aggregate container requests of {amount}",
            )
    for name, amount in pod_resources.container_limits(pod).items():
        if pod_resources.is_huge_page_resource(name) and name in limits and amount > limits[name]:
            yield fields.invalid(
                path.child("limits").key(name),
                str(limits[name]),
                f"must be greater than or equal to aggregate container limits of {amount}",
            )
    for index, container in enumerate(spec.containers):
        for name, amount in pod_resources.parse_amounts(container.resources.limits).items():
            if name in limits and amount > limits[name]:
                yield fields.invalid(
                    path.child("containers").index(index).key(name).child("limits"),
                    str(amount),
                    f"must be less than or equal to pod limits of {limits[name]}",
                )


def _gates(spec: pods.PodSpec, path: fields.Path) -> fields.Errors:
    for index, gate in enumerate(spec.readiness_gates):
        yield from identifiers.label_name(
            gate.condition_type, path.child("readinessGates").index(index).child("conditionType")
        )
    seen: set[str] = set()
    for index, scheduling_gate in enumerate(spec.scheduling_gates):
        gate_path = path.child("schedulingGates").index(index)
        yield from identifiers.label_name(scheduling_gate.name, gate_path)
        yield from fields.unrepeated(gate_path, scheduling_gate.name, seen)


def _host_users(spec: pods.PodSpec, path: fields.Path) -> fields.Errors:
    """Reject shared node namespaces for a pod with its own user namespace."""
    if spec.host_users is not False:
        return
    for field, is_shared in (
        ("hostNetwork", spec.host_network),
        ("HostPID", spec.host_pid),
        ("HostIPC", spec.host_ipc),
    ):
        if is_shared:
            yield fields.forbidden(path.child(field), "when `hostUsers` is false")
    for container, container_path in _all_containers(spec, path):
        if container.volume_devices:
            yield fields.forbidden(
                container_path.child("volumeDevices"), "when `hostUsers` is false"
            )


def _all_containers(
    spec: pods.PodSpec, path: fields.Path
) -> Iterator[tuple[Container, fields.Path]]:
    for field, values in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, container in enumerate(values):
            yield container, path.child(field).index(index)


def _names(spec: pods.PodSpec, path: fields.Path) -> fields.Errors:
    yield from pod_network.hostname_override(spec, path.child("hostnameOverride"))
    for field, name in (
        ("serviceAccountName", spec.service_account_name),
        ("nodeName", spec.node_name),
        ("priorityClassName", spec.priority_class_name),
    ):
        if name:
            yield from identifiers.object_name(name, path.child(field))
    if spec.runtime_class_name is not None:
        yield from identifiers.object_name(spec.runtime_class_name, path.child("runtimeClassName"))
    for field, label in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if label:
            yield from identifiers.dns_label(label, path.child(field))


def _numbers_and_policies(spec: pods.PodSpec, path: fields.Path) -> fields.Errors:
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= _MAXIMUM_INT32:
        yield fields.invalid(
            path.child("activeDeadlineSeconds"),
            deadline,
            f"must be between 1 and {_MAXIMUM_INT32}, inclusive",
        )
    for index, toleration in enumerate(spec.tolerations):
        yield from placement.toleration(toleration, path.child("tolerations").index(index))
    yield from pod_network.host_aliases(spec.host_aliases, path.child("hostAliases"))
    if spec.preemption_policy is not None:
        yield from fields.required_one_of(
            path.child("preemptionPolicy"), spec.preemption_policy, PREEMPTION_POLICIES
        )
    yield from resources.overhead(spec.overhead, path.child("overhead"))
    if spec.os is not None:
        yield from _operating_system(spec.os.name, path.child("os"))
    if spec.scheduling_group is not None:
        yield from _scheduling_group(spec.scheduling_group, path.child("schedulingGroup"))


def _operating_system(name: str, path: fields.Path) -> fields.Errors:
    if not name:
        yield fields.required(path.child("name"))
    elif name not in ("linux", "windows"):
        yield fields.not_supported(path, name, ("linux", "windows"))


def _scheduling_group(group: pods.PodSchedulingGroup, path: fields.Path) -> fields.Errors:
    path = path.child("podGroupName")
    if group.pod_group_name is None:
        yield fields.invalid(path, None, "must specify one of: `podGroupName`")
    else:
        yield from identifiers.object_name(group.pod_group_name, path)


def _file_volumes(spec: pods.PodSpec, path: fields.Path) -> fields.Errors:
    """Require an `emptyDir` volume for a variable that is read from a file."""
    by_name = {volume.name: volume for volume in spec.volumes}
    for container, container_path in _all_containers(spec, path):
        for index, variable in enumerate(container.env):
            source = variable.value_from and variable.value_from.file_key_ref
            if not source:
                continue
            source_path = container_path.child("env").index(index).child("valueFrom.fileKeyRef")
            name_path = source_path.child("volumeName")
            volume = by_name.get(source.volume_name)
            if volume is None:
                yield fields.not_found(name_path, source.volume_name)
            elif volume.empty_dir is None:
                detail = "referenced volume must be of type emptyDir"
                yield fields.invalid(name_path, source.volume_name, detail)
