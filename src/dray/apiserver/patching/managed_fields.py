"""Who manages which field: the entries of `metadata.managedFields`, kept in step with every write.

A plain write makes its manager the owner of what it added or changed; others lose those fields.
Server-side apply is in `apiserver.apply`.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from dray.api.conversion import canonical, versions
from dray.api.formats import gotime
from dray.api.kinds import GroupVersionKind
from dray.api.types.meta import JsonObject
from dray.apiserver.patching import field_sets, schema_node
from dray.apiserver.patching.field_sets import FieldSet
from dray.apiserver.request.call import Call
from dray.apiserver.request.write_options import WriteOptions

APPLY, UPDATE = "Apply", "Update"
_STRIPPED_METADATA = frozenset(
    (
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    )
)


class Manager(NamedTuple):
    """Who, by which operation, in which version, through which subresource."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class Entry(NamedTuple):
    fields: FieldSet
    time: str


Managers = dict[Manager, Entry]


def track(call: Call, old: JsonObject | None, new: JsonObject, chosen: WriteOptions) -> None:
    """Note in `new` what this request changed; both are canonical, in the storage version."""
    manager = Manager(chosen.field_manager, UPDATE, call.gvk.api_version, call.info.subresource)
    if old is None:
        _track_creation(call, new, manager)
        return
    managers = _managers_before(call, old, new)
    if managers:
        # Without entries nobody is interested in who wrote what, until somebody applies.
        update(
            managers,
            shown(old, call.gvk),
            shown(new, call.gvk),
            manager,
            gvk=call.gvk,
            now=gotime.write(call.now),
        )
    write(new, managers)


def _managers_before(call: Call, old: JsonObject, new: JsonObject) -> Managers:
    """The entries to go on from: a client may change them, `[]` and `[{}]` take them all away.

    As apimachinery, util/managedfields/internal/fieldmanager.go, decodeLiveOrNew.
    """
    if not call.info.subresource:
        entries = new["metadata"].get("managedFields")
        if entries in ([], [{}]):
            return {}
        if managers := read(new):
            return managers
    return read(old)


def _track_creation(call: Call, new: JsonObject, manager: Manager) -> None:
    managers = {who: Entry(sorted_set(each.fields), each.time) for who, each in read(new).items()}
    mine = everything(shown(new, call.gvk), call.gvk, manager.subresource)
    _replace(managers, manager, Entry(mine, gotime.write(call.now)))
    write(new, managers)


def everything(document: JsonObject, gvk: GroupVersionKind, subresource: str) -> FieldSet:
    """All that a manager owns who made the object: it is given without what nobody manages."""
    type_name = gvk.schema_type
    found = field_sets.added(_nothing(type_name), document, schema_node.root(type_name))
    return without_reset(found, subresource)


@functools.cache
def _nothing(type_name: str) -> JsonObject:
    """What Go writes for an object before anything is set: some fields are there, and null."""
    return stripped(canonical.write(type_name, {"metadata": {}}))


def shown(document: JsonObject, gvk: GroupVersionKind) -> JsonObject:
    """The object as the client sees it, without what nobody manages."""
    if versions.has_storage_fields(gvk.api_version, gvk.kind):
        return stripped(document)
    stored = {
        **document,
        "kind": gvk.kind,
        "apiVersion": versions.storage_version(gvk.api_version, gvk.kind),
    }
    wire = canonical.write(gvk.schema_type, versions.from_storage(stored, gvk.api_version))
    return stripped(wire)


def stripped(document: JsonObject) -> JsonObject:
    kept = {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
    metadata = kept.get("metadata") or {}
    kept["metadata"] = {
        key: value for key, value in metadata.items() if key not in _STRIPPED_METADATA
    }
    return kept


def update(
    managers: Managers,
    old: JsonObject,
    new: JsonObject,
    manager: Manager,
    *,
    gvk: GroupVersionKind,
    now: str,
) -> None:
    """The manager of a plain write takes what it changed from whoever had it."""
    found = field_sets.compare(old, new, schema_node.root(gvk.schema_type))
    changed = without_reset(found.changed, manager.subresource)
    removed = found.removed
    for other, entry in list(managers.items()):
        if other != manager:
            lost = field_sets.difference(field_sets.difference(entry.fields, changed), removed)
            _replace(managers, other, Entry(lost, entry.time))
    own = managers.get(manager)
    mine = field_sets.union(own.fields if own else {}, changed)
    mine = field_sets.difference(mine, removed)
    has_changed = bool(changed) or own is None or mine != own.fields
    _replace(managers, manager, Entry(mine, now if has_changed or own is None else own.time))


def without_reset(fields: FieldSet, subresource: str) -> FieldSet:
    """A write of the object never manages its status; one of the status little else."""
    if subresource == "status":
        return {key: value for key, value in fields.items() if key in ("f:metadata", "f:status")}
    return {key: value for key, value in fields.items() if key != "f:status"}


def _replace(managers: Managers, manager: Manager, entry: Entry) -> None:
    if entry.fields:
        managers[manager] = entry
    else:
        managers.pop(manager, None)


def read(document: JsonObject) -> Managers:
    """The entries of an object; those that make no sense are dropped."""
    managers: Managers = {}
    for entry in document["metadata"].get("managedFields") or ():
        fields = entry.get("fieldsV1")
        if not isinstance(fields, dict) or entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            continue
        manager = Manager(
            entry.get("manager", ""),
            entry.get("operation", UPDATE),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        managers[manager] = Entry(fields, entry.get("time", ""))
    return managers


def write(document: JsonObject, managers: Managers) -> None:
    """Set the entries, whose fields are sorted; applied ones first, then by time and name."""
    ordered = sorted(
        managers.items(), key=lambda pair: (pair[0].operation, pair[1].time, pair[0].name)
    )
    if ordered:
        document["metadata"]["managedFields"] = [
            _wire(manager, entry.time, entry.fields) for manager, entry in ordered
        ]
    else:
        document["metadata"].pop("managedFields", None)


def _wire(manager: Manager, time: str, fields: FieldSet) -> JsonObject:
    written: JsonObject = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if manager.subresource:
        written["subresource"] = manager.subresource
    return written


def sorted_set(fields: FieldSet) -> FieldSet:
    return {key: sorted_set(fields[key]) for key in sorted(fields)}
