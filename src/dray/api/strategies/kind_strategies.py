"""Per kind: what a create, an update and a status update may set, whatever the client sent.

Documents are in the storage version and are changed in place; rules that refuse are validation's.
The behaviour is that of pkg/registry/*/strategy.go.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dray.api.conversion import canonical
from dray.api.features import Features
from dray.api.formats import gotime, json_equality
from dray.api.kinds import Kind
from dray.api.strategies import gated_fields, pod_strategy
from dray.api.types.meta import JsonObject

_encode = msgspec.json.Encoder(order="sorted").encode

Prepare = Callable[[JsonObject], None]
PrepareUpdate = Callable[[JsonObject, JsonObject, datetime.datetime], None]

SYSTEM_METADATA = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
_ALL_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_KEPT_BY_STATUS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("apps", "Deployment"): ("labels",),
    ("resource.k8s.io", "DeviceTaintRule"): _ALL_METADATA,
    ("resource.k8s.io", "ResourceClaim"): _ALL_METADATA,
    ("resource.k8s.io", "ResourcePoolStatusRequest"): _ALL_METADATA,
    ("scheduling.k8s.io", "PodGroup"): _ALL_METADATA,
    ("storage.k8s.io", "CSINode"): _ALL_METADATA,
    ("storage.k8s.io", "VolumeAttachment"): _ALL_METADATA,
}
"""What an update of the status leaves alone, whatever the client sent."""


def _nothing(_document: JsonObject) -> None:
    pass


def _no_change(_new: JsonObject, _old: JsonObject, _now: datetime.datetime) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Strategy:
    """The rules for writes that differ between kinds."""

    counts_generation: bool = False
    creates_on_update: bool = False
    counts_annotations: bool = False
    """Whether a change of annotations makes a new generation, too."""
    revision_is_named_in: tuple[str, ...] = ()
    """The versions in which an update has to say which revision it replaces."""
    keeps_status_on_create: bool = False
    initial_status: Callable[[JsonObject], JsonObject | None] = field(default=lambda _document: {})
    prepare_create: Prepare = _nothing
    prepare_update: PrepareUpdate = _no_change
    prepare_status: PrepareUpdate = _no_change


def of(kind: Kind) -> Strategy:
    return _STRATEGIES.get((kind.group, kind.kind), _PLAIN)


def prepare_create(kind: Kind, document: JsonObject, features: Features) -> None:
    """Set what the server decides on a new object."""
    strategy = of(kind)
    if kind.subresource("status") and not strategy.keeps_status_on_create:
        status = strategy.initial_status(document)
        type_name = kind.preferred.schema_type
        _set(document, "status", canonical.write_field(type_name, "status", status))
    if strategy.counts_generation:
        document["metadata"]["generation"] = 1
    else:
        document["metadata"].pop("generation", None)
    _drop_equal_owners(document["metadata"])
    gated_fields.drop(kind.kind, document, None, features)
    strategy.prepare_create(document)


def prepare_update(
    kind: Kind, new: JsonObject, old: JsonObject, features: Features, now: datetime.datetime
) -> None:
    """Undo what an update of the object itself must not touch; both are canonical."""
    strategy = of(kind)
    if kind.subresource("status"):
        _set(new, "status", old.get("status"))
    _keep_system_metadata(new, old)
    _drop_equal_owners(new["metadata"])
    gated_fields.drop(kind.kind, new, old, features)
    strategy.prepare_update(new, old, now)
    if strategy.counts_generation and _is_new_generation(strategy, new, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _is_new_generation(strategy: Strategy, new: JsonObject, old: JsonObject) -> bool:
    if not json_equality.are_equal(_without_status(new), _without_status(old)):
        return True
    annotations = [document["metadata"].get("annotations") for document in (new, old)]
    return strategy.counts_annotations and annotations[0] != annotations[1]


def prepare_status_update(
    kind: Kind, new: JsonObject, old: JsonObject, features: Features, now: datetime.datetime
) -> None:
    """Undo all that is not status; of many kinds labels and annotations may come along."""
    for key in (set(new) | set(old)) - {"status", "metadata", "kind", "apiVersion"}:
        _set(new, key, old.get(key))
    _keep_system_metadata(new, old)
    for key in _KEPT_BY_STATUS.get((kind.group, kind.kind), ()):
        _set(new["metadata"], key, old["metadata"].get(key))
    gated_fields.drop(kind.kind, new, old, features)
    of(kind).prepare_status(new, old, now)


def _set(document: JsonObject, key: str, value: Any) -> None:
    if value is None:
        document.pop(key, None)
    else:
        document[key] = value


def _keep_system_metadata(new: JsonObject, old: JsonObject) -> None:
    for key in SYSTEM_METADATA:
        _set(new["metadata"], key, old["metadata"].get(key))


def _drop_equal_owners(metadata: JsonObject) -> None:
    owners = metadata.get("ownerReferences")
    if owners and len(owners) > 1:
        # By their encoding: objects cannot be keys, and to compare each with all takes seconds.
        distinct: dict[bytes, JsonObject] = {}
        for owner in owners:
            distinct.setdefault(_encode(owner), owner)
        metadata["ownerReferences"] = list(distinct.values())


def _without_status(document: JsonObject) -> JsonObject:
    return {key: value for key, value in document.items() if key not in ("metadata", "status")}


def _namespace_create(document: JsonObject) -> None:
    document.setdefault("spec", {})["finalizers"] = ["kubernetes"]
    name = document["metadata"].get("name")
    if name:
        labels = document["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = name


def _namespace_update(new: JsonObject, old: JsonObject, _now: datetime.datetime) -> None:
    _set(new, "spec", old.get("spec"))
    labels = new["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = old["metadata"]["name"]


def _taint_rule_update(new: JsonObject, old: JsonObject, now: datetime.datetime) -> None:
    """A new effect counts from now, unless the client says since when."""
    taint, before = new["spec"].get("taint", {}), old["spec"].get("taint", {})
    if taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get(
        "timeAdded"
    ):
        taint["timeAdded"] = gotime.write(now)


def _claim_status(new: JsonObject, old: JsonObject, _now: datetime.datetime) -> None:
    """Statuses of devices that are no longer allocated go with the allocation."""
    status = new.get("status", {})
    if not status.get("devices"):
        return
    gone = _allocated(old) - _allocated(new)
    kept = [device for device in status["devices"] if _device_key(device) not in gone]
    _set(status, "devices", kept or None)


def _allocated(claim: JsonObject) -> set[tuple[str, ...]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return {_device_key(result) for result in allocation.get("devices", {}).get("results") or ()}


def _device_key(result: JsonObject) -> tuple[str, ...]:
    return tuple(result.get(key) or "" for key in ("driver", "pool", "device", "shareID"))


def _job_create(document: JsonObject) -> None:
    spec = document.setdefault("spec", {})
    if not spec.get("manualSelector"):
        _select_by_uid(document, spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not document["metadata"].get("labels"):
        document["metadata"]["labels"] = dict(labels)


def _select_by_uid(document: JsonObject, spec: JsonObject) -> None:
    """A job finds its pods by its own uid, unless the user chose a selector."""
    metadata = document["metadata"]
    name = metadata.get("name") or ""
    labels = {
        "batch.kubernetes.io/controller-uid": metadata["uid"],
        "batch.kubernetes.io/job-name": name,
        "controller-uid": metadata["uid"],
        "job-name": name,
    }
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **labels}
    selector = {"batch.kubernetes.io/controller-uid": metadata["uid"]}
    spec["selector"] = {"matchLabels": {**_match_labels(spec), **selector}}


def _match_labels(spec: JsonObject) -> dict[str, str]:
    return (spec.get("selector") or {}).get("matchLabels") or {}


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _daemon_set_create(document: JsonObject) -> None:
    document["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = "1"


def _daemon_set_update(new: JsonObject, old: JsonObject, _now: datetime.datetime) -> None:
    """Count the versions of the template in an annotation, for old clients."""
    before = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "1")
    count = int(before) if before.isdecimal() else 1
    if new.get("spec", {}).get("template") != old.get("spec", {}).get("template"):
        count += 1
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(count)


def _pending(_document: JsonObject) -> JsonObject:
    return {"phase": "Pending"}


def _no_status(_document: JsonObject) -> None:
    return None


_PLAIN = Strategy()
_COUNTED = Strategy(counts_generation=True)
_REVISION_NAMED = Strategy(revision_is_named_in=("v1",))

_STRATEGIES: Mapping[tuple[str, str], Strategy] = {
    ("", "Pod"): Strategy(
        counts_generation=True,
        initial_status=pod_strategy.initial_status,
        prepare_update=pod_strategy.prepare_update,
        prepare_status=pod_strategy.prepare_status,
    ),
    ("", "Node"): Strategy(keeps_status_on_create=True),
    ("", "Namespace"): Strategy(
        initial_status=lambda _document: {"phase": "Active"},
        prepare_create=_namespace_create,
        prepare_update=_namespace_update,
    ),
    ("", "Event"): Strategy(creates_on_update=True),
    ("events.k8s.io", "Event"): Strategy(creates_on_update=True),
    ("", "LimitRange"): Strategy(creates_on_update=True),
    ("", "PersistentVolume"): Strategy(initial_status=_pending),
    ("", "PersistentVolumeClaim"): Strategy(initial_status=_pending),
    ("", "PodTemplate"): _COUNTED,
    ("", "ReplicationController"): _COUNTED,
    ("", "Service"): Strategy(creates_on_update=True),
    ("apps", "Deployment"): Strategy(counts_generation=True, counts_annotations=True),
    ("apps", "ReplicaSet"): _COUNTED,
    ("apps", "StatefulSet"): _COUNTED,
    ("apps", "DaemonSet"): Strategy(
        counts_generation=True,
        prepare_create=_daemon_set_create,
        prepare_update=_daemon_set_update,
        prepare_status=_daemon_set_update,
    ),
    ("batch", "CronJob"): _COUNTED,
    ("batch", "Job"): Strategy(counts_generation=True, prepare_create=_job_create),
    ("policy", "PodDisruptionBudget"): Strategy(
        counts_generation=True, revision_is_named_in=("v1",)
    ),
    ("node.k8s.io", "RuntimeClass"): Strategy(creates_on_update=True, revision_is_named_in=("v1",)),
    ("coordination.k8s.io", "Lease"): Strategy(
        creates_on_update=True, revision_is_named_in=("v1",)
    ),
    ("rbac.authorization.k8s.io", "Role"): Strategy(creates_on_update=True),
    ("rbac.authorization.k8s.io", "RoleBinding"): Strategy(creates_on_update=True),
    ("rbac.authorization.k8s.io", "ClusterRole"): Strategy(creates_on_update=True),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): Strategy(creates_on_update=True),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _COUNTED,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _COUNTED,
    ("scheduling.k8s.io", "PriorityClass"): _COUNTED,
    ("scheduling.k8s.io", "PodGroup"): Strategy(revision_is_named_in=("v1beta1",)),
    ("scheduling.k8s.io", "Workload"): Strategy(revision_is_named_in=("v1beta1",)),
    ("storage.k8s.io", "CSIDriver"): _REVISION_NAMED,
    ("storage.k8s.io", "CSINode"): _REVISION_NAMED,
    ("storage.k8s.io", "CSIStorageCapacity"): _REVISION_NAMED,
    ("storage.k8s.io", "VolumeAttachment"): _REVISION_NAMED,
    ("resource.k8s.io", "ResourceClaim"): Strategy(prepare_status=_claim_status),
    ("resource.k8s.io", "ResourceSlice"): _COUNTED,
    ("resource.k8s.io", "DeviceClass"): _COUNTED,
    ("resource.k8s.io", "DeviceTaintRule"): Strategy(
        counts_generation=True, revision_is_named_in=("v1",), prepare_update=_taint_rule_update
    ),
    ("resource.k8s.io", "ResourcePoolStatusRequest"): Strategy(
        revision_is_named_in=("v1alpha3",), initial_status=_no_status
    ),
}
