"""`dray explain`: why a pod or a claim has no devices, and what would help."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api import kinds
from dray.api.ids import ClaimKey
from dray.api.schema import field_docs
from dray.api.types import dra
from dray.api.types.core import CoreEvent, ResourceQuota
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli.command_errors import CommandError, DrayCommand, ObjectNotFound, WrongUsage
from dray.cli.inputs import cluster_objects, manifests, pod_claims
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.inputs.pod_claims import ExplainTarget
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, progress
from dray.cli.session.connection import Target
from dray.client.api_client import ObjectSelection
from dray.client.kubeconfig import KubeconfigError
from dray.explain import claim_explanation as engine
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.pod import pod_progress, pod_progress_text
from dray.explain.pod.pod_progress import OTHER_NAMESPACES, PodContext, PodProgress
from dray.explain.text import explanation_text
from dray.explain.text import funnel_chart as drawing

_TYPES: dict[str, type[Any]] = {
    "ResourceClaim": dra.ResourceClaim,
    "ResourceClaimTemplate": dra.ResourceClaimTemplate,
    "Pod": Pod,
}
NEEDED_FOR_DEVICES = frozenset({"ResourceSlice", "DeviceClass", "Node"})
_SHORT = {"claim": "ResourceClaim", "template": "ResourceClaimTemplate"}


@click.command("explain", cls=DrayCommand)
@click.argument("what", nargs=-1)
@connection.options
@manifests.files_option()
@cluster_objects.option
@formats.option
@click.option("--recursive", is_flag=True, help="Of fields, also those below.")
def explain(
    target: Target,
    what: tuple[str, ...],
    files: tuple[str, ...],
    against: str,
    format: OutputFormat,
    recursive: bool,
) -> None:
    """Say why pods and claims have no devices: pod/NAME, claim/NAME or -f FILE.

    Against a cluster nothing is written. Without a slash, as in `dray explain
    resourceclaim.spec.devices`, the meaning of a field is printed.
    """
    if len(what) == 1 and "/" not in what[0] and not files:
        click.echo(_field_help(what[0], recursive), nl=False)
        return
    if not what and not files:
        raise WrongUsage("say what to explain: pod/NAME, claim/NAME or -f FILE")
    objects, own = _load(files, against, target, _events_about(what))
    _print_limits(objects)
    targets = [*_named(what, objects, _namespace(target, against)), *_in_files(own, objects)]
    if not targets:
        raise ObjectNotFound(f"there is no pod, claim or template in {', '.join(files)}")
    with progress.shown("Looking for devices"):
        fleet = objects.inventory()
        explained = [explained_target(item, fleet, objects) for item in targets]
    _show(explained, format)
    if not all(item.is_good for item in explained):
        sys.exit(1)


def _field_help(text: str, recursive: bool) -> str:
    name, *path = text.split(".")
    kind = kinds.by_name(_SHORT.get(name.lower(), name))
    if kind is None:
        raise ObjectNotFound(f"there is no kind {name}", "To explain an object, write TYPE/NAME.")
    try:
        return field_docs.explain(kind.in_version(kind.versions[0]), path, recursive=recursive)
    except field_docs.UnknownField as error:
        advice = f"See which there are: dray explain {'.'.join([name, *path[:-1]])}"
        raise ObjectNotFound(f"{text}: {error}", advice) from error


def _events_about(what: Sequence[str]) -> ObjectSelection | None:
    """Return a selection of the events about the named pods, or None."""
    if not what:
        return None
    fields = "involvedObject.kind=Pod"
    if len(what) == 1:
        fields += f",involvedObject.name={what[0].partition('/')[2]}"
    return ObjectSelection(field_selector=fields)


def _print_limits(objects: ClusterObjects) -> None:
    """Print what could not be read, and how that limits the explanation."""
    for unread, suffix in ((objects.unread, ""), (objects.partly_read, OTHER_NAMESPACES)):
        for kind, message in sorted(unread.items()):
            click.echo(f"{pod_progress_text.limit(kind + suffix)} ({message})", err=True)


def _load(
    files: tuple[str, ...], against: str, target: Target, events: ObjectSelection | None
) -> tuple[ClusterObjects, ClusterObjects]:
    """Return the objects to evaluate against, and the objects of the files.

    Files with slices, such as dumps and snapshots, need nothing else.
    """
    texts = list(manifests.texts(files, recursive=True))
    own = cluster_objects.from_texts(texts)
    for source, text in texts:
        for document in pod_claims.pods_in(manifests.documents(source, text)):
            own.add(cluster_objects.decode(document, source))
    if own.of(dra.ResourceSlice) and not against:
        return own, own
    return cluster_objects.load(against, target, events).merged(own), own


def _namespace(target: Target, against: str) -> str:
    """Return the namespace of names on the command line; "default" without a kubeconfig."""
    if target.namespace:
        return target.namespace
    try:
        return target.connect().namespace if not against else pod_claims.DEFAULT_NAMESPACE
    except KubeconfigError:
        return pod_claims.DEFAULT_NAMESPACE


def _named(
    words: Sequence[str], objects: ClusterObjects, namespace: str
) -> Iterator[ExplainTarget]:
    for word in words:
        type_name, slash, name = word.partition("/")
        kind = kinds.by_name(_SHORT.get(type_name.lower(), type_name))
        if not slash or kind is None or kind.kind not in _TYPES:
            raise WrongUsage(f"{word}: write pod/NAME, claim/NAME or template/NAME")
        value = pod_claims.find(objects.of(_TYPES[kind.kind]), name, namespace)
        if value is None and kind.kind in objects.unread:
            raise CommandError(f"not allowed: {objects.unread[kind.kind]}")
        if value is None:
            advice = f"See what there is: dray get {kind.plural} -A"
            where = f"namespace {namespace} of {objects.source}"
            raise ObjectNotFound(f"there is no {kind.singular} {name} in {where}", advice)
        yield _target_of(value, objects)


def _in_files(own: ClusterObjects, objects: ClusterObjects) -> Iterator[ExplainTarget]:
    """Yield every pod of the files, and the claims that none of these pods uses."""
    used = set()
    for pod in own.of(Pod):
        for source in pod.spec.resource_claims:
            name = source.resource_claim_name or source.resource_claim_template_name
            used.add((pod_claims.namespace_of(pod), name))
        yield pod_claims.of_pod(pod, objects)
    others: list[Any] = [*own.of(dra.ResourceClaim), *own.of(dra.ResourceClaimTemplate)]
    for value in others:
        is_made = bool(value.metadata.owner_references)
        if not is_made and (pod_claims.namespace_of(value), value.metadata.name) not in used:
            yield _target_of(value, objects)


def _target_of(value: Any, objects: ClusterObjects) -> ExplainTarget:
    if isinstance(value, Pod):
        return pod_claims.of_pod(value, objects)
    if isinstance(value, dra.ResourceClaimTemplate):
        return pod_claims.of_template(value)
    return pod_claims.of_claim(value)


class Explained(NamedTuple):
    """The result for one target: the progress of a pod, an explanation of claims, or both."""

    target: ExplainTarget
    way: PodProgress | None
    explanation: Explanation | None

    @property
    def is_good(self) -> bool:
        if self.way is not None and self.way.blocked is not None:
            return False
        if self.explanation is None:
            return self.way is not None
        return self.explanation.outcome in (Outcome.ALLOCATED, Outcome.FITS)


def explained_target(
    explain_target: ExplainTarget, fleet: ClusterInventory, objects: ClusterObjects
) -> Explained:
    """Return the progress of a pod, and why its claims fit or not."""
    explanation, way = None, None
    claims, pod = explain_target.claims, explain_target.pod
    # Nothing sensible can be said about devices that were not seen.
    is_waiting = any(claim.status.allocation is None for claim in claims)
    is_blind = is_waiting and not NEEDED_FOR_DEVICES.isdisjoint(objects.unread)
    if claims and not is_blind:
        explanation = engine.explain(
            fleet, claims, new_share_id=lambda: "new", nodes=explain_target.nodes
        )
    if pod is not None:
        way = pod_progress.inspect_pod(pod, _pod_context(pod, objects), explanation)
    return Explained(explain_target, way, explanation)


def _pod_context(pod: Pod, objects: ClusterObjects) -> PodContext:
    events = [item for item in objects.of(CoreEvent) if _is_about(item, pod)]
    return PodContext(
        claims={_key(item): item for item in objects.of(dra.ResourceClaim)},
        templates={_key(item): item for item in objects.of(dra.ResourceClaimTemplate)},
        classes=objects.of(dra.DeviceClass),
        nodes={item.metadata.name: item for item in objects.of(Node)},
        quotas=objects.of(ResourceQuota),
        slices=objects.of(dra.ResourceSlice),
        taint_rules=objects.of(dra.DeviceTaintRule),
        events=sorted(events, key=_time),
        unread=frozenset(objects.unread),
        partly_read=frozenset(objects.partly_read),
    )


def _key(named: dra.ResourceClaim | dra.ResourceClaimTemplate) -> ClaimKey:
    return ClaimKey(pod_claims.namespace_of(named), named.metadata.name)


def _is_about(event: CoreEvent, pod: Pod) -> bool:
    about = event.involved_object
    metadata = pod.metadata
    if about.uid and metadata.uid:
        return about.uid == metadata.uid
    return (about.kind, about.namespace, about.name) == ("Pod", metadata.namespace, metadata.name)


def _time(event: CoreEvent) -> str:
    series = event.series.last_observed_time if event.series else None
    return series or event.last_timestamp or event.event_time or ""


def _show(explained: Sequence[Explained], format: OutputFormat) -> None:
    if not format.is_table:
        documents = [_document(item) for item in explained]
        formats.show_document(documents[0] if len(documents) == 1 else documents, format)
        return
    for number, item in enumerate(explained):
        if number:
            click.echo()
        _show_one(item, picture=format.is_wide or sys.stdout.isatty())


def _show_one(explained: Explained, *, picture: bool) -> None:
    if explained.way is not None:
        headline, _, steps = pod_progress_text.text(explained.way).partition("\n")
        click.secho(headline, bold=True)
        click.echo(steps, nl=False)
    if explained.way is None and explained.explanation is None:
        click.secho(f"{explained.target.title}: cannot be explained with these rights", bold=True)
    if explained.explanation is not None:
        click.echo(explanation_text.text(explained.explanation), nl=False)
        drawn = drawing.text(explained.explanation) if picture else ""
        if drawn:
            click.echo(f"\n{drawn}")


def _document(explained: Explained) -> dict[str, Any]:
    way = {"way": pod_progress_text.as_json(explained.way)} if explained.way else {}
    words = explanation_text.as_json(explained.explanation) if explained.explanation else {}
    return {"about": explained.target.title, **way, **words}
