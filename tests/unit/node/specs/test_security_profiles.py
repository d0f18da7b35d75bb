"""Rights of containers: each field is honoured, or refused with its path."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.pods import Pod
from dray.node.runtimes.interface import ContainerConfigError, SecurityProfile
from dray.node.specs import security_profiles

HERE = "spec.containers[0].securityContext"


def profile(
    context: dict[str, Any] | None = None,
    *,
    of_pod: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
    allows_host: bool = False,
    allows_privileged: bool = False,
    has_images: bool = False,
) -> SecurityProfile:
    main = {"name": "c", "securityContext": context or {}, **(container or {})}
    document = {"spec": {"containers": [main], "securityContext": of_pod or {}, **(spec or {})}}
    pod = msgspec.convert(document, Pod)
    security_profiles.check_pod(pod, allows_host=allows_host)
    return security_profiles.profile_of(
        pod,
        pod.spec.containers[0],
        allows_host=allows_host,
        allows_privileged=allows_privileged,
        has_images=has_images,
    )


def test_without_a_security_context() -> None:
    assert profile() == SecurityProfile()
    assert SecurityProfile().is_confined


@pytest.mark.parametrize(
    ("context", "of_pod", "expected"),
    [
        ({"runAsUser": 5}, {}, SecurityProfile(uid=5)),
        ({}, {"runAsUser": 5}, SecurityProfile(uid=5)),
        ({"runAsUser": 0}, {"runAsUser": 5}, SecurityProfile(uid=0)),
        ({"runAsGroup": 7}, {"runAsGroup": 8}, SecurityProfile(gid=7)),
        ({}, {"runAsGroup": 8}, SecurityProfile(gid=8)),
        ({}, {"supplementalGroups": [3, 4, 3], "fsGroup": 9}, SecurityProfile(groups=(3, 4, 9))),
        ({}, {"supplementalGroupsPolicy": "Strict"}, SecurityProfile()),
        ({"runAsNonRoot": True, "runAsUser": 5}, {}, SecurityProfile(uid=5)),
        ({"runAsNonRoot": False}, {"runAsNonRoot": True}, SecurityProfile()),
        ({"readOnlyRootFilesystem": True}, {}, SecurityProfile(has_read_only_root=True)),
        ({"capabilities": {"drop": ["ALL"]}}, {}, SecurityProfile()),
        (
            {"capabilities": {"drop": ["ALL"], "add": ["KILL", "cap_chown"]}},
            {},
            SecurityProfile(capabilities=("CHOWN", "KILL")),
        ),
        ({"capabilities": {"drop": ["KILL"], "add": ["KILL"]}}, {}, SecurityProfile()),
        ({"allowPrivilegeEscalation": False, "privileged": False}, {}, SecurityProfile()),
        ({"seccompProfile": {"type": "RuntimeDefault"}}, {}, SecurityProfile()),
        ({"procMount": "Default", "seLinuxOptions": {}}, {}, SecurityProfile()),
        ({"appArmorProfile": {"type": "RuntimeDefault"}}, {}, SecurityProfile()),
    ],
)
def test_fields_that_are_honoured(
    context: dict[str, Any], of_pod: dict[str, Any], expected: SecurityProfile
) -> None:
    assert profile(context, of_pod=of_pod) == expected


@pytest.mark.parametrize(
    ("context", "path"),
    [
        ({"privileged": True}, "privileged"),
        ({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation"),
        ({"procMount": "Unmasked"}, "procMount"),
        ({"seLinuxOptions": {"level": "s0"}}, "seLinuxOptions"),
        ({"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}, "appArmorProfile"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile.type"),
        ({"seccompProfile": {"type": "Localhost"}}, "seccompProfile.type"),
        ({"seccompProfile": {"type": ""}}, "seccompProfile.type"),
        ({"runAsNonRoot": True}, "runAsNonRoot"),
        ({"runAsNonRoot": True, "runAsUser": 0}, "runAsNonRoot"),
        ({"capabilities": {"add": ["KILL", "SYS_ADMIN"]}}, "capabilities.add[1]"),
        ({"capabilities": {"add": ["ALL"]}}, "capabilities.add[0]"),
        ({"capabilities": {"add": ["ALL"], "drop": ["ALL"]}}, "capabilities.add[0]"),
        ({"capabilities": {"add": ["cap_sys_ptrace"]}}, "capabilities.add[0]"),
        ({"capabilities": {"add": ["NET_ADMIN"]}}, "capabilities.add[0]"),
        ({"capabilities": {"add": ["NET_RAW"]}}, "capabilities.add[0]"),
        ({"capabilities": {"add": ["MKNOD"]}}, "capabilities.add[0]"),
    ],
)
def test_fields_that_are_refused(context: dict[str, Any], path: str) -> None:
    with pytest.raises(ContainerConfigError) as caught:
        profile(context)
    assert str(caught.value).startswith(f"{HERE}.{path}")


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"hostPID": True}, "spec.hostPID"),
        ({"hostIPC": True}, "spec.hostIPC"),
        ({"hostNetwork": True}, "spec.hostNetwork"),
        ({"hostUsers": True}, "spec.hostUsers"),
        ({"runtimeClassName": "gvisor"}, "spec.runtimeClassName"),
        ({"ephemeralContainers": [{"name": "debug"}]}, "spec.ephemeralContainers"),
        ({"shareProcessNamespace": True}, "spec.shareProcessNamespace"),
        ({"os": {"name": "windows"}}, "spec.os.name"),
        ({"securityContext": {"runAsNonRoot": True}}, "spec.securityContext.runAsNonRoot"),
        (
            {"securityContext": {"sysctls": [{"name": "net.a", "value": "1"}]}},
            "spec.securityContext.sysctls",
        ),
        (
            {"securityContext": {"seLinuxOptions": {"user": "u"}}},
            "spec.securityContext.seLinuxOptions",
        ),
        (
            {"securityContext": {"appArmorProfile": {"type": "Localhost"}}},
            "spec.securityContext.appArmorProfile",
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
            "spec.securityContext.seccompProfile.type",
        ),
    ],
)
def test_fields_of_the_pod_that_are_refused(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(ContainerConfigError) as caught:
        profile(spec=spec)
    assert str(caught.value).startswith(path)


@pytest.mark.parametrize(
    ("container", "path"),
    [
        ({"volumeDevices": [{"name": "v"}]}, "spec.containers[0].volumeDevices"),
        ({"ports": [{}, {"hostPort": 80}]}, "spec.containers[0].ports[1].hostPort"),
    ],
)
def test_fields_of_the_container_that_are_refused(container: dict[str, Any], path: str) -> None:
    with pytest.raises(ContainerConfigError) as caught:
        profile(container=container)
    assert str(caught.value).startswith(path)


def test_fields_that_need_access_to_the_host() -> None:
    unconfined = {"seccompProfile": {"type": "Unconfined"}}
    assert not profile(unconfined, allows_host=True).is_confined
    confined = profile(
        {"seccompProfile": {"type": "RuntimeDefault"}}, of_pod=unconfined, allows_host=True
    )
    assert confined.is_confined
    ports = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    profile(container=ports, spec={"hostNetwork": True}, allows_host=True)
    for never in ({"hostPID": True}, {"hostIPC": True}):
        with pytest.raises(ContainerConfigError):
            profile(spec=never, allows_host=True)
    with pytest.raises(ContainerConfigError):
        profile({"privileged": True}, allows_host=True)


def test_privileged_containers_need_a_flag_of_their_own() -> None:
    context = {
        "privileged": True,
        "allowPrivilegeEscalation": True,
        "capabilities": {"add": ["SYS_ADMIN"]},
    }
    found = profile(context, allows_privileged=True)
    assert (found.is_privileged, found.is_confined) == (True, False)
    assert not profile({"privileged": False}, allows_privileged=True).is_privileged
    with pytest.raises(ContainerConfigError, match="--allow-privileged"):
        profile(context, allows_host=True)


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_pods_have_the_users_of_the_host_where_one_container_is_privileged(field: str) -> None:
    document: dict[str, Any] = {"spec": {"containers": [{"name": "a"}]}}
    ordinary = msgspec.convert(document, Pod)
    others = document["spec"].get(field, [])
    document["spec"][field] = [*others, {"name": "b", "securityContext": {"privileged": True}}]
    pod = msgspec.convert(document, Pod)
    assert security_profiles.has_host_users(pod, allows_privileged=True)
    assert not security_profiles.has_host_users(pod, allows_privileged=False)
    assert not security_profiles.has_host_users(ordinary, allows_privileged=True)


def test_groups_of_an_image_cannot_be_left_out() -> None:
    with pytest.raises(ContainerConfigError, match="supplementalGroupsPolicy"):
        profile(of_pod={"supplementalGroupsPolicy": "Strict"}, has_images=True)
