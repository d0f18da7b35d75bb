"""Server-side apply: lay a configuration over an object and know who owns what afterwards.

Fields the manager applied before and leaves out now are removed, unless somebody else has them
too. Changing what another manager owns is a conflict, unless forced. As structured-merge-diff,
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
from dray.apiserver.patching.managed_fields import APPLY, Entry, Manager, Managers
from dray.apiserver.patching.schema_node import SchemaNode

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
    """The object after the configuration; raises a Conflict that names the owners."""
    _check_fields(applied, gvk)
    place = schema_node.root(gvk.schema_type)
    base: JsonObject = copy.deepcopy(live) if live else {"metadata": {}}
    managers = managed_fields.read(base) or _managers_before_apply(live, gvk, subresource, now)
    who = Manager(manager, APPLY, gvk.api_version, subresource)
    configuration = canonical.prune_nulls(applied)
    wanted = _wanted(configuration, place, subresource)
    merged: JsonObject = _merge(base, configuration, place)
    before = managers.get(who)
    if before is not None:
        _prune(merged, field_sets.difference(before.fields, wanted), managers, who, place)
    difference = _difference(base, merged, gvk)
    if not force:
        _refuse_conflicts(_conflicts(managers, who, difference.changed), base, who, place)
    _take_over(managers, _conflicts(managers, who, difference.changed))
    _drop_removed(managers, who, difference.removed)
    is_same = before is not None and before.fields == wanted and not difference.changed
    time = before.time if before is not None and is_same else gotime.write(now)
    if wanted:
        managers[who] = Entry(wanted, time)
    else:
        managers.pop(who, None)
    managed_fields.write(merged, managers)
    merged.update(kind=gvk.kind, apiVersion=gvk.api_version)
    return merged


def _managers_before_apply(
    live: JsonObject | None, gvk: GroupVersionKind, subresource: str, now: datetime.datetime
) -> Managers:
    """Whoever made an object whose managers were not tracked owns what it has."""
    if live is None:
        return {}
    who = Manager(BEFORE_FIRST_APPLY, managed_fields.UPDATE, gvk.api_version, subresource)
    owned = managed_fields.everything(managed_fields.stripped(live), gvk, subresource)
    return {who: Entry(owned, gotime.write(now))} if owned else {}


def _wanted(configuration: JsonObject, place: SchemaNode, subresource: str) -> FieldSet:
    """The fields the configuration speaks of; names and system fields say nothing of metadata."""
    spoken = managed_fields.stripped(configuration)
    if not spoken["metadata"]:
        del spoken["metadata"]
    return managed_fields.without_reset(field_sets.of(spoken, place), subresource)


def _check_fields(applied: JsonObject, gvk: GroupVersionKind) -> None:
    """Unknown fields have no place in a field set: the request cannot be understood."""
    for problem in decoding.check(gvk.schema_type, applied):
        if problem.kind == "unknown":
            name = applied.get("metadata", {}).get("name", "")
            namespace = applied.get("metadata", {}).get("namespace", "")
            subject = f"{namespace}/{name}" if namespace else f"/{name}"
            group_version = f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"
            raise errors.InternalError(
                f"failed to create typed patch object ({subject}; {group_version}): "
                f".{problem.path}: field not declared in schema",
                reason="",
            )
    refusal = decoding.refusal(decoding.check(gvk.schema_type, applied))
    if refusal:
        raise errors.bad_request(
            f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {refusal}'
        )


def _difference(
    base: JsonObject, merged: JsonObject, gvk: GroupVersionKind
) -> field_sets.Difference:
    return field_sets.compare(
        managed_fields.stripped(canonical.write(gvk.schema_type, base)),
        managed_fields.stripped(canonical.write(gvk.schema_type, merged)),
        schema_node.root(gvk.schema_type),
    )


def _merge(live: Any, applied: Any, place: SchemaNode) -> Any:
    """`applied` over `live`: members merge, all else is replaced."""
    if place.parts(applied) is None or live is None:
        return copy.deepcopy(applied)
    if isinstance(applied, dict):
        result = dict(live) if isinstance(live, dict) else {}
        for key, value in applied.items():
            result[key] = _merge(result.get(key), value, place.part(key).node)
        return result
    return _merge_list(live if isinstance(live, list) else [], applied, place)


def _merge_list(live: list[Any], applied: list[Any], place: SchemaNode) -> list[Any]:
    """Applied items keep the order in which they are applied, among those that were there."""
    current = place.parts(live) or {}
    wanted = place.parts(applied) or {}
    merged = {
        element: _merge(current.get(element), value, place.item())
        if place.has_keyed_items
        else value
        for element, value in wanted.items()
    }
    order = list(_weave(list(current), list(wanted)))
    return [merged[element] if element in merged else current[element] for element in order]


def _weave(current: list[str], wanted: list[str]) -> Iterator[str]:
    """Both orders kept; where they disagree, that of what is applied wins."""
    rest = iter(wanted)
    placed: set[str] = set()
    for element in current:
        if element not in wanted:
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
    merged: JsonObject, dropped: FieldSet, managers: Managers, who: Manager, place: SchemaNode
) -> None:
    """Remove what the manager no longer applies and nobody else has; items before their members,
    because an item without its key can no longer be found."""
    for path in sorted(field_sets.paths(dropped), key=len):
        owned = any(
            _contains(entry.fields, path) for other, entry in managers.items() if other != who
        )
        if not owned:
            _remove(merged, path, place)


def _contains(fields: FieldSet, path: tuple[str, ...]) -> bool:
    """Whether the set has the path or anything below it."""
    for element in path:
        if element not in fields:
            return False
        fields = fields[element]
    return True


def _remove(value: Any, path: tuple[str, ...], place: SchemaNode) -> None:
    for element in path[:-1]:
        name = element.removeprefix(place.prefix)
        parts = place.parts(value) or {}
        if name not in parts:
            return
        value, place = parts[name], place.part(name).node
    last = path[-1]
    if isinstance(value, dict):
        _remove_member(value, last.removeprefix("f:"), place)
    elif isinstance(value, list):
        parts = place.parts(value) or {}
        if last in parts:
            value[:] = [each for each in value if each is not parts[last]]


def _remove_member(value: JsonObject, name: str, place: SchemaNode) -> None:
    """A container goes only when it is empty: what is left in it belongs to others."""
    if not value.get(name) or not place.part(name).node.has_parts:
        value.pop(name, None)


def _conflicts(managers: Managers, who: Manager, changed: FieldSet) -> dict[Manager, FieldSet]:
    """What others own of what the configuration changes."""
    return {
        other: common
        for other, entry in managers.items()
        if other != who
        and other.subresource == who.subresource
        and (common := field_sets.intersection(entry.fields, changed))
    }


def _refuse_conflicts(
    conflicts: dict[Manager, FieldSet], live: JsonObject, who: Manager, place: SchemaNode
) -> None:
    """Raise, unless `kubectl` takes over what it applied from the client's side before.

    As apimachinery, util/managedfields, lastAppliedManager.
    """
    if who.name == KUBECTL:
        allowed = _last_applied(live, place)
        conflicts = {
            other: left
            for other, common in conflicts.items()
            if (left := field_sets.difference(common, allowed))
        }
    if conflicts:
        raise _conflict(conflicts)


def _last_applied(live: JsonObject, place: SchemaNode) -> FieldSet:
    """What the client applied and nobody has changed since."""
    annotations = live.get("metadata", {}).get("annotations") or {}
    try:
        configuration = msgspec.json.decode(annotations.get(LAST_APPLIED, "{}"))
    except msgspec.DecodeError:
        return {}
    if not isinstance(configuration, dict):
        return {}
    applied = managed_fields.stripped(canonical.prune_nulls(configuration))
    found = field_sets.compare(applied, managed_fields.stripped(live), place)
    owned = field_sets.difference(field_sets.of(applied, place), found.changed)
    return field_sets.difference(owned, found.removed)


def _take_over(managers: Managers, conflicts: dict[Manager, FieldSet]) -> None:
    for other, common in conflicts.items():
        left = field_sets.difference(managers[other].fields, common)
        if left:
            managers[other] = Entry(left, managers[other].time)
        else:
            del managers[other]


def _drop_removed(managers: Managers, who: Manager, removed: FieldSet) -> None:
    for other, entry in list(managers.items()):
        left = field_sets.difference(entry.fields, removed)
        if other != who and left != entry.fields:
            managers[other] = Entry(left, entry.time)


def _conflict(conflicts: dict[Manager, FieldSet]) -> errors.Conflict:
    causes = [
        errors.Cause(
            field_sets.text(path), "FieldManagerConflict", f"conflict with {_described(other)}"
        )
        for other in sorted(conflicts)
        for path in field_sets.paths(conflicts[other])
    ]
    noun = "conflict" if len(causes) == 1 else "conflicts"
    if len(causes) == 1:
        listed = f"{causes[0].message}: {causes[0].field}"
    else:
        listed = _listed(conflicts)
    return errors.apply_conflict(f"Apply failed with {len(causes)} {noun}: {listed}", causes)


def _listed(conflicts: dict[Manager, FieldSet]) -> str:
    """Several conflicts, owner by owner, one field a line."""
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
