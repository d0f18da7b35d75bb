"""The description of a node as in kubectl, with its devices and pods.

Tabs separate columns; `describe` aligns them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dray.cli.verbs.descriptions import pods

Object = Mapping[str, Any]

_ROLE_LABEL = "node-role.kubernetes.io/"
_SYSTEM_INFO = {
    "Kernel Version": "kernelVersion",
    "OS Image": "osImage",
    "Operating System": "operatingSystem",
    "Architecture": "architecture",
    "Container Runtime Version": "containerRuntimeVersion",
    "Kubelet Version": "kubeletVersion",
}


def above_labels(node: Object) -> Iterator[str]:
    """Yield the lines between the name and the labels."""
    labels = node["metadata"].get("labels") or {}
    roles = sorted(
        label.removeprefix(_ROLE_LABEL) for label in labels if label.startswith(_ROLE_LABEL)
    )
    yield f"Roles:\t{','.join(roles) or pods.NONE}"


def below_annotations(node: Object) -> Iterator[str]:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    if created := node["metadata"].get("creationTimestamp"):
        yield f"CreationTimestamp:\t{pods.time_text(created)}"
    taints = [
        f"{taint['key']}{'=' + taint['value'] if taint.get('value') else ''}:{taint['effect']}"
        for taint in spec.get("taints") or ()
    ]
    yield from pods.multiline("Taints", taints)
    yield f"Unschedulable:\t{str(bool(spec.get('unschedulable'))).lower()}"
    yield from _conditions(status.get("conditions") or ())
    yield "Addresses:"
    for address in status.get("addresses") or ():
        yield f"  {address['type']}:\t{address['address']}"
    for field in ("capacity", "allocatable"):
        if status.get(field):
            yield f"{field.title()}:"
            yield from (f"  {name}:\t{amount}" for name, amount in sorted(status[field].items()))
    yield "System Info:"
    information = status.get("nodeInfo") or {}
    for title, field in _SYSTEM_INFO.items():
        yield f"  {title}:\t{information.get(field, '')}"


def _conditions(conditions: Sequence[Object]) -> Iterator[str]:
    if conditions:
        yield "Conditions:"
        yield "  Type\tStatus\tLastTransitionTime\tReason\tMessage"
        yield "  ----\t------\t------------------\t------\t-------"
    for condition in conditions:
        changed = condition.get("lastTransitionTime")
        cells = (
            condition["type"],
            condition["status"],
            pods.time_text(changed) if changed else pods.NONE,
            condition.get("reason", ""),
            condition.get("message", ""),
        )
        yield "  " + "\t".join(cells)


def related(slices: Sequence[Object], running: Sequence[Object]) -> Iterator[str]:
    """Yield the devices of a node by driver and pool, and the pods that have not ended."""
    devices: Counter[tuple[str, str]] = Counter()
    for resource_slice in slices:
        spec = resource_slice["spec"]
        devices[spec["driver"], spec["pool"]["name"]] += len(spec.get("devices") or ())
    yield "Devices:" if devices else f"Devices:\t{pods.NONE}"
    for (driver, pool), number in sorted(devices.items()):
        yield f"  {pool}\t{driver}\t{number} {'device' if number == 1 else 'devices'}"
    yield f"Non-terminated Pods:\t({len(running)} in total)"
    for pod in running:
        claims = ", ".join(pods.claim_names(pod))
        about = f"\tclaims {claims}" if claims else ""
        yield f"  {pod['metadata']['namespace']}\t{pod['metadata']['name']}{about}"
