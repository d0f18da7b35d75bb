"""Suggests corrections for values that the API server would reject."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from dray.api.features import Features
from dray.cli.lint import field_changes, selector_hints
from dray.cli.lint.field_changes import RemoveField, RenameField, SetField
from dray.cli.lint.findings import Suggestion
from dray.cli.lint.source_documents import Document
from dray.explain.selectors import spelling
from dray.validation.fields import ErrorType, FieldError

_AMOUNT = re.compile(r"(?P<root>.*\.resources)\.(?:limits|requests)(?:\[(?P<name>.*)\])?$")
_OPERATORS = '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'


def on_error(error: FieldError, document: Document, features: Features) -> Iterator[Suggestion]:
    """Yield suggestions for a validation error."""
    field, value = error.field, document.value_at(error.field)
    for concerned, suggest in _BY_FIELD:
        if concerned.search(field):
            found = list(suggest(error, document))
            yield from found
            if found:
                return
    if field.endswith("cel.expression") and isinstance(value, str):
        yield from selector_hints.suggestions(field, value, features, _drivers(document))
    elif error.type is ErrorType.DUPLICATE:
        yield from _duplicate(field, value, document)
    elif error.type is ErrorType.NOT_SUPPORTED and isinstance(value, str):
        yield from _enumerated(field, value, error.detail)
    elif field.endswith(("ame", "Class")) and isinstance(value, str) and value:
        yield from _object_name(field, value)
    elif field.endswith(".name") and not value:
        yield from _missing_name(field, document)
    elif error.type is ErrorType.REQUIRED:
        yield from _required(field, error.detail)


def _template_labels(error: FieldError, document: Document) -> Iterator[Suggestion]:
    wanted = document.value_at("spec.selector.matchLabels")
    words = "Give the template the labels that spec.selector.matchLabels asks for."
    change = SetField(error.field, wanted) if isinstance(wanted, dict) else None
    yield Suggestion(words, (change,) if change else ())


def _pod_claim(error: FieldError, document: Document) -> Iterator[Suggestion]:
    value = document.value_at(error.field)
    if not isinstance(value, dict):
        return
    if {"resourceClaimName", "resourceClaimTemplateName"} <= value.keys():
        words = "Keep one of them. To keep the template: remove resourceClaimName."
        removal = RemoveField(f"{error.field}.resourceClaimName")
        yield Suggestion(words, (removal,), is_correction=False)
    else:
        yield Suggestion(
            "Add resourceClaimTemplateName for a claim of each pod's own, or resourceClaimName "
            "for one that exists."
        )


def _subrequest(error: FieldError, document: Document) -> Iterator[Suggestion]:
    request, slash, _ = str(document.value_at(error.field)).partition("/")
    if slash:
        words = f"A container names the request, whichever alternative is chosen: {request}"
        yield Suggestion(words, (SetField(error.field, request),))


def _operator(error: FieldError, document: Document) -> Iterator[Suggestion]:
    if "selector operator" in error.detail:
        yield from _enumerated(error.field, str(document.value_at(error.field)), _OPERATORS)


def _no_class(error: FieldError, document: Document) -> Iterator[Suggestion]:
    if error.type is ErrorType.REQUIRED:
        yield Suggestion("Add deviceClassName; the classes are: dray get deviceclasses")


def _count(error: FieldError, document: Document) -> Iterator[Suggestion]:
    field, value = error.field, document.value_at(error.field)
    if document.value_at(f"{field[:-5]}allocationMode") == "All":
        words = "Remove count: allocationMode All takes every device that matches."
        yield Suggestion(words, (RemoveField(field),))
    elif isinstance(value, int) and value < 1:
        words = "Write count: 1, or allocationMode: All for every device that matches."
        yield Suggestion(words, (SetField(field, 1),), is_correction=False)


def _toleration_value(error: FieldError, document: Document) -> Iterator[Suggestion]:
    field = error.field
    if document.value_at(f"{field[:-5]}operator") == "Exists":
        words = "Write operator: Equal to compare the value, or remove value."
        yield Suggestion(words, (SetField(f"{field[:-5]}operator", "Equal"),))


def _parameters(error: FieldError, document: Document) -> Iterator[Suggestion]:
    """Suggest the object that is written as text."""
    value = document.value_at(error.field)
    try:
        parsed = yaml.safe_load(value) if isinstance(value, str) else None
    except yaml.YAMLError:
        parsed = None
    words = "Write an object, not text."
    change = (SetField(error.field, parsed),) if isinstance(parsed, dict) else ()
    yield Suggestion(words, change)


def _extended_name(error: FieldError, document: Document) -> Iterator[Suggestion]:
    name = str(document.value_at(error.field))
    if "/" not in name:
        drivers = [*_drivers(document), "example.com"]
        yield Suggestion(f"Name a domain, such as {drivers[0]}/{name}")


def _resources(error: FieldError, document: Document) -> Iterator[Suggestion]:
    """Suggest amounts of extended resources: whole, with a domain, the same in both maps."""
    found = _AMOUNT.match(error.field)
    if found is None:
        return
    root, name = found["root"], found["name"]
    limits, requests = (document.value_at(f"{root}.{key}") for key in ("limits", "requests"))
    if error.detail == "must be an integer":
        words = "Whole devices only. For a share of one, use a claim with capacity.requests."
        change = SetField(f"{root}.limits[{name}]", "1")
        yield Suggestion(f"{words}\nWrite 1", (change,), is_correction=False)
    elif "must be a standard resource" in error.detail and name:
        words = f"Extended resources have a domain. Did you mean nvidia.com/{name}?"
        renaming = RenameField(error.field, f"nvidia.com/{name}")
        yield Suggestion(words, (renaming,), is_correction=False)
    elif "non overcommitable" in error.detail and isinstance(requests, dict):
        same = {key: amount for key, amount in requests.items() if "/" in key}
        words = f"Write the same in limits: {field_changes.flow(same)}"
        yield Suggestion(words, tuple(_set_all(f"{root}.limits", same)))
    elif "must be equal to" in error.detail and isinstance(limits, dict):
        same = {key: amount for key, amount in limits.items() if "/" in key and key in requests}
        words = f"Write the same in requests: {field_changes.flow(same)}"
        yield Suggestion(words, tuple(_set_all(f"{root}.requests", same)), is_correction=False)


def _set_all(path: str, values: dict[str, Any]) -> Iterator[SetField]:
    for name, value in values.items():
        yield SetField(f"{path}[{name}]", value)


def _duplicate(field: str, value: Any, document: Document) -> Iterator[Suggestion]:
    """Suggest to remove what is written twice, or another name."""
    if isinstance(value, dict) and _is_repeated(field, value, document):
        yield Suggestion("Remove it: it says the same as one before it.", (RemoveField(field),))
    name = value.get("name") if isinstance(value, dict) else value
    if isinstance(name, str):
        path = f"{field}.name" if isinstance(value, dict) else field
        yield Suggestion(f"Give it another name, such as {name}-2", (SetField(path, f"{name}-2"),))


def _is_repeated(field: str, value: Any, document: Document) -> bool:
    items = document.value_at(field.rpartition("[")[0])
    return isinstance(items, list) and items.count(value) > 1


def _missing_name(field: str, document: Document) -> Iterator[Suggestion]:
    """Suggest a name for a request, a subrequest or a claim of a pod."""
    owner = document.value_at(field.removesuffix(".name"))
    found = re.search(r"(resourceClaims|requests|firstAvailable)\[(\d+)\]\.name$", field)
    if not isinstance(owner, dict) or found is None:
        yield Suggestion(f"Add {field}.")
        return
    number = int(found[2])
    if found[1] == "resourceClaims":
        used = re.findall(r"'claims': \[\{'name': '([^']+)'", str(document.value))
        name = used[number] if number < len(used) else "device"
    elif found[1] == "firstAvailable":
        name = f"alternative-{number + 1}"
    else:
        exact = owner.get("exactly")
        device_class = str((exact if isinstance(exact, dict) else owner).get("deviceClassName"))
        name = re.sub(r"[^a-z0-9-]", "-", device_class.partition(".")[0]) or "device"
        name += f"-{number + 1}" if number else ""
    yield Suggestion(f"Add name: {name}", (SetField(field, name),))


def _required(field: str, detail: str) -> Iterator[Suggestion]:
    allowed = re.findall(r'"([^"]+)"', detail)
    name = field.rpartition(".")[2]
    if allowed:
        words = f"Add {name}: {' or '.join(reversed(allowed))}"
        yield Suggestion(words, (SetField(field, allowed[-1]),), is_correction=False)
    else:
        yield Suggestion(f"Add {name}.")


def _selector_of_workload(error: FieldError, document: Document) -> Iterator[Suggestion]:
    if document.value_at("spec.template") is None:
        return
    words = "Add spec.selector.matchLabels, and the same labels to spec.template.metadata."
    labels = document.value_at("spec.template.metadata.labels")
    chosen = labels if isinstance(labels, dict) and labels else {"app": document.name or "app"}
    changes = [SetField("spec.selector", {"matchLabels": chosen})]
    if not labels:
        changes.append(SetField("spec.template.metadata.labels", chosen))
    yield Suggestion(words, tuple(changes))


def _attribute(error: FieldError, document: Document) -> Iterator[Suggestion]:
    """Suggest an attribute name: a domain and a C identifier."""
    field = error.field
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


def _request(error: FieldError, document: Document) -> Iterator[Suggestion]:
    field, value = error.field, document.value_at(error.field)
    if not isinstance(value, dict):
        return
    if error.type is ErrorType.DUPLICATE:
        name = f"{value.get('name')}-2"
        words = f"Two requests have the name {value.get('name')}. Rename this one: name: {name}"
        yield Suggestion(words, (SetField(f"{field}.name", name),))
    if "exactly" in value and "firstAvailable" in value:
        words = "Keep one of exactly and firstAvailable. To keep exactly: remove firstAvailable."
        yield Suggestion(words, (RemoveField(f"{field}.firstAvailable"),), is_correction=False)


def _request_name(error: FieldError, document: Document) -> Iterator[Suggestion]:
    """Suggest the name of a request for a constraint that names one which does not exist."""
    field, value = error.field, document.value_at(error.field)
    root = field.partition(".constraints[")[0].partition(".config[")[0]
    entries = document.value_at(f"{root}.requests")
    requests = [entry for entry in entries or () if isinstance(entry, dict)]
    names = [str(entry.get("name")) for entry in requests]
    below = [
        f"{entry.get('name')}/{item.get('name')}"
        for entry in requests
        for item in entry.get("firstAvailable") or ()
        if isinstance(item, dict)
    ]
    close = spelling.similar(str(value), below if "/" in str(value) else names)
    close = close or (names if len(names) == 1 else [])
    if isinstance(value, str) and close:
        yield Suggestion(f"Did you mean {close[0]}?", (SetField(field, close[0]),))
    elif isinstance(value, str) and names:
        yield Suggestion(f"The requests are: {', '.join(names)}")


def _enumerated(field: str, value: str, detail: str) -> Iterator[Suggestion]:
    supported = re.findall(r'"([^"]+)"', detail)
    close = spelling.same_but_spelling(value, supported) or spelling.similar(value, supported)
    if close:
        yield Suggestion(f"Did you mean {close[0]}?", (SetField(field, close[0]),))
    elif len(supported) == 1:
        change = SetField(field, supported[0])
        yield Suggestion(f"Write {supported[0]}.", (change,), is_correction=False)
    elif supported:
        yield Suggestion(f"Write one of {', '.join(supported)}.")


def _object_name(field: str, value: str) -> Iterator[Suggestion]:
    # A kind or a namespace before a slash is no part of a name.
    own = value.strip("/").rpartition("/")[2]
    meant = re.sub(r"[^a-z0-9.-]+", "-", own.lower()).strip("-.")
    if meant and meant != value:
        yield Suggestion(f"Did you mean {meant}?", (SetField(field, meant),))


_Suggest = Callable[[FieldError, Document], Iterator[Suggestion]]
_BY_FIELD: tuple[tuple[re.Pattern[str], _Suggest], ...] = tuple(
    (re.compile(pattern), suggest)
    for pattern, suggest in (
        (r"(matchAttribute|distinctAttribute)$", _attribute),
        (r"^spec\.selector$", _selector_of_workload),
        (r"^spec\.template\.metadata\.labels$", _template_labels),
        (r"resourceClaims\[\d+\]$", _pod_claim),
        (r"requests\[\d+\]$", _request),
        (r"\.claims\[\d+\]\.request$", _subrequest),
        (r"\.operator$", _operator),
        (r"\.parameters$", _parameters),
        (r"\.(constraints|config)\[\d+\]\.requests\[\d+\]$", _request_name),
        (r"\.deviceClassName$", _no_class),
        (r"\.count$", _count),
        (r"\.tolerations\[\d+\]\.value$", _toleration_value),
        (r"\.extendedResourceName$", _extended_name),
        (r"\.resources\.(limits|requests)", _resources),
    )
)
"""Functions that make suggestions for fields whose paths match a pattern."""
