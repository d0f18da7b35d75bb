"""Values that containers take from elsewhere: config maps, secrets, fields of the pod itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from operator import attrgetter
from typing import Final

from dray.api import errors, kinds
from dray.api.formats import quantity
from dray.api.types import containers, volumes
from dray.api.types.containers import Container, ResourceFieldSelector
from dray.api.types.pods import Pod
from dray.client.api_client import Client
from dray.node.runtimes.interface import ContainerConfigError

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_FIELDS: Final = {
    "metadata.name": attrgetter("metadata.name"),
    "metadata.namespace": attrgetter("metadata.namespace"),
    "metadata.uid": attrgetter("metadata.uid"),
    "spec.nodeName": attrgetter("spec.node_name"),
    "spec.serviceAccountName": attrgetter("spec.service_account_name"),
    **dict.fromkeys(("status.hostIP", "status.hostIPs"), attrgetter("status.host_ip")),
    **dict.fromkeys(("status.podIP", "status.podIPs"), attrgetter("status.pod_ip")),
}
_DEFAULT_LIMITS: Final = {"cpu": "1", "memory": "1Gi"}


SecretInEnv = containers.SecretEnvSource | containers.SecretKeySelector
SecretInVolume = volumes.SecretVolumeSource | volumes.SecretProjection
ConfigMapInEnv = containers.ConfigMapEnvSource | containers.ConfigMapKeySelector
ConfigMapInVolume = volumes.ConfigMapVolumeSource | volumes.ConfigMapProjection
Source = SecretInEnv | SecretInVolume | ConfigMapInEnv | ConfigMapInVolume


class ReadOnce:
    """Reads each object once, however many variables name it: a container may have thousands."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._known: dict[tuple[bool, str, bool], dict[str, bytes]] = {}

    async def values(self, source: SecretInEnv | ConfigMapInEnv) -> dict[str, bytes]:
        """Return what the function `values` does, which raises the same errors."""
        key = (isinstance(source, SecretInEnv), source.name, bool(source.optional))
        if key not in self._known:
            self._known[key] = await values(self._client, self._namespace, source)
        return self._known[key]


async def values(client: Client, namespace: str, source: Source) -> dict[str, bytes]:
    """Return the values of the ConfigMap or Secret that a source names.

    Raises ContainerConfigError where it is missing, unless it is optional.
    """
    kind = kinds.SECRET if isinstance(source, SecretInEnv | SecretInVolume) else kinds.CONFIG_MAP
    name = source.secret_name if isinstance(source, volumes.SecretVolumeSource) else source.name
    try:
        document = await client.get(kind, name, namespace)
    except errors.NotFound:
        if source.optional:
            return {}
        raise ContainerConfigError(f'{kind.singular} "{name}" not found') from None
    data = document.get("data") or {}
    if kind is kinds.SECRET:
        return _decoded(data)
    plain = {key: value.encode() for key, value in data.items()}
    return plain | _decoded(document.get("binaryData") or {})


def _decoded(data: dict[str, str | None]) -> dict[str, bytes]:
    # Earlier versions of the API server stored a null as it was.
    return {key: base64.b64decode(value or "") for key, value in data.items()}


def chosen(
    values: dict[str, bytes], items: Iterable[volumes.KeyToPath], optional: bool
) -> dict[str, bytes]:
    """Return the files of a volume: all keys under their own names, or items under their paths."""
    wanted = list(items)
    if not wanted:
        return values
    missing = [item.key for item in wanted if item.key not in values]
    if missing and not optional:
        raise ContainerConfigError(f"references non-existent key: {missing[0]}")
    return {item.path: values[item.key] for item in wanted if item.key in values}


def field(pod: Pod, path: str) -> str:
    """Return a field of the pod (downward API). Raises ContainerConfigError for another path."""
    if match := _SUBSCRIPT.fullmatch(path):
        return _labelled(pod, match[1]).get(match[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = sorted(_labelled(pod, path.partition(".")[2]).items())
        return "\n".join(f'{key}="{value}"' for key, value in pairs)
    if path not in _FIELDS:
        raise ContainerConfigError(f"unsupported field path {path}")
    return str(_FIELDS[path](pod))


def resource(pod: Pod, container: Container, wanted: ResourceFieldSelector) -> str:
    """Return a limit or request, rounded up to whole divisors."""
    everyone = (*pod.spec.containers, *pod.spec.init_containers)
    named = [candidate for candidate in everyone if candidate.name == wanted.container_name]
    resources = (named[0] if named else container).resources
    kind, _, name = wanted.resource.partition(".")
    amounts = resources.limits if kind == "limits" else resources.requests
    text = amounts.get(name) or resources.limits.get(name) or _DEFAULT_LIMITS.get(name, "0")
    amount, divisor = quantity.parse(text), quantity.parse(wanted.divisor or "1")
    if divisor.sign() <= 0:
        divisor = quantity.parse("1")
    return str(ceil(Fraction(amount.milli_value(), divisor.milli_value())))


def _labelled(pod: Pod, which: str) -> dict[str, str]:
    return pod.metadata.labels if which == "labels" else pod.metadata.annotations
