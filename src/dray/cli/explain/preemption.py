"""`dray explain --if-preempted`: the pods that would be evicted for a pod, without evicting any."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import click

from dray.api.types.pods import Pod
from dray.cli.command_errors import CommandError, WrongUsage
from dray.cli.explain.names import ObjectName
from dray.cli.explain.targets import ExplainTarget, TargetGroup
from dray.cli.inputs import cluster_objects
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.output import formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.session.connection import Target
from dray.explain.pod.pod_context import PodContext
from dray.explain.preemption import pod_preemption, preemption_text
from dray.explain.preemption.pod_preemption import PodPreemption
from dray.explain.preemption.preemption_explainer import PreemptionExplainer

_NO_PODS = frozenset({"Namespace", "ResourceClaim", "ResourceClaimTemplate"})


class PreemptionAnswer(NamedTuple):
    """The victims for one pod; `preemption` is None for a pod that does not wait for a node."""

    title: str
    pod: Pod
    preemption: PodPreemption | None

    @property
    def is_good(self) -> bool:
        if self.preemption is None:
            return bool(self.pod.spec.node_name)
        return self.preemption.helps


def check_usage(
    target: Target, what: Sequence[str], files: Sequence[str], *, fix: bool, recursive: bool
) -> None:
    """Raise WrongUsage for options and arguments that have no effect with --if-preempted."""
    if fix or recursive:
        raise WrongUsage(f"--if-preempted and {'--fix' if fix else '--recursive'} exclude another")
    if target.all_namespaces or not (what or files):
        raise WrongUsage("--if-preempted needs the names of pods or workloads, or -f FILE")
    if len(what) == 1 and "/" not in what[0] and not files:
        advice = f"Write TYPE/NAME, such as: dray explain pod/{what[0]} --if-preempted"
        raise WrongUsage("--if-preempted is not for the documentation of fields", advice)


def check_names(names: Iterable[ObjectName]) -> None:
    """Raise WrongUsage for names of objects that have no pods of their own."""
    for kind, name in names:
        if kind.kind in _NO_PODS:
            raise WrongUsage(
                f"--if-preempted is for pods and workloads, not {kind.singular}/{name}"
            )


def with_further_kinds(objects: ClusterObjects, against: str, target: Target) -> ClusterObjects:
    """Return the objects with the kinds that only preemption needs; files have them already."""
    if objects.served is None:
        return objects
    types = pod_preemption.FURTHER_TYPES
    both = cluster_objects.load(against, target, types=types).merged(objects)
    return dataclasses.replace(
        objects, objects=both.objects, unread=both.unread, partly_read=both.partly_read
    )


def explainer(objects: ClusterObjects, context: PodContext) -> PreemptionExplainer | None:
    """Return what explains preemption; None if kinds that it needs could not be read."""
    if pod_preemption.NEEDED & {*objects.unread, *objects.partly_read}:
        return None
    others = [item for type_ in pod_preemption.FURTHER_TYPES for item in objects.of(type_)]
    return PreemptionExplainer(context, others)


def answers(
    groups: Iterable[TargetGroup], objects: ClusterObjects, context: PodContext
) -> list[PreemptionAnswer]:
    """Return what would be evicted for the pods. Raises CommandError if that cannot be known."""
    found = explainer(objects, context)
    if found is None:
        unread = {**objects.partly_read, **objects.unread}
        kind = min(pod_preemption.NEEDED & unread.keys())
        advice = "The pods to evict depend on all of them, in all namespaces."
        raise CommandError(f"{kind} objects cannot be read: {unread[kind]}", advice)
    every = [item for group in groups for item in group.targets]
    pods = list(_pods(every))
    if not pods:
        raise WrongUsage("--if-preempted is for pods, and there are none")
    return [PreemptionAnswer(title, pod, found.explain(pod)) for title, pod in pods]


def _pods(targets: Iterable[ExplainTarget]) -> Iterator[tuple[str, Pod]]:
    return ((target.title, target.pod) for target in targets if target.pod is not None)


def show(found: Sequence[PreemptionAnswer], format: OutputFormat) -> bool:
    """Print answers. Returns whether every pod has a node, or gets one."""
    if format.is_table:
        for number, answer in enumerate(found):
            if number:
                click.echo()
            _show(answer)
    else:
        documents = [_document(answer) for answer in found]
        formats.show_document(documents[0] if len(documents) == 1 else documents, format)
    return all(answer.is_good for answer in found)


def _show(answer: PreemptionAnswer) -> None:
    preemption = answer.preemption
    if preemption is None:
        click.secho(_no_wait(answer.pod), bold=True)
        return
    click.secho(preemption_text.title(preemption), bold=True)
    rows = [
        (f"  {victim.pod}", str(victim.priority), victim.node, _state(victim.is_leaving))
        for victim in preemption.victims
    ]
    if rows:
        for line in tables.aligned([("  POD", "PRIORITY", "NODE", "STATE"), *rows]):
            click.echo(line.rstrip())
    for note in preemption_text.notes(preemption):
        click.echo(f"  {note}")


def _state(is_leaving: bool) -> str:
    return "is leaving already" if is_leaving else "would be evicted"


def _no_wait(pod: Pod) -> str:
    key, node = pod.metadata.key, pod.spec.node_name
    if node:
        return f"pod {key} has node {node} already"
    if pod.spec.scheduling_gates:
        return f"pod {key} waits for its scheduling gates, and is not scheduled before"
    return f"pod {key} has ended or is being deleted"


def _document(answer: PreemptionAnswer) -> dict[str, Any]:
    about = {"about": answer.title}
    if answer.preemption is None:
        return {**about, "summary": _no_wait(answer.pod)}
    return {**about, "preemption": preemption_text.as_json(answer.preemption)}
