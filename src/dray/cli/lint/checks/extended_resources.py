"""Extended resources that could be claims: `nvidia.com/gpu: 2` as a claim template.

A DeviceClass names the extended resource that it serves (`extendedResourceName`). For NVIDIA's GPUs
the class is built in. Manifests are not rewritten: with a selector, a claim asks for other devices
than the extended resource, and that is the user's decision.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dray.api import kinds
from dray.api.formats import serialization
from dray.api.types.dra import DeviceClass
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.lint.checks import pod_specs
from dray.cli.lint.field_changes import RenameField
from dray.cli.lint.findings import Finding, Suggestion
from dray.cli.lint.source_documents import Document
from dray.explain.selectors import spelling

Classes = Mapping[str, str]
"""The class that serves each extended resource."""

KNOWN: Classes = {"nvidia.com/gpu": "gpu.nvidia.com"}


class _Use(NamedTuple):
    """A container that requests an extended resource."""

    path: str
    resource: str
    amount: int


def classes(documents: Iterable[Document], objects: ClusterObjects | None) -> Classes:
    """Return the class of each extended resource, by manifests, cluster objects and `KNOWN`."""
    by_resource = dict(KNOWN)
    for device_class in objects.of(DeviceClass) if objects else ():
        if device_class.spec.extended_resource_name:
            by_resource[device_class.spec.extended_resource_name] = device_class.metadata.name
    for document in documents:
        name = pod_specs.at(document.value, "spec.extendedResourceName")
        if document.kind == "DeviceClass" and isinstance(name, str):
            by_resource[name] = document.name
    return by_resource


def check(
    document: Document, by_resource: Classes, objects: ClusterObjects | None
) -> Iterator[Finding]:
    """Yield a finding, with a claim template, for each extended resource that a class serves.

    Also for those that nothing provides.
    """
    yield from _unknown(document, by_resource, objects)
    pod_spec = pod_specs.at(document.value, pod_specs.POD_SPECS.get(document.kind, ""))
    claims = pod_spec.get("resourceClaims") if isinstance(pod_spec, dict) else None
    taken = {str(pod_specs.at(claim, "name")) for claim in claims or ()}
    for use in _uses(pod_spec, by_resource):
        where = f"{pod_specs.POD_SPECS[document.kind]}.{use.path}.resources.limits"
        class_name = by_resource[use.resource]
        message = f"{use.resource}: {use.amount} could be a claim of class {class_name}"
        name = _free_name(use.resource.rpartition("/")[2].replace(".", "-").lower(), taken)
        taken.add(name)
        advice = _advice(document, name, class_name, use.amount)
        yield document.warning(f"{where}[{use.resource}]", "extended-resource", message, advice)


def _unknown(
    document: Document, by_resource: Classes, objects: ClusterObjects | None
) -> Iterator[Finding]:
    """Find resources that no class and no node provides; without a cluster only misspelt ones."""
    path = pod_specs.POD_SPECS.get(document.kind, "")
    nodes = objects.of(Node) if objects else []
    on_nodes = {name for node in nodes for name in node.status.allocatable}
    for where, container in pod_specs.containers(pod_specs.at(document.value, path)):
        amounts = pod_specs.at(container, "resources")
        lists = [
            name for name in ("limits", "requests") if isinstance(pod_specs.at(amounts, name), dict)
        ]
        for name in dict.fromkeys(key for item in lists for key in amounts[item]):
            known = name in by_resource or name in on_nodes or _is_native(name)
            close = [] if known else spelling.similar(name, {*by_resource, *on_nodes})
            if known or (not close and not nodes):
                continue
            parents = [
                f"{path}.{where}.resources.{item}" for item in lists if name in amounts[item]
            ]
            field = f"{parents[0]}[{name}]"
            source = f" in {objects.source}" if objects else ""
            message = f"{field}: no node and no DeviceClass provides {name}{source}"
            there = sorted(item for item in {*by_resource, *on_nodes} if "/" in item)
            advice = f"There are: {', '.join(there) or 'none'}"
            suggestions = tuple(
                Suggestion(
                    f"Did you mean {other}?",
                    tuple(RenameField(f"{parent}[{name}]", other) for parent in parents),
                )
                for other in close
            )
            yield document.warning(field, "unknown-extended-resource", message, advice, suggestions)


def _is_native(name: str) -> bool:
    """Return whether a resource is Kubernetes' own: extended ones have a domain."""
    domain, slash, _ = name.partition("/")
    return not slash or domain.endswith("kubernetes.io") or name.startswith("hugepages-")


def _uses(pod_spec: Any, by_resource: Classes) -> Iterator[_Use]:
    for path, container in pod_specs.containers(pod_spec):
        limits = pod_specs.at(container, "resources.limits")
        for resource, amount in limits.items() if isinstance(limits, dict) else ():
            if resource in by_resource and str(amount).isdecimal() and int(amount) > 0:
                yield _Use(path, resource, int(amount))


def _free_name(name: str, taken: Container[str]) -> str:
    if name not in taken:
        return name
    return next(free for n in itertools.count(2) if (free := f"{name}-{n}") not in taken)


def _advice(document: Document, claim: str, class_name: str, count: int) -> str:
    template = f"{document.name or document.kind.lower()}-{claim}"
    body = _template(template, document.value, class_name, count)
    return (
        "A claim can select by model and memory. "
        f"Pod: resourceClaims: [{{name: {claim}, resourceClaimTemplateName: {template}}}]; "
        f"container: resources: {{claims: [{{name: {claim}}}]}}; and the template:\n"
        f"{serialization.write_yaml(body, in_order=True).rstrip()}"
    )


def _template(name: str, workload: JsonObject, device_class: str, count: int) -> JsonObject:
    exactly = {"deviceClassName": device_class, **({"count": count} if count > 1 else {})}
    namespace = pod_specs.at(workload, "metadata.namespace")
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    spec = {"spec": {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}}
    return {**kinds.RESOURCE_CLAIM_TEMPLATE.type_meta, "metadata": metadata, "spec": spec}
