"""Output formats: `-o json|yaml|name|wide|jsonpath=…|custom-columns=…`, or a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from dray.api.formats import serialization
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import JsonPathError, WrongUsage
from dray.cli.output import custom_columns, jsonpath, jsonpath_hints
from dray.cli.session import resource_types

FORMATS = (
    "json",
    "yaml",
    "name",
    "wide",
    "jsonpath=TEMPLATE",
    "jsonpath-file=FILE",
    "custom-columns=SPEC",
    "custom-columns-file=FILE",
)
KUBECTL_FORMATS = (
    "go-template",
    "go-template-file",
    "jsonpath-as-json",
    "kyaml",
    "template",
    "templatefile",
)
CUSTOM_COLUMNS = "custom-columns"
_EXAMPLES = {
    "jsonpath": "'{.metadata.name}'",
    CUSTOM_COLUMNS: "NAME:.metadata.name,NODE:.spec.nodeName",
}


class OutputFormat(NamedTuple):
    """A parsed `-o`: its name, and the text after the equals sign."""

    name: str = ""
    argument: str = ""

    @property
    def is_table(self) -> bool:
        return self.name in ("", "wide", "table")

    @property
    def is_wide(self) -> bool:
        return self.name == "wide"


def _parse(context: click.Context, parameter: click.Parameter, text: str) -> OutputFormat:
    name, _, argument = text.partition("=")
    if name == "jsonpath-file":
        return OutputFormat("jsonpath", file_text(argument))
    if name == "custom-columns-file":
        return OutputFormat(CUSTOM_COLUMNS, custom_columns.spec_of_file(file_text(argument)))
    if name in KUBECTL_FORMATS:
        raise click.BadParameter(
            f"dray has no {name}; use kubectl: kubectl get … -o {name}", context, parameter
        )
    if name not in ("", "json", "yaml", "name", "wide", "table", "jsonpath", CUSTOM_COLUMNS):
        message = f"unknown output format {name!r}; use one of: {', '.join(FORMATS)}"
        raise click.BadParameter(message, context, parameter)
    if name in _EXAMPLES and not argument:
        example = f"{name}={_EXAMPLES[name]}"
        raise click.BadParameter(f"needs a template, such as {example}", context, parameter)
    if name == CUSTOM_COLUMNS:
        custom_columns.parse(argument)
    return OutputFormat(name, argument)


def file_text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise WrongUsage(f"{path}: cannot be read: {error.strerror}") from error


option = click.option(
    "--output",
    "-o",
    "format",
    callback=_parse,
    default="",
    metavar="FORMAT",
    help=" | ".join(FORMATS),
)


dry_run_option = click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    is_flag=False,
    flag_value="server",
    default="none",
    callback=lambda _context, _parameter, value: "" if value == "none" else value,
    help="Write nothing; server: the server checks the request.",
)


def show_document(document: Any, format: OutputFormat, *, headers: bool = True) -> None:
    """Print one document in a machine-readable format. Raises WrongUsage for names."""
    if format.name == "name":
        raise WrongUsage("-o name: this answer has no names", "Use -o json, yaml or jsonpath=…")
    if format.name == CUSTOM_COLUMNS:
        plain = msgspec.json.decode(msgspec.json.encode(document))
        shown = custom_columns.rendered(plain, format.argument, headers=headers)
        click.echo(shown, nl=False)
        return
    if format.name != "jsonpath":
        click.echo(rendered(document, format), nl=False)
        return
    plain = msgspec.json.decode(msgspec.json.encode(document))
    hints = jsonpath_hints.hints(format.argument, plain)
    try:
        click.echo(rendered(plain, format), nl=False)
    except JsonPathError as error:
        raise WrongUsage(f"jsonpath: {error}", " ".join(hints)) from error
    for hint in hints:
        click.echo(hint, err=True)


def rendered(document: Any, format: OutputFormat) -> str:
    """Return a document as text; structs and tuples in it become JSON types."""
    document = msgspec.json.decode(msgspec.json.encode(document))
    if format.name == CUSTOM_COLUMNS:
        return custom_columns.rendered(document, format.argument)
    if format.name == "yaml":
        return serialization.write_yaml(document)
    if format.name == "jsonpath":
        return jsonpath.Template(format.argument).render(document)
    return serialization.write_json(document, indent=4) + "\n"


def show_change(kind: Kind, changed: JsonObject, verb: str, format: OutputFormat) -> None:
    """Report one written object: `resourceclaim.resource.k8s.io/x created`, or the object."""
    if format.name == "name":
        click.echo(reference(kind, changed["metadata"]["name"]))
    elif format.is_table:
        click.echo(f"{reference(kind, changed['metadata']['name'])} {verb}")
    else:
        show_document(presented(changed), format)


def reference(kind: Kind, name: str) -> str:
    return f"{resource_types.full_name(kind)}/{name}"


def presented(document: JsonObject, *, managed_fields: bool = False) -> JsonObject:
    """Return the object without managed fields, as kubectl shows it."""
    metadata = document.get("metadata")
    if managed_fields or not isinstance(metadata, dict) or "managedFields" not in metadata:
        return document
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**document, "metadata": kept}


def as_list(objects: Sequence[JsonObject]) -> JsonObject:
    """Return several objects as a List, as kubectl does."""
    metadata = {"resourceVersion": ""}
    return {"apiVersion": "v1", "items": list(objects), "kind": "List", "metadata": metadata}
