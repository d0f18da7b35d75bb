"""Checks against the version of a server: kinds that it does not serve, fields that it drops."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from dray.api import features as gates
from dray.api import kinds
from dray.api.conversion import versions
from dray.api.kinds import Kind
from dray.api.strategies import gated_fields
from dray.api.strategies.gated_fields import GatedField
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.lint.checks import object_checks
from dray.cli.lint.findings import Finding
from dray.cli.lint.source_documents import Document

_GATE_OF_KIND = {
    "DeviceTaintRule": "DRADeviceTaintRules",
    "PodGroup": "GenericWorkload",
    "ResourcePoolStatusRequest": "DRAResourcePoolStatus",
}


def check(document: Document, objects: ClusterObjects) -> Iterator[Finding]:
    """Yield what the server of these objects does not have of an object."""
    kind = object_checks.kind_of(document) if isinstance(document.value, dict) else None
    if kind is None:
        return
    served = None if objects.served is None else objects.served.get((kind.group, kind.kind), ())
    _, version = kinds.parse_api_version(document.api_version)
    if served is not None and version not in served and version in kind.versions:
        yield _unserved(document, kind, served, objects)
        return
    try:
        stored = versions.to_storage(copy.deepcopy(dict(document.value)))
    except (KeyError, TypeError, ValueError, AttributeError):
        # Other findings say what is wrong with it.
        return
    for field in gated_fields.fields_of(kind.kind, stored):
        off = gated_fields.gates_off(field.gates, objects.features)
        if off and not field.path.startswith("status."):
            yield _dropped(document, field, off, objects)


def has_newest(document: Document, objects: ClusterObjects | None) -> bool:
    """Return whether the server, if there is one, serves the newest version of the kind."""
    kind = object_checks.kind_of(document)
    if kind is None or objects is None or objects.served is None:
        return True
    return kind.versions[0] in objects.served.get((kind.group, kind.kind), ())


def _unserved(
    document: Document, kind: Kind, served: Sequence[str], objects: ClusterObjects
) -> Finding:
    server = f"{objects.source} (Kubernetes {objects.features.version})"
    if served:
        message = f"{server} does not serve {kind.kind} as {document.api_version}"
        newest = kinds.api_version(kind.group, served[0])
        return document.error("apiVersion", "unserved-kind", message, f"Write apiVersion: {newest}")
    gate = _GATE_OF_KIND.get(kind.kind)
    advice = f"Its feature gate is {gate}{_since(gate)}." if gate else "Use a newer server."
    message = f"{server} does not serve {kind.kind}"
    return document.error("kind", "unserved-kind", message, advice)


def _dropped(
    document: Document, field: GatedField, off: gated_fields.Gates, objects: ClusterObjects
) -> Finding:
    """Return the finding about a field that a server accepts and does not store."""
    server = f"Kubernetes {objects.features.version}"
    words = [f"{gate}{_since(gate)}" for gate in off if gate in gates.GATES]
    message = f"{field.path}: {server} drops this field without an error"
    advice = "Remove it: no version has it on."
    if words:
        setting = ",".join(f"{gate}=true" for gate in off)
        advice = (
            f"Its feature gate is {', '.join(words)}. "
            f"If it is on in this cluster: --feature-gates {setting}; otherwise remove the field."
        )
    return document.warning(field.path, "dropped-field", message, advice)


def _since(gate: str) -> str:
    version = gates.on_since(gate)
    return f", which is on by default since {version}" if version else ", which is off by default"
