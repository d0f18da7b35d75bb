"""The description of a pod as in kubectl, pkg/describe/describe.go, describePod.

Tabs separate columns; `describe` aligns them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]

NONE = "<none>"


def above_labels(pod: Object) -> Iterator[str]:
    """Yield the lines between the namespace and the labels."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    for title, value in (
        ("Priority", spec.get("priority")),
        ("Priority Class Name", spec.get("priorityClassName")),
        ("Runtime Class Name", spec.get("runtimeClassName")),
        ("Service Account", spec.get("serviceAccountName")),
    ):
        if value is not None and value != "":
            yield f"{title}:\t{value}"
    node = spec.get("nodeName")
    yield f"Node:\t{node}/{status.get('hostIP', '')}" if node else f"Node:\t{NONE}"
    if started := status.get("startTime"):
        yield f"Start Time:\t{_time(started)}"


def below_annotations(pod: Object) -> Iterator[str]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    yield f"Status:\t{_phase(pod)}"
    for field in ("reason", "message"):
        if status.get(field):
            yield f"{field.title()}:\t{status[field]}"
    yield from _addresses(status)
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            yield f"Controlled By:\t{owner['kind']}/{owner['name']}"
    if status.get("nominatedNodeName"):
        yield f"NominatedNodeName:\t{status['nominatedNodeName']}"
    if spec.get("initContainers"):
        yield from _containers(
            "Init Containers", spec["initContainers"], status.get("initContainerStatuses")
        )
    yield from _containers(
        "Containers", spec.get("containers") or (), status.get("containerStatuses")
    )
    yield from _conditions(status.get("conditions") or ())
    yield from _volumes(spec.get("volumes") or ())
    yield f"QoS Class:\t{status.get('qosClass', '')}"
    yield from multiline(
        "Node-Selectors", [f"{k}={v}" for k, v in sorted((spec.get("nodeSelector") or {}).items())]
    )
    tolerations = sorted(
        spec.get("tolerations") or (), key=lambda toleration: toleration.get("key", "")
    )
    yield from multiline("Tolerations", list(map(_toleration, tolerations)))
    if group := (spec.get("schedulingGroup") or {}).get("podGroupName"):
        yield "SchedulingGroup:"
        yield f"  PodGroupName:\t{group}"


def multiline(title: str, values: Sequence[str]) -> Iterator[str]:
    """Yield the values one per line, beside their title."""
    for number, value in enumerate(values or [NONE]):
        yield f"{'' if number else f'{title}:'}\t{value}"


def _time(text: str) -> str:
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


def _containers(
    title: str, containers: Sequence[Object], statuses: Sequence[Object] | None
) -> Iterator[str]:
    by_name = {status["name"]: status for status in statuses or ()}
    yield f"{title}:" if containers else f"{title}: {NONE}"
    for container in containers:
        yield f"  {container['name']}:"
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
        yield f"  Started:\t{_time(running['startedAt'])}"
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
                yield f"  {field.title()}:\t{_time(terminated[f'{field}At'])}"
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


def _volumes(volumes: Sequence[Object]) -> Iterator[str]:
    yield "Volumes:" if volumes else f"Volumes:\t{NONE}"
    for volume in volumes:
        yield f"  {volume['name']}:"
        for kind, describe in _VOLUMES.items():
            if volume.get(kind) is not None:
                yield from (f"    {line}" for line in describe(volume[kind]))
                break
        else:
            yield "    <unknown>"


def _optional(source: Object) -> str:
    return f"Optional:\t{str(bool(source.get('optional'))).lower()}"


def _host_path(source: Object) -> Iterator[str]:
    yield "Type:\tHostPath (bare host directory volume)"
    yield f"Path:\t{source.get('path', '')}"
    yield f"HostPathType:\t{source.get('type', NONE)}"


def _empty_directory(source: Object) -> Iterator[str]:
    yield "Type:\tEmptyDir (a temporary directory that shares a pod's lifetime)"
    yield f"Medium:\t{source.get('medium', '')}"
    yield f"SizeLimit:\t{source.get('sizeLimit', '<unset>')}"


def _secret(source: Object) -> Iterator[str]:
    yield "Type:\tSecret (a volume populated by a Secret)"
    yield f"SecretName:\t{source.get('secretName', '')}"
    yield _optional(source)


def _config_map(source: Object) -> Iterator[str]:
    yield "Type:\tConfigMap (a volume populated by a ConfigMap)"
    yield f"Name:\t{source.get('name', '')}"
    yield _optional(source)


def _volume_claim(source: Object) -> Iterator[str]:
    where = "a reference to a PersistentVolumeClaim in the same namespace"
    yield f"Type:\tPersistentVolumeClaim ({where})"
    yield f"ClaimName:\t{source.get('claimName', '')}"
    yield f"ReadOnly:\t{str(bool(source.get('readOnly'))).lower()}"


def _projected(projected: Object) -> Iterator[str]:
    yield "Type:\tProjected (a volume that contains injected data from multiple sources)"
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


_VOLUMES: Mapping[str, Callable[[Object], Iterator[str]]] = {
    "hostPath": _host_path,
    "emptyDir": _empty_directory,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _volume_claim,
    "projected": _projected,
}


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
