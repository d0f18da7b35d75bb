"""Extended resources that could be claims: `nvidia.com/gpu: 2` as a claim template.

Which class serves a resource is said by the class itself (`extendedResourceName`); that of NVIDIA's
GPUs is known.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dray.api.types.dra import DeviceClass
from dray.api.types.meta import JsonObject
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.lint import pod_specs
from dray.cli.lint.findings import Finding, Severity
from dray.cli.lint.source_documents import Document

Classes = Mapping[str, str]
"""The class that serves each extended resource."""

KNOWN: Classes = {"nvidia.com/gpu": "gpu.nvidia.com"}


class Use(NamedTuple):
    """A container that asks for an extended resource."""

    path: str
    container: JsonObject
    resource: str
    amount: int


class Claimed(NamedTuple):
    """A workload that asks by claims, and the templates for them."""

    value: JsonObject
    added: list[tuple[str, str]]
    """For each use, the name of the pod's claim and that of its template."""
    templates: list[JsonObject]


def classes(documents: Iterable[Document], world: ClusterObjects | None) -> Classes:
    found = dict(KNOWN)
    for each in world.of(DeviceClass) if world else ():
        if each.spec.extended_resource_name:
            found[each.spec.extended_resource_name] = each.metadata.name
    for document in documents:
        name = pod_specs.at(document.value, "spec.extendedResourceName")
        if document.kind == "DeviceClass" and isinstance(name, str):
            found[name] = document.name
    return found


def check(document: Document, known: Classes) -> Iterator[Finding]:
    """What could be asked for by a claim, with which one may select."""
    for use in uses(document.value, document.kind, known):
        where = f"{pod_specs.POD_SPECS[document.kind]}.{use.path}.resources.limits"
        line = document.line_of(f"{where}[{use.resource}]")
        message = f"{use.resource}: {use.amount} could be a claim of class {known[use.resource]}"
        advice = "A claim can select by model and memory; dray lint --fix rewrites it."
        yield Finding(document.file, line, Severity.WARNING, "extended-resource", message, advice)


def uses(value: Any, kind: str, known: Classes) -> Iterator[Use]:
    """The containers of a workload that ask for a resource which a class serves."""
    spec = pod_specs.at(value, pod_specs.POD_SPECS.get(kind, ""))
    for path, container in pod_specs.containers(spec):
        limits = pod_specs.at(container, "resources.limits")
        for resource, amount in limits.items() if isinstance(limits, dict) else ():
            if resource in known and str(amount).isdecimal() and int(amount) > 0:
                yield Use(path, container, resource, int(amount))


def claimed(value: JsonObject, kind: str, known: Classes) -> Claimed | None:
    """The workload with claims instead; None where it asks for nothing that could be one."""
    changed = copy.deepcopy(value)
    found = list(uses(changed, kind, known))
    if not found:
        return None
    spec = pod_specs.at(changed, pod_specs.POD_SPECS[kind])
    entries: list[JsonObject] = list(spec.get("resourceClaims") or ())
    taken = {str(entry.get("name")) for entry in entries}
    made = Claimed(changed, [], [])
    for use in found:
        name = _free_name(_short(use.resource), taken)
        template = f"{pod_specs.at(value, 'metadata.name') or kind.lower()}-{name}"
        taken.add(name)
        made.added.append((name, template))
        made.templates.append(_template(template, value, known[use.resource], use.amount))
        _ask_by_claim(use, name)
    new = [{"name": name, "resourceClaimTemplateName": made_by} for name, made_by in made.added]
    spec["resourceClaims"] = [*new, *entries]
    return made


def _short(resource: str) -> str:
    """`gpu` of `nvidia.com/gpu`."""
    return resource.rpartition("/")[2].replace(".", "-").lower()


def _free_name(wanted: str, taken: Container[str]) -> str:
    if wanted not in taken:
        return wanted
    return next(name for n in itertools.count(2) if (name := f"{wanted}-{n}") not in taken)


def _ask_by_claim(use: Use, name: str) -> None:
    resources = use.container["resources"]
    for field in ("limits", "requests"):
        amounts = resources.get(field)
        if isinstance(amounts, dict) and use.resource in amounts:
            del amounts[use.resource]
            if not amounts:
                del resources[field]
    resources["claims"] = [{"name": name}, *(resources.get("claims") or ())]


def _template(name: str, workload: JsonObject, device_class: str, count: int) -> JsonObject:
    exactly: JsonObject = {"deviceClassName": device_class}
    if count > 1:
        exactly["count"] = count
    metadata = {"name": name}
    namespace = pod_specs.at(workload, "metadata.namespace")
    if namespace:
        metadata["namespace"] = namespace
    request = {"name": "devices", "exactly": exactly}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
