"""Server-side apply: merge a configuration into an object, and update the owners of fields.

Fields that the manager applied before and omits now are removed, unless another manager has them
too. To change what another manager owns is a conflict, unless forced. As structured-merge-diff,
merge/update.go, Updater.Apply. Pure: the documents given are not changed.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterator
from typing import Any

import msgspec

from dray.api import errors
from dray.api.conversion import canonical, decoding
from dray.api.formats import gotime
from dray.api.kinds import GroupVersionKind
from dray.api.types.meta import JsonObject
from dray.apiserver.patching import field_sets, managed_fields, schema_node
from dray.apiserver.patching.field_sets import FieldSet
from dray.apiserver.patching.managed_fields import APPLY, ManagedFieldsEntry, Manager, Managers
from dray.apiserver.patching.schema_node import SchemaNode
from dray.apiserver.request import bodies

KUBECTL = "kubectl"
BEFORE_FIRST_APPLY = "before-first-apply"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(
    live: JsonObject | None,
    applied: JsonObject,
    *,
    gvk: GroupVersionKind,
    manager: str,
    force: bool,
    subresource: str,
    now: datetime.datetime,
) -> JsonObject:
    """Return the object after the configuration. Raises a Conflict that names the owners."""
    _check_fields(applied, gvk)
    node = schema_node.root(gvk.schema_type)
    base: JsonObject = copy.deepcopy(live) if live else {"metadata": {}}
    managers = managed_fields.read(base) or _managers_before_apply(live, gvk, subresource, now)
    who = Manager(manager, APPLY, gvk.api_version, subresource)
    configuration = canonical.prune_nulls(applied)
    applied_fields = _applied_fields(configuration, node, subresource)
    merged: JsonObject = _merge(base, configuration, node)
    before = managers.get(who)
    if before is not None:
        _prune(merged, field_sets.difference(before.fields, applied_fields), managers, who, node)
    difference = _difference(base, merged, gvk)
    if not force:
        _refuse_conflicts(_conflicts(managers, who, difference.changed), base, who, node)
    _take_over(managers, _conflicts(managers, who, difference.changed))
    _drop_removed(managers, who, difference.removed)
    is_same = before is not None and before.fields == applied_fields and not difference.changed
    time = before.time if before is not None and is_same else gotime.write(now)
    managed_fields.set_entry(managers, who, applied_fields, time)
    managed_fields.write(merged, managers)
    merged.update(kind=gvk.kind, apiVersion=gvk.api_version)
    return merged


def _managers_before_apply(
    live: JsonObject | None, gvk: GroupVersionKind, subresource: str, now: datetime.datetime
) -> Managers:
    """Return the managers; fields of an object without entries belong to its creator."""
    if live is None:
        return {}
    who = Manager(BEFORE_FIRST_APPLY, managed_fields.UPDATE, gvk.api_version, subresource)
    owned = managed_fields.everything(managed_fields.stripped(live), gvk, subresource)
    return {who: ManagedFieldsEntry(owned, gotime.write(now))} if owned else {}


def _applied_fields(configuration: JsonObject, node: SchemaNode, subresource: str) -> FieldSet:
    """Return the fields of the configuration, without the name and system metadata."""
    spoken = managed_fields.stripped(configuration)
    if not spoken["metadata"]:
        del spoken["metadata"]
    return managed_fields.without_reset(field_sets.of(spoken, node), subresource)


def _check_fields(applied: JsonObject, gvk: GroupVersionKind) -> None:
    """Raise for unknown fields, which a field set cannot contain."""
    problems = decoding.check(gvk.schema_type, applied)
    for problem in problems:
        if problem.kind == "unknown":
            metadata = applied.get("metadata", {})
            subject = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            group_version = f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"
            raise errors.InternalError(
                f"failed to create typed patch object ({subject}; {group_version}): "
                f".{problem.path}: field not declared in schema",
                reason="",
            )
    # Repeated fields are reported where the configuration is read.
    refusal = decoding.refusal([problem for problem in problems if problem.kind != "repeated"])
    if refusal:
        raise bodies.wrong_fields(gvk, refusal)


def _difference(
    base: JsonObject, merged: JsonObject, gvk: GroupVersionKind
) -> field_sets.Difference:
    return field_sets.compare(
        managed_fields.stripped(canonical.write(gvk.schema_type, base)),
        managed_fields.stripped(canonical.write(gvk.schema_type, merged)),
        schema_node.root(gvk.schema_type),
    )


def _merge(live: Any, applied: Any, node: SchemaNode) -> Any:
    """Merge `applied` into `live`: members merge, all else is replaced."""
    if node.parts(applied) is None or live is None:
        return copy.deepcopy(applied)
    if isinstance(applied, dict):
        result = dict(live) if isinstance(live, dict) else {}
        for key, value in applied.items():
            result[key] = _merge(result.get(key), value, node.part(key).node)
        return result
    return _merge_list(live if isinstance(live, list) else [], applied, node)


def _merge_list(live: list[Any], applied: list[Any], node: SchemaNode) -> list[Any]:
    """Merge lists: applied items keep their order, among the existing ones."""
    current = node.parts(live) or {}
    applied_parts = node.parts(applied) or {}
    merged = {
        element: _merge(current.get(element), value, node.item()) if node.has_keyed_items else value
        for element, value in applied_parts.items()
    }
    order = list(_weave(list(current), list(applied_parts)))
    return [merged[element] if element in merged else current[element] for element in order]


def _weave(current: list[str], applied_parts: list[str]) -> Iterator[str]:
    """Merge two orders; if they disagree, that of the applied items wins."""
    rest = iter(applied_parts)
    is_applied = frozenset(applied_parts)
    placed: set[str] = set()
    for element in current:
        if element not in is_applied:
            yield element
            continue
        for following in rest:
            if following not in placed:
                placed.add(following)
                yield following
            if following == element:
                break
    yield from (element for element in rest if element not in placed)


def _prune(
    merged: JsonObject, dropped: FieldSet, managers: Managers, who: Manager, node: SchemaNode
) -> None:
    """Remove the fields that the manager no longer applies and no other manager has."""
    others = [entry.fields for other, entry in managers.items() if other != who]
    _prune_parts(merged, dropped, others, node)


def _prune_parts(value: Any, dropped: FieldSet, others: list[FieldSet], node: SchemaNode) -> None:
    """Remove the dropped parts of a value, and those of the parts that stay.

    An item before its members, because without its key it can no longer be found.
    """
    parts = node.parts(value) or {}
    # By element, once for all managers: there may be thousands of both.
    owned: dict[str, list[FieldSet]] = {}
    for fields in others:
        for element, inner in fields.items():
            owned.setdefault(element, []).append(inner)
    gone: set[int] = set()
    for element, inner in field_sets.members(dropped):
        name = element.removeprefix(node.prefix)
        if field_sets.is_own(inner) and element not in owned:
            if isinstance(value, dict):
                _remove_member(value, element.removeprefix("f:"), node)
            elif name in parts:
                gone.add(id(parts[name]))
                continue
        if inner and name in parts:
            _prune_parts(parts[name], inner, owned.get(element, []), node.part(name).node)
    if gone:
        value[:] = [item for item in value if id(item) not in gone]


def _remove_member(value: JsonObject, name: str, node: SchemaNode) -> None:
    """Remove a member; a container only if it is empty, because the rest has other owners."""
    if not value.get(name) or not node.part(name).node.has_parts:
        value.pop(name, None)


def _conflicts(managers: Managers, who: Manager, changed: FieldSet) -> dict[Manager, FieldSet]:
    """Return the fields that the configuration changes and others own, by manager."""
    return {
        other: common
        for other, entry in managers.items()
        if other != who
        and other.subresource == who.subresource
        and (common := field_sets.intersection(entry.fields, changed))
    }


def _refuse_conflicts(
    conflicts: dict[Manager, FieldSet], live: JsonObject, who: Manager, node: SchemaNode
) -> None:
    """Raise a Conflict, unless `kubectl` takes over what it applied on the client's side before.

    As apimachinery, util/managedfields, lastAppliedManager.
    """
    if who.name == KUBECTL:
        allowed = _last_applied(live, node)
        conflicts = {
            other: left
            for other, common in conflicts.items()
            if (left := field_sets.difference(common, allowed))
        }
    if conflicts:
        raise _conflict(conflicts)


def _last_applied(live: JsonObject, node: SchemaNode) -> FieldSet:
    """Return the fields of the last client-side apply that are unchanged since."""
    annotations = live.get("metadata", {}).get("annotations") or {}
    try:
        configuration = msgspec.json.decode(annotations.get(LAST_APPLIED, "{}"))
    except msgspec.DecodeError:
        return {}
    if not isinstance(configuration, dict):
        return {}
    applied = managed_fields.stripped(canonical.prune_nulls(configuration))
    difference = field_sets.compare(applied, managed_fields.stripped(live), node)
    owned = field_sets.difference(field_sets.of(applied, node), difference.changed)
    return field_sets.difference(owned, difference.removed)


def _take_over(managers: Managers, conflicts: dict[Manager, FieldSet]) -> None:
    for other, common in conflicts.items():
        left = field_sets.difference(managers[other].fields, common)
        managed_fields.set_entry(managers, other, left, managers[other].time)


def _drop_removed(managers: Managers, who: Manager, removed: FieldSet) -> None:
    for other, entry in list(managers.items()):
        left = field_sets.difference(entry.fields, removed)
        if other != who and left != entry.fields:
            managers[other] = ManagedFieldsEntry(left, entry.time)


def _conflict(conflicts: dict[Manager, FieldSet]) -> errors.Conflict:
    causes = [
        errors.Cause(
            field_sets.text(path), "FieldManagerConflict", f"conflict with {_described(other)}"
        )
        for other in sorted(conflicts)
        for path in field_sets.paths(conflicts[other])
    ]
    noun = "conflict" if len(causes) == 1 else "conflicts"
    message = f"Apply failed with {len(causes)} {noun}: {_listed(conflicts)}"
    return errors.apply_conflict(message, causes)


def _listed(conflicts: dict[Manager, FieldSet]) -> str:
    """Return the text of several conflicts: owner by owner, one field a line."""
    parts = []
    for other in sorted(conflicts):
        fields = [field_sets.text(path) for path in field_sets.paths(conflicts[other])]
        if len(fields) == 1:
            parts.append(f"conflict with {_described(other)}: {fields[0]}")
        else:
            lines = "".join(f"\n- {field}" for field in fields)
            parts.append(f"conflicts with {_described(other)}:{lines}")
    return "\n".join(parts)


def _described(manager: Manager) -> str:
    if manager.operation == APPLY:
        return f'"{manager.name}"'
    subresource = f' with subresource "{manager.subresource}"' if manager.subresource else ""
    return f'"{manager.name}"{subresource} using {manager.api_version}'
