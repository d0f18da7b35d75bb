"""The description of a pod as in kubectl, pkg/describe/describe.go, describePod.

Tabs separate columns; `describe` aligns them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]

NONE = "<none>"
_ABOVE_LABELS = {
    "Priority": "priority",
    "Priority Class Name": "priorityClassName",
    "Runtime Class Name": "runtimeClassName",
    "Service Account": "serviceAccountName",
}


def above_labels(pod: Object) -> Iterator[str]:
    """Yield the lines between the namespace and the labels."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    for title, field in _ABOVE_LABELS.items():
        if spec.get(field) not in (None, ""):
            yield f"{title}:\t{spec[field]}"
    node = spec.get("nodeName")
    yield f"Node:\t{node}/{status.get('hostIP', '')}" if node else f"Node:\t{NONE}"
    if started := status.get("startTime"):
        yield f"Start Time:\t{time_text(started)}"


def below_annotations(pod: Object) -> Iterator[str]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    yield f"Status:\t{_phase(pod)}"
    for field in ("reason", "message"):
        if status.get(field):
            yield f"{field.title()}:\t{status[field]}"
    yield from _addresses(status)
    yield from controlled_by(pod)
    if status.get("nominatedNodeName"):
        yield f"NominatedNodeName:\t{status['nominatedNodeName']}"
    if first := spec.get("initContainers"):
        yield from containers("Init Containers", first, status.get("initContainerStatuses"))
    main = spec.get("containers") or ()
    yield from containers("Containers", main, status.get("containerStatuses"))
    yield from _conditions(status.get("conditions") or ())
    yield from volumes(spec.get("volumes") or ())
    yield f"QoS Class:\t{status.get('qosClass', '')}"
    yield from placement(spec)
    if group := (spec.get("schedulingGroup") or {}).get("podGroupName"):
        yield "SchedulingGroup:"
        yield f"  PodGroupName:\t{group}"


