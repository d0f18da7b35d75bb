"""API defaults of pods and pod templates, on dicts.

Called by `defaults`. A pod gets all of them, a template only those of its spec: as the two passes
SetDefaults_Pod and SetDefaults_PodSpec of pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api.formats import image_references, quantity
from dray.api.types.meta import JsonObject


def absent(target: JsonObject, **values: Any) -> None:
    """Set the fields that are absent: those that are pointers in Go."""
    for name, value in values.items():
        if target.get(name) is None:
            target[name] = value


def zero(target: JsonObject, **values: Any) -> None:
    """Set the fields that are absent or zero: those that are not pointers in Go."""
    for name, value in values.items():
        if not target.get(name):
            target[name] = value


def child(target: JsonObject, name: str) -> JsonObject:
    """Return the object at a field; create it if it is absent."""
    inner = target.get(name)
    if inner is None:
        inner = target[name] = {}
    return inner


def inside(target: JsonObject | None, *names: str) -> JsonObject | None:
    """Return the object at a path, or None if it is absent."""
    for name in names:
        target = target.get(name) if target else None
    return target


def items(target: JsonObject | None, name: str) -> list[JsonObject]:
    """Return the objects in the list at that field; Go reads null there as an empty object."""
    listed = target.get(name) if target else None
    if not listed:
        return []
    if None in listed:
        listed[:] = [{} if item is None else item for item in listed]
    return [item for item in listed if isinstance(item, dict)]


def round_resources(target: JsonObject | None, *names: str) -> None:
    """Round quantities of resources up to three decimals."""
    for name in names:
        resources = (target.get(name) if target else None) or {}
        for resource, amount in resources.items():
            resources[resource] = _rounded_up(amount)


_MILLI_IN_NANO = 10**6


def _rounded_up(amount: Any) -> Any:
    if amount is None:
        # To Go that is zero; `canonical` writes it so.
        return None
    exact = quantity.parse(str(amount))
    if exact.nano % _MILLI_IN_NANO == 0:
        return amount
    return str(quantity.of_milli(-(-exact.nano // _MILLI_IN_NANO), exact.format))


def fill_pod(pod: JsonObject) -> None:
    spec = child(pod, "spec")
    period = spec.get("terminationGracePeriodSeconds")
    if period is not None and period < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in (*items(spec, "containers"), *items(spec, "initContainers")):
        _request_what_is_limited(container)
        if spec.get("hostNetwork"):
            for port in items(container, "ports"):
                zero(port, hostPort=port.get("containerPort"))
    absent(spec, enableServiceLinks=True)
    fill_spec(spec)
    _fill_status(pod.get("status"))


def _request_what_is_limited(container: JsonObject) -> None:
    limits = (container.get("resources") or {}).get("limits")
    if limits is not None:
        requests = child(container["resources"], "requests")
        for resource, amount in limits.items():
            requests.setdefault(resource, amount)


def _fill_status(status: JsonObject | None) -> None:
    if not status:
        return
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and not (addresses and addresses[0].get("ip") == address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address:
        status["podIP"] = addresses[0].get("ip")
    for name in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for container in items(status, name):
            round_resources(container, "allocatedResources")
            round_resources(container.get("resources"), "limits", "requests")
    round_resources(status, "allocatedResources")
    round_resources(status.get("resources"), "limits", "requests")


def fill_template(template: JsonObject) -> None:
    fill_spec(child(template, "spec"))


def fill_spec(spec: JsonObject) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    zero(spec, dnsPolicy="ClusterFirst", restartPolicy="Always", schedulerName="default-scheduler")
    absent(spec, securityContext={}, terminationGracePeriodSeconds=30)
    for volume in items(spec, "volumes"):
        _fill_volume(volume)
    for name in ("initContainers", "containers", "ephemeralContainers"):
        for container in items(spec, name):
            _fill_container(container)
    round_resources(spec, "overhead")
    round_resources(spec.get("resources"), "limits", "requests")


def _pull_policy(image: str | None) -> str:
    reference = image_references.parse(image or "")
    return (
        "Always" if reference and reference.tag == image_references.DEFAULT_TAG else "IfNotPresent"
    )


def _fill_container(container: JsonObject) -> None:
    zero(
        container,
        imagePullPolicy=_pull_policy(container.get("image")),
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    for port in items(container, "ports"):
        zero(port, protocol="TCP")
    for variable in items(container, "env"):
        if source := variable.get("valueFrom"):
            _fill_variable_source(source)
    round_resources(container.get("resources"), "limits", "requests")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        _fill_probe(container.get(name))
    if lifecycle := container.get("lifecycle"):
        for name in ("postStart", "preStop"):
            _fill_http(inside(lifecycle, name, "httpGet"))


def _fill_variable_source(source: JsonObject) -> None:
    _fill_field_reference(source.get("fieldRef"))
    if file_key := source.get("fileKeyRef"):
        absent(file_key, optional=False)


def _fill_probe(probe: JsonObject | None) -> None:
    if probe is None:
        return
    zero(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    _fill_http(probe.get("httpGet"))
    if probe.get("grpc") is not None:
        absent(probe["grpc"], service="")


def _fill_http(action: JsonObject | None) -> None:
    if action is not None:
        zero(action, path="/", scheme="HTTP")


def _fill_field_reference(reference: JsonObject | None) -> None:
    if reference is not None:
        zero(reference, apiVersion="v1")


_READABLE_BY_ALL = 0o644

# Kinds of volume whose fields have a fixed default: where absent, where zero.
_ABSENT_IN_VOLUME: dict[str, JsonObject] = {
    "hostPath": {"type": ""},
    "secret": {"defaultMode": _READABLE_BY_ALL},
    "configMap": {"defaultMode": _READABLE_BY_ALL},
    "downwardAPI": {"defaultMode": _READABLE_BY_ALL},
    "projected": {"defaultMode": _READABLE_BY_ALL},
    "azureDisk": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "readOnly": False,
        "kind": "Shared",
    },
}
_ZERO_IN_VOLUME: dict[str, JsonObject] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def _fill_volume(volume: JsonObject) -> None:
    if not any(source is not None for name, source in volume.items() if name != "name"):
        volume["emptyDir"] = {}
    fill_volume_source(volume)
    if image := volume.get("image"):
        zero(image, pullPolicy=_pull_policy(image.get("reference")))
    for file in _downward_files(volume):
        _fill_field_reference(file.get("fieldRef"))
    for source in items(volume.get("projected"), "sources"):
        if source.get("serviceAccountToken") is not None:
            absent(source["serviceAccountToken"], expirationSeconds=3600)
    template_spec = inside(volume, "ephemeral", "volumeClaimTemplate", "spec")
    if template_spec is not None:
        fill_volume_claim_spec(template_spec)


def fill_volume_source(source: JsonObject) -> None:
    """Fill a volume of a pod, or the spec of a PersistentVolume: both have the same field names."""
    for kind, values in _ABSENT_IN_VOLUME.items():
        if source.get(kind) is not None:
            absent(source[kind], **values)
    for kind, values in _ZERO_IN_VOLUME.items():
        if source.get(kind) is not None:
            zero(source[kind], **values)


def _downward_files(volume: JsonObject) -> Iterator[JsonObject]:
    yield from items(volume.get("downwardAPI"), "items")
    for source in items(volume.get("projected"), "sources"):
        yield from items(source.get("downwardAPI"), "items")


def fill_volume_claim_spec(spec: JsonObject) -> None:
    absent(spec, volumeMode="Filesystem")
    round_resources(spec.get("resources"), "limits", "requests")
