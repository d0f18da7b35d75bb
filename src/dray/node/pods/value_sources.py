"""Values that containers take from elsewhere: config maps, secrets, fields of the pod itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from typing import Final

from dray.api import errors, kinds
from dray.api.formats import quantity
from dray.api.types.containers import Container, ResourceFieldSelector
from dray.api.types.pods import Pod
from dray.api.types.volumes import KeyToPath
from dray.client.api_client import Client
from dray.node.runtimes.interface import ContainerConfigError

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_DEFAULT_LIMITS: Final = {"cpu": "1", "memory": "1Gi"}


async def config_map(client: Client, namespace: str, name: str, optional: bool) -> dict[str, bytes]:
    document = await _read(client, kinds.CONFIG_MAP, namespace, name, optional)
    plain = {key: value.encode() for key, value in (document.get("data") or {}).items()}
    binary = document.get("binaryData") or {}
    return plain | {key: base64.b64decode(value) for key, value in binary.items()}


async def secret(client: Client, namespace: str, name: str, optional: bool) -> dict[str, bytes]:
    document = await _read(client, kinds.SECRET, namespace, name, optional)
    return {key: base64.b64decode(value) for key, value in (document.get("data") or {}).items()}


async def _read(
    client: Client, kind: kinds.Kind, namespace: str, name: str, optional: bool
) -> dict[str, dict[str, str]]:
    try:
        found: dict[str, dict[str, str]] = await client.get(kind, name, namespace)
    except errors.NotFound:
        if optional:
            return {}
        raise ContainerConfigError(f'{kind.singular} "{name}" not found') from None
    return found


def chosen(
    values: dict[str, bytes], items: Iterable[KeyToPath], optional: bool
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
    match path:
        case "metadata.labels" | "metadata.annotations":
            pairs = sorted(_labelled(pod, path.partition(".")[2]).items())
            return "\n".join(f'{key}="{value}"' for key, value in pairs)
        case "metadata.name":
            return pod.metadata.name
        case "metadata.namespace":
            return pod.metadata.namespace
        case "metadata.uid":
            return pod.metadata.uid
        case "spec.nodeName":
            return pod.spec.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.hostIP" | "status.hostIPs":
            return pod.status.host_ip
        case "status.podIP" | "status.podIPs":
            return pod.status.pod_ip
    raise ContainerConfigError(f"unsupported field path {path}")


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
