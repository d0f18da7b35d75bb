"""Reads what the commands of `dray plan` need: a cluster, and objects to submit to it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence

import click
import msgspec

from dray.api.features import Features
from dray.api.types.core import CoreEvent
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import CommandError, WrongUsage
from dray.cli.inputs import cluster_objects, manifests
from dray.cli.session.connection import Target
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission import expansion
from dray.planner.submission.submitted_pods import Submission

_PLANNED = frozenset(cluster_objects.READ.values()) - {CoreEvent}
_NEEDED = ("Node", "Pod", "ResourceSlice", "DeviceClass", "ResourceClaim")
"""Kinds without which every plan would be wrong."""


def load(against: str, target: Target) -> ClusterModel:
    """Return the cluster that `--against` names; without it, that of `target`.

    Says on standard error which kinds could not be read. Raises CommandError where a plan without
    them would be wrong.
    """
    objects = cluster_objects.load(against, target, types=_PLANNED)
    for kind in _NEEDED:
        if message := {**objects.partly_read, **objects.unread}.get(kind):
            advice = "A plan needs the right to list them in all namespaces."
            raise CommandError(f"{kind} objects cannot be read: {message}", advice)
    for kind, message in {**objects.partly_read, **objects.unread}.items():
        click.echo(f"The plan does not count with {kind} objects: {message}", err=True)
    objects.objects.pop(CoreEvent, None)
    return ClusterModel(objects.objects, objects.features)


def submitted(files: Sequence[str], cluster: ClusterModel, namespace: str = "") -> Submission:
    """Return the pods of the objects in files, and the cluster with the other objects.

    Objects without a namespace are in `namespace`, or in "default". Ends the command for files
    that the API server would refuse, and raises WrongUsage for files that make no pods.
    """
    return submitter(files, cluster.features, namespace)(cluster)


def submitter(
    files: Sequence[str], features: Features, namespace: str = ""
) -> Callable[[ClusterModel], Submission]:
    """Return `submitted` for any cluster with these features; the files are read once."""
    documents = checked_documents(files, features)
    return lambda cluster: expanded(files, documents, cluster, namespace)


def checked_documents(files: Sequence[str], features: Features) -> list[JsonObject]:
    """Return the objects of files. Ends the command if the API server would refuse one."""
    texts = list(manifests.texts(files, recursive=True))
    _check(texts, features)
    return [document for text in texts for document in manifests.documents(*text)]


def expanded(
    files: Sequence[str], documents: Sequence[JsonObject], cluster: ClusterModel, namespace: str
) -> Submission:
    """Return the pods of the objects of `files`. Raises CommandError and WrongUsage."""
    try:
        found = expansion.expand(documents, cluster, namespace or "default")
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise CommandError(f"{', '.join(files)}: {error}", "See: dray lint FILE") from error
    if not found.pods:
        raise WrongUsage(f"there is nothing in {', '.join(files)} that makes pods")
    return found


def _check(texts: Sequence[tuple[str, str]], features: Features) -> None:
    """End the command with what is wrong, if the API server would refuse an object."""
    # Late: the rules of lint take long to import.
    from dray.cli.lint import file_checks, reports

    found = file_checks.errors(texts, features)
    if found:
        click.secho(file_checks.title(found), bold=True, err=True)
        reports.show(reports.Report.of(found), "text", aside=True)
        sys.exit(1)


def namespace_of(against: str, target: Target) -> str:
    """Return the namespace of objects without one: that of the context, as for `dray apply`."""
    if target.namespace or cluster_objects.cluster_of(against, target) is None:
        return target.namespace
    return dataclasses.replace(target, context=against or target.context).connect().namespace
