"""Containers: what one runs, asks for, mounts, and how it is watched and stopped."""

from __future__ import annotations

import msgspec

from dray.api.types.meta import Wire


class ContainerPort(Wire, frozen=True):
    name: str = ""
    container_port: int = 0
    protocol: str = ""
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")


class ObjectFieldSelector(Wire, frozen=True):
    api_version: str = ""
    field_path: str = ""


class ResourceFieldSelector(Wire, frozen=True):
    container_name: str = ""
    resource: str = ""
    divisor: str = ""


class ConfigMapKeySelector(Wire, frozen=True):
    name: str = ""
    key: str = ""
    optional: bool | None = None


class SecretKeySelector(Wire, frozen=True):
    name: str = ""
    key: str = ""
    optional: bool | None = None


class FileKeySelector(Wire, frozen=True):
    volume_name: str = ""
    path: str = ""
    key: str = ""
    optional: bool | None = None


class EnvVarSource(Wire, frozen=True):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Wire, frozen=True):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class ConfigMapEnvSource(Wire, frozen=True):
    name: str = ""
    optional: bool | None = None


class SecretEnvSource(Wire, frozen=True):
    name: str = ""
    optional: bool | None = None


class EnvFromSource(Wire, frozen=True):
    prefix: str = ""
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None


class ContainerClaim(Wire, frozen=True):
    """The API calls it ResourceClaim too: a claim of the pod that this container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Wire, frozen=True):
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    claims: tuple[ContainerClaim, ...] = ()


class ContainerResizePolicy(Wire, frozen=True):
    resource_name: str = ""
    restart_policy: str = ""


class VolumeMount(Wire, frozen=True):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False
    recursive_read_only: str | None = None
    mount_propagation: str | None = None
    bind_mount_options: tuple[str, ...] = ()


class VolumeDevice(Wire, frozen=True):
    name: str = ""
    device_path: str = ""


class ExecAction(Wire, frozen=True):
    command: tuple[str, ...] = ()


class HTTPHeader(Wire, frozen=True):
    name: str = ""
    value: str = ""


class HTTPGetAction(Wire, frozen=True):
    path: str = ""
    port: int | str = 0
    host: str = ""
    scheme: str = ""
    protocol: str | None = None
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Wire, frozen=True):
    port: int | str = 0
    host: str = ""


class GRPCAction(Wire, frozen=True):
    port: int = 0
    service: str | None = None


class SleepAction(Wire, frozen=True):
    seconds: int = 0


class Probe(Wire, frozen=True):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 0
    period_seconds: int = 0
    success_threshold: int = 0
    failure_threshold: int = 0
    termination_grace_period_seconds: int | None = None


class LifecycleHandler(Wire, frozen=True):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Wire, frozen=True):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class Capabilities(Wire, frozen=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SELinuxOptions(Wire, frozen=True):
    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class SeccompProfile(Wire, frozen=True):
    type: str = ""
    localhost_profile: str | None = None


class AppArmorProfile(Wire, frozen=True):
    type: str = ""
    localhost_profile: str | None = None


class SecurityContext(Wire, frozen=True):
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None


class ContainerRestartRuleOnExitCodes(Wire, frozen=True):
    operator: str = ""
    values: tuple[int, ...] = ()


class ContainerRestartRule(Wire, frozen=True):
    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class Container(Wire, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: SecurityContext | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class EphemeralContainer(Container, frozen=True):
    target_container_name: str = ""
