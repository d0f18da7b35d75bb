"""`dray explain`: why a pod or a claim has no devices, and what would help."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import click

from dray.allocator.fleet import Fleet
from dray.api import fieldhelp, kinds
from dray.api.claims import ResourceClaim, ResourceClaimTemplate
from dray.api.pods import Pod
from dray.api.slices import ResourceSlice
from dray.cli import connection, manifests, output, podclaims, progress, world
from dray.cli.connection import Target
from dray.cli.failures import Command, NotFound, WrongUsage
from dray.cli.output import Format
from dray.cli.podclaims import Asked
from dray.cli.world import World
from dray.client.kubeconfig import KubeconfigError
from dray.explain import explain as engine
from dray.explain import sentences
from dray.explain.explain import Explanation, Outcome

_TYPES: dict[str, type[Any]] = {
    "ResourceClaim": ResourceClaim,
    "ResourceClaimTemplate": ResourceClaimTemplate,
    "Pod": Pod,
}
_SHORT = {"claim": "ResourceClaim", "template": "ResourceClaimTemplate"}


@click.command("explain", cls=Command)
@click.argument("what", nargs=-1)
@connection.options
@manifests.files_option()
@world.option
@output.option
@click.option("--recursive", is_flag=True, help="Of fields, also those below.")
def explain(
    target: Target,
    what: tuple[str, ...],
    files: tuple[str, ...],
    against: str,
    format: Format,
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
    around, own = _worlds(files, against, target)
    for refusal in around.unread:
        click.echo(f"Could not read everything, so the answer may be wrong: {refusal}", err=True)
    asked = [*_named(what, around, _namespace(target, against)), *_in_files(own, around)]
    if not asked:
        raise NotFound(f"there is no pod, claim or template in {', '.join(files)}")
    with progress.shown("Looking for devices"):
        fleet = around.fleet()
        explained = [(each, _explained(each, fleet)) for each in asked]
    _show(explained, format)
    if not all(_is_good(each, explanation) for each, explanation in explained):
        sys.exit(1)


def _field_help(text: str, recursive: bool) -> str:
    name, *path = text.split(".")
    kind = kinds.by_name(_SHORT.get(name.lower(), name))
    if kind is None:
        raise NotFound(f"there is no kind {name}", "To explain an object, write TYPE/NAME.")
    try:
        return fieldhelp.explain(kind.in_version(kind.versions[0]), path, recursive=recursive)
    except fieldhelp.UnknownField as error:
        advice = f"See which there are: dray explain {'.'.join([name, *path[:-1]])}"
        raise NotFound(f"{text}: {error}", advice) from error


def _worlds(files: tuple[str, ...], against: str, target: Target) -> tuple[World, World]:
    """What the question is held against, and what the files ask about.

    Files that bring their own slices need nothing else: dumps and snapshots.
    """
    texts = list(manifests.texts(files, recursive=True))
    own = world.from_texts(texts)
    for source, text in texts:
        for document in podclaims.pods_in(manifests.documents(source, text)):
            own.add(world.decode(document, source))
    if own.of(ResourceSlice) and not against:
        return own, own
    return world.load(against, target).merged(own), own


def _namespace(target: Target, against: str) -> str:
    """Of names on the command line; without any kubeconfig, the default one."""
    if target.namespace:
        return target.namespace
    try:
        return target.connect().namespace if not against else podclaims.DEFAULT_NAMESPACE
    except KubeconfigError:
        return podclaims.DEFAULT_NAMESPACE


def _named(words: Sequence[str], around: World, namespace: str) -> Iterator[Asked]:
    for word in words:
        type_name, slash, name = word.partition("/")
        kind = kinds.by_name(_SHORT.get(type_name.lower(), type_name))
        if not slash or kind is None or kind.kind not in _TYPES:
            raise WrongUsage(f"{word}: write pod/NAME, claim/NAME or template/NAME")
        found = podclaims.find(around.of(_TYPES[kind.kind]), name, namespace)
        if found is None:
            advice = f"See what there is: dray get {kind.plural} -A"
            where = f"namespace {namespace} of {around.source}"
            raise NotFound(f"there is no {kind.singular} {name} in {where}", advice)
        yield _asked(found, around)


def _in_files(own: World, around: World) -> Iterator[Asked]:
    """Every pod of the files, and the claims that no pod of them uses."""
    pods = own.of(Pod)
    used = set()
    for pod in pods:
        for source in pod.spec.resource_claims:
            name = source.resource_claim_name or source.resource_claim_template_name
            used.add((podclaims.namespace_of(pod), name))
        yield podclaims.of_pod(pod, around)
    others: list[Any] = [*own.of(ResourceClaim), *own.of(ResourceClaimTemplate)]
    for each in others:
        is_made = bool(each.metadata.owner_references)
        if not is_made and (podclaims.namespace_of(each), each.metadata.name) not in used:
            yield _asked(each, around)


def _asked(found: Any, around: World) -> Asked:
    if isinstance(found, Pod):
        return podclaims.of_pod(found, around)
    if isinstance(found, ResourceClaimTemplate):
        return podclaims.of_template(found)
    return podclaims.of_claim(found)


def _explained(asked: Asked, fleet: Fleet) -> Explanation | None:
    """None where there is no claim to explain."""
    if not asked.claims:
        return None
    return engine.explain(
        fleet, asked.claims, new_share_id=lambda: str(uuid.uuid4()), nodes=asked.nodes
    )


def _is_good(asked: Asked, explanation: Explanation | None) -> bool:
    if asked.missing:
        return False
    return explanation is None or explanation.outcome in (Outcome.ALLOCATED, Outcome.FITS)


def _show(explained: Sequence[tuple[Asked, Explanation | None]], format: Format) -> None:
    if not format.is_table:
        documents = [_document(*each) for each in explained]
        output.show_document(documents[0] if len(documents) == 1 else documents, format)
        return
    for number, (asked, explanation) in enumerate(explained):
        if number:
            click.echo()
        if asked.missing or explanation is None:
            waits = "waits" if asked.missing else "needs no devices"
            click.secho(f"{asked.title}: {waits}", bold=True)
        for sentence in asked.missing:
            click.echo(f"  {sentence}")
        if explanation is not None:
            click.echo(sentences.text(explanation), nl=False)


def _document(asked: Asked, explanation: Explanation | None) -> dict[str, Any]:
    words = sentences.as_json(explanation) if explanation is not None else {}
    return {"about": asked.title, "missing": asked.missing, **words}
