"""Make the tables that `dray.api.schema.field_types` loads: `python -m tools.make_schema`.

lightkube-models carries every Kubernetes type with its field texts, generated from Kubernetes'
OpenAPI. This tool reads the package's source, without importing it, and keeps what the kinds of
`dray.api.kinds` reach. What OpenAPI has lost of the Go types (integer widths, names of strings,
value types of maps, pointers, embedding) is in `tools.go_types`.

`schema_types.json` holds the types, `schema_texts.json` what they and their fields mean.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dray.api import kinds
from tools import go_types

DESTINATION = Path(kinds.__file__).parent / "schema"

# Types that no kind reaches, but bodies of requests and answers consist of.
_BODIES = (
    "meta.v1.APIGroup",
    "meta.v1.APIGroupList",
    "meta.v1.APIResourceList",
    "meta.v1.APIVersions",
    "meta.v1.DeleteOptions",
    "meta.v1.Patch",
    "meta.v1.Status",
    "meta.v1.WatchEvent",
)

# Types with a wire form of their own.
_BUILTIN = {
    "meta.v1.FieldsV1": "FieldsV1",
    "meta.v1.MicroTime": "MicroTime",
    "meta.v1.Time": "Time",
    "resource.Quantity": "Quantity",
    "runtime.RawExtension": "RawExtension",
    "util.intstr.IntOrString": "IntOrString",
}
_SCALARS = {
    "bool": "bool",
    "dict": "map[string]string",
    "float": "float64",
    "int": "int32",
    "str": "string",
}
_GO_SCALARS = frozenset({"bool", "byte", "float64", "int32", "int64", "string"})

# lightkube-models wraps texts at this width and drops empty lines.
_WIDTH = 78
_PARAMETER = re.compile(r"\* \*\*(?P<name>\w+)\*\* ``.*?`` - ?(?P<text>.*)")


class ModelField(NamedTuple):
    annotation: str
    text: str


class Model(NamedTuple):
    """One dataclass of lightkube-models, or an alias: then without fields."""

    text: str
    fields: dict[str, ModelField]


class Field(NamedTuple):
    """A field as the table writes it: a Go type, then the words that apply."""

    type: str
    required: bool
    omission: str = ""
    embedded: str = ""

    def __str__(self) -> str:
        words = [self.type]
        if self.required:
            words.append("required")
        if self.omission not in ("", "always" if self.required else "omitempty"):
            words.append(self.omission)
        if self.embedded:
            words.append(f"in {self.embedded}")
        return " ".join(words)


class Tables(NamedTuple):
    types: dict[str, dict[str, str] | str]
    texts: dict[str, dict[str, str]]


def read_models(
    added: Mapping[str, Mapping[str, go_types.AddedField]] = go_types.ADDED,
) -> dict[str, Model]:
    """Return every type of the installed package by its name here: `resource.v1.ResourceClaim`.

    Raises KeyError where a field is added to a type that does not exist.
    """
    directory = Path(
        str(importlib.metadata.distribution("lightkube-models").locate_file("lightkube/models"))
    )
    models: dict[str, Model] = {}
    for path in sorted(directory.glob("*_v*.py")):
        package = path.stem.replace("_", ".")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                models[f"{package}.{node.name}"] = _read_class(node)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                models[f"{package}.{node.targets[0].id}"] = Model("", {})
    for type_name, fields in added.items():
        for name, field in fields.items():
            annotation = f"Optional[{field.annotation}]"
            models[type_name].fields[name] = ModelField(annotation, field.text)
    return models


def _read_class(node: ast.ClassDef) -> Model:
    text, field_texts = _read_texts(ast.get_docstring(node, clean=False) or "")
    fields: dict[str, ModelField] = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            annotation = ast.literal_eval(statement.annotation)
            fields[name.rstrip("_")] = ModelField(annotation, field_texts.get(name, ""))
    return Model(text, fields)


def _read_texts(docstring: str) -> tuple[str, dict[str, str]]:
    """The text of a type and those of its fields."""
    head, _, parameters = docstring.partition("**parameters**")
    fields: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in parameters.splitlines():
        if match := _PARAMETER.match(line.strip()):
            lines = fields.setdefault(match["name"], [match["text"]])
        elif line.strip():
            lines.append(line.removeprefix(" " * 8))
    head_lines = [line.removeprefix(" " * 6) for line in head.rstrip().splitlines()]
    return unwrap(head_lines), {name: unwrap(lines) for name, lines in fields.items()}


def unwrap(lines: Sequence[str]) -> str:
    """Paragraphs from wrapped lines: a line that had room for the next word ended one."""
    text = ""
    previous = ""
    for line in lines:
        text += _separator(previous, line) if text else ""
        text += line.rstrip()
        previous = line.rstrip()
    return text.strip()


def _separator(previous: str, line: str) -> str:
    if not line.strip() or not previous or line.startswith(" "):
        return "\n"
    first_word = line.split(maxsplit=1)[0]
    return "\n\n" if len(previous) + 1 + len(first_word) <= _WIDTH else " "


def make_tables(models: Mapping[str, Model]) -> Tables:
    types: dict[str, dict[str, str] | str] = {}
    texts: dict[str, dict[str, str]] = {}
    pending = list(_roots(models))
    while pending:
        name = pending.pop()
        if name in types:
            continue
        if name not in models:
            types[name] = go_types.NAMED.get(name, "string")
            pending += _names_in(go_types.NAMED.get(name, ""))
            continue
        fields = dict(_fields(name, models[name]))
        types[name] = {field_name: str(field) for field_name, field in sorted(fields.items())}
        texts[name] = {"": models[name].text}
        texts[name] |= {each: models[name].fields[each].text for each in sorted(fields)}
        for field in fields.values():
            pending += _names_in(field.type)
    return Tables(dict(sorted(types.items())), dict(sorted(texts.items())))


def _roots(models: Mapping[str, Model]) -> Iterator[str]:
    yield from _BODIES
    for kind in kinds.KINDS:
        for version in kind.versions:
            type_name = kind.in_version(version).schema_type
            yield type_name
            if kind.is_stored:
                yield f"{type_name}List"
        for subresource in kind.subresources:
            # Options of connections, such as exec, are query parameters and have no model.
            if subresource.kind and subresource.kind.schema_type in models:
                yield subresource.kind.schema_type


def _names_in(go_type: str) -> list[str]:
    return re.findall(r"\w+(?:\.\w+)+", go_type)


def _fields(name: str, model: Model) -> Iterator[tuple[str, Field]]:
    package = name.rpartition(".")[0]
    exceptions = _exceptions(name)
    embedded, own_fields = go_types.EMBEDDED.get(name, ("", ()))
    for field_name, model_field in model.fields.items():
        field = _field_by_rule(field_name, model_field.annotation, package, _is_kind(model))
        if field_name in exceptions:
            go_type, _, omission = exceptions[field_name].partition(",")
            full_type = _with_package(go_type, package) if go_type else field.type
            field = field._replace(type=full_type, omission=omission)
        if embedded and field_name not in own_fields:
            field = field._replace(embedded=embedded)
        yield field_name, field


def _exceptions(name: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in go_types.FIELDS.get(name, "").split())
    return {field_name: exception for field_name, _, exception in pairs}


def _is_kind(model: Model) -> bool:
    return {"apiVersion", "kind", "metadata"} <= model.fields.keys()


def _field_by_rule(name: str, annotation: str, package: str, in_kind: bool) -> Field:
    """What the annotation alone says; optional booleans, numbers and structures are pointers."""
    optional = annotation.startswith("Optional[")
    inner = annotation.removeprefix("Optional[").removesuffix("]") if optional else annotation
    go_type = _go_type(inner, package)
    is_part_of_kind = in_kind and name in ("metadata", "spec", "status")
    has_empty_value = go_type.startswith(("[]", "map[", "string"))
    is_pointer = optional and not is_part_of_kind and not has_empty_value
    embedded = "TypeMeta" if in_kind and name in ("apiVersion", "kind") else ""
    return Field("*" * is_pointer + go_type, not optional, embedded=embedded)


def _go_type(annotation: str, package: str) -> str:
    if annotation.startswith("List["):
        return "[]" + _go_type(annotation[len("List[") : -1], package)
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    module, _, name = annotation.rpartition(".")
    full_name = f"{module.replace('_', '.') or package}.{name}"
    return _BUILTIN.get(full_name, full_name)


def _with_package(go_type: str, package: str) -> str:
    """The type with every name of the package itself written out."""

    def full(match: re.Match[str]) -> str:
        name = match[0]
        is_known = name in _GO_SCALARS or name == "map" or name in _BUILTIN.values() or "." in name
        return name if is_known else f"{package}.{name}"

    return re.sub(r"[\w.]+", full, go_type)


def render(table: Mapping[str, object]) -> str:
    """JSON with one type to a line, so that a new release of the models reads well as a diff."""
    lines = (
        f"{json.dumps(name)}:{json.dumps(entry, ensure_ascii=False, separators=(',', ':'))}"
        for name, entry in table.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    tables = make_tables(read_models())
    (DESTINATION / "schema_types.json").write_text(render(tables.types))
    (DESTINATION / "schema_texts.json").write_text(render(tables.texts))


if __name__ == "__main__":
    main()
