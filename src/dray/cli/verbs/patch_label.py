"""`dray patch` and `dray label`: change fields of existing objects."""

from __future__ import annotations

from typing import Any

import click

from dray.api import http_messages
from dray.api.formats import bounded_yaml
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, resource_types
from dray.cli.session.connection import Session, Target
from dray.cli.session.resource_types import ObjectArgument
from dray.cli.verbs import listing
from dray.cli.verbs.listing import Selection
from dray.client import object_writes

PATCH_TYPES = {
    "strategic": http_messages.STRATEGIC_MERGE_PATCH,
    "merge": http_messages.MERGE_PATCH,
    "json": http_messages.JSON_PATCH,
}


@click.command("patch", cls=DrayCommand)
@click.argument("what", nargs=-1, required=True)
@connection.options
@formats.option
@click.option("--patch", "-p", "text", default="", help="The patch, in JSON or YAML.")
@click.option("--patch-file", default="", metavar="FILE", help="A file with the patch.")
@click.option("--type", "kind", type=click.Choice(sorted(PATCH_TYPES)), default="strategic")
@click.option("--subresource", default="", help="Such as status.")
def patch(
    target: Target,
    what: tuple[str, ...],
    format: OutputFormat,
    text: str,
    patch_file: str,
    kind: str,
    subresource: str,
) -> None:
    """Change fields of objects: TYPE NAME or TYPE/NAME."""
    change, patch_type = _parse(text, patch_file), PATCH_TYPES[kind]

    async def body(session: Session) -> None:
        meant = await resource_types.resolve(what, session.resources)
        resource_types.require_names(meant, "patch")
        for reference in meant:
            namespace = session.place(reference)
            before = await session.client.get(reference.kind, reference.name, namespace)
            changed = await session.client.patch(
                reference.kind,
                reference.name,
                change,
                namespace,
                subresource=subresource,
                patch_type=patch_type,
            )
            _report(reference, before, changed, "patched", format)

    connection.run(target, body)


def _parse(text: str, file: str) -> Any:
    if bool(text) == bool(file):
        raise WrongUsage("give the patch with --patch or with --patch-file")
    try:
        parsed = bounded_yaml.load(formats.file_text(file) if file else text, bounded_yaml.FILE)
    except bounded_yaml.YamlError as error:
        raise WrongUsage(f"the patch is neither JSON nor YAML: {error}") from error
    if not isinstance(parsed, dict | list):
        advice = """For example: -p '{"spec": {"replicas": 2}}'"""
        raise WrongUsage(f"the patch is neither an object nor a list: {parsed}", advice)
    return parsed


@click.command("label", cls=DrayCommand)
@click.argument("what", nargs=-1, required=True)
@connection.options
@formats.option
@click.option("--selector", "-l", default="", help="Those with these labels.")
@click.option("--all", "every", is_flag=True, help="All of the type.")
@click.option("--overwrite", is_flag=True, help="Change labels that have another value.")
def label(
    target: Target,
    what: tuple[str, ...],
    format: OutputFormat,
    selector: str,
    every: bool,
    overwrite: bool,
) -> None:
    """Set and remove labels: TYPE NAME… KEY=VALUE… KEY-…."""
    words = [word for word in what if "=" not in word and not word.endswith("-")]
    labels = _labels([word for word in what if word not in words])
    if not words or not labels:
        raise WrongUsage("write TYPE NAME KEY=VALUE, or KEY- to remove a label")

    async def body(session: Session) -> None:
        selection = Selection(selector, every=every)
        for reference in await listing.named_objects(session, words, "label", selection):
            await _label(session, reference, labels, overwrite, format)

    connection.run(target, body)


def _labels(words: list[str]) -> dict[str, str | None]:
    """Return the labels to set; those with None are removed."""
    parts = (word.partition("=") for word in words)
    return {
        key if equals else key.removesuffix("-"): value if equals else None
        for key, equals, value in parts
    }


async def _label(
    session: Session,
    reference: ObjectArgument,
    labels: dict[str, str | None],
    overwrite: bool,
    format: OutputFormat,
) -> None:
    namespace = session.place(reference)

    async def label() -> tuple[JsonObject, JsonObject]:
        before = await session.client.get(reference.kind, reference.name, namespace)
        if not overwrite:
            _check_unlabeled(reference, before, labels)
        version = before["metadata"]["resourceVersion"]
        change = {"metadata": {"labels": labels, "resourceVersion": version}}
        changed = await session.client.patch(reference.kind, reference.name, change, namespace)
        return before, changed

    before, changed = await object_writes.repeated(label)
    _report(reference, before, changed, "labeled", format)


def _check_unlabeled(
    reference: ObjectArgument, before: JsonObject, labels: dict[str, str | None]
) -> None:
    """Raise WrongUsage if a label has another value."""
    current = before["metadata"].get("labels") or {}
    for key, value in labels.items():
        if value is not None and current.get(key, value) != value:
            message = (
                f"{formats.reference(reference.kind, reference.name)} has {key}={current[key]}."
            )
            raise WrongUsage(message, "Change it with --overwrite.")


def _report(
    reference: ObjectArgument, before: Any, changed: Any, verb: str, format: OutputFormat
) -> None:
    unchanged = "not labeled" if verb == "labeled" else f"{verb} (no change)"
    formats.show_change(reference.kind, changed, unchanged if changed == before else verb, format)
