"""The pods that an argument such as `train`, `job/train` or a selector means."""

from __future__ import annotations

from typing import Any

import click

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import CommandError, ObjectNotFound, WrongUsage
from dray.cli.session import resource_types
from dray.cli.session.connection import Session
from dray.cli.session.resource_types import full_name
from dray.cli.verbs import listing
from dray.client.api_client import ObjectSelection

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_POD_WORDS = ("pod", "pods", "po")
_OWNERS = {
    *(("", "Service"), ("", "ReplicationController"), ("batch", "Job")),
    *(("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
}
"""The kinds that select pods."""


async def named(session: Session, text: str) -> list[JsonObject]:
    """Return the pods of NAME, pod/NAME or TYPE/NAME, the most useful first.

    Raises ObjectNotFound if an object has no pods.
    """
    kind_name, slash, name = text.partition("/")
    if not slash or kind_name.lower() in _POD_WORDS:
        wanted = name if slash else text
        return [await session.client.get(kinds.POD, wanted, session.namespace)]
    (reference,) = await resource_types.resolve([text], session.resources)
    kind = reference.kind
    if (kind.group, kind.kind) not in _OWNERS:
        raise WrongUsage(f"{text}: a {kind.kind} has no pods; write pod/NAME")
    owner = await session.client.get(kind, reference.name, session.place(reference))
    selector = _selector(kind.kind, owner)
    if not selector:
        raise ObjectNotFound(f"{text} selects no pods")
    found = await listing.listed(session, kinds.POD, ObjectSelection(session.namespace, selector))
    if not found:
        raise ObjectNotFound(
            f"{full_name(kind)}/{reference.name} has no pods",
            f"See: dray describe {kind.singular} {reference.name} -n {session.namespace}",
        )
    return sorted(found, key=_usefulness)


def _selector(kind: str, owner: JsonObject) -> str:
    """Return the label selector of an owner of pods, or an empty text."""
    selector: Any = (owner.get("spec") or {}).get("selector") or {}
    if kind in ("Service", "ReplicationController"):
        selector = {"matchLabels": selector}
    labels = [
        f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())
    ]
    return ",".join([*labels, *map(_expression, selector.get("matchExpressions") or ())])


def _expression(expression: JsonObject) -> str:
    key, operator = expression["key"], expression["operator"]
    if operator in ("Exists", "DoesNotExist"):
        return f"{'!' if operator == 'DoesNotExist' else ''}{key}"
    return f"{key} {'in' if operator == 'In' else 'notin'} ({','.join(expression['values'])})"


def _usefulness(pod: JsonObject) -> tuple[bool, bool, bool, int, str]:
    """Return a sort key: assigned, running, ready pods first; then by restarts and age."""
    status = pod.get("status") or {}
    conditions = ((item["type"], item["status"]) for item in status.get("conditions") or ())
    restarts = max(
        (item.get("restartCount", 0) for item in status.get("containerStatuses") or ()), default=0
    )
    return (
        not (pod.get("spec") or {}).get("nodeName"),
        status.get("phase") not in ("Running", "Succeeded", "Failed"),
        ("Ready", "True") not in conditions,
        -restarts,
        pod["metadata"].get("creationTimestamp", ""),
    )


async def first(session: Session, text: str) -> JsonObject:
    """Return the pod of an argument; of several the most useful one, and print which."""
    pods = await named(session, text)
    if len(pods) > 1:
        click.echo(f"Found {len(pods)} pods, using pod/{pods[0]['metadata']['name']}", err=True)
    return pods[0]


def container_names(pod: JsonObject) -> list[str]:
    """Return the names of all containers in the order in which they start."""
    fields = ("initContainers", "containers", "ephemeralContainers")
    return [name for field in fields for name in _names(pod, field)]


def _names(pod: JsonObject, field: str) -> list[str]:
    return [str(container["name"]) for container in pod["spec"].get(field) or ()]


def chosen_container(pod: JsonObject, wanted: str, *, prints: bool = True) -> str:
    """Return the container of an option, or the default one. Raises CommandError."""
    names = container_names(pod)
    if wanted and wanted not in names:
        raise CommandError(
            f"container {wanted} is not valid for pod {pod['metadata']['name']}",
            f"Its containers: {', '.join(names)}",
        )
    preset = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
    if wanted or preset in names:
        return wanted or str(preset)
    default = _names(pod, "containers")[0]
    if len(names) > 1 and prints:
        others = [
            *_names(pod, "containers"),
            *(f"{name} (init)" for name in _names(pod, "initContainers")),
            *(f"{name} (ephem)" for name in _names(pod, "ephemeralContainers")),
        ]
        click.echo(f'Defaulted container "{default}" out of: {", ".join(others)}', err=True)
    return default
