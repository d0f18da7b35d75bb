"""Suggests corrections for fields that are unknown or have a value of the wrong type."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dray.api.conversion.decoding import FieldProblem
from dray.api.schema import field_types
from dray.api.schema.field_types import SchemaField, Type, WireForm
from dray.cli.lint import field_changes, source_documents
from dray.cli.lint.field_changes import (
    LiftField,
    NestFields,
    RemoveField,
    RenameField,
    SetField,
    UnwrapField,
    WrapField,
)
from dray.cli.lint.findings import Suggestion
from dray.cli.lint.source_documents import Document
from dray.explain.selectors import spelling

_QUANTITY = re.compile(r"([0-9.]+)\s*([KMGTPE])(i?)(?:[bB]|bytes?)?", re.IGNORECASE)
_PAIR = re.compile(r"[A-Za-z]\w*:\S+")
_DEPTH = 4
_NAMES_SHOWN = 12
_OTHER_WORDS = {
    "amount": "count",
    "class": "deviceClassName",
    "limits": "capacity",
    "number": "count",
    "quantity": "count",
    "resourceClass": "deviceClassName",
    "resources": "capacity",
}
"""Words that people use for fields of requests."""
_JSON_TYPES = {dict: "an object", list: "a list", str: "text", bool: "a boolean", int: "a number"}
_FORMS = {
    WireForm.STRUCT: "an object",
    WireForm.MAP: "an object",
    WireForm.LIST: "a list",
    WireForm.STRING: "text",
    WireForm.BOOLEAN: "true or false",
    WireForm.INT32: "a whole number",
    WireForm.INT64: "a whole number",
}


def on_problem(schema_type: str, problem: FieldProblem, document: Document) -> Iterator[Suggestion]:
    """Yield suggestions for a field that is unknown or has the wrong type."""
    value = document.value_at(problem.path)
    if problem.kind == "unknown":
        yield from _unknown_field(schema_type, problem.path, document)
    elif problem.kind == "malformed":
        if isinstance(value, dict | list):
            # A field of the object around the map of quantities.
            above = source_documents.steps(problem.path)[:-1]
            yield from _one_level_up(schema_type, problem.path, above)
        yield from _quantities(problem.path, value)
    elif problem.kind == "mistyped":
        expected = type_at(schema_type, problem.path)
        if expected is not None:
            yield from _retyped(problem.path, value, expected)
    elif problem.kind == "repeated":
        yield from _separated(problem.path, document)
        yield Suggestion("Remove one of the two; the last one counts.")


def _separated(path: str, document: Document) -> Iterator[Suggestion]:
    """Suggest a line of hyphens between two objects that are written as one."""
    lines = document.text.split("\n")
    own = range(document.start, min(document.end, len(lines)))
    starts = [number for number in own if re.match(r"(apiVersion|kind):", lines[number])]
    if path not in ("apiVersion", "kind", "metadata", "spec") or len(starts) != 4:
        return
    text = "\n".join([*lines[: starts[2]], "---", *lines[starts[2] :]])
    words = f"Separate the two objects: write --- before line {starts[2] + 1}"
    yield Suggestion(words, text=text)


def _quantities(path: str, value: Any) -> Iterator[Suggestion]:
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        return
    amount, prefix = match[1], match[2].upper()
    small = f"{amount}{'k' if prefix == 'K' else prefix}"
    large = f"{amount}{prefix}i"
    words = f"Did you mean {large} (powers of 1024) or {small} (powers of 1000)?"
    meant = large if match[3] else small
    # GB and Gb are used for both; memory of devices is published in powers of 1024.
    yield Suggestion(words, (SetField(path, large if "memory" in path else meant),))


def mistyped_message(schema_type: str, problem: FieldProblem, document: Document) -> str:
    """Return in plain words which type a field has and which is expected."""
    value = document.value_at(problem.path)
    expected = type_at(schema_type, problem.path)
    words = _FORMS.get(expected.form) if expected else None
    if words is None:
        return problem.message
    shown = f'"{value}"' if isinstance(value, str) else source_documents.short(value)
    return f"{problem.path}: {shown} is {_JSON_TYPES.get(type(value), 'a number')}, not {words}"


def type_at(schema_type: str, path: str) -> Type | None:
    """Return the type of the field at a path, or None."""
    found = field_types.type_named(schema_type)
    for step in source_documents.steps(path):
        if found.form is WireForm.STRUCT:
            field = field_types.fields(found.name).get(step)
            if field is None:
                return None
            found = field.type
        elif found.element is not None:
            found = found.element
        else:
            return None
    return found


def _retyped(path: str, value: Any, expected: Type) -> Iterator[Suggestion]:
    """Suggest the same value as the expected type."""
    form = expected.form
    if form is WireForm.STRUCT and isinstance(value, str) and not _PAIR.fullmatch(value):
        wrapped = _as_object(value, expected)
        if wrapped is not None:
            words = f"Write an object: {field_changes.flow(wrapped)[1:-1]}"
            yield Suggestion(words, (SetField(path, wrapped),))
    elif form is WireForm.LIST and isinstance(value, dict):
        yield from _as_list(path, value, expected)
    elif form is WireForm.LIST and not isinstance(value, list):
        yield Suggestion("Write a list: [" + str(value) + "]", (SetField(path, [value]),))
    elif form is WireForm.STRUCT and isinstance(value, str) and _PAIR.fullmatch(value):
        name, _, rest = value.partition(":")
        words = f"Write a space after the colon: {name}: {rest}"
        yield Suggestion(words, (SetField(path, {name: rest}),))
    elif isinstance(value, list) and len(value) == 1 and form is not WireForm.LIST:
        yield Suggestion(
            "Write it without the list, that is without `-`", (SetField(path, value[0]),)
        )
    elif path.endswith(".count") and str(value).lower() == "all":
        words = "Write allocationMode: All, without count."
        mode = SetField(f"{path[:-5]}allocationMode", "All")
        yield Suggestion(words, (mode, RemoveField(path)))
    elif path.endswith(".count") and isinstance(value, float) and not value.is_integer():
        words = "Devices are counted whole; a share of one is requested with capacity.requests."
        change = SetField(path, max(int(value), 1))
        yield Suggestion(f"{words}\nWrite count: {change.value}", (change,), is_correction=False)
    else:
        converted = _converted(value, form)
        if converted is not None:
            written = f'"{converted}"' if isinstance(converted, str) else str(converted).lower()
            without = " without quotation marks" if isinstance(value, str) else ""
            yield Suggestion(f"Write {written}{without}", (SetField(path, converted),))


def _converted(value: Any, form: WireForm) -> Any | None:
    is_integer = form in (WireForm.INT32, WireForm.INT64)
    if is_integer and isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        return int(value)
    if is_integer and isinstance(value, float) and value.is_integer():
        return int(value)
    if form is WireForm.BOOLEAN and str(value).lower() in ("true", "false", "yes", "no"):
        return str(value).lower() in ("true", "yes")
    if form is WireForm.STRING and isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return None


def _as_object(text: str, expected: Type) -> dict[str, Any] | None:
    """Return an object with a text as its name, or as its only field; None without either."""
    known = field_types.fields(expected.name)
    if expected.name.endswith("PodResourceClaim"):
        return None
    if "name" in known:
        return {"name": text}
    if len(known) != 1:
        return None
    ((name, field),) = known.items()
    if field.type.form is WireForm.STRING:
        return {name: text}
    below = _as_object(text, field.type) if field.type.form is WireForm.STRUCT else None
    return {name: below} if below else None


def _as_list(path: str, value: dict[str, Any], expected: Type) -> Iterator[Suggestion]:
    """Suggest a list for an object: of its values with their names, or of the object itself."""
    element = expected.content
    known = field_types.fields(element.name) if element.form is WireForm.STRUCT else {}
    by_name = all(isinstance(item, dict) for item in value.values())
    if {"name", "value"} <= known.keys() and not known.keys() & value.keys() and not by_name:
        pairs = [{"name": name, "value": str(item)} for name, item in value.items()]
        words = "Write a list of objects with name and value: - name: …"
        yield Suggestion(words, (SetField(path, pairs),))
    elif "name" in known and by_name and not known.keys() & value.keys():
        items = [{"name": name, **item} for name, item in value.items()]
        yield Suggestion("Write a list of objects with a name: - name: …", (SetField(path, items),))
    else:
        yield Suggestion("Write a list: begin the object with `- `", (WrapField(path),))


def _unknown_field(schema_type: str, path: str, document: Document) -> Iterator[Suggestion]:
    """Suggest where an unknown field belongs, or a similar name."""
    *above, name = source_documents.steps(path)
    parent_path = path[: len(path) - len(name)].rstrip(".")
    owner = type_at(schema_type, parent_path)
    if owner is None or owner.form is not WireForm.STRUCT:
        return
    yield from _in_newer_version(path, document)
    beside = dict(field_types.fields(owner.name))
    parent = document.value_at(parent_path) if parent_path else document.value
    yield from _of_former_versions(path, parent, beside)
    yield from _unwrapped(path, parent[name], parent, beside)
    yield from _one_level_up(schema_type, path, above)
    yield from _into_map(parent_path, name, parent, beside)
    yield from _further_down(parent_path, name, parent, owner)
    close = spelling.same_but_spelling(name, beside) or spelling.similar(name, beside)
    for other in [*close[:2], *filter(beside.get, [_OTHER_WORDS.get(name, "")])]:
        if other not in parent:
            yield _renamed(path, parent[name], other, beside[other].type)
    yield from _further_up(schema_type, path, above, document)
    yield Suggestion(_known_names(beside, name))


def _renamed(path: str, value: Any, other: str, type_: Type) -> Suggestion:
    """Suggest another name; an object that has just a name becomes that name."""
    is_reference = isinstance(value, dict) and [*value] == ["name"]
    if is_reference and type_.form is WireForm.STRING:
        where = source_documents.joined([*source_documents.steps(path)[:-1], other])
        words = f"Did you mean {other}: {value['name']}?"
        return Suggestion(words, (RemoveField(path), SetField(where, value["name"])))
    return Suggestion(f"Did you mean {other}?", (RenameField(path, other),))


def _known_names(beside: Mapping[str, object], name: str) -> str:
    """Return the fields that exist, the most similar ones if there are many."""
    if len(beside) <= _NAMES_SHOWN:
        return f"There are: {', '.join(sorted(beside))}"
    near = difflib.get_close_matches(name, beside, _NAMES_SHOWN, 0.0)
    return f"There are {len(beside)} fields, such as {', '.join(sorted(near))}"


def _of_former_versions(
    path: str, parent: dict[str, Any], beside: Mapping[str, object]
) -> Iterator[Suggestion]:
    """Suggest what replaced fields of v1alpha2."""
    value = parent.get("resourceClassName")
    if path.endswith(".resourceClassName") and "devices" in beside and isinstance(value, str):
        request = {"name": _label(value), "exactly": {"deviceClassName": value}}
        where = f"{path.removesuffix('.resourceClassName')}.devices"
        words = f"Claims have requests since v1alpha3: requests: [{field_changes.flow(request)}]"
        changes = (RemoveField(path), SetField(where, {"requests": [request]}))
        yield Suggestion(words, changes if "devices" not in parent else ())
    elif re.search(r"\.firstAvailable\[\d+\]\.adminAccess$", path):
        words = "Alternatives cannot have adminAccess: use exactly, or remove it."
        yield Suggestion(words, (RemoveField(path),), is_correction=False)


def _label(name: str) -> str:
    return name.partition(".")[0]


def _unwrapped(
    path: str, value: Any, parent: dict[str, Any], beside: Mapping[str, object]
) -> Iterator[Suggestion]:
    """Suggest to write the fields of an object in its place, where they are known."""
    inner, below = value, []
    while isinstance(inner, dict) and len(inner) == 1 and not inner.keys() & beside.keys():
        ((name, inner),) = inner.items()
        below.append(name)
    if isinstance(inner, dict) and inner and inner.keys() <= beside.keys() - parent.keys():
        name = source_documents.steps(path)[-1]
        words = f"There is no {name} here: write the fields below it in its place."
        yield Suggestion(words, (UnwrapField(path, tuple(below)),))


def _into_map(
    parent_path: str, name: str, parent: dict[str, Any], beside: Mapping[str, SchemaField]
) -> Iterator[Suggestion]:
    """Suggest the only map beside an unknown name, such as the requests of a capacity."""
    maps = [other for other, field in beside.items() if field.type.form is WireForm.MAP]
    if len(maps) == 1 and maps[0] not in parent and not isinstance(parent[name], dict | list):
        names = tuple(key for key in parent if key not in beside)
        words = f"It belongs one level down: {parent_path}.{maps[0]}.{name}"
        yield Suggestion(words, (NestFields(parent_path, names, maps[0]),))


def _in_newer_version(path: str, document: Document) -> Iterator[Suggestion]:
    """Suggest v1 for a request with `exactly`, which older versions write without it."""
    group, slash, version = document.api_version.partition("/")
    if path.endswith("].exactly") and slash and version == "v1beta1":
        words = f"exactly exists since v1beta2. Write apiVersion: {group}/v1"
        nested = tuple(nestings(document))
        yield Suggestion(words, (SetField("apiVersion", f"{group}/v1"), *nested))


def nestings(document: Document) -> Iterator[NestFields]:
    """Yield the changes that move the fields of requests below `exactly`."""
    for root in ("spec.devices.requests", "spec.spec.devices.requests"):
        for number, request in enumerate(document.value_at(root) or ()):
            if isinstance(request, dict) and not {"exactly", "firstAvailable"} & request.keys():
                names = tuple(name for name in request if name != "name")
                if names:
                    yield NestFields(f"{root}[{number}]", names, "exactly")


def _one_level_up(schema_type: str, path: str, above: list[str]) -> Iterator[Suggestion]:
    name = source_documents.steps(path)[-1]
    if not above or above[-1].isdecimal():
        return
    outer = type_at(schema_type, source_documents.joined(above[:-1]))
    if outer is not None and outer.form is WireForm.STRUCT and name in _fields(outer):
        yield Suggestion(f"It belongs one level up, beside {above[-1]}.", (LiftField(path),))


def _further_down(
    parent_path: str, name: str, parent: dict[str, Any], owner: Type
) -> Iterator[Suggestion]:
    """Suggest a place below the parent, through objects only."""
    # The template of a workload is meant far more often than anything beside it.
    for below in sorted(_paths_to(owner, name), key=lambda path: "template" not in path):
        inside = parent_path
        for step in below[:-1]:
            inside = f"{inside}.{step}" if inside else step
        where = f"{inside}.{name}"
        levels = "one level" if len(below) == 2 else f"{len(below) - 1} levels"
        words = f"It belongs {levels} down: {where}"
        first = _child_type(owner, below[0])
        if len(below) == 2 and parent.get(below[0]) is None and first is not None:
            own = _fields(owner)
            names = tuple(key for key in parent if key not in own and key in _fields(first))
            yield Suggestion(words, (NestFields(parent_path, names, below[0]),))
        else:
            moved = (
                SetField(where, parent[name]),
                RemoveField(f"{parent_path}.{name}".lstrip(".")),
            )
            yield Suggestion(words, moved)


def _further_up(
    schema_type: str, path: str, above: list[str], document: Document
) -> Iterator[Suggestion]:
    """Suggest an object that the field is in at some depth, such as the pod of a container."""
    name = source_documents.steps(path)[-1]
    for length in range(len(above) - 1, -1, -1):
        outer_path = source_documents.joined(above[:length])
        outer = type_at(schema_type, outer_path)
        if outer is None or outer.form is not WireForm.STRUCT or name not in _fields(outer):
            continue
        where = f"{outer_path}.{name}".lstrip(".")
        if document.value_at(where) is None:
            moved = (SetField(where, document.value_at(path)), RemoveField(path))
            yield Suggestion(f"It belongs further up: {where}", moved)


def _fields(type_: Type) -> dict[str, field_types.SchemaField]:
    return dict(field_types.fields(type_.name)) if type_.form is WireForm.STRUCT else {}


def _child_type(owner: Type, name: str) -> Type | None:
    field = _fields(owner).get(name)
    return field.type if field else None


def _paths_to(owner: Type, name: str) -> Iterator[list[str]]:
    """Yield the paths to fields of a name below a type, the shortest first."""
    queue: list[tuple[list[str], Type]] = [([], owner)]
    for path, type_ in queue:
        for child, field in _fields(type_).items():
            below = field.type
            if below.form is not WireForm.STRUCT or child in path or child == "status":
                continue
            if name in _fields(below):
                yield [*path, child, name]
            elif len(path) < _DEPTH - 1:
                queue.append(([*path, child], below))
