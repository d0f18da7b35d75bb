"""Suggests corrections for fields that are unknown, mistyped or invalid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dray.api.conversion.decoding import FieldProblem
from dray.api.features import Features
from dray.api.schema import field_types
from dray.api.schema.field_types import Type, WireForm
from dray.cli.lint import selector_hints, source_documents
from dray.cli.lint.field_changes import (
    LiftField,
    NestFields,
    RemoveField,
    RenameField,
    SetField,
    WrapField,
)
from dray.cli.lint.findings import Suggestion
from dray.cli.lint.source_documents import Document
from dray.explain.selectors import spelling
from dray.validation.fields import ErrorType, FieldError

_QUANTITY = re.compile(r"([0-9.]+)\s*([KMGTPE])(i?)(?:[bB]|bytes?)?", re.IGNORECASE)
_ATTRIBUTE_FIELDS = ("matchAttribute", "distinctAttribute")
_PAIR = re.compile(r"[A-Za-z]\w*:\S+")
_DEPTH = 4
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


def on_error(error: FieldError, document: Document, features: Features) -> Iterator[Suggestion]:
    """Yield suggestions for a validation error."""
    field, value = error.field, document.value_at(error.field)
    if field.endswith("cel.expression") and isinstance(value, str):
        yield from selector_hints.suggestions(field, value, features)
    elif field.endswith(_ATTRIBUTE_FIELDS):
        yield from _attribute(field, document)
    elif field == "spec.selector" and document.value_at("spec.template") is not None:
        yield _selector_of_workload(document)
    elif field == "spec.template.metadata.labels":
        wanted = document.value_at("spec.selector.matchLabels")
        words = "Give the template the labels that spec.selector.matchLabels asks for."
        change = SetField(field, wanted) if isinstance(wanted, dict) else None
        yield Suggestion(words, (change,) if change else ())
    elif re.search(r"resourceClaims\[\d+\]$", field) and isinstance(value, dict):
        both = {"resourceClaimName", "resourceClaimTemplateName"} & value.keys()
        if len(both) > 1:
            words = "Keep one of them. To keep the template: remove resourceClaimName."
            removal = RemoveField(f"{field}.resourceClaimName")
            yield Suggestion(words, (removal,), is_correction=False)
    elif re.search(r"requests\[\d+\]$", field) and isinstance(value, dict):
        yield from _request(field, value, error)
    elif error.type is ErrorType.DUPLICATE and isinstance(value, str):
        yield Suggestion(
            f"Give it another name, such as {value}-2", (SetField(field, f"{value}-2"),)
        )
    elif ".constraints[" in field or ".config[" in field:
        yield from _request_name(field, value, document)
    elif error.type is ErrorType.NOT_SUPPORTED and isinstance(value, str):
        yield from _enumerated(field, value, error.detail)
    elif field.endswith((".name", ".deviceClassName")) and isinstance(value, str):
        yield from _object_name(field, value)
    elif field.endswith("deviceClassName") and error.type is ErrorType.REQUIRED:
        yield Suggestion("Add deviceClassName; the classes are: dray get deviceclasses")
    elif field.endswith(".count") and document.value_at(f"{field[:-5]}allocationMode") == "All":
        words = "Remove count: allocationMode All takes every device that matches."
        yield Suggestion(words, (RemoveField(field),))


def _selector_of_workload(document: Document) -> Suggestion:
    words = "Add spec.selector.matchLabels, and the same labels to spec.template.metadata."
    labels = document.value_at("spec.template.metadata.labels")
    chosen = labels if isinstance(labels, dict) and labels else {"app": document.name or "app"}
    changes = [SetField("spec.selector", {"matchLabels": chosen})]
    if not labels:
        changes.append(SetField("spec.template.metadata.labels", chosen))
    return Suggestion(words, tuple(changes))


def _attribute(field: str, document: Document) -> Iterator[Suggestion]:
    """Suggest an attribute name: a domain and a C identifier."""
    name = str(document.value_at(field))
    domain, slash, identifier = name.rpartition("/")
    if slash and "-" not in identifier:
        return
    first, *others = identifier.split("-")
    meant = first + "".join(word.capitalize() for word in others)
    drivers = _drivers(document)
    qualified = f"{domain}/{meant}" if slash else f"{drivers[0] if drivers else 'DRIVER'}/{meant}"
    words = "Names of attributes have no hyphens. " if others else "Name the domain as well. "
    is_complete = bool(slash or drivers)
    changes = (SetField(field, qualified),) if is_complete else ()
    yield Suggestion(f"{words}Did you mean {qualified}?", changes)


def _drivers(document: Document) -> list[str]:
    """Return the domains that the selectors and classes of a claim name."""
    text = str(document.value)
    named = re.findall(r"(?:attributes|capacity)\[\\?[\"']([a-z0-9.-]+)", text)
    classes = re.findall(r"'deviceClassName': '([a-z0-9-]+(?:\.[a-z0-9-]+)+)'", text)
    return [*dict.fromkeys([*named, *classes])]


def _request(field: str, value: dict[str, Any], error: FieldError) -> Iterator[Suggestion]:
    if error.type is ErrorType.DUPLICATE:
        name = f"{value.get('name')}-2"
        words = f"Two requests have the name {value.get('name')}. Rename this one: name: {name}"
        yield Suggestion(words, (SetField(f"{field}.name", name),))
    if "exactly" in value and "firstAvailable" in value:
        words = "Keep one of exactly and firstAvailable. To keep exactly: remove firstAvailable."
        yield Suggestion(words, (RemoveField(f"{field}.firstAvailable"),), is_correction=False)


def _request_name(field: str, value: Any, document: Document) -> Iterator[Suggestion]:
    """Suggest the name of a request for a constraint that names one which does not exist."""
    root = field.partition(".constraints[")[0].partition(".config[")[0]
    entries = document.value_at(f"{root}.requests")
    names = [str(entry.get("name")) for entry in entries or () if isinstance(entry, dict)]
    close = spelling.similar(str(value), names) or (names if len(names) == 1 else [])
    if isinstance(value, str) and close:
        yield Suggestion(f"Did you mean {close[0]}?", (SetField(field, close[0]),))
    elif isinstance(value, str) and names:
        yield Suggestion(f"The requests are: {', '.join(names)}")


def _enumerated(field: str, value: str, detail: str) -> Iterator[Suggestion]:
    supported = re.findall(r'"([^"]+)"', detail)
    close = spelling.same_but_spelling(value, supported) or spelling.similar(value, supported)
    if close:
        yield Suggestion(f"Did you mean {close[0]}?", (SetField(field, close[0]),))
    elif supported:
        yield Suggestion(f"Write one of {', '.join(supported)}.")


def _object_name(field: str, value: str) -> Iterator[Suggestion]:
    meant = re.sub(r"[^a-z0-9.-]+", "-", value.lower()).strip("-.")
    if meant and meant != value:
        yield Suggestion(f"Did you mean {meant}?", (SetField(field, meant),))


def on_problem(schema_type: str, problem: FieldProblem, document: Document) -> Iterator[Suggestion]:
    """Yield suggestions for a field that is unknown or has the wrong type."""
    value = document.value_at(problem.path)
    if problem.kind == "unknown":
        yield from _unknown_field(schema_type, problem.path, document)
    elif problem.kind == "malformed":
        yield from _quantities(problem.path, value)
    elif problem.kind == "mistyped":
        expected = type_at(schema_type, problem.path)
        if expected is not None:
            yield from _retyped(problem.path, value, expected)
    elif problem.kind == "repeated":
        yield Suggestion("Remove one of the two; the last one counts.")


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
    if form is WireForm.LIST and isinstance(value, dict):
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


def _as_list(path: str, value: dict[str, Any], expected: Type) -> Iterator[Suggestion]:
    """Suggest a list for an object: of its values with their names, or of the object itself."""
    element = expected.content
    known = field_types.fields(element.name) if element.form is WireForm.STRUCT else {}
    by_name = all(isinstance(item, dict) for item in value.values())
    if "name" in known and by_name and not known.keys() & value.keys():
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
    yield from _one_level_up(schema_type, path, above)
    beside = field_types.fields(owner.name)
    parent = document.value_at(parent_path) if parent_path else document.value
    yield from _further_down(parent_path, name, parent, owner)
    close = spelling.same_but_spelling(name, beside) or spelling.similar(name, beside)
    for other in close[:2]:
        if other not in parent:
            yield Suggestion(f"Did you mean {other}?", (RenameField(path, other),))
    yield from _further_up(schema_type, path, above, document)
    yield Suggestion(f"There are: {', '.join(sorted(beside))}")


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
