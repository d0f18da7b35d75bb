"""Managed fields: the entries of `metadata.managedFields`, updated by every write.

A plain write makes its manager the owner of what it added or changed; others lose those fields.
Server-side apply is in `server_side_apply`.
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
    """A field manager: name, operation, API version and subresource."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class ManagedFieldsEntry(NamedTuple):
    fields: FieldSet
    time: str


Managers = dict[Manager, ManagedFieldsEntry]


def track(call: Call, old: JsonObject | None, new: JsonObject, options: WriteOptions) -> None:
    """Record in `new` the fields that this request changed; both are canonical.

    Both are in the storage version.
    """
    manager = Manager(options.field_manager, UPDATE, call.gvk.api_version, call.info.subresource)
    if old is None:
        _track_creation(call, new, manager)
        return
    managers = _managers_before(call, old, new)
    if managers:
        # Without entries, ownership is not tracked until the first apply.
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
    """Return the entries to update: a client may change them; `[]` and `[{}]` remove all.

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
    managers = {
        who: ManagedFieldsEntry(sorted_set(entry.fields), entry.time)
        for who, entry in read(new).items()
    }
    mine = everything(shown(new, call.gvk), call.gvk, manager.subresource)
    set_entry(managers, manager, mine, gotime.write(call.now))
    write(new, managers)


def everything(document: JsonObject, gvk: GroupVersionKind, subresource: str) -> FieldSet:
    """Return the fields of a new object, which its creator manages.

    `document` is given as `shown` returns it.
    """
    type_name = gvk.schema_type
    added = field_sets.added(_nothing(type_name), document, schema_node.root(type_name))
    return without_reset(added, subresource)


@functools.cache
def _nothing(type_name: str) -> JsonObject:
    """Return what Go encodes for an empty object: some fields are present, and null."""
    return stripped(canonical.write(type_name, {"metadata": {}}))


def shown(document: JsonObject, gvk: GroupVersionKind) -> JsonObject:
    """Return the object in the client's version, without fields that nobody manages."""
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
    """Make the manager of a plain write the only owner of what it changed."""
    difference = field_sets.compare(old, new, schema_node.root(gvk.schema_type))
    changed = without_reset(difference.changed, manager.subresource)
    removed = difference.removed
    for other, entry in list(managers.items()):
        if other != manager:
            kept = _without(entry.fields, changed, removed)
            set_entry(managers, other, kept, entry.time)
    own = managers.get(manager)
    mine = _without(field_sets.union(own.fields if own else {}, changed), removed)
    is_same = own is not None and not changed and mine == own.fields
    set_entry(managers, manager, mine, own.time if own and is_same else now)


def _without(fields: FieldSet, *lost: FieldSet) -> FieldSet:
    for others in lost:
        # Most writes remove nothing, and many add nothing: then there is nothing to compare.
        if others:
            fields = field_sets.difference(fields, others)
    return fields


def without_reset(fields: FieldSet, subresource: str) -> FieldSet:
    """Remove the fields that a write does not change: the status, or all but the status."""
    if subresource == "status":
        return {key: value for key, value in fields.items() if key in ("f:metadata", "f:status")}
    return {key: value for key, value in fields.items() if key != "f:status"}


def set_entry(managers: Managers, manager: Manager, fields: FieldSet, time: str) -> None:
    """Set the fields of a manager; without fields it has no entry."""
    if fields:
        managers[manager] = ManagedFieldsEntry(fields, time)
    else:
        managers.pop(manager, None)


def read(document: JsonObject) -> Managers:
    """Return the entries of an object without malformed ones."""
    managers: Managers = {}
    for entry in document["metadata"].get("managedFields") or ():
        if not isinstance(entry, dict) or entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            continue
        fields = entry.get("fieldsV1")
        if not isinstance(fields, dict) or not field_sets.is_well_formed(fields):
            continue
        manager = Manager(
            entry.get("manager", ""),
            entry.get("operation", UPDATE),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        managers[manager] = ManagedFieldsEntry(fields, entry.get("time", ""))
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
    if not time:
        # A client may leave it out of an entry; an empty one is no time.
        del written["time"]
    if manager.subresource:
        written["subresource"] = manager.subresource
    return written


def sorted_set(fields: FieldSet) -> FieldSet:
    return {key: sorted_set(fields[key]) for key in sorted(fields)}