def controlled_by(document: Object) -> Iterator[str]:
    """Yield the controller of an object, if it has one."""
    for owner in document["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            yield f"Controlled By:\t{owner['kind']}/{owner['name']}"


def placement(spec: Object, space: str = "") -> Iterator[str]:
    """Yield the node selector and the tolerations of a pod."""
    selectors = sorted((spec.get("nodeSelector") or {}).items())
    yield from multiline(f"{space}Node-Selectors", [f"{key}={value}" for key, value in selectors])
    tolerations = sorted(spec.get("tolerations") or (), key=lambda item: item.get("key", ""))
    yield from multiline(f"{space}Tolerations", list(map(_toleration, tolerations)))


def claim_names(pod: Object) -> list[str]:
    """Return the names of the ResourceClaims of a pod that exist or are named."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    made = {
        item["name"]: item.get("resourceClaimName")
        for item in status.get("resourceClaimStatuses") or ()
    }
    names = [
        item.get("resourceClaimName") or made.get(item["name"])
        for item in spec.get("resourceClaims") or ()
    ]
    extended = status.get("extendedResourceClaimStatus") or {}
    return [str(name) for name in (*names, extended.get("resourceClaimName")) if name]


def devices(claims: Sequence[Object]) -> Iterator[str]:
    """Yield the allocated devices of a pod's claims; nothing without any."""
    lines = []
    for claim in claims:
        for result in results(claim):
            origin = f"claim {claim['metadata']['name']}, request {result['request']}"
            lines.append(f"  {result['pool']}/{result['device']}\t{result['driver']}\t{origin}")
    if lines:
        yield "Devices:"
        yield from lines


def results(claim: Object) -> Sequence[Object]:
    """Return the allocated devices of a claim."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    found: Sequence[Object] = (allocation.get("devices") or {}).get("results") or ()
    return found


def multiline(title: str, values: Sequence[str]) -> Iterator[str]:
    """Yield the values one per line, beside their title."""
    for number, value in enumerate(values or [NONE]):
        yield f"{'' if number else f'{title}:'}\t{value}"


def time_text(text: str) -> str:
    """Return a timestamp as kubectl prints it."""
    return datetime.datetime.fromisoformat(text).strftime("%a, %d %b %Y %H:%M:%S %z")


def _phase(pod: Object) -> str:
    phase = (pod.get("status") or {}).get("phase", "")
    if pod["metadata"].get("deletionTimestamp") and phase not in ("Failed", "Succeeded"):
        return "Terminating"
    return str(phase)


def _addresses(status: Object) -> Iterator[str]:
    yield f"IP:\t{status.get('podIP', '')}"
    addresses = status.get("podIPs") or ()
    yield "IPs:" if addresses else f"IPs:\t{NONE}"
    for address in addresses:
        yield f"  IP:\t{address.get('ip', '')}"


def containers(
    title: str,
    described: Sequence[Object],
    statuses: Sequence[Object] | None,
    name_indent: str = "  ",
) -> Iterator[str]:
    """Yield the containers of a pod or of a template, which has no statuses."""
    by_name = {status["name"]: status for status in statuses or ()}
    yield f"{title}:" if described else f"{title}: {NONE}"
    for container in described:
        yield f"{name_indent}{container['name']}:"
        for line in _container(container, by_name.get(container["name"])):
            yield f"    {line}"


def _container(container: Object, status: Object | None) -> Iterator[str]:
    if status is not None:
        yield f"Container ID:\t{status.get('containerID', '')}"
    yield f"Image:\t{container.get('image', '')}"
    if status is not None:
        yield f"Image ID:\t{status.get('imageID', '')}"
    yield from _ports("Port", "containerPort", container.get("ports") or ())
    yield from _ports("Host Port", "hostPort", container.get("ports") or ())
    for field in ("command", "args"):
        if container.get(field):
            yield f"{field.title()}:"
            yield from (f"  {line}" for word in container[field] for line in word.split("\n"))
    if status is not None:
        yield from _state_of(status)
    resources = container.get("resources") or {}
    for field in ("limits", "requests"):
        if resources.get(field):
            yield f"{field.title()}:"
            yield from (f"  {name}:\t{size}" for name, size in sorted(resources[field].items()))
    yield from _environment(container.get("env") or ())
    yield from _mounts(container.get("volumeMounts") or ())


def _ports(title: str, field: str, ports: Sequence[Object]) -> Iterator[str]:
    words = []
    for port in ports:
        word = f"{port.get(field, 0)}/{port.get('protocol', 'TCP')}"
        words.append(f"{word} ({port['name']})" if port.get("name") else word)
    yield f"{title}{'s' if len(words) > 1 else ''}:\t{', '.join(words) or NONE}"


def _state_of(status: Object) -> Iterator[str]:
    yield from _state("State", status.get("state") or {})
    last = status.get("lastState") or {}
    if last.get("terminated"):
        yield from _state("Last State", last)
    yield f"Ready:\t{bool(status.get('ready'))}"
    yield f"Restart Count:\t{status.get('restartCount', 0)}"


def _state(title: str, state: Object) -> Iterator[str]:
    if running := state.get("running"):
        yield f"{title}:\tRunning"
        yield f"  Started:\t{time_text(running['startedAt'])}"
    elif terminated := state.get("terminated"):
        yield f"{title}:\tTerminated"
        for field in ("reason", "message"):
            if terminated.get(field):
                yield f"  {field.title()}:\t{terminated[field]}"
        yield f"  Exit Code:\t{terminated.get('exitCode', 0)}"
        if terminated.get("signal"):
            yield f"  Signal:\t{terminated['signal']}"
        for field in ("started", "finished"):
            if terminated.get(f"{field}At"):
                yield f"  {field.title()}:\t{time_text(terminated[f'{field}At'])}"
    else:
        yield f"{title}:\tWaiting"
        if reason := (state.get("waiting") or {}).get("reason"):
            yield f"  Reason:\t{reason}"


def _environment(variables: Sequence[Object]) -> Iterator[str]:
    yield "Environment:" if variables else f"Environment:\t{NONE}"
    for variable in variables:
        source = variable.get("valueFrom") or {}
        if reference := source.get("fieldRef"):
            yield f"  {variable['name']}:\t ({reference['apiVersion']}:{reference['fieldPath']})"
        elif reference := source.get("resourceFieldRef"):
            yield f"  {variable['name']}:\t ({reference['resource']})"
        elif reference := source.get("secretKeyRef"):
            yield _from_key(variable["name"], "in secret", reference)
        elif reference := source.get("configMapKeyRef"):
            yield _from_key(variable["name"], "of config map", reference)
        else:
            first, *rest = variable.get("value", "").split("\n")
            yield f"  {variable['name']}:\t{first}"
            yield from (f"  \t{line}" for line in rest)


def _from_key(name: str, where: str, reference: Object) -> str:
    text = f"<set to the key '{reference['key']}' {where} '{reference['name']}'>"
    return f"  {name}:\t{text}\tOptional: {str(bool(reference.get('optional'))).lower()}"


def _mounts(mounts: Sequence[Object]) -> Iterator[str]:
    yield "Mounts:" if mounts else f"Mounts:\t{NONE}"
    for mount in sorted(mounts, key=lambda item: str(item["mountPath"])):
        flags = "ro" if mount.get("readOnly") else "rw"
        if mount.get("subPath"):
            flags += f',path="{mount["subPath"]}"'
        yield f"  {mount['mountPath']} from {mount['name']} ({flags})"


def _conditions(conditions: Sequence[Object]) -> Iterator[str]:
    if conditions:
        yield "Conditions:"
        yield "  Type\tStatus"
    for condition in conditions:
        yield f"  {condition['type']} \t{condition['status']} "


def volumes(described: Sequence[Object], space: str = "") -> Iterator[str]:
    """Yield the volumes of a pod or of a template."""
    yield f"{space}Volumes:" if described else f"{space}Volumes:\t{NONE}"
    for volume in described:
        yield f"{'   ' if space else '  '}{volume['name']}:"
        kind = next((kind for kind in _VOLUMES if volume.get(kind) is not None), None)
        lines = _volume(kind, volume[kind]) if kind else ["<unknown>"]
        yield from (f"    {line}" for line in lines)


def _optional(source: Object) -> str:
    return f"Optional:\t{str(bool(source.get('optional'))).lower()}"


def _volume(kind: str, source: Object) -> Iterator[str]:
    type_, fields = _VOLUMES[kind]
    yield f"Type:\t{type_}"
    for title, (field, default) in fields.items():
        value = source.get(field, default)
        yield f"{title}:\t{str(value).lower() if isinstance(value, bool) else value}"
    if kind == "projected":
        yield from _projections(source)


def _projections(projected: Object) -> Iterator[str]:
    for source in projected.get("sources") or ():
        if secret := source.get("secret"):
            yield f"SecretName:\t{secret.get('name', '')}"
            yield _optional(secret)
        elif source.get("downwardAPI"):
            yield "DownwardAPI:\ttrue"
        elif config_map := source.get("configMap"):
            yield f"ConfigMapName:\t{config_map.get('name', '')}"
            yield _optional(config_map)
        elif token := source.get("serviceAccountToken"):
            yield f"TokenExpirationSeconds:\t{token.get('expirationSeconds', 3600)}"


_VOLUMES: Mapping[str, tuple[str, Mapping[str, tuple[str, str | bool]]]] = {
    "hostPath": (
        "HostPath (bare host directory volume)",
        {"Path": ("path", ""), "HostPathType": ("type", NONE)},
    ),
    "emptyDir": (
        "EmptyDir (a temporary directory that shares a pod's lifetime)",
        {"Medium": ("medium", ""), "SizeLimit": ("sizeLimit", "<unset>")},
    ),
    "secret": (
        "Secret (a volume populated by a Secret)",
        {"SecretName": ("secretName", ""), "Optional": ("optional", False)},
    ),
    "configMap": (
        "ConfigMap (a volume populated by a ConfigMap)",
        {"Name": ("name", ""), "Optional": ("optional", False)},
    ),
    "persistentVolumeClaim": (
        "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
        {"ClaimName": ("claimName", ""), "ReadOnly": ("readOnly", False)},
    ),
    "projected": ("Projected (a volume that contains injected data from multiple sources)", {}),
}
"""The type of each volume source, and its fields by title, with their defaults."""


def _toleration(toleration: Object) -> str:
    text = str(toleration.get("key", ""))
    if toleration.get("value"):
        text += f"={toleration['value']}"
    if toleration.get("effect"):
        text += f":{toleration['effect']}"
    if toleration.get("operator") == "Exists" and not toleration.get("value"):
        text += " op=Exists" if text else "op=Exists"
    if toleration.get("tolerationSeconds") is not None:
        text += f" for {toleration['tolerationSeconds']}s"
    return text
