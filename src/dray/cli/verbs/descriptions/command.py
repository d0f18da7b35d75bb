"""`dray describe`: all fields of objects, with their events, in kubectl's layout.

The layout is that of kubectl's generic describer, pkg/describe/describe.go.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import click

from dray.api import errors
from dray.api.types.meta import JsonObject
from dray.cli import lazy_group
from dray.cli.command_errors import DrayCommand, ObjectNotFound, WrongUsage
from dray.cli.inputs import manifests
from dray.cli.output import tables
from dray.cli.session import connection, progress, resource_types
from dray.cli.session.connection import Session, Target
from dray.cli.session.resource_types import ObjectArgument
from dray.cli.verbs import events, listing
from dray.cli.verbs.descriptions import nodes, pods, workloads
from dray.client.api_client import ObjectSelection
from dray.clock import utc_now

ANNOTATION_LENGTH = 140
POD, NODE = ("v1", "Pod"), ("v1", "Node")
DEPLOYMENT, JOB = ("apps/v1", "Deployment"), ("batch/v1", "Job")
_LAYOUTS: Mapping[tuple[Any, Any], ModuleType] = {
    POD: pods,
    NODE: nodes,
    DEPLOYMENT: workloads,
    JOB: workloads,
}
"""Kinds with a layout of their own."""
_UNREADABLE = (errors.NotFound, errors.Forbidden, ObjectNotFound)
PADDING = 2
_ACRONYMS = ("API", "URL", "UID", "GUID")
_HIDDEN_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_HIDDEN_METADATA = ("managedFields", "name", "namespace", "labels", "annotations")
_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----\n?", re.DOTALL)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^A-Za-z\d]+")


@click.command("describe", cls=DrayCommand)
@click.argument("what", nargs=-1, shell_complete=lazy_group.completer("objects"))
@connection.options
@connection.all_namespaces_option
@manifests.files_option()
@manifests.recursive_option
@click.option("--selector", "-l", default="", help="Those with these labels.")
@click.option("--show-events/--no-show-events", default=True, help="Also its events.")
def describe(
    target: Target,
    what: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    selector: str,
    show_events: bool,
) -> None:
    """Show all fields of objects: TYPE [NAME or its beginning…], TYPE/NAME…, or -f FILE.

    `dray describe device POOL/DEVICE` shows a device and who holds it.
    """
    if not what and not files:
        raise WrongUsage("say what to describe, such as: dray describe resourceclaims")

    async def body(session: Session) -> list[str]:
        names = resource_types.device_names(what)
        if names is not None:
            # Imported here: of all that is described, only devices need the allocator.
            from dray.cli.verbs.descriptions import device_texts

            return await device_texts.texts(session, names)
        documents = await _all_documents(session, what, files, recursive, selector)
        return [await _described(session, document, show_events) for document in documents]

    with progress.shown("Asking the cluster"):
        described = connection.run(target, body)
    if not described:
        click.echo("No resources found", err=True)
    click.echo("\n\n".join(described), nl=bool(described))


async def _all_documents(
    session: Session, what: tuple[str, ...], files: tuple[str, ...], recursive: bool, selector: str
) -> list[JsonObject]:
    meant = [
        await listing.of_manifest(session, manifest)
        for manifest in manifests.read(files, recursive=recursive)
    ]
    if what:
        meant += await resource_types.resolve(what, session.resources)
    listing.refuse_name_and_selector(meant, has_selector=bool(selector))
    return [
        document
        for reference in meant
        for document in await _documents(session, reference, selector)
    ]


async def _documents(
    session: Session, reference: ObjectArgument, selector: str
) -> list[JsonObject]:
    kind, namespace = reference.kind, session.place(reference)
    if not reference.name:
        return await listing.listed(session, kind, ObjectSelection(namespace, selector))
    try:
        return [await session.client.get(kind, reference.name, namespace)]
    except errors.NotFound as error:
        everything = await listing.listed(session, kind, ObjectSelection(namespace))
        beginning = [
            item for item in everything if item["metadata"]["name"].startswith(reference.name)
        ]
        if not beginning:
            raise listing.explained(error, session, reference) from error
        return beginning


async def _described(session: Session, document: JsonObject, show_events: bool) -> str:
    happened = await _events(session, document) if show_events else None
    related: Iterable[str] = ()
    if _type(document) == POD:
        related = pods.devices(await _claims(session, document))
    elif _type(document) == NODE:
        related = await _of_node(session, document["metadata"]["name"])
    elif _type(document) in (DEPLOYMENT, JOB):
        related = await _of_workload(session, document)
    elif str(document.get("apiVersion")).startswith("resource.k8s.io/"):
        related = await _of_dra(session, document)
    return text(document, happened, related)


def _type(document: JsonObject) -> tuple[Any, Any]:
    return document.get("apiVersion"), document.get("kind")


async def _claims(session: Session, pod: JsonObject) -> list[JsonObject]:
    """Return the ResourceClaims of a pod that exist and that the user may read."""
    found = []
    for name in pods.claim_names(pod):
        with contextlib.suppress(*_UNREADABLE):
            (kind,) = await session.resources.named("resourceclaims")
            found.append(await session.client.get(kind, name, pod["metadata"]["namespace"]))
    return found


async def _of_node(session: Session, name: str) -> Iterable[str]:
    """Return the lines about devices and pods of a node that the user may read."""
    selection = ObjectSelection(field_selector=f"spec.nodeName={name}")
    slices = await _readable(session, "resourceslices", selection)
    fields = f"spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed"
    running = await _readable(session, "pods", ObjectSelection(field_selector=fields))
    return nodes.related(slices, running)


async def _of_workload(session: Session, workload: JsonObject) -> Iterable[str]:
    """Return the lines about ReplicaSets and devices of a workload."""
    lines: list[str] = []
    namespace, selector = workload["metadata"]["namespace"], workloads.selector(workload)
    selection = ObjectSelection(namespace, selector)
    if _type(workload) == DEPLOYMENT:
        owned = [
            item
            for item in await _readable(session, "replicasets", selection)
            if any(
                owner["uid"] == workload["metadata"]["uid"]
                for owner in item["metadata"].get("ownerReferences") or ()
            )
        ]
        lines += workloads.replica_sets(workload, owned)
    claims = [
        claim
        for pod in await _readable(session, "pods", selection)
        if (pod.get("spec") or {}).get("resourceClaims")
        for claim in await _claims(session, pod)
    ]
    return [*lines, *pods.devices(claims)]


async def _of_dra(session: Session, document: JsonObject) -> Iterable[str]:
    """Return the lines about what uses an object of resource.k8s.io, or belongs to it."""
    # Imported here: only classes need CEL and the decoder.
    from dray.cli.verbs.descriptions import dra_relations

    namespace = document["metadata"].get("namespace", "")
    match document["kind"]:
        case "ResourceClaim":
            return dra_relations.of_claim(document)
        case "ResourceClaimTemplate":
            running = await _readable(session, "pods", ObjectSelection(namespace))
            return dra_relations.of_template(document, running)
        case "DeviceClass":
            slices = await _readable(session, "resourceslices", ObjectSelection())
            return dra_relations.of_class(document, slices)
        case "ResourceSlice":
            claims = await _readable(session, "resourceclaims", ObjectSelection())
            return dra_relations.of_slice(document, claims)
    return ()


async def _readable(session: Session, name: str, selection: ObjectSelection) -> list[JsonObject]:
    """Return the objects of a type; none where the user may not read them."""
    with contextlib.suppress(*_UNREADABLE):
        (kind,) = await session.resources.named(name)
        return await listing.listed(session, kind, selection)
    return []


async def _events(session: Session, document: JsonObject) -> list[JsonObject]:
    metadata = document["metadata"]
    (kind,) = await session.resources.named("events")
    fields = f"involvedObject.name={metadata['name']},involvedObject.uid={metadata.get('uid', '')}"
    selection = ObjectSelection(metadata.get("namespace", ""), field_selector=fields)
    return sorted(await listing.listed(session, kind, selection), key=events.last_seen)


def text(
    document: JsonObject, happened: Sequence[JsonObject] | None, related: Iterable[str] = ()
) -> str:
    """Return the description of one object, with lines about related ones before the events."""
    metadata = document.get("metadata") or {}
    layout = _LAYOUTS.get(_type(document))
    labels = [f"{key}={value}" for key, value in sorted((metadata.get("labels") or {}).items())]
    namespace = [f"Namespace:\t{metadata.get('namespace', '')}"] if layout is not nodes else []
    lines = [
        f"Name:\t{metadata.get('name', '')}",
        *namespace,
        *(layout.above_labels(document) if layout else ()),
        *pods.multiline("Labels", labels),
        *_annotations(metadata.get("annotations")),
        *(layout.below_annotations(document) if layout else _fields(_shown(document), 0)),
        *related,
    ]
    if happened is not None and not happened:
        lines.append("Events:\t<none>")
    return "\n".join([*_set(lines), *(_event_lines(happened, utc_now()) if happened else ())])


def _set(lines: Iterable[str]) -> list[str]:
    """Align the text after tabs in columns; a value may have several lines."""
    single = (line for item in lines for line in item.split("\n"))
    return tables.aligned((line.split("\t") for line in single), min_width=0, padding=PADDING)


def _shown(document: JsonObject) -> JsonObject:
    metadata = document.get("metadata") or {}
    shown = {name: value for name, value in metadata.items() if name not in _HIDDEN_METADATA}
    return {**document, "metadata": shown}


def _annotations(annotations: Mapping[str, str] | None) -> Iterator[str]:
    shown = {k: v for k, v in (annotations or {}).items() if k != _HIDDEN_ANNOTATION}
    if not shown:
        yield "Annotations:\t<none>"
    for number, (key, value) in enumerate(sorted(shown.items())):
        start = "" if number else "Annotations:"
        value = _without_pem(value.removesuffix("\n"))
        if len(key) + len(value) + 2 <= ANNOTATION_LENGTH and "\n" not in value:
            yield f"{start}\t{key}: {value}"
            continue
        yield f"{start}\t{key}:"
        length = ANNOTATION_LENGTH - 2
        for line in value.split("\n"):
            yield f"\t  {line[:length]}{'...' if len(line) > length else ''}"


def _fields(content: Mapping[str, Any], level: int) -> Iterator[str]:
    indent = "  " * level
    for name, value in sorted(content.items()):
        title = f"{indent}{field_title(name)}:"
        if isinstance(value, dict):
            yield title
            yield from _fields(value, level + 1)
        elif isinstance(value, list):
            yield title
            yield from _items(value, level + 1)
        else:
            yield f"{title}\t{_scalar(value)}"


def _items(values: Sequence[Any], level: int) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict):
            yield from _fields(value, level)
        else:
            yield f"{'  ' * level}{_scalar(value)}"


def _scalar(value: Any) -> str:
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else _without_pem(str(value))


def _without_pem(text: str) -> str:
    """Return a text in which certificates and keys are replaced by what they are."""
    return _PEM.sub(lambda match: f"<PEM {match[1].lower()}, {len(match[0])} bytes>", text)


def field_title(name: str) -> str:
    """Return `deviceClassName` as `Device Class Name`; other names stay as they are."""
    if re.search(r"[^A-Za-z-]", name):
        return name
    words = [
        word.upper() if word.upper() in _ACRONYMS else word.title() if word.islower() else word
        for word in _WORDS.findall(name)
    ]
    return " ".join(words)


def _event_lines(happened: Sequence[JsonObject], now: datetime.datetime) -> list[str]:
    rows = [
        ["  Type", "Reason", "Age", "From", "Message"],
        ["  ----", "------", "----", "----", "-------"],
        *(_event_row(event, now) for event in happened),
    ]
    return ["Events:", *tables.aligned(rows, min_width=0, padding=PADDING)]


def _event_row(event: JsonObject, now: datetime.datetime) -> list[str]:
    source = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
    message = event.get("message", "").strip()
    if path := (event.get("involvedObject") or {}).get("fieldPath"):
        message = f"{path}: {message}"
    interval = events.interval(event, now)
    return [f"  {event.get('type', '')}", event.get("reason", ""), interval, source, message]
