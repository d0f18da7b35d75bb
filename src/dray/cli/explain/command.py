"""`dray explain`: why a pod or a claim waits or fails, and what would help."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api import features, kinds
from dray.api.types import dra
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import DrayCommand, ObjectNotFound, WrongUsage
from dray.cli.explain import documents, fixes, targets
from dray.cli.explain.documents import DEFAULT_NAMESPACE, Documents
from dray.cli.explain.fixes import Fix
from dray.cli.explain.output import Explained, ExplainedGroup, Printer, show_documents
from dray.cli.explain.targets import ExplainTarget, ObjectName, TargetGroup
from dray.cli.inputs import cluster_objects, manifests, pod_contexts
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection, progress
from dray.cli.session.connection import Target
from dray.client.api_client import ObjectSelection
from dray.client.kubeconfig import KubeconfigError
from dray.explain import claim_explanation as engine
from dray.explain.pod import pod_explanation
from dray.explain.pod.pod_context import OTHER_NAMESPACES, PodContext
from dray.explain.pod.pod_explanation import NEEDED_FOR_DEVICES

if TYPE_CHECKING:
    from dray.cli.lint.findings import Finding


@click.command("explain", cls=DrayCommand)
@click.argument("what", nargs=-1)
@connection.options
@connection.all_namespaces_option
@manifests.files_option()
@cluster_objects.option
@formats.option
@click.option("--fix", is_flag=True, help="Print the changed manifests, ready to be applied.")
@click.option(
    "--feature-gates", default="", metavar="A=true,B=false", help="Of the cluster, if they differ."
)
@click.option("--recursive", is_flag=True, help="Include nested fields.")
def explain(
    target: Target,
    what: tuple[str, ...],
    files: tuple[str, ...],
    against: str,
    format: OutputFormat,
    fix: bool,
    feature_gates: str,
    recursive: bool,
) -> None:
    """Explain why pods and claims wait or fail, and what would help.

    Name them as TYPE/NAME or TYPE NAME: a pod, claim, template, deployment,
    statefulset, daemonset, replicaset, job or namespace; or give -f FILE, -n
    NAMESPACE or -A alone. Nothing is written to the cluster.

    With a type or a field alone, as in `dray explain pod.spec`, its
    documentation is printed.

    \b
    Examples:
      dray explain pod/train
      dray explain deployment web -n team
      dray explain -A
      dray explain -f train.yaml --against h100
      dray explain pod/train --fix > fix.yaml
    """
    if len(what) == 1 and "/" not in what[0] and not files:
        click.echo(_field_help(what[0], recursive), nl=False)
        return
    if recursive:
        raise WrongUsage("--recursive is for the documentation of fields")
    is_whole = _is_whole(target, has_names=bool(what or files))
    texts = list(manifests.texts(files, recursive=True))
    run = ExplainRun(target, targets.parse_names(what), texts, against, _print_note)
    if invalid := run.invalid(feature_gates):
        _show_invalid(invalid, format)
        sys.exit(1)
    groups = run.explained(is_whole=is_whole, feature_gates=feature_gates)
    if fix:
        _print_fixes(groups, run.source)
    elif format.is_table:
        Printer(run.source, is_wide=format.is_wide).show(groups)
    else:
        show_documents(groups, format)
    if not all(item.is_good for group in groups for item in group.members):
        sys.exit(1)


def _field_help(text: str, recursive: bool) -> str:
    from dray.api.schema import field_docs

    name, *path = text.split(".")
    kind = kinds.by_name(targets.SHORT.get(name.lower(), name))
    if kind is None:
        advice = f"To explain an object, write TYPE/NAME, such as: dray explain pod/{name}"
        raise ObjectNotFound(f"there is no kind {name}", advice)
    try:
        return field_docs.explain(kind.in_version(kind.versions[0]), path, recursive=recursive)
    except field_docs.UnknownField as error:
        advice = f"See which there are: dray explain {'.'.join([name, *path[:-1]])}"
        raise ObjectNotFound(f"{text}: {error}", advice) from error


def _print_fixes(groups: Sequence[ExplainedGroup], source: Documents) -> None:
    by_documents: dict[str, Fix] = {}
    for item in (item for group in groups for item in group.members):
        fix = None
        if item.pod is not None:
            fix = fixes.of_pod(item.target, item.pod, source)
        elif item.claims is not None:
            fix = fixes.of_claims(item.target, item.claims, source)
        if fix is not None:
            by_documents.setdefault(str(fix.documents or fix.words), fix)
        elif not item.is_good:
            click.echo(f"{item.target.title}: no fix was found", err=True)
    if not by_documents:
        click.echo("There is nothing to change.", err=True)
    click.echo("---\n".join(map(fixes.text, by_documents.values())), nl=False)


def _print_note(line: str) -> None:
    click.echo(line, err=True)


def _is_whole(target: Target, *, has_names: bool) -> bool:
    """Return whether a namespace or the cluster is explained. Raises WrongUsage."""
    if target.all_namespaces and has_names:
        raise WrongUsage("-A explains everything; leave out the names, or -A")
    if has_names:
        return False
    if not target.namespace and not target.all_namespaces:
        raise WrongUsage("say what to explain: TYPE/NAME, -f FILE, -n NAMESPACE or -A")
    return True


def _show_invalid(found: Sequence[Finding], format: OutputFormat) -> None:
    from dray.cli.lint import file_checks, reports

    if format.is_table:
        click.secho(file_checks.title(found), bold=True)
        reports.show(reports.Report.of(found), "text")
    else:
        formats.show_document(reports.documents(reports.Report.of(found).findings), format)


class ExplainRun:
    """One call of the command: what it reads, and what it explains.

    `texts` are manifests with the names of their files. `note` receives what could not be read.
    """

    def __init__(
        self,
        target: Target,
        names: Sequence[ObjectName],
        texts: Sequence[tuple[str, str]],
        against: str,
        note: Callable[[str], None],
    ) -> None:
        self._target, self._names, self._against = target, names, against
        self._texts, self._note = texts, note
        self._documents: list[JsonObject] = []
        self.source = Documents(target, against, ())

    def explained(self, *, is_whole: bool, feature_gates: str = "") -> list[ExplainedGroup]:
        objects, own = self._load()
        if feature_gates:
            objects = dataclasses.replace(
                objects, stated=features.parse(feature_gates, objects.features)
            )
        self.source = Documents(self._target, self._against, self._documents)
        if limit := _limit(objects):
            self._note(limit)
        groups = list(self._groups(objects, own, is_whole=is_whole))
        if not any(group.targets for group in groups) and not is_whole:
            where = ", ".join(name for name, _ in self._texts) or groups[0].title
            raise ObjectNotFound(f"there is no pod, claim or template in {where}")
        with progress.shown("Looking for devices"):
            fleet, context = objects.inventory(), pod_contexts.of_all(objects)
            return [
                ExplainedGroup(
                    group.title,
                    [_explained(item, fleet, objects, context) for item in group.targets],
                    group.is_single,
                )
                for group in groups
            ]

    def invalid(self, feature_gates: str = "") -> list[Finding]:
        """Return what is wrong, if the API server would refuse an object of the files."""
        if not self._texts:
            return []
        # Late: the rules of lint take long to import.
        from dray.cli.lint import file_checks

        return file_checks.errors(self._texts, features.parse(feature_gates))

    def _load(self) -> tuple[ClusterObjects, ClusterObjects]:
        """Return the objects to evaluate against, and the objects of the files.

        Files with slices, such as dumps and snapshots, need nothing else.
        """
        own = cluster_objects.from_texts(self._texts)
        for name, text in self._texts:
            found = list(manifests.documents(name, text))
            self._documents += found
            for document in documents.pods_in(found):
                own.add(cluster_objects.decode(document, name))
        if own.of(dra.ResourceSlice) and not self._against:
            return own, own
        loaded = cluster_objects.load(self._against, self._target, self._events())
        return loaded.merged(own), own

    def _events(self) -> ObjectSelection | None:
        """Return a selection of the events about the pods to explain, or None."""
        if self._texts and not self._names:
            return None
        fields = "involvedObject.kind=Pod"
        if len(self._names) == 1 and self._names[0].kind == kinds.POD:
            fields += f",involvedObject.name={self._names[0].name}"
        return ObjectSelection(field_selector=fields)

    def _groups(
        self, objects: ClusterObjects, own: ClusterObjects, *, is_whole: bool
    ) -> Iterator[TargetGroup]:
        if is_whole:
            yield targets.in_namespace(objects, self._target.namespace)
            return
        yield from targets.named(self._names, objects, self._namespace(), self.source)
        for target in targets.in_files(own, self._documents):
            yield TargetGroup(target.title, [target])

    def _namespace(self) -> str:
        """Return the namespace of names on the command line; "default" without a kubeconfig."""
        if self._target.namespace:
            return self._target.namespace
        try:
            return DEFAULT_NAMESPACE if self._against else self._target.connect().namespace
        except KubeconfigError:
            return DEFAULT_NAMESPACE


def _limit(objects: ClusterObjects) -> str:
    """Return in one line what could not be read, or ""; the explanations say what follows."""
    kinds_unread = sorted(objects.unread)
    kinds_unread += [f"{kind}{OTHER_NAMESPACES}" for kind in sorted(objects.partly_read)]
    if not kinds_unread:
        return ""
    message = next(iter({**objects.unread, **objects.partly_read}.values()))
    return f"You may not read {', '.join(kinds_unread)} ({message})."


def _explained(
    target: ExplainTarget, fleet: ClusterInventory, objects: ClusterObjects, shared: PodContext
) -> Explained:
    if target.pod is not None:
        context = pod_contexts.of(target.pod, objects, shared)
        explained = pod_explanation.explain_pod(target.pod, context, fleet)
        return Explained(target, explained, None)
    # Nothing sensible can be said about devices that were not seen.
    is_waiting = any(claim.status.allocation is None for claim in target.claims)
    if is_waiting and not NEEDED_FOR_DEVICES.isdisjoint(objects.unread):
        return Explained(target, None, None)
    explanation = engine.explain(fleet, target.claims, new_share_id=lambda: "new")
    return Explained(target, None, explanation)
