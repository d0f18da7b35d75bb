"""Rules for the containers of a pod: regular, init and ephemeral ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from dray.api.formats import names
from dray.api.types import containers
from dray.api.types.volumes import Volume
from dray.validation import fields, identifiers
from dray.validation.pods import environment, mounts, probes, resources, security, volumes

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
RESTART_ACTIONS: Final = ("Restart", "RestartAllContainers")
_TERMINATION_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESIZED_RESOURCES = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_RESTART_RULES_MAX_ITEMS = 20
_EXIT_CODES_MAX_ITEMS = 255


class ContainerContext(NamedTuple):
    """The facts about a pod that rules for its containers need."""

    volumes: Mapping[str, Volume]
    claim_names: Collection[str]
    restart_policy: str
    grace_period_seconds: int | None
    operating_system: str | None
    has_host_users: bool


def regular(
    values: tuple[containers.Container, ...], pod: ContainerContext, path: fields.Path
) -> fields.Errors:
    if not values:
        yield fields.required(path)
    seen: set[str] = set()
    for index, container in enumerate(values):
        container_path = path.index(index)
        yield from _common(container, pod, container_path)
        yield from _name_is_new(container.name, seen, container_path)
        yield from _watched(container, pod, container_path)
        yield from _restart_policy(container, container_path)
    yield from _host_ports(values, path)


def initial(
    values: tuple[containers.Container, ...],
    others: Iterable[containers.Container],
    pod: ContainerContext,
    path: fields.Path,
) -> fields.Errors:
    """Check init containers, including those that keep running (sidecars)."""
    seen = {container.name for container in others}
    for index, container in enumerate(values):
        container_path = path.index(index)
        yield from _common(container, pod, container_path)
        yield from _restart_policy(container, container_path)
        yield from _name_is_new(container.name, seen, container_path)
        yield from _host_ports((container,), path)
        if container.restart_policy == "Always":
            yield from _watched(container, pod, container_path)
        else:
            yield from _unwatched(container, container_path)


def ephemeral(
    values: tuple[containers.EphemeralContainer, ...],
    others: Iterable[containers.Container],
    pod: ContainerContext,
    path: fields.Path,
) -> fields.Errors:
    permanent = {container.name for container in others}
    seen = set(permanent)
    for index, container in enumerate(values):
        container_path = path.index(index)
        yield from _common(container, pod, container_path)
        yield from trimmed_image(container, container_path)
        yield from _name_is_new(container.name, seen, container_path)
        target = container.target_container_name
        if target and target not in permanent:
            yield fields.not_found(container_path.child("targetContainerName"), target)
        yield from _only_ephemeral_fields(container, container_path)


def _name_is_new(name: str, seen: set[str], path: fields.Path) -> fields.Errors:
    if name in seen:
        yield fields.duplicate(path.child("name"), name)
    elif name:
        seen.add(name)


def _common(
    container: containers.Container, pod: ContainerContext, path: fields.Path
) -> fields.Errors:
    yield from fields.required_text(path.child("name"), container.name, identifiers.dns_label)
    yield from fields.required_text(path.child("image"), container.image)
    yield from _termination_message_policy(container, path.child("terminationMessagePolicy"))
    yield from _ports(container.ports, path.child("ports"))
    yield from environment.variables(container.env, path.child("env"))
    yield from environment.sources(container.env_from, path.child("envFrom"))
    yield from mounts.mounts(container, pod.volumes, path.child("volumeMounts"))
    yield from mounts.devices(container, pod.volumes, path.child("volumeDevices"))
    yield from fields.required_one_of(
        path.child("imagePullPolicy"), container.image_pull_policy, volumes.PULL_POLICIES
    )
    yield from resources.requirements(container.resources, pod.claim_names, path.child("resources"))
    yield from _resize_policy(container, pod, path.child("resizePolicy"))
    yield from security.container_context(
        container.security_context, pod.has_host_users, path.child("securityContext")
    )


def _termination_message_policy(
    container: containers.Container, path: fields.Path
) -> fields.Errors:
    policy = container.termination_message_policy
    yield from fields.required_one_of(path, policy, _TERMINATION_MESSAGE_POLICIES)


def trimmed_image(container: containers.Container, path: fields.Path) -> fields.Errors:
    if container.image != container.image.strip():
        yield fields.invalid(
            path.child("image"), container.image, "must not have leading or trailing whitespace"
        )


def _watched(
    container: containers.Container, pod: ContainerContext, path: fields.Path
) -> fields.Errors:
    grace_period = pod.grace_period_seconds
    yield from probes.lifecycle(
        container.lifecycle, grace_period, pod.operating_system, path.child("lifecycle")
    )
    yield from probes.liveness_probe(
        container.liveness_probe, grace_period, path.child("livenessProbe")
    )
    yield from probes.readiness_probe(
        container.readiness_probe, grace_period, path.child("readinessProbe")
    )
    yield from probes.liveness_probe(
        container.startup_probe, grace_period, path.child("startupProbe")
    )


def _unwatched(container: containers.Container, path: fields.Path) -> fields.Errors:
    """Reject probes and lifecycle hooks of an init container that ends."""
    for field, value in (
        ("lifecycle", container.lifecycle),
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if value is not None:
            yield fields.forbidden(
                path.child(field), "may not be set for init containers without restartPolicy=Always"
            )
    for index, policy in enumerate(container.resize_policy):
        if policy.restart_policy == "RestartContainer":
            yield fields.invalid(
                path.child("resizePolicy").index(index).child("restartPolicy"),
                policy.restart_policy,
                "must not be set to 'RestartContainer' for non-sidecar initContainers",
            )


_NOT_EPHEMERAL = (
    ("ports", "ports"),
    ("resources", "resources"),
    ("resize_policy", "resizePolicy"),
    ("restart_policy", "restartPolicy"),
    ("restart_policy_rules", "restartPolicyRules"),
    ("liveness_probe", "livenessProbe"),
    ("readiness_probe", "readinessProbe"),
    ("startup_probe", "startupProbe"),
    ("lifecycle", "lifecycle"),
)


def _only_ephemeral_fields(
    container: containers.EphemeralContainer, path: fields.Path
) -> fields.Errors:
    detail = "cannot be set for an Ephemeral Container"
    for attribute, field in _NOT_EPHEMERAL:
        if getattr(container, attribute) not in (None, (), containers.ResourceRequirements()):
            yield fields.forbidden(path.child(field), detail)
    for index, mount in enumerate(container.volume_mounts):
        mount_path = path.child("volumeMounts").index(index)
        if mount.sub_path:
            yield fields.forbidden(mount_path.child("subPath"), detail)
        if mount.sub_path_expr:
            yield fields.forbidden(mount_path.child("subPathExpr"), detail)


def _ports(ports: tuple[containers.ContainerPort, ...], path: fields.Path) -> fields.Errors:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        port_path = path.index(index)
        if port.name:
            yield from _port_name(port.name, seen, port_path.child("name"))
        if port.container_port == 0:
            yield fields.required(port_path.child("containerPort"))
        else:
            yield from probes.port_number(port.container_port, port_path.child("containerPort"))
        if port.host_port != 0:
            yield from probes.port_number(port.host_port, port_path.child("hostPort"))
        yield from fields.required_one_of(port_path.child("protocol"), port.protocol, PROTOCOLS)


def _port_name(name: str, seen: set[str], path: fields.Path) -> fields.Errors:
    details = names.port_name_errors(name)
    yield from fields.invalid_details(path, name, details)
    if not details:
        yield from fields.unrepeated(path, name, seen)


def _host_ports(values: Iterable[containers.Container], path: fields.Path) -> fields.Errors:
    seen: set[str] = set()
    for index, container in enumerate(values):
        for port_index, port in enumerate(container.ports):
            if not port.host_port:
                continue
            address = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if address in seen:
                yield fields.duplicate(
                    path.index(index).child("ports").index(port_index).child("hostPort"), address
                )
            seen.add(address)


def _resize_policy(
    container: containers.Container, pod: ContainerContext, path: fields.Path
) -> fields.Errors:
    seen: set[str] = set()
    for index, policy in enumerate(container.resize_policy):
        yield from fields.unrepeated(path.index(index), policy.resource_name, seen)
        for value, supported in (
            (policy.resource_name, _RESIZED_RESOURCES),
            (policy.restart_policy, _RESIZE_POLICIES),
        ):
            yield from fields.required_one_of(path, value, supported)
        if pod.restart_policy == "Never" and policy.restart_policy != "NotRequired":
            yield fields.invalid(
                path,
                policy.restart_policy,
                "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            )


def _restart_policy(container: containers.Container, path: fields.Path) -> fields.Errors:
    policy, rules = container.restart_policy, container.restart_policy_rules
    if policy is None:
        if rules:
            yield fields.required(
                path.child("restartPolicy"),
                "must specify restartPolicy when restart rules are used",
            )
    elif policy not in RESTART_POLICIES:
        yield fields.not_supported(path.child("restartPolicy"), policy, RESTART_POLICIES)
    rules_path = path.child("restartPolicyRules")
    yield from fields.limited_items(rules_path, rules, _RESTART_RULES_MAX_ITEMS)
    for index, rule in enumerate(rules):
        yield from _restart_rule(rule, rules_path.index(index))


def _restart_rule(rule: containers.ContainerRestartRule, path: fields.Path) -> fields.Errors:
    yield from fields.one_of(path.child("action"), rule.action, RESTART_ACTIONS)
    codes, codes_path = rule.exit_codes, path.child("exitCodes")
    if codes is None:
        yield fields.required(codes_path, "must be specified")
        return
    yield from fields.one_of(codes_path.child("operator"), codes.operator, ("In", "NotIn"))
    yield from fields.limited_items(codes_path.child("values"), codes.values, _EXIT_CODES_MAX_ITEMS)
